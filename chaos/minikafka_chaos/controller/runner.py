"""What an experiment's Job does: ``python -m minikafka_chaos.controller.runner NAME``. It runs the scenario of one experiment.

The scenario comes from the object, the cluster is there, the ledger is the object's status, and the verdict ends up there
too. Exit codes: 0 there is a verdict, whatever it says; 3 there is none.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from minikafka.client.security import ClientSecurity
from minikafka.telemetry.fault_verbs import Verb
from minikafka_kube.events import Emit
from minikafka_kube.freshness import newest
from minikafka_kube.names import Names
from minikafka_kube.observed import PartitionState, Pod, TopicState
from rich.text import Text

from minikafka_chaos.controller.admission import on_cluster, scenario_of
from minikafka_chaos.controller.credentials import CREDENTIALS_PATH, group_of, secured_listener
from minikafka_chaos.controller.ledger import Absent, ExperimentChanged, FaultRefused, Guard, StatusLedger, Unavailable
from minikafka_chaos.controller.mounted_credentials import mounted_security
from minikafka_chaos.controller.reconciler import event_of
from minikafka_chaos.errors import BadScenario, NotSupported, ToolTrouble
from minikafka_chaos.experiment import record
from minikafka_chaos.experiment.budget import BudgetRefusal, fault_refusal
from minikafka_chaos.experiment.kinds import EXPERIMENT, Object
from minikafka_chaos.experiment.reasons import Happening
from minikafka_chaos.experiment.record import Whereabouts
from minikafka_chaos.experiment.status import ExperimentStatus
from minikafka_chaos.grounds.kubernetes import HOLD_SECONDS, ClientListener, KubernetesGround
from minikafka_chaos.grounds.kubernetes_api import Namespace, NotReached, Refused, connect
from minikafka_chaos.grounds.kubernetes_network import NAMESPACE
from minikafka_chaos.grounds.kubernetes_readiness import says_ready
from minikafka_chaos.load.clients import TopicPlan
from minikafka_chaos.load.kafka_clients import KafkaClients
from minikafka_chaos.load.topics import TopicNotMade, create_new_topic, wait_for_leaders
from minikafka_chaos.network.permission import allows_chaos
from minikafka_chaos.run.place import FULL, Place
from minikafka_chaos.run.reporter import JUDGING
from minikafka_chaos.run.runner import run_scenario
from minikafka_chaos.scenario.faults import Fault, Handle, Targets
from minikafka_chaos.scenario.scenario import SafetySpec, Scenario
from minikafka_chaos.verdict.expectation import AS_EXPECTED, difference
from minikafka_chaos.verdict.verdict import Outcome, Verdict

PLURAL: Final = EXPERIMENT.plural
EVENTS_MAX: Final = 500
"""Of one run: a soak of hours tells more than anybody reads in ``kubectl describe``; its journal has all of it."""
READY_SECONDS: Final = 300.0
SCRATCH: Final = "cluster"
"""Folder of a run, for what is read of its brokers."""
COLLECT_STEP: Final = "collect-logs"


class ObjectStatus:
    """A `ledger.StatusStore`: the experiment at the API server."""

    def __init__(self, namespace: Namespace, name: str) -> None:
        self._namespace = namespace
        self._name = name

    def read(self) -> Object | None:
        with _patient():
            return self._namespace.get(PLURAL, self._name)

    def write_status(self, thing: Object) -> None:
        try:
            with _patient():
                self._namespace.replace_status(PLURAL, thing)
        except Refused as error:
            if error.status == 409:
                raise ExperimentChanged from error
            raise


@contextlib.contextmanager
def _patient() -> Iterator[None]:
    """An API server that does not answer now, or with no sense, is Unavailable: the ledger asks it again."""
    try:
        yield
    except NotReached as error:
        raise Unavailable(str(error)) from error
    except Refused as error:
        if error.status == 429 or error.status >= 500:
            raise Unavailable(str(error)) from error
        raise


class NotKnown(ToolTrouble):
    """What the brokers' metadata has cannot be told at this moment."""


