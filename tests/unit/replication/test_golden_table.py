"""The golden table of one record through one leader and one follower (rules R3 to R6), row by row."""

from minikafka.metadata.image import PartitionState

from .cluster import Exchange, Replica, states

STATE = PartitionState(replicas=(1, 2), isr=(1, 2), leader=1)


def row(leader: Replica, follower: Replica) -> tuple[int, int, int, int, int]:
    """(leader LEO, remote LEO, leader HW, follower LEO, follower HW); an unknown remote LEO shows as 0, as in the table."""
    assert leader.partition.leader is not None
    remote = max(leader.partition.leader.remotes[2].leo, 0)
    return leader.leo, remote, leader.hw, follower.leo, follower.hw


def test_one_record_through_one_leader_and_one_follower() -> None:
    leader, follower = Replica(1), Replica(2)
    states([leader, follower], STATE)
    assert row(leader, follower) == (0, 0, 0, 0, 0), "start"

    leader.produce("m0")
    assert row(leader, follower) == (1, 0, 0, 0, 0), "producer writes"

    first = Exchange(follower, leader).ask()
    assert row(leader, follower) == (1, 0, 0, 0, 0), "follower fetches (offset 0), leader updates"

    follower_state = follower.partition.follower
    assert follower_state is not None and first.answer is not None
    follower_state.append(memoryview(bytearray(first.answer[4])))
    assert row(leader, follower) == (1, 0, 0, 1, 0), "leader responds, follower appends"

    follower_state.take_high_watermark(first.answer[2])
    assert row(leader, follower) == (1, 0, 0, 1, 0), "follower updates HW = min(1, 0)"

    second = Exchange(follower, leader).ask()
    assert row(leader, follower) == (1, 1, 1, 1, 0), "follower fetches (offset 1), leader updates"

    assert second.answer is not None and second.answer[2] == 1
    assert row(leader, follower) == (1, 1, 1, 1, 0), "leader responds"

    second.deliver()
    assert row(leader, follower) == (1, 1, 1, 1, 1), "follower updates HW = min(1, 1)"
