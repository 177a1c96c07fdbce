"""The Kubernetes ground: a MiniKafkaCluster, mostly one of its own for each run, broken by the agents in its brokers' pods.

Nothing is done on a node, and no pod is deleted: kill and pause are signals of the agent, a broker that was killed waits at its
gate until it is started, and a power loss takes what was not flushed from a broker that waits there. Logs and events are fetched
while the brokers are held, and metrics come by the API server. Every fault ends by itself too, should this program die.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from minikafka.agent.faults import AgentVerb
from minikafka.client.connection import BrokerConnection, NoAnswer
from minikafka.client.security import PLAINTEXT, ClientSecurity
from minikafka.log.unflushed_volume import HEAD_ROOM
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.types import TopicPartition
from minikafka.telemetry.fault_verbs import LACKS, Verb
from minikafka_kube.names import Names

from minikafka_chaos.clock import MACHINE_CLOCK
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.grounds import BrokerCondition
from minikafka_chaos.grounds.by_broker import BrokerVerbs, loss_seed
from minikafka_chaos.grounds.kubernetes_agents import CONTAINER, AgentClient, at_once
from minikafka_chaos.grounds.kubernetes_api import Namespace, NotReached, Object, Refused
from minikafka_chaos.grounds.kubernetes_network import NAMESPACE, NetworkAgents, steps_with_links
from minikafka_chaos.grounds.kubernetes_readiness import (
    METRICS_PORT,
    Ends,
    broker_container,
    has_secured_metrics,
    says_ready,
)
from minikafka_chaos.load.kafka_clients import KafkaClients
from minikafka_chaos.record.observe import Observer, ReplicaStatus, Sample, reader, scrape_or_nothing, scrape_status
from minikafka_chaos.record.replica_logs import ReplicaLog, ReplicaLogError, read_replica_log
from minikafka_chaos.scenario.document import UnflushedVolume, as_config
from minikafka_chaos.scenario.faults import Fault, Handle, Targets, WipeMode, healed
from minikafka_chaos.scenario.scenario import ClusterSpec, Scenario, ScenarioSpec

KIND = "minikafkaclusters"
NAME_MAX = 40

CLIENT_PORT = 9092
CHECKPOINT = "replication-offset-checkpoint"

HOLD_SECONDS = 1800
"""A broker that nobody starts comes back after so long, when its fault has no duration."""
SLACK_SECONDS = 120
"""A fault that has a duration is undone by the run; should that have died, by the agent so much later."""
HOLD_SECONDS_MAX = 3600
PAUSE_SECONDS = 50
"""The agent allows no more: the liveness probe would kill the broker."""
FROZEN_SECONDS = 20
"""Several brokers that are killed at one moment are paused first, for so long at most."""

UP_SECONDS_MAX = 300
"""Images may have to be pulled."""
REACH_SECONDS_MAX = 30
CONNECT_SECONDS = 5.0
RESTART_SECONDS_MAX = 330
"""The kubelet waits 0, 10, 20, 40 ... 300 s before it starts the same container again."""
DOWN_SECONDS_MAX = 120
POLL_SECONDS = 0.25

STRETCH = 3
"""A container is back seconds after it was told to start, a process tenths. What a scenario lets happen within a session
of the old one, such as a follower's restart, needs sessions that are so much longer."""
SESSION = "broker.session.timeout.ms"


class ClientListener(StrEnum):
    """How clients of this run reach the brokers."""

    INTERNAL = "Internal"
    """By the names of their pods: from inside the Kubernetes cluster."""
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


def cluster_name(scenario: Scenario) -> str:
    """A name for the cluster of a run: the scenario's, as far as it fits, and something that no other run has."""
    word = "".join(each if each.isascii() and each.isalnum() else "-" for each in scenario.name.lower())
    word = word.lstrip("0123456789-")[: NAME_MAX - 6].rstrip("-") or "run"
    return f"{word}-{uuid.uuid4().hex[:5]}"


