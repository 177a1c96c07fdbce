"""AlterPartition at the controller: every check, in order."""

import pytest
from minikafka.controller.workspace import ControllerConfig
from minikafka.metadata.image import RECOVERED, RECOVERING, PartitionState
from minikafka.protocol.errors import ErrorCode

from .desk import Desk

STATE = PartitionState((1, 2, 3), (1, 2), 1, leader_epoch=5, partition_epoch=9)


def desk(state: PartitionState = STATE, **options: ControllerConfig) -> Desk:
    return Desk(state, **options)  # type: ignore[arg-type]


class TestAnswers:
    def test_a_change_is_written_and_answered(self) -> None:
        """KIP-497: the answer carries the new state."""
        at = desk()
        answer = at.set_isr(1, 2, 3)
        assert answer == (ErrorCode.NONE, 5, 10, (1, 2, 3), RECOVERED)
        assert (at.state().isr, at.state().partition_epoch) == ((1, 2, 3), 10)
        changes, _ = at.controller.take_changes()
        assert changes["topic/t"]["partitions"][0]["isr"] == [1, 2, 3]

    def test_the_same_isr_takes_the_next_partition_epoch(self) -> None:
        """So nothing comes any more of what its leader has asked for before. Kafka writes nothing here."""
        at = desk()
        earlier = at.proposal((1, 2, 3))
        assert at.set_isr(1, 2) == (ErrorCode.NONE, 5, 10, (1, 2), RECOVERED)
        assert (at.state().leader, at.state().isr, at.state().partition_epoch) == (1, (1, 2), 10)
        assert at.ask(earlier).error is ErrorCode.INVALID_UPDATE_VERSION

    def test_it_ends_an_unclean_elections_recovery(self) -> None:
        """KIP-704: the leader confirms with RECOVERED."""
        at = desk(PartitionState((1, 2, 3), (1,), 1, 5, 9, recovery_state=RECOVERING))
        assert at.set_isr(1, 2).error is ErrorCode.NONE
        assert at.state().recovery_state == RECOVERED

    def test_it_may_stay_in_recovery(self) -> None:
        """KIP-704: RECOVERING is accepted alone, and means that nothing is over yet."""
        at = desk(PartitionState((1, 2, 3), (1,), 1, 5, 9, recovery_state=RECOVERING))
        assert at.ask(at.proposal((1,), recovery_state=RECOVERING)).error is ErrorCode.NONE
        assert at.state().recovery_state == RECOVERING