class BrokerPods:
    """The brokers of the experiment's cluster: where they are, which do not serve, what they know of their partitions."""

    def __init__(self, namespace: Namespace, cluster: str) -> None:
        self._namespace = namespace
        self._names = Names(namespace.name, cluster)

    def locate(self, brokers: Collection[int]) -> Mapping[int, Whereabouts]:
        """Return where these are. Raises Absent for one whose pod is not there: nothing can be done to it; Unavailable."""
        found = {}
        for broker in brokers:
            thing = self._pod(broker)
            if thing is None:
                raise Absent(f"broker {broker} has no pod {self._names.pod(broker)}")
            found[broker] = record.whereabouts(thing)
        return found

    def unready(self, brokers: Collection[int]) -> set[int]:
        """Those that do not serve now, for whatever reason, as the kubelet or they themselves say. Raises Unavailable."""
        found = set()
        for broker in brokers:
            thing = self._pod(broker)
            name = self._names.pod(broker)
            if thing is None or not (Pod(thing, broker).ready and says_ready(self._namespace, name, thing)):
                found.add(broker)
        return found

    def partitions(self) -> list[PartitionState]:
        """As the brokers' own metadata has them. Raises NotKnown, Unavailable."""
        with _patient():
            metadata = self._namespace.get("configmaps", self._names.metadata)
            found = newest(self._topics(), metadata, self._names.metadata)
        if found.gap is not None:
            raise NotKnown(f"what the in-sync replicas are is not known now: {found.gap.message}")
        states = [TopicState.of(name, status) for name, status in found.statuses.items()]
        return [partition for state in states for partition in state.partitions]

    def _pod(self, broker: int) -> Object | None:
        with _patient():
            return self._namespace.get("pods", self._names.pod(broker))

    def _topics(self) -> list[Object]:
        return self._namespace.find_all("minikafkatopics", fields=f"spec.clusterRef.name={self._names.cluster}")


class EventReporter:
    """A `ProgressReporter` that tells by Events and on standard output, and a ledger that tells of faults."""

    def __init__(self, namespace: Namespace, experiment: Object, runner: str, judging: Callable[[], None]) -> None:
        self._namespace = namespace
        self._experiment = experiment
        self._runner = runner
        self._judging = judging
        self._left = EVENTS_MAX

    def say(self, text: str) -> None:
        self.emit(Happening.TOLD, Text.from_markup(text).plain)

    def status(self, text: str) -> None:
        if text == JUDGING:
            self._judging()

    def emit(self, reason: str, note: str) -> None:
        """One Event; nothing depends on it."""
        print(note, flush=True)
        if self._left <= 0:
            return
        self._left -= 1
        made = event_of(EXPERIMENT, self._experiment, Emit(reason, note), self._runner, datetime.now(UTC))
        with contextlib.suppress(ToolTrouble):
            self._namespace.create("events", made)


class ReportingLedger:
    """The status ledger, with an Event for each fault that was made and each that is over."""

    def __init__(self, ledger: StatusLedger, reporter: EventReporter) -> None:
        self._ledger = ledger
        self._reporter = reporter

    def intend(self, fault: Fault, targets: Targets, expires: float | None) -> None:
        self._ledger.intend(fault, targets, expires)

    def injected(self, handle: Handle) -> None:
        self._ledger.injected(handle)
        if handle.fault.rule.lasts:
            self._reporter.emit(Happening.FAULT_INJECTED, _described(handle.fault, handle.targets))

    def failed(self, fault: Fault, targets: Targets, error: BaseException) -> None:
        self._ledger.failed(fault, targets, error)

    def recovered(self, handle: Handle, how: str) -> None:
        self._ledger.recovered(handle, how)
        self._reporter.emit(Happening.FAULT_RECOVERED, f"{_described(handle.fault, handle.targets)}: {how}")


def _described(fault: Fault, targets: Targets) -> str:
    role = f", {targets.role}" if targets.role else ""
    return f"{fault.verb.value} {', '.join(targets.names)} ({fault.step}{role})"


class SharedClients(KafkaClients):
    """Clients in a cluster that is not the experiment's own: its topics are written down, for the controller removes them."""

    def __init__(
        self,
        bootstrap: Callable[[], str],
        live_bootstrap: Callable[[], str],
        security: Callable[[], ClientSecurity],
        ledger: StatusLedger,
    ) -> None:
        super().__init__(bootstrap, live_bootstrap, security)
        self._ledger = ledger

    def create_topic(self, plan: TopicPlan, deadline_s: float) -> None:
        self._ledger.intend_topic(plan.name)
        try:
            topic_id = create_new_topic(self._bootstrap(), self._security(), plan, deadline_s)
        except TopicNotMade as error:
            self._ledger.topic_not_made(plan.name, str(error))
            raise
        self._ledger.topic_made(plan.name, topic_id)
        wait_for_leaders(self._bootstrap(), self._security(), plan, deadline_s)


