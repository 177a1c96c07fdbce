"""A controller on a desk: brokers and partitions as a test wants them, no store and no clock."""

from __future__ import annotations

from uuid import UUID

from minikafka.controller.brokers import Registration
from minikafka.controller.controller import Controller
from minikafka.controller.workspace import ControllerConfig, Event
from minikafka.metadata.image import MIN_ISR, NO_LEADER, BrokerState, ClusterImage, PartitionState, TopicState
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.replication.isr import AlterPartitionAnswer, IsrProposal

CLUSTER = "a-cluster"
TOPIC_ID = UUID(int=1)
LISTENER = (("PLAINTEXT", "localhost", 9092),)


def broker(broker_id: int, *, epoch: int = 0, rack: str | None = None, fenced: bool = False) -> BrokerState:
    """A registered broker; its epoch is 10 times its id when none is given."""
    return BrokerState(broker_id, epoch or broker_id * 10, f"incarnation-{broker_id}", LISTENER, rack, fenced)


class Desk:
    """A controller over brokers 1 to ``brokers``, all alive, and topic ``t`` with the given partitions."""

    def __init__(
        self,
        *partitions: PartitionState,
        brokers: int = 3,
        config: ControllerConfig | None = None,
        configs: dict[str, str] | None = None,
        connected: bool = True,
    ) -> None:
        image = ClusterImage(CLUSTER)
        for broker_id in range(1, brokers + 1):
            image.brokers[broker_id] = broker(broker_id)
        if partitions:
            image.put_topic(TopicState("t", TOPIC_ID, partitions, configs or {}))
        self._ids = 100
        config = config or ControllerConfig()
        image.broker_configs[""] = {MIN_ISR: str(config.min_insync_replicas)}  # as an earlier controller left it
        self.controller = Controller(image, 1, config, 0.0, self._new_uuid)
        self.image = self.controller.image
        self.brokers = self.controller.brokers
        self.partitions = self.controller.partitions
        self.topics = self.controller.topics
        if connected:
            for session in self.brokers.sessions.values():
                session.connected = True

    def _new_uuid(self) -> UUID:
        self._ids += 1
        return UUID(int=self._ids)

    def state(self, index: int = 0) -> PartitionState:
        return self.image.topics["t"].partitions[index]

    def events(self) -> list[Event]:
        """What happened since the last call."""
        return self.controller.take_changes()[1]

    # -- brokers ----------------------------------------------------------------------------------------------------------

    def die(self, broker_id: int) -> None:
        """Its process is gone, and its connection with it."""
        self.brokers.connection_lost(broker_id, self.image.brokers[broker_id].epoch)

    def register(
        self, broker_id: int, incarnation: str = "new", *, clean: bool = False, now: float = 0.0
    ) -> tuple[ErrorCode, int]:
        known = self.image.brokers.get(broker_id)
        previous = known.epoch if known is not None and clean else -1
        return self.brokers.register(Registration(broker_id, CLUSTER, incarnation, LISTENER, None, previous), now)

    def ready(self, broker_id: int, now: float = 0.0) -> None:
        """Its heartbeat says that it has caught up with the metadata: it is unfenced."""
        answer = self.brokers.heartbeat(broker_id, self.image.brokers[broker_id].epoch, False, False, now)
        assert (answer.error, answer.fenced) == (ErrorCode.NONE, False)

    def come_back(self, broker_id: int, *, clean: bool = False) -> None:
        """It starts again after a clean or unclean stop, and is unfenced."""
        self.register(broker_id, f"after-{self.image.brokers[broker_id].incarnation}", clean=clean)
        self.ready(broker_id)

    # -- partitions ---------------------------------------------------------------------------------------------------------

    def proposal(self, isr: tuple[int, ...], index: int = 0, **changed: int | bytes) -> IsrProposal:
        """What the leader of a partition would ask for, with the broker epochs of now."""
        old = self.state(index)
        epochs = tuple((m, self.image.brokers[m].epoch if m in self.image.brokers else -1) for m in isr)
        proposal = IsrProposal(
            TopicPartition("t", index), TOPIC_ID.bytes, old.leader_epoch, old.partition_epoch, epochs, 0
        )
        return proposal._replace(**changed)  # type: ignore[arg-type]

    def ask(
        self, proposal: IsrProposal, sender: int | None = None, sender_epoch: int | None = None
    ) -> AlterPartitionAnswer:
        """The leader (or ``sender``) sends an AlterPartition."""
        sender = self.state().leader if sender is None else sender
        assert sender != NO_LEADER
        epoch = self.image.brokers[sender].epoch if sender_epoch is None else sender_epoch
        return self.partitions.alter(sender, epoch, proposal)

    def set_isr(self, *isr: int) -> AlterPartitionAnswer:
        """The leader has its ISR changed."""
        return self.ask(self.proposal(isr))
