"""Looks at one experiment, asks what the next step is, and does it; until there is nothing to be done. No kopf here."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol

from minikafka_kube.api_server import REQUEST_SECONDS_MAX, TRANSIENT, ApiError, ApiServer
from minikafka_kube.events import Emit
from minikafka_kube.freshness import Renewals
from minikafka_kube.instants import micro_time_text, time_text
from minikafka_kube.kinds import CLAIM, CLUSTER, CONFIG_MAP, LEASE, POD, STATEFUL_SET, TOPIC, USER, Kind
from minikafka_kube.leadership import Alone, Leadership
from minikafka_kube.loops import ReconcileResult
from minikafka_kube.names import CLUSTER_LABEL, Names
from minikafka_kube.observed import ObservedCluster, Pod

from minikafka_chaos.controller import reports
from minikafka_chaos.controller.admission import Surroundings, admit, cluster_name
from minikafka_chaos.controller.agents import CommandResult
from minikafka_chaos.controller.credentials import mounted
from minikafka_chaos.controller.experiments import decide
from minikafka_chaos.controller.job_state import belongs, runners_of
from minikafka_chaos.controller.jobs import JobSettings, job, own_cluster, runs_claim
from minikafka_chaos.controller.network import NetworkAgentPods, has_links, wants_links
from minikafka_chaos.controller.phases.creation import WAIT_SECONDS, not_now, refused
from minikafka_chaos.controller.phases.healing import settled
from minikafka_chaos.controller.steps import (
    CreateCluster,
    CreateJob,
    CreateReportJob,
    CreateUser,
    ObservedExperiment,
    Recover,
    Remove,
    RemoveTopics,
    SetFinalizer,
    Step,
    Wait,
    WriteLease,
    WriteStatus,
)
from minikafka_chaos.controller.telemetry import ControllerTelemetry
from minikafka_chaos.experiment import topics
from minikafka_chaos.experiment.kinds import (
    EVENT,
    EXPERIMENT,
    EXPERIMENT_LABEL,
    FINALIZER,
    JOB,
    Object,
    job_name,
    report_job_name,
    user_name,
)
from minikafka_chaos.experiment.status import ExperimentStatus, Phase

STEPS_MAX: Final = 30
"""In one look; more mean that something goes round in circles."""
STALE_RETRY_SECONDS: Final = 0.5
RECOVER_SECONDS_MAX: Final = 10.0
"""For all agents together, which are asked at once."""
RECOVER_RETRY_SECONDS: Final = 2.0
REFUSALS: Final = frozenset({400, 403, 422})
"""Of an object that is to be made: by a quota, an admission webhook, a policy, or what is allowed in its fields."""
MAY_BEGIN: Final = (None, Phase.PENDING, Phase.REFUSED)
_NOTE_MAX: Final = 1024
_KINDS: Final = {kind.name: kind for kind in (EXPERIMENT, JOB, CLUSTER, USER)}

logger = logging.getLogger(__name__)


class Agents(Protocol):
    """The way to the agents in the brokers' pods."""

    async def recover(self, namespace: str, pod: str) -> str:
        """Have every fault in a pod undone. What went wrong, in one line; empty when nothing of them is left."""
        ...

    async def run(self, namespace: str, pod: str, command: Sequence[str], container: str) -> CommandResult:
        """Run a command in a container. Raises whatever the connection raises."""
        ...


class Events:
    """Writes Events about objects; nothing depends on them."""

    def __init__(self, server: ApiServer, identity: str, now: Callable[[], datetime]) -> None:
        self._server = server
        self._identity = identity
        self._now = now

    async def emit(self, kind: Kind, thing: Object, events: Iterable[Emit]) -> None:
        """Write them, in order; a namespace that is going takes no more."""
        for event in events:
            try:
                await self._server.create(EVENT, thing["metadata"]["namespace"], self._event(kind, thing, event))
            except ApiError as error:
                logger.warning("Event %s of %s was refused: %s", event.reason, thing["metadata"]["name"], error)

    def _event(self, kind: Kind, thing: Object, event: Emit) -> Object:
        return event_of(kind, thing, event, self._identity, self._now())


