"""The clients of the simulation ground: see `minikafka_chaos.load.clients.Clients`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minikafka.controller.controller import Controller
from minikafka.controller.topics import NewTopic
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.types import TopicPartition
from minikafka.reliability.record import ConsumedRecord
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.load.clients import NO_BROKER, GroupSettings, PartitionView, ReadBack, ReadProgress, TopicPlan
from minikafka_chaos.load.load import RETRY_BACKOFF_MS, LoadSettings, ProducerSettings, Tally
from minikafka_chaos.record.history import HistoryWriter

from minikafka_simulator.ground.producing import SimLoad, SimScript
from minikafka_simulator.ground.reading import SimTailReader, committed_records, read_back
from minikafka_simulator.ground.sim_group import SimGroup
from minikafka_simulator.machine.network import Reply

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker
    from minikafka_simulator.ground.configured import ConfiguredCluster

NOT_CONTROLLER = KafkaError(ErrorCode.NOT_CONTROLLER, "no broker that is the controller was asked")

POLL_S = RETRY_BACKOFF_MS / 1000
MAY_PASS = frozenset((ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_REPLICATION_FACTOR))
"""Refusals of a topic while brokers are still registering."""


class SimView:
    """What the running broker with the newest image says."""

    def __init__(self, cluster: Callable[[], ConfiguredCluster]) -> None:
        self._cluster = cluster

    def _informed(self) -> SimBroker | None:
        answering = [broker for broker in self._cluster().brokers.values() if broker.up and not broker.paused]
        return max(answering, key=lambda broker: (broker.image.revision, broker.id), default=None)

    def partitions(self, topic: str) -> dict[TopicPartition, PartitionView] | None:
        broker = self._informed()
        found = None if broker is None else broker.image.topics.get(topic)
        if found is None:
            return None
        return {
            TopicPartition(topic, index): PartitionView(state.leader, tuple(state.replicas), tuple(state.isr))
            for index, state in enumerate(found.partitions)
        }

    def partition(self, topic_partition: TopicPartition) -> PartitionView | None:
        partitions = self.partitions(topic_partition.topic)
        return None if partitions is None else partitions.get(topic_partition)

    def controller(self) -> int:
        cluster = self._cluster()
        held = cluster.store.held
        return NO_BROKER if held is None or self._informed() is None else held.holder


class SimClients:
    """Clients of the cluster that `cluster` gives once it is up."""

    def __init__(self, cluster: Callable[[], ConfiguredCluster]) -> None:
        self._cluster = cluster

    def view(self) -> SimView:
        return SimView(self._cluster)

    def script(self, settings: ProducerSettings, history: HistoryWriter, tally: Tally) -> SimScript:
        return SimScript(self._cluster(), settings, history, tally)

    def load(self, settings: LoadSettings, history: HistoryWriter, tally: Tally) -> SimLoad:
        return SimLoad(self._cluster(), settings, history, tally)

    def tail(self, partitions: Sequence[TopicPartition], history: HistoryWriter) -> SimTailReader:
        return SimTailReader(self._cluster(), partitions, history)

    def read_back(
        self,
        partitions: Sequence[TopicPartition],
        history: HistoryWriter,
        deadline_s: float,
        progress: ReadProgress | None = None,
    ) -> ReadBack:
        return read_back(self._cluster(), partitions, history, deadline_s, progress)

    def committed_records(self, partitions: Sequence[TopicPartition], deadline_s: float) -> list[ConsumedRecord]:
        return committed_records(self._cluster(), partitions, deadline_s)

    # -- topics ---------------------------------------------------------------------------------------------------------

    def create_topic(self, plan: TopicPlan, deadline_s: float) -> None:
        cluster, view = self._cluster(), self.view()
        deadline = cluster.now + deadline_s
        desired = _desired(plan)
        while view.partitions(plan.name) is None:
            problem = self._ask_for(desired)
            if problem is not None and (problem.code not in MAY_PASS or cluster.now > deadline):
                raise ToolTrouble(f"topic {plan.name} could not be created: {problem.code.name}: {problem}")
            cluster.run_for(POLL_S)
        wanted = set(plan.topic_partitions)

        def led() -> bool:
            found = view.partitions(plan.name) or {}
            return set(found) == wanted and all(partition.full for partition in found.values())

        if not cluster.run_until(led, max(0.0, deadline - cluster.now)):
            raise ToolTrouble(f"topic {plan.name} has no leaders and full ISR yet ({view.partitions(plan.name)})")

    def group(self, settings: GroupSettings, partitions: Sequence[TopicPartition], history: HistoryWriter) -> SimGroup:
        return SimGroup(self._cluster(), settings, partitions, history, self._ask_for)

    def _ask_for(self, desired: NewTopic) -> KafkaError | None:
        """Have the controller create a topic; why it did not, or None."""
        cluster = self._cluster()
        held = cluster.store.held
        if held is None:
            return NOT_CONTROLLER
        answers: list[Any] = []

        def decide(controller: Controller) -> KafkaError | None:
            try:
                controller.topics.create(desired)
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # else an earlier attempt whose answer was lost
                    return error
            return None

        def serve(broker: SimBroker, reply: Reply) -> None:
            if broker.role is None:
                reply(NOT_CONTROLLER)
            else:
                broker.role.submit(decide, reply)

        cluster.network.request(held.holder, serve, answers.append, lambda: answers.append(NOT_CONTROLLER))
        cluster.run_until(lambda: bool(answers), POLL_S)
        problem: KafkaError | None = answers[0] if answers else NOT_CONTROLLER
        return problem


def _desired(plan: TopicPlan) -> NewTopic:
    if plan.assignment:
        return NewTopic(plan.name, assignment=dict(enumerate(plan.assignment)), configs=plan.config)
    return NewTopic(plan.name, plan.partitions, plan.replication_factor, configs=plan.config)
