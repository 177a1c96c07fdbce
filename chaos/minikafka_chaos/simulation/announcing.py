"""ISR changes of a simulated broker: carries what production's queue of them wants asked to the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.protocol.errors import KafkaError
from minikafka.replication.isr import AlterPartitionAnswer, IsrProposal
from minikafka.replication.isr_requests import RETRY_SECONDS

if TYPE_CHECKING:
    from minikafka_chaos.simulation.broker import SimBroker

ANSWER_SECONDS_MAX = 0.5
"""An answer that does not come by then means an unknown outcome."""


class IsrAnnouncer:
    """One incarnation's AlterPartition requests."""

    def __init__(self, broker: SimBroker) -> None:
        self.broker = broker
        self._requests = broker.world.rules.isr_requests()
        self._waits = False

    def tick(self) -> None:
        """Look for members that lag, now and again in a while."""
        self.broker.leading.replicas.isr_tick()
        self.broker.later(self.broker.world.lag / 2, self.tick)

    def propose(self, proposal: IsrProposal) -> None:
        """Have the controller asked for another ISR."""
        self.broker.world.note(
            f"b{self.broker.id} {proposal.topic_partition} proposes isr {[m for m, _ in proposal.isr]}"
        )
        self.broker.world.isr_proposed(self.broker, proposal)
        self._requests.propose(proposal)
        if not self._waits:
            self._ask()

    def _ask(self) -> None:
        self._waits = False
        batch = self._requests.next_request()
        if not batch:
            return
        epoch = self.broker.broker_epoch
        state = {"open": True, "answered": False}

        def decide(controller: Any) -> list[AlterPartitionAnswer]:
            if state["answered"]:
                return []  # a message that comes twice; a connection brings none after its own answer
            return [controller.partitions.alter(self.broker.id, epoch, p) for p in batch]

        def finish(answers: Any) -> None:
            if not state["open"]:
                return
            state["open"] = False
            state["answered"] = isinstance(answers, list)
            known = None if isinstance(answers, KafkaError) else answers
            if self._requests.answered(batch, known, self._answered):
                self._waits = True
                self.broker.later(RETRY_SECONDS, self._ask)
            else:
                self._ask()

        self.broker.membership.ask_controller(decide, finish)
        self.broker.later(ANSWER_SECONDS_MAX, lambda: finish(None))

    def _answered(self, proposal: IsrProposal, answer: AlterPartitionAnswer | None) -> bool:
        came = self.broker.leading.replicas.isr_answered(proposal, answer)
        if came is None:
            return False
        self.broker.world.note(
            f"b{self.broker.id} {proposal.topic_partition} isr answer {came.error.name} -> "
            f"{list(came.isr)} {'again' if came.again else 'done'}"
        )
        self.broker.leading.reporter.isr_settled(proposal, came)
        return came.again