def event_of(kind: Kind, thing: Object, event: Emit, identity: str, now: datetime) -> Object:
    """An Event as it is to be created."""
    metadata = thing["metadata"]
    involved = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata.get("resourceVersion"),
    }
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.name,
        "metadata": {"generateName": f"{metadata['name']}-", "namespace": metadata["namespace"]},
        "eventTime": micro_time_text(now),
        "firstTimestamp": time_text(now),
        "lastTimestamp": time_text(now),
        "reportingComponent": "minikafka.dev/chaos",
        "reportingInstance": identity,
        "type": "Warning" if event.warning else "Normal",
        "reason": str(getattr(event.reason, "value", event.reason)),
        "action": "Experiment",
        "message": event.note[:_NOTE_MAX],
        "involvedObject": involved,
    }


def words_of(error: Exception) -> str:
    """Describe an error of a request, for people."""
    if isinstance(error, ApiError):
        return error.message
    if isinstance(error, TimeoutError):
        return f"the API server has not answered within {REQUEST_SECONDS_MAX:g} s"
    return f"the API server was not reached: {error or type(error).__name__}"


class ExperimentReconciler:
    """Carries experiments through. Between two looks it holds nothing of them but when controllers' Leases were renewed."""

    def __init__(
        self,
        server: ApiServer,
        agents: Agents,
        settings: JobSettings,
        telemetry: ControllerTelemetry,
        now: Callable[[], datetime],
        identity: str,
        leadership: Leadership | Alone,
    ) -> None:
        self._server = server
        self._agents = agents
        self._network = NetworkAgentPods(server, agents, settings.network)
        self._settings = settings
        self._telemetry = telemetry
        self._now = now
        self._leadership = leadership
        self._events = Events(server, identity, now)
        self._renewals = Renewals()

    async def reconcile(self, namespace: str, name: str) -> ReconcileResult:
        """Step by step until it has to wait. Raises ApiError and the errors of the connection; then look again."""
        for number in range(STEPS_MAX):
            observed = await self.observe(namespace, name)
            if observed is None:
                self._telemetry.forget_experiment(namespace, name)
                return ReconcileResult("changed" if number else "steady", gone=True)
            self._telemetry.export_experiment(namespace, name, observed.status)
            step = decide(observed)
            if isinstance(step, Wait):
                return ReconcileResult("changed" if number else "steady", step.seconds)
            retry = None
            try:
                retry = await self._do(observed, step)
            except (ApiError, *TRANSIENT) as error:
                code = error.code if isinstance(error, ApiError) else 0
                if code in (404, 409):
                    logger.info("%s/%s changed meanwhile: %s", namespace, name, error)
                    return ReconcileResult("changed", STALE_RETRY_SECONDS)
                follows = (refused if code in REFUSALS else not_now)(observed, step, words_of(error))
                if follows is None:
                    raise
                logger.warning("%s/%s: %s", namespace, name, words_of(error))
                if isinstance(follows, Wait):
                    return ReconcileResult("changed", follows.seconds)
                retry = await self._do(observed, follows)
                if code not in REFUSALS:
                    return ReconcileResult("changed", WAIT_SECONDS)
            if retry is not None:
                return ReconcileResult("changed", retry)
        return ReconcileResult("changed", STALE_RETRY_SECONDS)

    # -- looking ----------------------------------------------------------------------------------------------------

    async def observe(self, namespace: str, name: str) -> ObservedExperiment | None:
        """Read the experiment and what it is about; None when it is gone. Always from the API server itself."""
        experiment = await self._server.get(EXPERIMENT, namespace, name)
        if experiment is None:
            return None
        status = ExperimentStatus.of(experiment)
        begun = status.started_at is not None
        cluster = status.cluster if begun and status.cluster else cluster_name(experiment)
        names = Names(namespace, cluster)
        claim = "" if begun else runs_claim(experiment, self._settings)
        report = report_job_name(name) if reports.is_wanted(status, self._settings) else ""
        former = "" if begun or status.cluster in (None, cluster) else str(status.cluster)
        kept = asyncio.gather(
            self._if_named(CLAIM, namespace, claim),
            self._if_named(JOB, namespace, report),
            self._if_named(CLUSTER, namespace, former),
            self._if_named(LEASE, namespace, former and Names(namespace, former).disruption),
        )
        thing, lease, named_job, user, of_jobs, pods = await asyncio.gather(
            self._server.get(CLUSTER, namespace, cluster),
            self._server.get(LEASE, namespace, names.disruption),
            self._server.get(JOB, namespace, job_name(name)),
            self._server.get(USER, namespace, user_name(name)),
            self._server.find_all(POD, namespace, labels=f"{EXPERIMENT_LABEL}={name}"),
            self._server.find_all(POD, namespace, labels=f"{CLUSTER_LABEL}={cluster}"),
        )
        volume, report_job, former_cluster, former_lease = await kept
        there, brokers = Surroundings(thing, lease, named_job, user, volume), {}
        if thing is not None:
            # By the operator's own judgement: whose pods these are, who is controller, and how old what is known may be.
            seen = await self._cluster(names, thing, pods, partitions=not begun)
            brokers = seen.brokers
            known = [partition for state in seen.topic_states for partition in state.partitions]
            there = replace(there, partitions=known, gap=seen.gap)
        if not begun and wants_links(experiment):
            there = replace(there, network=await self._network.refusal(brokers.values()))
        now = self._now().replace(microsecond=0)  # as a status has it
        return ObservedExperiment(
            experiment,
            now,
            self._settings,
            status,
            thing,
            lease,
            named_job,
            runners_of(experiment, named_job, of_jobs),
            brokers,
            former_cluster,
            former_lease,
            admission=admit(experiment, there, self._settings, now) if status.phase in MAY_BEGIN else None,
            user=user,
            topics=await self._topics(names, thing) if status.open_topics else None,
            report_job=report_job,
            report_pods=[pod for pod in of_jobs if report_job is not None and belongs(pod, report_job)],
        )

    async def _topics(self, names: Names, cluster: Object | None) -> topics.Seen:
        """First the metadata, then the objects: what the metadata leaves to an object is in one that was there by then."""
        metadata = await self._server.get(CONFIG_MAP, names.namespace, names.metadata)
        found = await self._server.find_all(TOPIC, names.namespace, fields=f"spec.clusterRef.name={names.cluster}")
        return topics.Seen(cluster, metadata, found)

    async def _if_named(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return await self._server.get(kind, namespace, name) if name else None

    async def _cluster(
        self, names: Names, cluster: Object, pods: Sequence[Object], *, partitions: bool
    ) -> ObservedCluster:
        """Return what the operator would see of it that matters here; of ``partitions`` only where they are asked for."""
        stateful_set = await self._server.get(STATEFUL_SET, names.namespace, names.broker)
        objects = {} if stateful_set is None else {(STATEFUL_SET.name, names.broker): stateful_set}
        if not partitions:
            return ObservedCluster(cluster, self._now(), objects, pods)
        lease, metadata = await asyncio.gather(
            self._server.get(LEASE, names.namespace, names.controller),
            self._server.get(CONFIG_MAP, names.namespace, names.metadata),
        )
        if lease is not None:
            objects[LEASE.name, names.controller] = lease
        topics = await self._server.find_all(TOPIC, names.namespace, fields=f"spec.clusterRef.name={names.cluster}")
        signs = self._renewals.look((names.namespace, names.cluster), lease, time.monotonic())
        return ObservedCluster(cluster, self._now(), objects, pods, topics, metadata, signs)

    # -- acting -----------------------------------------------------------------------------------------------------

    async def _do(self, seen: ObservedExperiment, step: Step) -> float | None:
        """Do it; seconds to wait before the next look, None: none."""
        namespace, experiment = seen.namespace, seen.experiment
        await self._leadership.confirm()
        match step:
            case WriteStatus(status, events):
                await self._server.replace_status(EXPERIMENT, namespace, {**experiment, "status": status.document()})
                logger.info("%s/%s: %s", namespace, seen.name, status.phase)
                await self._events.emit(EXPERIMENT, experiment, events)
            case SetFinalizer(on, events):
                await self._events.emit(EXPERIMENT, experiment, events)
                metadata = experiment["metadata"]
                others = [one for one in metadata.get("finalizers") or () if one != FINALIZER]
                wanted = [*others, FINALIZER] if on else others
                await self._server.set_finalizers(EXPERIMENT, namespace, seen.name, metadata["resourceVersion"], wanted)
            case WriteLease(lease, new, events):
                if new:
                    await self._server.create(LEASE, namespace, lease)
                else:
                    await self._server.replace(LEASE, namespace, lease)
                await self._events.emit(EXPERIMENT, experiment, events)
            case CreateCluster(name, template):
                await self._server.create(CLUSTER, namespace, own_cluster(experiment, name, template))
            case CreateUser(user):
                await self._server.create(USER, namespace, user)
            case CreateJob(_, cluster, seconds):
                secrets = mounted(experiment, seen.cluster)
                await self._server.create(JOB, namespace, job(experiment, cluster, seconds, self._settings, secrets))
            case CreateReportJob():
                assert self._settings.report is not None
                thing = reports.report_job(experiment, self._settings, self._settings.report)
                await self._server.create(JOB, namespace, thing)
            case Remove(kind, name, uid):
                await self._server.delete(_KINDS[kind], namespace, name, uid)
            case RemoveTopics(removals):
                await self._remove(namespace, removals)
                return STALE_RETRY_SECONDS
            case Recover(pods, settle):
                return await self._recover(seen, pods, settle)
        return None

    async def _remove(self, namespace: str, removals: Sequence[topics.Removal]) -> None:
        """One that is another by now, or was changed, is looked at anew; it does not keep the others."""
        for removal in removals:
            try:
                await self._server.delete(TOPIC, namespace, removal.name, removal.uid, removal.resource_version)
            except ApiError as error:
                if error.code not in (404, 409):
                    raise
                logger.info("MiniKafkaTopic %s/%s changed meanwhile: %s", namespace, removal.name, error)

    async def _recover(self, seen: ObservedExperiment, pods: Sequence[Pod], settle: bool) -> float | None:
        namespace = seen.namespace

        async def ask(pod: Pod) -> str:
            try:
                async with asyncio.timeout(RECOVER_SECONDS_MAX):
                    asked = [self._agents.recover(namespace, pod.name)]
                    if has_links(seen.status, pod):
                        asked.append(self._network.recover(namespace, pod))
                    return "; ".join(wrong for wrong in await asyncio.gather(*asked) if wrong)
            except TimeoutError:
                return f"no answer within {RECOVER_SECONDS_MAX:g} s"

        answers = await asyncio.gather(*(ask(pod) for pod in pods))
        self._telemetry.recoveries.labels("done").inc(sum(not wrong for wrong in answers))
        self._telemetry.recoveries.labels("failed").inc(sum(bool(wrong) for wrong in answers))
        for pod, wrong in zip(pods, answers, strict=True):
            if wrong:
                logger.warning("%s/%s: the agent of %s: %s", namespace, seen.name, pod.name, wrong)
        if not settle:
            return STALE_RETRY_SECONDS
        everywhere = not any(answers) and len(pods) == len(seen.brokers) and bool(pods)
        write = settled(seen, list(zip(pods, answers, strict=True)), all_answered=everywhere)
        if write is None:
            return RECOVER_RETRY_SECONDS  # nobody answered; it will expire
        await self._do(seen, write)
        return None
