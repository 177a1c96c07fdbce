"""flush.messages: who counts for a record has it on disk first (R17; Kafka's ``UnifiedLog.append`` flushes before it returns)."""

from __future__ import annotations

import pytest
from minikafka.log.config import FOREVER
from minikafka.metadata.image import PartitionState
from minikafka.protocol.errors import ErrorCode

from .cluster import Replica, batch, catch_up, fetch, states
from .leading import fetch_at, produce, term

ALONE = PartitionState((1,), (1,), 1)
BOTH = PartitionState((1, 2), (1, 2), 1)


def leader(state: PartitionState, flush_messages: int = 1) -> Replica:
    replica = Replica(1, flush_messages=flush_messages)
    states([replica], state)
    return replica


def flush(replica: Replica) -> None:
    """The disk is done, and whoever waited for it looks again."""
    replica.flush()
    if replica.partition.leader is not None:
        replica.partition.leader.maybe_advance_high_watermark(0.0)


def test_a_leader_alone_commits_when_it_has_flushed() -> None:
    """R4, R17: with one replica the flush is all there is between a record and a power loss."""
    replica = leader(ALONE)
    produce(replica, 2)
    assert (replica.leo, replica.hw) == (2, 0)
    assert term(replica).acknowledgement(2) is None and not term(replica).appended_safely(2)
    flush(replica)
    assert replica.hw == 2
    assert term(replica).acknowledgement(2) is ErrorCode.NONE and term(replica).appended_safely(2)


def test_the_leader_waits_for_its_own_disk_though_its_followers_have_it() -> None:
    """R4, R17: simulator bug leader-flushes-late."""
    replica = leader(BOTH)
    produce(replica, 1)
    fetch_at(replica, 2, 1)
    assert replica.hw == 0
    flush(replica)
    assert replica.hw == 1


def test_a_follower_does_not_tell_before_it_has_flushed() -> None:
    """R5, R17: the offset of its next fetch is its acknowledgement. Simulator bug follower-flushes-late."""
    first, second = Replica(1), Replica(2, flush_messages=1)
    states([first, second], BOTH)
    produce(first, 1)
    follower = second.partition.follower
    assert follower is not None and follower.may_ask()
    fetch(second, first)
    assert second.leo == 1 and not follower.may_ask()
    second.flush()
    assert follower.may_ask()
    fetch(second, first)
    assert first.hw == 1


def test_every_third_record_waits_when_every_third_is_flushed() -> None:
    """Kafka's ``unflushedMessages >= flushInterval``: the append that reaches the number waits, those before it do not."""
    replica = leader(ALONE, 3)
    produce(replica, 2)
    assert replica.hw == 2
    produce(replica, 1)
    assert replica.hw == 2 and not term(replica).appended_safely(3)
    flush(replica)
    produce(replica, 2)
    assert replica.hw == 5


def test_a_batch_counts_with_all_its_records() -> None:
    replica = leader(ALONE, 3)
    term(replica).append(batch("x", 5), 1_700_000_000_000, 0.0)
    assert (replica.leo, replica.hw) == (5, 0)
    flush(replica)
    assert replica.hw == 5


@pytest.mark.parametrize("flush_messages", [1, 2, FOREVER])
def test_a_power_loss_takes_fewer_records_than_flush_messages(flush_messages: int) -> None:
    """All brokers lose power with five records acknowledged: R17, and the point of the setting."""
    both = [Replica(1, flush_messages=flush_messages), Replica(2, flush_messages=flush_messages)]
    states(both, BOTH)
    first, second = both
    for _ in range(5):
        produce(first, 1)
        for _ in range(2):
            for replica in both:
                if replica.partition.log.owes_flush:
                    flush(replica)
            catch_up(second, first)
    assert first.hw == 5
    for replica in both:
        replica.power_loss()
    lost = 5 - max(replica.leo for replica in both)
    assert lost == {1: 0, 2: 1, FOREVER: 5}[flush_messages]