class SharedGround(KubernetesGround):
    """A cluster that is not the experiment's own: its topics are written down, and at the end its brokers are read one after
    the other, each within the budget and written down, so that never two are held at once and none stays held."""

    def __init__(self, *arguments: Any, group: str, ledger: StatusLedger, **more: Any) -> None:
        super().__init__(*arguments, existing=True, **more)
        self.group = group
        self.clients = SharedClients(lambda: self.address, lambda: self.live_bootstrap, self.security, ledger)
        self._ledger = ledger

    def down(self) -> list[int]:
        if not self._is_up:
            return []
        self._is_up = False
        problems = [problem for broker in self.brokers if (problem := self._read_one(broker))]
        if problems:
            raise ToolTrouble("; ".join(problems))
        return []

    def _read_one(self, broker: int) -> str | None:
        fault, targets = Fault(f"{COLLECT_STEP}-{broker}", Verb.TERMINATE, step=COLLECT_STEP), Targets((broker,))
        try:
            self._ledger.intend(fault, targets, datetime.now(UTC).timestamp() + HOLD_SECONDS)
        except FaultRefused as error:
            return f"the logs of broker {broker} were not read: {error}"
        try:
            problem = self._laid_to_rest(broker)
            self.bring_back(broker)
            self.agents.ask(broker, "recover")
            self.wait_ready(broker, READY_SECONDS)
        except ToolTrouble as error:
            self._ledger.failed(fault, targets, error)
            return str(error)
        self._ledger.recovered(Handle(fault, targets), "its log was read")
        return problem


def run_experiment(
    namespace: Namespace,
    name: str,
    cluster: str,
    out: Path,
    runner: str,
    network: str = NAMESPACE,
    secrets: Path = Path(CREDENTIALS_PATH),
) -> int:
    """Tell the story of an experiment.

    `network` is where the network agents are, `secrets` has what clients need at a secured cluster. The exit code; raises
    ToolTrouble when even that cannot be written down.
    """
    store = ObjectStatus(namespace, name)
    thing = store.read()
    if thing is None:
        raise ToolTrouble(f"there is no ChaosExperiment {name}")
    scenario = scenario_of(thing)
    brokers = BrokerPods(namespace, cluster)
    shared = scenario.spec.cluster_ref is not None
    if shared:
        there = namespace.get("minikafkaclusters", cluster)
        if there is None:
            raise ToolTrouble(f"there is no MiniKafkaCluster {cluster}")
        scenario = on_cluster(scenario, there)
        guard = _guard(brokers, scenario.spec.safety, scenario.spec.cluster.brokers)
        guard = _only_in(namespace, cluster, there["metadata"]["uid"], guard)
    else:
        guard = _no_guard
    ledger = StatusLedger(store, runner, brokers.locate, guard, expiry_s=HOLD_SECONDS)
    ledger.take()
    place = _place(thing, out.parent)
    _make_folder(out, place)
    ledger.set_fields(run=out.name)
    reporter = EventReporter(namespace, thing, runner, ledger.judging)
    listener = ClientListener.INTERNAL
    if shared:
        ground: KubernetesGround = SharedGround(
            namespace,
            cluster,
            out / SCRATCH,
            listener=listener,
            network=network,
            security=lambda: mounted_security(secured_listener(there), secrets),
            group=group_of(thing),
            ledger=ledger,
        )
    else:
        ground = KubernetesGround(namespace, cluster, out / SCRATCH, existing=True, listener=listener, network=network)
    verdict = _run(scenario, ground, out, place, ledger, reporter)
    ledger.set_fields(**_result(scenario, verdict))
    return 0


def _place(experiment: Object, runs: Path) -> Place:
    """The claim that the run is on, and what its owner can do."""
    claim = ExperimentStatus.of(experiment).runs_claim
    if not claim:
        name = "the volume of the Job's pod (emptyDir)"
        return Place(runs, name, "give runs a claim (spec.runs.claim)", "look at the pod's node, or give runs a claim")
    advice = "remove runs from it that nobody needs, or make it larger (spec.resources.requests.storage)"
    return Place(runs, f"PersistentVolumeClaim {claim}", advice, f"look at its volume (kubectl describe pvc {claim})")


def _make_folder(out: Path, place: Place) -> None:
    """The run's folder, new. Raises ToolTrouble, before any fault is made, where nothing can be kept there."""
    if out.exists():
        # Half of one run and half of another would be judged as one.
        raise ToolTrouble(f"there is a run {out.name} on the volume for runs already; nothing of it is replaced")
    try:
        out.mkdir(parents=True)
    except OSError as error:
        who = f"user {os.getuid()}, group {os.getgid()}"
        refused = f"{place.name} cannot be written by {who}: {error.strerror} ({out}); {place.look_at}"
        raise ToolTrouble((error.errno in FULL and place.problem(error)) or refused) from error