def manifest(
    name: str, cluster: ClusterSpec, listener: ClientListener, template: Mapping[str, Any] | None = None
) -> Object:
    """The MiniKafkaCluster for a scenario's cluster; `template` is merged into its spec."""
    config = as_config(cluster.config)
    if SESSION in config:
        config[SESSION] = str(int(config[SESSION]) * STRETCH)
    # A scenario that starts a broker and waits for it waits until it serves; it may not be in sync for a reason.
    config.setdefault("minikafka.ready.in.sync.timeout.ms", "0")
    config.setdefault("group.initial.rebalance.delay.ms", "0")
    spec: Object = {
        "brokers": {"replicas": cluster.brokers},
        "replication": {
            "defaultFactor": int(config.pop("default.replication.factor", min(3, cluster.brokers))),
            "minInsyncReplicas": int(config.pop("min.insync.replicas", 2 if cluster.brokers >= 3 else 1)),
        },
        "config": config,
        "storage": {"size": "1Gi", "deleteClaim": True},
        "chaos": {"allowed": True},
    }
    if listener is not ClientListener.INTERNAL:
        spec["listeners"] = {"external": {"type": listener.value}}
    unflushed, events = (
        config.pop("minikafka.unflushed.max.bytes", None),
        config.pop("minikafka.events.max.bytes", None),
    )
    if events is not None:
        spec["flightRecorder"] = {"size": _volume_for(int(events))}
    if cluster.unflushed_volume is UnflushedVolume.SEPARATE:
        spec["unflushedVolume"] = {} if unflushed is None else {"sizeLimit": _volume_for(int(unflushed))}
    return {
        "apiVersion": "minikafka.dev/v1alpha1",
        "kind": "MiniKafkaCluster",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "minikafka-chaos"}},
        "spec": _merged(spec, template or {}),
    }


