"""One leader under a magnifying glass: followers are mere numbers that fetch at an offset."""

from __future__ import annotations

from minikafka.metadata.image import PartitionState
from minikafka.protocol.errors import ErrorCode
from minikafka.replication.isr import AfterAnswer, AlterPartitionAnswer, IsrProposal
from minikafka.replication.leader import FollowerFetch, LeaderState

from .cluster import Replica


def lead(
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    *,
    min_isr: int = 1,
    lag: float = 10.0,
    records: int = 0,
    epoch: int = 0,
    recovery_state: int = 0,
) -> Replica:
    """Broker 1 leads since time 0 and has appended ``records`` records."""
    replica = Replica(1, min_isr=min_isr, lag=lag)
    state = PartitionState(replicas, isr, 1, leader_epoch=epoch, recovery_state=recovery_state)
    replica.partition.apply_state(state, 0.0)
    produce(replica, records)
    return replica


def term(replica: Replica) -> LeaderState:
    """The leader's state."""
    leader = replica.partition.leader
    assert leader is not None
    return leader


def produce(replica: Replica, records: int, now: float = 0.0) -> None:
    for number in range(records):
        replica.produce(f"m{number}", now)


def fetch_at(
    replica: Replica,
    follower: int,
    offset: int,
    now: float = 0.0,
    *,
    last_epoch: int = -1,
    broker_epoch: int = 1,
    log_start: int = -1,
) -> FollowerFetch:
    """``follower`` fetches at ``offset``: it has everything below."""
    leader = term(replica)
    return leader.follower_fetch(follower, broker_epoch, leader.epoch, offset, last_epoch, now, log_start)


def proposed(fetch: FollowerFetch) -> IsrProposal:
    """The ISR change that came of a fetch."""
    assert fetch.proposal is not None
    return fetch.proposal


def members(proposal: IsrProposal | None) -> tuple[int, ...] | None:
    """The ISR that is asked for."""
    return None if proposal is None else tuple(member for member, _ in proposal.isr)


def accept(replica: Replica, proposal: IsrProposal, now: float = 0.0) -> AfterAnswer:
    """The controller writes what was asked for."""
    isr = tuple(member for member, _ in proposal.isr)
    answer = AlterPartitionAnswer(ErrorCode.NONE, proposal.leader_epoch, proposal.partition_epoch + 1, isr)
    return term(replica).answered(proposal, answer, now)
