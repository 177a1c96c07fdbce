"""A session: the verbs that break one cluster and mend it, each a line in a journal, and what can be asked of it meanwhile.

Verbs are those of `minikafka.telemetry.fault_verbs`; how they are made is the ground's. A verb that cannot be done now (a broker
that does not exist, or is dead already) is refused before anything is written or changed. What a verb undoes is undone at once;
all that is still broken ends with `heal`.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from minikafka.client.metrics_access import MetricsAccess
from minikafka.client.security import ClientSecurity
from minikafka.controller.topics import NAME_LENGTH_MAX
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.reliability.dead_letters import dead_letter_topic
from minikafka.telemetry.fault_verbs import Verb

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.grounds import BrokerCondition, Ground
from minikafka_chaos.load.clients import PartitionView, TopicPlan
from minikafka_chaos.load.kafka_clients import KafkaClients
from minikafka_chaos.load.reader import ReadRecord, read_records
from minikafka_chaos.load.topics import TopicNotMade
from minikafka_chaos.record.journal import Journal
from minikafka_chaos.run.open_faults import OpenFaults
from minikafka_chaos.run.replica_evidence import TopicEvidence, write_replicas
from minikafka_chaos.scenario.faults import PLAIN, Direction, Fault, Parameters, Targets, WipeMode
from minikafka_chaos.session.deadline import Deadline
from minikafka_chaos.session.errors import VerbRefused
from minikafka_chaos.session.evidence import Acknowledgement, CommittedLog, acknowledgements, write_history
from minikafka_chaos.session.groups import OFFSETS_TOPIC, GroupOffsets, describe_groups, make_offsets_topic
from minikafka_chaos.session.hooks import TURN_ON, BrokerHooks
from minikafka_chaos.session.partitions import TIMEOUT_S, ask, committed_batches, prefer
from minikafka_chaos.session.settings import Setting, as_text, printable, topic_name
from minikafka_chaos.verdict.claims import Terms
from minikafka_chaos.verdict.verdict import Outcome, Verdict, judge

DEADLINE_S = 60.0
"""For all that a verb waits for: a cluster takes a second or two, a machine that is busy with other things longer."""
VIEW_S = 2.0
"""So long brokers may take to tell of a topic before they are asked again."""
CLOSED = "the cluster is closed: make a new one"
NOBODY_RUNS = "no broker runs, and hooks are in brokers that run: restart one, or heal the cluster"
POLL_S = 0.02
REPLICAS = 3
UNKNOWN_TOPIC_S = 2.0
"""So long brokers may say that there is no such topic: one may just have been made by somebody else."""
TOPICS_NAMED_MAX = 10
PARTITIONS_MAX = 100_000
"""As many librdkafka asks for at once."""
GONE = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""What brokers say of a topic that is not there any more."""
NO_ACKNOWLEDGEMENTS = f"the brokers tell no acknowledgements, for they have no hooks: {TURN_ON}"

ALL_TOPICS = {
    "topics": None,
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}

T = TypeVar("T")
WIPE_MODES = {mode.value.lower(): mode for mode in WipeMode}
DIRECTIONS = {direction.value.lower(): direction for direction in Direction}


class SessionGround(Ground, Protocol):
    """A ground on this machine."""

    @property
    def clients(self) -> KafkaClients: ...

    @property
    def security(self) -> ClientSecurity:
        """How a broker's listener for clients is to be asked."""
        ...

    @property
    def without_links(self) -> str | None:
        """Why no link can be broken; None where it can."""
        ...

    def heal_all(self, deadline_s: float = ...) -> list[str]: ...

    @property
    def live_bootstrap(self) -> str:
        """The addresses of the brokers that run now; of all when none does."""
        ...

    def broker_address(self, broker: int) -> str:
        """HOST:PORT of its listener for clients."""
        ...

    def metrics_url(self, broker: int) -> str: ...

    @property
    def metrics_access(self) -> MetricsAccess: ...


class BrokerDescription(NamedTuple):
    """One broker as it is now."""

    id: int
    condition: str
    """`running`, `paused` or `dead`."""
    address: str