def _run(
    scenario: Scenario, ground: KubernetesGround, out: Path, place: Place, ledger: StatusLedger, reporter: EventReporter
) -> Verdict:
    reporting = ReportingLedger(ledger, reporter)
    try:
        result = run_scenario(scenario, ground, out, reporter=reporter, ledger=reporting, place=place)
    except NotSupported as error:
        return Verdict.without_judgement(Outcome.ERROR, str(error))
    except OSError as error:
        if (why := place.problem(error)) is None:
            raise
        raise ToolTrouble(why) from error
    return result.verdict


def _guard(brokers: BrokerPods, safety: SafetySpec, count: int) -> Guard:
    def refuse(verb: Verb, targets: Collection[int], out: Collection[int]) -> BudgetRefusal | None:
        try:
            partitions = brokers.partitions()
        except NotKnown as error:
            return BudgetRefusal(str(error), passes=True)
        others = set(range(count)) - set(out)
        why = fault_refusal(verb, {*out, *brokers.unready(others)}, targets, partitions, safety)
        if not why:
            return None
        # As it will be once all but the experiment's own targets serve again and have caught up.
        then = [replace(one, isr=tuple(set(one.replicas) - set(out))) for one in partitions]
        return BudgetRefusal(why, passes=not fault_refusal(verb, out, targets, then, safety))

    return refuse


def _no_guard(*_: object) -> None:
    """Refuse nothing: nobody else has the cluster."""


def _only_in(namespace: Namespace, cluster: str, uid: str, guard: Guard) -> Guard:
    """No fault in another cluster of that name: the Lease went with the first, and the next may be somebody else's turn.

    Nor in one whose owner has forbidden it meanwhile.
    """

    def refuse(verb: Verb, targets: Collection[int], out: Collection[int]) -> BudgetRefusal | None:
        with _patient():
            there = namespace.get("minikafkaclusters", cluster)
        if there is None or there["metadata"]["uid"] != uid:
            return BudgetRefusal(f"cluster {cluster}, on which the experiment began, is gone", passes=False)
        if not allows_chaos(there):
            return BudgetRefusal(f"cluster {cluster} does not allow chaos any more (spec.chaos.allowed)", passes=False)
        return guard(verb, targets, out)

    return refuse


def _result(scenario: Scenario, verdict: Verdict) -> dict[str, Any]:
    """Return what the status says of a verdict."""
    counts = verdict.counts
    gap = counts.get("longest_ack_gap_s")
    expected = scenario.spec.expected
    found: dict[str, Any] = {
        "verdict": verdict.outcome.value,
        "summary": verdict.summary[:4000],
        "worstGap": "" if gap is None else f"{gap:.2f} s",
        "anomalies": [{"kind": kind, "count": number} for kind, number in sorted(verdict.errors.items())],
    }
    # What was not judged has no numbers: a 0 in the column LOST would say that nothing was lost.
    found |= {name: int(counts[name]) for name in ("lost", "acknowledged") if counts.get(name) is not None}
    if expected is not None:
        found["asExpected"] = (difference(expected, verdict) or AS_EXPECTED)[:4000]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 there is a verdict, 2 bad input, 3 there is none."""
    parser = argparse.ArgumentParser(prog="python -m minikafka_chaos.controller.runner", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="the ChaosExperiment, in the namespace of this pod")
    parser.add_argument("--cluster", required=True, metavar="NAME", help="the MiniKafkaCluster")
    parser.add_argument(
        "--network-namespace", default=NAMESPACE, metavar="NAME", help=f"of the network agents (default: {NAMESPACE})"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="where the run goes")
    given = parser.parse_args(arguments)
    try:
        access = connect()
        namespace = Namespace(access.client, os.environ.get("POD_NAMESPACE") or access.namespace)
        runner = os.environ.get("POD_NAME") or f"{given.name}-by-hand"
        return run_experiment(namespace, given.name, given.cluster, given.out, runner, given.network_namespace)
    except (BadScenario, ToolTrouble) as error:
        print(f"experiment {given.name}: {error}", file=sys.stderr)
        return 2 if isinstance(error, BadScenario) else 3


if __name__ == "__main__":
    sys.exit(main())
