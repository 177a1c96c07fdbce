"""ISR changes in a simulation: proposals on their way to the controller, one request at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.replication.isr import AfterAnswer, AlterPartitionAnswer, IsrProposal

from minikafka_chaos.simulation import reports
from minikafka_chaos.simulation.following import BACKOFF
from minikafka_chaos.simulation.role import NOT_CONTROLLER

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker


class IsrAnnouncer:
    """One incarnation's AlterPartition requests; mirrors ``minikafka.server``'s sender of them."""

    def __init__(self, broker: SimBroker) -> None:
        self.broker = broker
        self._proposals: dict[TopicPartition, IsrProposal] = {}
        self._altering = False

    def tick(self) -> None:
        """Look for members that lag, now and again in a while."""
        now = self.broker.world.now
        for partition in self.broker.partitions.values():
            if partition.leader is not None:
                before = partition.high_watermark
                self.propose(partition.leader.maybe_shrink(now))
                partition.leader.maybe_advance_high_watermark(now)
                if partition.high_watermark != before:
                    self.broker.leading.moved(partition)
        self.broker.later(self.broker.world.lag / 2, self.tick)

    def propose(self, proposal: IsrProposal | None) -> None:
        """Have the controller asked for another ISR."""
        if proposal is None:
            return
        self.broker.world.note(
            f"b{self.broker.id} {proposal.topic_partition} proposes isr {[m for m, _ in proposal.isr]}"
        )
        self.broker.world.isr_proposed(self.broker, proposal)
        self._proposals[proposal.topic_partition] = proposal
        self._alter()

    def _alter(self) -> None:
        """One request in flight; an answer that does not come means an unknown outcome."""
        if self._altering or not self._proposals:
            return
        self._altering = True
        batch, self._proposals = list(self._proposals.values()), {}
        epoch = self.broker.broker_epoch
        state = {"open": True}

        def decide(controller: Any) -> list[AlterPartitionAnswer]:
            return [controller.partitions.alter(self.broker.id, epoch, p) for p in batch]

        def finish(answers: Any) -> None:
            if not state["open"]:
                return
            state["open"] = False
            retry = False
            for index, proposal in enumerate(batch):
                if answers is None or answers == NOT_CONTROLLER:
                    answer = AlterPartitionAnswer(ErrorCode.REQUEST_TIMED_OUT)
                else:
                    answer = answers[index]
                if self._altered(proposal, answer):
                    self._proposals.setdefault(proposal.topic_partition, proposal)
                    retry = True
            self._altering = False
            if retry:
                self.broker.later(BACKOFF, self._alter)
            else:
                self._alter()

        self.broker.membership.ask_controller(decide, finish)
        self.broker.later(0.5, lambda: finish(None))

    def _altered(self, proposal: IsrProposal, answer: AlterPartitionAnswer) -> bool:
        partition = self.broker.partitions.get(proposal.topic_partition)
        leader = None if partition is None else partition.leader
        if partition is None or leader is None or leader.isr.pending is not proposal:
            return False
        before, isr = partition.high_watermark, leader.isr.committed
        after = leader.answered(proposal, answer, self.broker.world.now)
        self.broker.world.note(
            f"b{self.broker.id} {proposal.topic_partition} isr answer {answer.error.name} -> "
            f"{list(leader.isr.committed)} {after.value}"
        )
        reports.isr_changed(self.broker, partition.topic_partition, isr)
        if partition.high_watermark != before:
            self.broker.leading.moved(partition)
        return after is AfterAnswer.RETRY