class Observation:
    """Requests of one API, from the moment when it was made."""

    def __init__(self, session: ChaosSession, api: str) -> None:
        self.api = api
        self._session = session
        self._began = session.ground.clock.time()

    @property
    def requests(self) -> list[Mapping[str, Any]]:
        """What clients asked of the brokers that run now: api, version, client_id, time, and for Produce the partitions."""
        answers = self._session.on_each_live_broker(lambda hooks: hooks.requests(self.api))
        found = [each for row in answers for each in row if each["time"] >= self._began]
        return sorted(found, key=lambda each: float(each["time"]))

    @property
    def count(self) -> int:
        """Return how many there were."""
        return len(self.requests)


class ChaosSession:
    """The verbs on one ground. For one thread at a time.

    Args:
        ground: where the brokers are.
        folder: gets the journal, and the evidence of verdicts.
        hooks: whether the brokers have them.
        durable: whether each line of the journal is on disk before it is acted on.
    """

    def __init__(self, ground: SessionGround, folder: Path, hooks: bool, durable: bool = False) -> None:
        self.ground = ground
        self.folder = folder
        self.topics: list[str] = []
        """Those that `create_topic` has made, and nobody has forgotten since: what a verdict is about."""
        self._hooks = hooks
        self._closed = False
        self._groups_prepared = False
        self._numbers = itertools.count(1)
        self._observations: dict[str, Observation] = {}
        self.journal = Journal(folder / "journal.jsonl", ground.clock.time, durable)
        self._faults = self._open_faults()
        self._view = ground.clients.view()

    def _open_faults(self) -> OpenFaults:
        return OpenFaults(self.ground, self.journal, lambda _line: None)

    def close(self) -> None:
        """No duration ends anything from now on, and no verb begins; the brokers are left as they are."""
        self._closed = True
        self._faults.close()
        self.journal.close()

    # -- brokers -------------------------------------------------------------------------------------------------------

    def kill(self, broker: int) -> None:
        """Crash a broker (kill -9): what it had written stays."""
        self._needs(broker, BrokerCondition.RUNNING, BrokerCondition.PAUSED)
        self._do(Verb.KILL, broker)

    def power_loss(self, broker: int, mode: str = "all") -> None:
        """Crash a broker, and lose what it had not flushed: `all` of it, or a part (`torn`), and `garbage` follows."""
        if mode not in tuple(WIPE_MODES):
            raise VerbRefused(f"mode: {mode!r} is not one of {', '.join(WIPE_MODES)}")
        self._needs(broker, BrokerCondition.RUNNING, BrokerCondition.PAUSED)
        self._do(Verb.POWER_LOSS, broker, parameters=Parameters(mode=WIPE_MODES[mode]))

    def pause(self, broker: int) -> None:
        """Let a broker hang, its connections open (SIGSTOP)."""
        self._needs(broker, BrokerCondition.RUNNING)
        self._do(Verb.PAUSE, broker)

    def resume(self, broker: int) -> None:
        """Let a paused broker go on."""
        self._needs(broker, BrokerCondition.PAUSED)
        self._do(Verb.RESUME, broker)

    def restart(self, broker: int, deadline_s: float = DEADLINE_S) -> None:
        """Start a dead broker, or stop one cleanly and start it again; returns when it is ready."""
        deadline = Deadline(deadline_s)
        condition = self._needs(broker, BrokerCondition.RUNNING, BrokerCondition.DEAD)
        verb = Verb.START if condition is BrokerCondition.DEAD else Verb.RESTART
        self._do(verb, broker, then=lambda: self.ground.wait_ready(broker, deadline.left), deadline=deadline)

    def kill_leader(self, topic: str, partition: int = 0, deadline_s: float = DEADLINE_S) -> int:
        """Crash the broker that leads a partition; its id."""
        deadline = Deadline(deadline_s)
        leader = self._led(topic, partition, None, deadline).leader
        self._needs(leader, BrokerCondition.RUNNING, BrokerCondition.PAUSED)
        self._do(Verb.KILL, leader, role=f"leader of {topic}-{partition}", deadline=deadline)
        return leader

    def status(self) -> list[BrokerDescription]:
        """All brokers as they are now."""
        ground = self.ground
        return [
            BrokerDescription(each, ground.condition(each).value, ground.broker_address(each))
            for each in ground.brokers
        ]

    @property
    def broken(self) -> list[str]:
        """Return what was broken and is not mended yet, a line each."""
        return [f"{each.fault.verb.plain_name} of {', '.join(each.targets.names)}" for each in self._faults.handles]

    # -- network -------------------------------------------------------------------------------------------------------

    def cut(self, broker: int, *peers: int, direction: str = "both") -> None:
        """Let nothing pass between a broker and others (all others when none is named), and tell nobody.

        One way only: what it sends (`outbound`) or is sent (`inbound`).
        """
        if direction not in tuple(DIRECTIONS):
            raise VerbRefused(f"direction: {direction!r} is not one of {', '.join(DIRECTIONS)}")
        self._check_open()
        if (why := self.ground.without_links) is not None:
            raise VerbRefused(why)
        for each in (broker, *peers):
            self._known(each)
        for number, each in enumerate(peers):
            if each == broker:
                raise VerbRefused(f"peers: broker {broker} cannot be cut from itself")
            if each in peers[:number]:
                raise VerbRefused(f"peers: broker {each} is named twice")
        for each in (broker, *peers):
            self._needs(each, BrokerCondition.RUNNING, BrokerCondition.PAUSED)
        others = peers or tuple(each for each in self.ground.brokers if each != broker)
        if not others:
            raise VerbRefused(f"broker {broker} has no peers to be cut from")
        self._do(Verb.CUT, broker, peers=others, parameters=Parameters(direction=DIRECTIONS[direction]))

    def heal(self, deadline_s: float = DEADLINE_S) -> list[str]:
        """End every fault and hook, start dead brokers, and wait until all are ready; what was done, a line each."""
        return self._heal(Deadline(deadline_s))

    def _heal(self, deadline: Deadline) -> list[str]:
        self._check_open()
        left = self._faults.close()
        self._faults = self._open_faults()
        with self.journal.action("heal", "Heal", "cluster") as action:
            done = self.ground.heal_all(deadline.left)
            for broker in self.ground.brokers:
                self.ground.wait_ready(broker, deadline.left)
            if self._hooks:
                self.on_each_live_broker(lambda hooks: hooks.order(action="clear"), deadline)
            action.fields["done"] = done
        for handle in left:
            self.journal.recovered(handle, "heal")
        return done

    # -- hooks ---------------------------------------------------------------------------------------------------------

    def inject_error(
        self,
        api: str,
        code: str | int,
        topic: str | None = None,
        partition: int | None = None,
        count: int | None = None,
        after: int = 0,
    ) -> None:
        """Have brokers answer requests of clients with an error of Kafka's, and not carry them out.

        `api` as in Kafka's message definitions (`Produce`), `code` by name or number. Each broker that runs now lets `after`
        requests pass and refuses `count`, without it all of them until `heal`.
        """
        if type(code) is int:  # True is 1 elsewhere
            try:
                code = ErrorCode(code).name
            except ValueError:
                raise VerbRefused(f"code: {code} is not the number of an error of Kafka") from None
        self._live_brokers()
        if topic is not None:
            self._check_there(topic, partition)
        elif partition is not None:
            raise VerbRefused(f"topic: partition {partition} needs it")
        given = {"api": api, "code": code, "topic": topic, "partition": partition, "count": count, "after": after}
        self._order("InjectError", action="error", **given)

    def delay(self, api: str, millis: int) -> None:
        """Have brokers answer clients' requests of an API so much later, until `heal`. (The fault `Delay` is of links.)"""
        self._order("DelayAnswers", action="delay", api=api, millis=millis)

    def observe(self, api: str) -> Observation:
        """Look at clients' requests of an API from now on: how many there are, and of which client."""
        self._order("Observe", action="observe", api=api)
        self._observations[api] = Observation(self, api)
        return self._observations[api]

    def requests(self, api: str) -> list[Mapping[str, Any]]:
        """The clients' requests of an API since it was observed last."""
        if api not in tuple(self._observations):
            raise VerbRefused(f"api: nobody has observed {api!r}")
        return self._observations[api].requests

    def _check_there(self, topic: str, partition: int | None) -> None:
        """Raise VerbRefused for a topic or a partition that nobody has: no request would ever be about it."""
        there = self.partitions(topic)
        if partition is not None and (type(partition) is not int or TopicPartition(topic, partition) not in there):
            raise VerbRefused(f"partition: {topic} has no partition {partition!r}, but 0 to {len(there) - 1}")

    def _order(self, name: str, **given: str | int | None) -> None:
        self._live_brokers()
        for name_of, value in given.items():
            if isinstance(value, str):
                printable(name_of, value)
        parameters = {key: value for key, value in given.items() if value is not None}
        with self.journal.action(f"hook-{next(self._numbers)}", name, "cluster", None, parameters=parameters):
            self.on_each_live_broker(lambda hooks: hooks.order(**given))

    def on_each_live_broker(self, ask: Callable[[BrokerHooks], T], deadline: Deadline | None = None) -> list[T]:
        """Ask the hooks of every broker that runs. Raises VerbRefused where none does."""
        access = self.ground.metrics_access
        return [ask(BrokerHooks(self.ground.metrics_url(each), access, deadline)) for each in self._live_brokers()]

    def _live_brokers(self) -> list[int]:
        self._check_open()
        if not (running := self._running()):
            raise VerbRefused(NOBODY_RUNS)
        return running

    def _running(self) -> list[int]:
        return [each for each in self.ground.brokers if self.ground.condition(each) is BrokerCondition.RUNNING]

    # -- topics --------------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, Setting] | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> str:
        """Create a topic, and wait until every partition has a leader and a full ISR; its name, a new one when none is given.

        Without `replication_factor` it has 3 replicas, or as many as there are brokers.
        """
        deadline = Deadline(deadline_s)
        self._check_open()
        brokers = len(self.ground.brokers)
        if replication_factor is None:
            replication_factor = min(REPLICAS, brokers)
        for field, number in (("replication_factor", replication_factor), ("partitions", partitions)):
            if type(number) is not int:  # True is 1 elsewhere
                raise VerbRefused(f"{field}: {number!r} is not a whole number")
        if not 1 <= replication_factor <= brokers:
            raise VerbRefused(
                f"replication_factor: {replication_factor} is not between 1 and {brokers}, the number of brokers"
            )
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise VerbRefused(f"partitions: {partitions} is not between 1 and {PARTITIONS_MAX}")
        name = f"topic-{uuid.uuid4().hex[:8]}" if name is None else name
        topic_name("name", name)
        settings = as_text("config", {} if config is None else config)
        if self._view_of(name, deadline):
            raise VerbRefused(f"name: topic {name} is there already")
        dead = [each for each in self.ground.brokers if self.ground.condition(each) is BrokerCondition.DEAD]
        if replication_factor > brokers - len(dead):  # nobody brings them back while this waits
            raise VerbRefused(
                f"replication_factor: {replication_factor} needs as many brokers that live, and of {brokers} these are "
                f"dead: {', '.join(map(str, dead))}"
            )
        plan = TopicPlan(name, partitions, replication_factor, None, settings)
        try:
            self.ground.clients.create_topic(plan, deadline.left)
        except TopicNotMade as error:
            raise VerbRefused(" ".join(str(error).split())) from error
        self.topics.append(name)
        return name

    def delete_topics(self, deadline_s: float = DEADLINE_S) -> None:
        """Delete the topics that this session has made, and those of their dead letters; returns when the controller has."""
        deadline = Deadline(deadline_s)
        self._check_open()
        names = [*self.topics, *map(dead_letter_topic, self.topics)]
        left = [name for name in names if len(name) <= NAME_LENGTH_MAX]
        while left:
            wanted = {"topic_names": left, "timeout": int(deadline.at_most(TIMEOUT_S) * 1000)}
            answer = ask(self.ground.live_bootstrap, self.ground.security, ApiKey.DELETE_TOPICS, 5, wanted, deadline)
            refused = {each.name: each.error_code for each in answer.responses if each.error_code not in GONE}
            left = list(refused)
            self.topics[:] = [name for name in self.topics if name in refused]
            if refused and deadline.is_over:
                name, code = next(iter(refused.items()))
                raise ToolTrouble(f"topic {name} could not be deleted: {ErrorCode(code).name}")
            time.sleep(POLL_S if refused else 0)

    def partitions(self, topic: str, deadline_s: float = DEADLINE_S) -> dict[TopicPartition, PartitionView]:
        """Leader, replicas and ISR of each partition as brokers tell them now."""
        return self._partitions(topic, Deadline(deadline_s))

    def _partitions(self, topic: str, deadline: Deadline) -> dict[TopicPartition, PartitionView]:
        self._check_open()
        topic_name("topic", topic)
        unknown_s = min(UNKNOWN_TOPIC_S, deadline.seconds)
        unknown_until = time.monotonic() + unknown_s
        while not (found := self._view_of(topic, deadline)):
            now = time.monotonic()
            if (reported := self._reported_topics(deadline)) is None or topic in reported:
                unknown_until = now + unknown_s
            elif now > unknown_until:
                names = [name for name, internal in reported.items() if not internal]
                shown = [*names[:TOPICS_NAMED_MAX], *(["..."] if len(names) > TOPICS_NAMED_MAX else [])]
                raise VerbRefused(f"topic {topic} is not there; topics of this cluster: {', '.join(shown) or 'none'}")
            if deadline.is_over:
                why = "" if self._running() else ", for no broker runs"
                raise VerbRefused(f"topic: nobody tells of {topic}{why}")
            time.sleep(POLL_S)
        return found

    def _view_of(self, topic: str, deadline: Deadline) -> dict[TopicPartition, PartitionView] | None:
        """Nobody is asked while no broker runs: who asks them would be kept waiting for all that."""
        return self._view.partitions(topic, deadline.at_most(VIEW_S)) if self._running() else None

    def leader(
        self, topic: str, partition: int = 0, other_than: int | None = None, deadline_s: float = DEADLINE_S
    ) -> int:
        """The broker that leads a partition now; waits until a living one does, and another than the one that is given."""
        if other_than is not None:
            self._known(other_than)  # any leader is another than a broker that is not there
        return self._led(topic, partition, other_than, Deadline(deadline_s)).leader

    def _led(self, topic: str, partition: int, other_than: int | None, deadline: Deadline) -> PartitionView:
        """The partition once a living broker leads it: for a moment others still name one that has just died."""

        other = "" if other_than is None else f" other than broker {other_than}"
        return self._until(
            lambda view: self._is_led(view) and view.leader != other_than,
            topic,
            partition,
            f"has no living leader{other}",
            deadline,
        )

    def _is_led(self, view: PartitionView) -> bool:
        return view.leader >= 0 and self.ground.condition(view.leader) is not BrokerCondition.DEAD

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None, deadline_s: float = DEADLINE_S) -> int:
        """Have another replica lead a partition (`to`, or the next in the ISR), all of them alive; its id."""
        deadline = Deadline(deadline_s)
        where = TopicPartition(topic, partition)
        view = self._led(topic, partition, None, deadline)
        if to is None:
            running = [each for each in view.isr if self.ground.condition(each) is BrokerCondition.RUNNING]
            to = next((each for each in running if each != view.leader), None)
            if to is None:
                raise VerbRefused(f"{where}: nobody but broker {view.leader} is in its ISR and runs")
        self._needs(to, BrokerCondition.RUNNING)  # the ISR may name one that has just died
        if to not in view.isr:
            raise VerbRefused(
                f"to: broker {to} is not in the ISR of {where}, which has {', '.join(map(str, view.isr))}"
            )
        with self.journal.action(f"move-{next(self._numbers)}", "MoveLeader", str(where), None, to=to):
            order = (to, *(each for each in view.replicas if each != to))
            prefer(self.ground.live_bootstrap, self.ground.security, where, order, deadline)
            self._until(lambda view: view.leader == to, topic, partition, f"is not led by broker {to}", deadline)
        return to

    def wait_full_isr(self, topic: str | None = None, deadline_s: float = DEADLINE_S) -> None:
        """Wait until every replica of a topic, or of all that this session has made, is in sync."""
        self._wait_full_isr([topic] if topic is not None else self.topics, Deadline(deadline_s))

    def _wait_full_isr(self, topics: Sequence[str], deadline: Deadline) -> None:
        self._check_open()
        for name in topics:
            for where, view in self._partitions(name, deadline).items():
                if not view.full:
                    self._until(lambda view: view.full, *where, "has no full ISR", deadline)

    def _until(
        self, holds: Callable[[PartitionView], bool], topic: str, partition: int, else_: str, deadline: Deadline
    ) -> PartitionView:
        where = TopicPartition(topic, partition)
        while True:
            partitions = self._partitions(topic, deadline)
            if type(partition) is not int or where not in partitions:  # True is 1 elsewhere
                raise VerbRefused(f"partition: {topic} has no partition {partition!r}")
            view = partitions[where]
            if holds(view):
                return view
            if deadline.is_over:
                dead = [each for each in view.replicas if self.ground.condition(each) is BrokerCondition.DEAD]
                found = f"leader {view.leader}, ISR {list(view.isr)}, replicas {list(view.replicas)}, dead {dead}"
                raise ToolTrouble(f"{where} {else_} after {deadline.seconds:g} s: {found}")
            time.sleep(POLL_S)

    # -- what is there -------------------------------------------------------------------------------------------------

    def records(self, topic: str, deadline_s: float = DEADLINE_S) -> list[ReadRecord]:
        """All committed records of a topic, by partition and offset, as the verifier's reader gets them."""
        deadline = Deadline(deadline_s)
        partitions = self._partitions(topic, deadline)
        for where, view in partitions.items():
            if not self._is_led(view):
                self._led(*where, None, deadline)
        return read_records(self.ground.live_bootstrap, self.ground.security, list(partitions), deadline.left)

    def groups(self, deadline_s: float = DEADLINE_S) -> dict[str, GroupOffsets]:
        """The consumer groups: state, members and committed offsets."""
        self._check_open()
        return describe_groups(self.ground.live_bootstrap, self.ground.security, Deadline(deadline_s))

    def verdict(self, topics: Sequence[str] | None = None, deadline_s: float = DEADLINE_S) -> Verdict:
        """Heal the cluster, and judge what has become of all that was acknowledged in these topics.

        Without `topics`: in those that `create_topic` has made in this session, and no others; in all topics of the cluster where
        it has made none.
        """
        if not self._hooks:
            return Verdict.without_judgement(Outcome.ERROR, NO_ACKNOWLEDGEMENTS)
        deadline = Deadline(deadline_s)
        if topics is not None and (
            isinstance(topics, str)
            or not isinstance(topics, Sequence)
            or not all(isinstance(each, str) for each in topics)
        ):
            raise VerbRefused(f"topics: {topics!r} is not a list of names")
        if topics and (reported := self._reported_topics(Deadline(min(UNKNOWN_TOPIC_S, deadline.seconds)))) is not None:
            for name in sorted(set(topics) - reported.keys()):
                self._partitions(name, deadline)  # refuses it before anything is healed
        self._heal(deadline)
        names = list(dict.fromkeys(self.topics if topics is None else topics)) or [
            name for name, internal in self._all_topics(deadline).items() if not internal
        ]
        # First, for clients may go on: what is acknowledged later need not be in the logs as they are read.
        acknowledged = self._acknowledgements(names)
        logs: list[CommittedLog] = []
        evidence: list[TopicEvidence] = []
        for name in names:
            self._wait_full_isr([name], deadline)
            placement = self._partitions(name, deadline)
            replicas = max(len(view.replicas) for view in placement.values())
            evidence.append(TopicEvidence(name, replicas, placement))
            for where, view in placement.items():
                address = self.ground.broker_address(view.leader)
                logs.append(
                    CommittedLog(where, *committed_batches(address, self.ground.security, where, deadline.left))
                )
        folder = Path(tempfile.mkdtemp(prefix="verdict-", dir=self.folder))
        history = write_history(folder, acknowledged, logs, self.ground.clock.time)
        problems = write_replicas(
            folder, evidence, self.ground.replica_log, folder / "events", self.ground.collect_events
        )
        verdict = judge(history, folder / "replicas.jsonl", Terms(problems=problems, by_brokers=True))
        self.journal.write("verdict", verdict.as_json())
        return verdict

    def _acknowledgements(self, topics: Sequence[str]) -> list[Acknowledgement]:
        with tempfile.TemporaryDirectory(prefix="events-", dir=self.folder) as events:
            self.ground.collect_events(Path(events))
            return acknowledgements(Path(events), topics)

    def _all_topics(self, deadline: Deadline) -> dict[str, bool]:
        """Each topic of the cluster, by name, and whether it is internal. Raises ToolTrouble when nobody answers."""
        ground = self.ground
        answer = ask(ground.live_bootstrap, ground.security, ApiKey.METADATA, 8, ALL_TOPICS, deadline)
        return {topic.name: topic.is_internal for topic in sorted(answer.topics, key=lambda each: each.name)}

    def _reported_topics(self, deadline: Deadline) -> dict[str, bool] | None:
        """The same; None while no broker runs or answers."""
        if not self._running():
            return None
        try:
            return self._all_topics(deadline)
        except ToolTrouble:
            return None

    # -- inside --------------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise VerbRefused(CLOSED)

    def _known(self, broker: int) -> None:
        self._check_open()
        brokers = self.ground.brokers
        if type(broker) is not int or broker not in brokers:  # True is 1 elsewhere
            raise VerbRefused(
                f"broker {broker!r} does not exist: this cluster has brokers {brokers[0]} to {brokers[-1]}"
            )

    def _needs(self, broker: int, *allowed: BrokerCondition) -> BrokerCondition:
        """Its condition, which has to be one of these."""
        self._known(broker)
        condition = self.ground.condition(broker)
        if condition not in allowed:
            ways = " or ".join(each.value for each in allowed)
            raise VerbRefused(f"broker {broker} is {condition.value}: it has to be {ways} for that")
        return condition

    def _do(
        self,
        verb: Verb,
        broker: int,
        *,
        peers: Sequence[int] = (),
        parameters: Parameters = PLAIN,
        role: str | None = None,
        then: Callable[[], None] = lambda: None,
        deadline: Deadline | None = None,
    ) -> None:
        deadline = deadline or Deadline(DEADLINE_S)
        self._prepare_groups(deadline)
        name = f"{verb.kind.replace('_', '-')}-{next(self._numbers)}"
        fault = Fault(name, verb, parameters, step=name, shutdown_s=deadline.left)
        with self._faults.making(fault, Targets((broker,), tuple(peers), role)):
            then()

    def _prepare_groups(self, deadline: Deadline) -> None:
        """Have the topic of consumer groups before the first broker is broken, as a cluster has that was in use.

        Otherwise it would be made for the first group that somebody starts, which takes as many living brokers as it has
        replicas: a service that is started after a kill would wait for its coordinator until the cluster is healed.
        """
        if self._groups_prepared or len(self._running()) < len(self.ground.brokers):
            return
        self._groups_prepared = True
        if not self._view_of(OFFSETS_TOPIC, deadline):
            with contextlib.suppress(ToolTrouble):  # a cluster that does not make it is broken all the same
                make_offsets_topic(self.ground.live_bootstrap, self.ground.security, deadline)