class TestChecks:
    """Kafka's order: each case breaks its own check and all those after it that it can."""

    def test_1_the_senders_incarnation(self) -> None:
        """KIP-841: STALE_BROKER_EPOCH, before anything else is looked at."""
        at = desk()
        wrong = at.proposal((2,), leader_epoch=99, topic_id=b"x" * 16)
        assert at.ask(wrong, sender_epoch=9).error is ErrorCode.STALE_BROKER_EPOCH
        assert at.partitions.alter(99, 1, wrong).error is ErrorCode.STALE_BROKER_EPOCH

    def test_2_the_topic_and_the_partition(self) -> None:
        """KIP-516: by topic id, so that a topic of the same name is another one."""
        at = desk()
        assert at.ask(at.proposal((2,), topic_id=b"x" * 16, leader_epoch=99)).error is ErrorCode.UNKNOWN_TOPIC_ID
        missing = at.proposal((2,), leader_epoch=99)
        missing = missing._replace(topic_partition=missing.topic_partition._replace(partition=7))
        assert at.ask(missing).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(6, 9), (5, 10), (4, 10)])
    def test_3_an_epoch_above_the_controllers(self, leader_epoch: int, partition_epoch: int) -> None:
        """KIP-497: it is the controller that is behind: NOT_CONTROLLER, and the leader asks again."""
        at = desk()
        ahead = at.proposal((2,), leader_epoch=leader_epoch, partition_epoch=partition_epoch)
        assert at.ask(ahead, sender=2).error is ErrorCode.NOT_CONTROLLER

    def test_4_a_leader_epoch_below(self) -> None:
        """R12, KIP-497: a leader of an older term is fenced."""
        at = desk()
        assert at.ask(at.proposal((2,), leader_epoch=4, partition_epoch=8), 2).error is ErrorCode.FENCED_LEADER_EPOCH

    def test_5_only_the_leader_may_ask(self) -> None:
        """KIP-497: INVALID_REQUEST."""
        at = desk()
        assert at.ask(at.proposal((2,), partition_epoch=8), sender=2).error is ErrorCode.INVALID_REQUEST

    def test_6_a_partition_epoch_below(self) -> None:
        """KIP-497: compare-and-set: a proposal made before the last change would overwrite it.

        Simulator bug no-partition-epoch.
        """
        at = desk()
        stale = at.proposal((1, 2, 3))
        at.set_isr(1)
        assert at.ask(stale).error is ErrorCode.INVALID_UPDATE_VERSION
        assert at.state().isr == (1,)

    @pytest.mark.parametrize("isr", [(1, 9), (2, 3), (), (1, 2, 2)])
    def test_7_members_are_replicas_and_the_leader_is_one(self, isr: tuple[int, ...]) -> None:
        """Fluss #3927, KIP-497: an ISR without its leader, with strangers, or with somebody twice.

        Simulator bug shrink-without-leader.
        """
        at = desk()
        assert at.ask(at.proposal(isr, recovery_state=RECOVERING)).error is ErrorCode.INVALID_REQUEST
        assert at.state() == STATE

    def test_8_a_leader_in_recovery_is_alone(self) -> None:
        """KIP-704: nobody can be in sync with a log that is still being put in order."""
        at = desk(PartitionState((1, 2, 3), (1,), 1, 5, 9, recovery_state=RECOVERING))
        at.brokers.heartbeat(2, 20, True, False, 0.0)  # fenced, which would be the next check
        assert at.ask(at.proposal((1, 2), recovery_state=RECOVERING)).error is ErrorCode.INVALID_REQUEST

    def test_8_a_recovered_one_does_not_go_back(self) -> None:
        """KIP-704: only the controller starts a recovery."""
        at = desk()
        assert at.ask(at.proposal((1,), recovery_state=RECOVERING)).error is ErrorCode.INVALID_REQUEST

    def test_9_a_fenced_member(self) -> None:
        """KIP-841: INELIGIBLE_REPLICA; it is known not to be applied. Simulator bug accept-fenced."""
        at = desk()
        at.brokers.fence(at.image.brokers[3], "for the test")
        assert at.set_isr(1, 2, 3).error is ErrorCode.INELIGIBLE_REPLICA
        assert at.state() == STATE

    def test_9_a_member_in_controlled_shutdown(self) -> None:
        """KIP-841: it is about to go."""
        at = desk()
        at.brokers.heartbeat(3, 30, False, True, 0.0)
        assert at.set_isr(1, 2, 3).error is ErrorCode.INELIGIBLE_REPLICA

    def test_9_an_unregistered_member(self) -> None:
        """KIP-841: assigned, and never seen."""
        at = desk(PartitionState((1, 2, 9), (1, 2), 1, 5, 9))
        assert at.set_isr(1, 2, 9).error is ErrorCode.INELIGIBLE_REPLICA

    @pytest.mark.parametrize(("epoch", "error"), [
        (29, ErrorCode.INELIGIBLE_REPLICA), (31, ErrorCode.INELIGIBLE_REPLICA), (30, ErrorCode.NONE), (-1, ErrorCode.NONE),
    ])  # fmt: skip
    def test_9_a_member_of_another_incarnation(self, epoch: int, error: ErrorCode) -> None:
        """KIP-903: it was in sync before it was restarted; -1 (not known to the leader) is not checked.

        Simulator bug accept-rebooted.
        """
        at = desk()
        proposal = at.proposal((1, 2, 3))
        assert at.ask(proposal._replace(isr=(*proposal.isr[:2], (3, epoch)))).error is error

    def test_9_also_of_who_is_a_member_already(self) -> None:
        """KIP-841, with trust_isr: a restarted member keeps its seat, but a change that names it waits until it is back."""
        at = desk(config=ControllerConfig(trust_isr=True))
        at.die(2)
        at.register(2)
        assert at.state().isr == (1, 2)
        proposal = at.proposal((1, 2, 3))
        assert at.ask(proposal._replace(isr=((1, 10), (2, -1), (3, 30)))).error is ErrorCode.INELIGIBLE_REPLICA
        at.ready(2)
        assert at.set_isr(1, 2, 3).error is ErrorCode.NONE


def test_the_high_watermark_rule_and_this_one_keep_the_elr_right() -> None:
    """KIP-966: a shrink below the minimum makes the leaver eligible; with min ISR from the topic."""
    at = Desk(STATE, configs={"min.insync.replicas": "2"})
    at.set_isr(1)
    assert at.state().elr == (2,)
    at.set_isr(1, 3)
    assert at.state().elr == ()