def _volume_for(usable: int) -> str:
    """The size of a volume of which a broker may use so many bytes."""
    return str(-(-usable * HEAD_ROOM // (HEAD_ROOM - 1)))


class KubernetesGround(BrokerVerbs):
    """A new MiniKafkaCluster for one scenario, deleted with its volumes at the end. `scratch` is where its brokers' files go.

    `template` is merged into the spec of the cluster, such as ``{"brokers": {"resources": ...}}``. With `existing` the cluster is
    there already, and stays: its brokers are only held for as long as their files are read.
    """

    name = "kubernetes"
    clock = MACHINE_CLOCK
    replayable = False
    lacks = LACKS["kubernetes"]

    def __init__(
        self,
        namespace: Namespace,
        cluster: str,
        scratch: Path,
        *,
        existing: bool = False,
        listener: ClientListener = ClientListener.NODE_PORT,
        template: Mapping[str, Any] | None = None,
        network: str = NAMESPACE,
        security: Callable[[], ClientSecurity] = lambda: PLAINTEXT,
    ) -> None:
        """`network` is the namespace of the network agents, where there are any; `security` how clients connect, and as whom."""
        self.namespace = namespace
        self.cluster = cluster
        self.scratch = scratch
        self.existing = existing
        self.listener = listener
        self.template = dict(template or {})
        self.agents = AgentClient(namespace, self.pod_name)
        self.network = NetworkAgents(namespace.within(network), namespace.name, self._pod)
        self.security = security
        self.clients = KafkaClients(lambda: self.address, lambda: self.live_bootstrap, security)
        self._count = 0
        self._seed = 0
        self._is_up = False
        self._topics: list[str] = []
        self._run = uuid.uuid4().hex[:8]
        self._injecting = threading.local()
        self._held: set[int] = set()
        """Brokers that this ground has ended and not started since."""
        self._ends = Ends()
        self._addresses: dict[int, str] = {}
        self._secured_metrics: dict[str, bool] = {}
        """By pod."""

    # -- what there is -------------------------------------------------------------------------------------------------

    def refusals(self, spec: ScenarioSpec) -> Iterable[str]:
        if spec.cluster.racks:
            yield "cluster.racks: the nodes' labels say what a rack is"
        yield from too_long(spec)
        for step, verb in steps_with_links(spec):
            if why := self.network.refusal():
                yield f"step {step.name}: {verb.value}: {why}"
            break

    @property
    def brokers(self) -> Sequence[int]:
        return range(self._count)

    @property
    def address(self) -> str:
        return ",".join(self._addresses.values())

    @property
    def live_bootstrap(self) -> str:
        """The addresses of the brokers that run now: a client that asks only these is not kept waiting."""
        live = [where for broker, where in self._addresses.items() if broker not in self._held]
        return ",".join(live or self._addresses.values())

    def pod_name(self, broker: int) -> str:
        """The pod of a broker."""
        return f"{self.cluster}-broker-{broker}"

    def _fetch(self, pod: str, timeout_s: float) -> str:
        """By the API server, which passes on no token (it would be its own): where one is needed, past it or through it."""
        if pod not in self._secured_metrics:
            try:
                found = self.namespace.get("pods", pod)
            except ToolTrouble as error:
                raise OSError(str(error)) from error
            if found is None:
                raise OSError(f"there is no pod {pod}")
            self._secured_metrics[pod] = has_secured_metrics(found)
        if not self._secured_metrics[pod]:
            return self.namespace.page(pod, METRICS_PORT, "/metrics", timeout_s)
        try:
            access = self.security().metrics
        except ToolTrouble as error:
            raise OSError(str(error)) from error
        through = None if self.listener is ClientListener.INTERNAL else self.namespace.forward(pod, METRICS_PORT)
        host = f"{pod}.{Names(self.namespace.name, self.cluster).brokers}.{self.namespace.name}.svc"
        return reader(access, through)(f"https://{host}:{METRICS_PORT}/metrics", timeout_s)

    def metrics(self, broker: int) -> Sequence[Sample]:
        return scrape_or_nothing(self.pod_name(broker), self._fetch)

    def observer(self, folder: Path) -> Observer:
        return Observer(folder, {broker: self.pod_name(broker) for broker in self.brokers}, fetch=self._fetch)

    def replica_status(self, broker: int, topic_partition: TopicPartition) -> ReplicaStatus:
        return scrape_status(self.pod_name(broker), topic_partition, self._fetch)

    # -- up and down ---------------------------------------------------------------------------------------------------

    def manifest(self, cluster: ClusterSpec) -> Object:
        """The MiniKafkaCluster for a scenario's cluster."""
        return manifest(self.cluster, cluster, self.listener, self.template)

    def up(self, spec: ScenarioSpec, seed: int) -> None:
        self._seed = seed
        self._topics = [topic.name for topic in spec.topics]
        if not self.existing:
            self._create(self.manifest(spec.cluster))
        self._is_up = True
        found = self._wait_cluster_ready()
        self._count = int(found["spec"]["brokers"]["replicas"])
        for broker in self.brokers:
            containers = (self._pod(broker) or {}).get("spec", {}).get("containers") or ()
            if all(each["name"] != CONTAINER for each in containers):
                why = "spec.chaos.allowed is not true" if self.existing else "the operator is an older one"
                raise ToolTrouble(f"{self.pod_name(broker)} has no container {CONTAINER}: {why}")
        external = {each["id"]: each.get("external") for each in found["status"].get("brokers") or ()}
        for broker in self.brokers:
            inside = f"{self.pod_name(broker)}.{self.cluster}-brokers.{self.namespace.name}.svc:{CLIENT_PORT}"
            address = inside if self.listener is ClientListener.INTERNAL else external.get(broker)
            if not address:
                raise ToolTrouble(f"broker {broker} has no address outside the Kubernetes cluster")
            self._addresses[broker] = address
        if any(steps_with_links(spec)) and (why := self.network.refusal(self.brokers)):
            raise ToolTrouble(why)
        self._must_be_reached()

    def _create(self, made: Object) -> None:
        try:
            self.namespace.create(KIND, made)
        except Refused as error:
            hint = ": is the operator installed (docs/guide/kubernetes.md)?" if error.status == 404 else ""
            raise ToolTrouble(f"MiniKafkaCluster {self.cluster}: {error}{hint}") from error

    def _wait_cluster_ready(self) -> Object:
        """The cluster's object, once it is Ready."""
        deadline = time.monotonic() + UP_SECONDS_MAX
        while True:
            found: Object | None = self._asked(lambda: self.namespace.get(KIND, self.cluster))
            if found is None:
                raise ToolTrouble(f"MiniKafkaCluster {self.cluster} is not there")
            ready = _condition(found, "Ready")
            if ready.get("status") == "True":
                return found
            accepted = _condition(found, "Accepted")
            if accepted.get("status") == "False":
                raise ToolTrouble(f"MiniKafkaCluster {self.cluster}: {accepted.get('message')}")
            if time.monotonic() > deadline:
                why = ready.get("message") or "no operator has said anything of it"
                raise ToolTrouble(f"MiniKafkaCluster {self.cluster} is not Ready after {UP_SECONDS_MAX} s: {why}")
            time.sleep(POLL_SECONDS)

    def _must_be_reached(self) -> None:
        """A client that cannot connect, or is not let in, only ever says that it has waited."""
        deadline = time.monotonic() + REACH_SECONDS_MAX
        for broker, address in self._addresses.items():
            host, _, port = address.rpartition(":")
            while True:
                try:
                    with BrokerConnection(host.strip("[]"), int(port), CONNECT_SECONDS, self.security()) as connection:
                        connection.request(ApiKey.API_VERSIONS, 0, {})  # a refused certificate may show only now
                    break
                except NoAnswer as error:
                    if time.monotonic() > deadline:
                        problem = f"broker {broker} is not reached from here at {address}: {error}"
                        raise ToolTrouble(
                            f"{problem}; --listener names other ways ({', '.join(ClientListener)}), --command-config as whom"
                        ) from error
                    time.sleep(POLL_SECONDS)

    def down(self) -> list[int]:
        """Put the brokers to rest and fetch their logs and events; then delete the cluster with its volumes, or let it go on."""
        if not self._is_up:
            return []
        self._is_up = False
        try:
            problems = [line for line in at_once(self._laid_to_rest, self.brokers) if line is not None]
        finally:
            if self.existing:
                at_once(lambda broker: self.agents.ask(broker, "recover"), self.brokers)
            else:
                self._delete()
        if problems:
            raise ToolTrouble("; ".join(problems))
        return []

    def _laid_to_rest(self, broker: int) -> str | None:
        """Fetch a broker's files once it is held; what has gone wrong."""
        folder = self.scratch / f"broker-{broker}"
        try:
            if self._state(broker)["condition"] != "held":
                self.terminate(broker)  # also one that is paused: the agent lets it go on
            self.agents.fetch(broker, folder / "events", "events")
            topics = [word for topic in self._topics for word in ("--topic", topic)]
            self.agents.fetch(broker, folder, "logs", *topics)
        except ToolTrouble as error:
            return str(error)
        return None

    def _delete(self) -> None:
        self._asked(lambda: self.namespace.delete(KIND, self.cluster))
        deadline = time.monotonic() + DOWN_SECONDS_MAX
        while self._asked(lambda: self.namespace.get(KIND, self.cluster)) is not None:
            if time.monotonic() > deadline:
                raise ToolTrouble(f"MiniKafkaCluster {self.cluster} is not gone after {DOWN_SECONDS_MAX} s")
            time.sleep(POLL_SECONDS)

    @staticmethod
    def _asked(ask: Callable[[], Any]) -> Any:
        """Ask the API server once more when it is away for a moment."""
        try:
            return ask()
        except NotReached:
            time.sleep(1.0)
            return ask()

    # -- brokers -------------------------------------------------------------------------------------------------------

    def _state(self, broker: int) -> Mapping[str, Any]:
        """Return what its agent tells now. What holds the broker is taken down: the answer to its verb may have been lost."""
        state = self.agents.ask(broker, "state")
        self._ends.note(broker, state["faults"])
        return state

    def condition(self, broker: int) -> BrokerCondition:
        match self._state(broker)["condition"]:
            case "running":
                return BrokerCondition.RUNNING
            case "paused":
                return BrokerCondition.PAUSED
        return BrokerCondition.DEAD

    def is_ready(self, broker: int) -> bool:
        """As the kubelet tells of a container that runs since the last fault, and the broker in it now, when it is asked."""
        if broker in self._held:
            return False
        pod = self._asked(lambda: self._pod(broker))
        ready = bool(broker_container(pod).get("ready")) and self._ends.runs_again(broker, pod)
        return pod is not None and ready and says_ready(self.namespace, self.pod_name(broker), pod)

    def wait_ready(self, broker: int, deadline_s: float) -> None:
        self._until(lambda: self.is_ready(broker), deadline_s, f"broker {broker} was not ready after {deadline_s:g} s")

    # -- faults --------------------------------------------------------------------------------------------------------

    def inject(self, fault: Fault, targets: Targets) -> Handle:
        """Make it, as `Ground.inject` says. The agents know the fault's id, so one that is asked for twice is made once."""
        self._injecting.fault = fault
        try:
            return super().inject(fault, targets)
        finally:
            self._injecting.fault = None

    def _words(self, verb: str, seconds: float | None = None, seconds_max: float = HOLD_SECONDS_MAX) -> list[object]:
        """A verb of the agent, with the id of the fault that it is a part of, and its end (seconds from now on)."""
        fault: Fault | None = getattr(self._injecting, "fault", None)
        words: list[object] = [verb, "--id", f"{self._run}-{fault.id if fault else uuid.uuid4().hex[:8]}-{verb}"]
        if seconds is not None:
            if fault is not None and fault.duration_s is not None:
                seconds = fault.duration_s + SLACK_SECONDS
            words += ["--seconds", min(seconds, seconds_max)]
        return words

    def start(self, broker: int) -> None:
        """Open its gate. The kubelet, which started the container meanwhile or will, is waited for."""
        if broker not in self._held:
            self._state(broker)
        released = self.agents.ask(broker, "release")["recovered"]
        if not released and broker not in self._held and self.condition(broker) is not BrokerCondition.DEAD:
            raise ToolTrouble(f"broker {broker} runs already")
        self._held.discard(broker)
        late = f"broker {broker} was not started again in {RESTART_SECONDS_MAX} s: the kubelet waits longer each time"
        runs = self._ends.runs_again
        self._until(lambda: runs(broker, self._asked(lambda: self._pod(broker))), RESTART_SECONDS_MAX, late)

    def kill(self, brokers: Sequence[int]) -> None:
        if len(brokers) > 1:
            # Nobody may act on the death of the first while the others still live. The paused are still already.
            freeze = self._words(AgentVerb.PAUSE, FROZEN_SECONDS, FROZEN_SECONDS)
            conditions = dict(zip(brokers, at_once(self.condition, brokers), strict=True))
            living = [broker for broker in brokers if conditions[broker] is BrokerCondition.RUNNING]
            at_once(lambda broker: self.agents.ask(broker, *freeze), living)
        self._end(brokers, AgentVerb.KILL)

    def terminate(self, broker: int, seconds: float | None = None) -> None:
        del seconds  # its agent has an end of its own
        self._end([broker], AgentVerb.TERMINATE)

    def _end(self, brokers: Sequence[int], verb: AgentVerb) -> None:
        """The one way to end a broker: for every verb, and for reading its files."""
        words = self._words(verb, HOLD_SECONDS)

        def end(broker: int) -> None:
            self._ends.note(broker, [self.agents.ask(broker, *words)])
            self._held.add(broker)

        at_once(end, brokers)

    def pause(self, brokers: Sequence[int]) -> None:
        words = self._words(AgentVerb.PAUSE, PAUSE_SECONDS, PAUSE_SECONDS)
        at_once(lambda broker: self.agents.ask(broker, *words), brokers)

    def resume(self, broker: int) -> None:
        if not self.agents.ask(broker, "resume")["recovered"]:
            raise ToolTrouble(f"broker {broker} is not paused (a pause ends by itself after {PAUSE_SECONDS} s)")

    def wipe_unflushed(self, broker: int) -> None:
        self.agents.ask(broker, *self._words(AgentVerb.WIPE_UNFLUSHED))

    def lose_unflushed(self, fault: Fault, broker: int) -> None:
        mode = (fault.parameters.mode or WipeMode.ALL).value.lower()
        seed = loss_seed(self._seed, fault, broker)
        self.agents.ask(broker, *self._words(AgentVerb.WIPE_UNFLUSHED), "--mode", mode, "--seed", seed)

    def wipe_volume(self, broker: int) -> None:
        self.agents.ask(broker, *self._words(AgentVerb.WIPE_VOLUME))

    def make(self, fault: Fault, targets: Targets) -> Mapping[str, Any]:
        if fault.verb is Verb.HEAL:
            self.network.heal(targets)
            return {}
        return {"pods": self.network.make(fault, self._link_id(fault), targets)}

    def unmake(self, handle: Handle) -> list[str]:
        hit = self.network.recover(handle.targets.brokers, self._link_id(handle.fault), handle.state.get("pods"))
        left = replace(handle.targets, brokers=tuple(hit))
        return healed(left)

    def _link_id(self, fault: Fault) -> str:
        return f"{self._run}-{fault.id}"

    def heal_all(self) -> list[str]:
        cut = self.network.recover(self.brokers) if self.network.used else []
        done = [f"healed the network of broker {broker}" for broker in cut]
        done += [line for line in at_once(self._healed, self.brokers) if line is not None]
        deadline = time.monotonic() + RESTART_SECONDS_MAX
        for broker in self.brokers:
            self.wait_ready(broker, max(1.0, deadline - time.monotonic()))
        return done

    def _healed(self, broker: int) -> str | None:
        state = self._state(broker)
        if state["condition"] == "running" and not state["faults"]:
            self._held.discard(broker)  # what there was has ended by itself
            return None
        done = self.bring_back(broker)
        self.agents.ask(broker, "recover")
        self._held.discard(broker)
        return done

    # -- files ---------------------------------------------------------------------------------------------------------

    def checkpointed_high_watermark(self, broker: int, topic_partition: TopicPartition) -> int | None:
        text = self.agents.ask(broker, "checkpoint", CHECKPOINT)["content"]
        rows = [line.split() for line in (text or "").splitlines()[2:]]
        wanted = [topic_partition.topic, str(topic_partition.partition)]
        return next((int(row[2]) for row in rows if row[:2] == wanted), None)

    def replica_log(self, broker: int, topic_partition: TopicPartition) -> ReplicaLog:
        folder = self.scratch / f"broker-{broker}"
        if not (folder / "data").is_dir():
            raise ReplicaLogError(f"no files of broker {broker} were fetched")
        return read_replica_log(broker, topic_partition, folder / "data", folder / "unflushed")

    def collect_events(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for broker in self.brokers:
            for file in (self.scratch / f"broker-{broker}" / "events").glob("*.jsonl"):
                shutil.copyfile(file, folder / file.name)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _pod(self, broker: int) -> Object | None:
        return self.namespace.get("pods", self.pod_name(broker))

    def _until(self, holds: Callable[[], bool], seconds: float, otherwise: str) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                raise ToolTrouble(otherwise)
            time.sleep(POLL_SECONDS)


def too_long(spec: ScenarioSpec) -> Iterable[str]:
    """The durations that no agent allows, a line each that names the step and what is allowed."""
    for step in spec.steps:
        fault = step.fault
        seconds = 0.0 if fault is None else fault.duration_seconds or 0.0
        if fault is not None and Verb.PAUSE in fault.verbs and seconds > PAUSE_SECONDS:
            why = "the liveness probe kills a broker that is paused longer"
            yield f"step {step.name}: durationSeconds: at most {PAUSE_SECONDS} for Pause: {why}"
        elif seconds > HOLD_SECONDS_MAX - SLACK_SECONDS:
            why = "the agents end every fault after an hour"
            yield f"step {step.name}: durationSeconds: at most {HOLD_SECONDS_MAX - SLACK_SECONDS} on Kubernetes: {why}"


def _merged(spec: Object, template: Mapping[str, Any]) -> Object:
    made = dict(spec)
    for key, value in template.items():
        here = made.get(key)
        made[key] = _merged(here, value) if isinstance(here, dict) and isinstance(value, Mapping) else value
    return made


def _condition(found: Object, kind: str) -> Object:
    conditions = (found.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})
