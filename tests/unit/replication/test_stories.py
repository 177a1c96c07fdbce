"""Stories A and B (KIP-101) on the sans-I/O core, in both truncation modes; the verdict is computed from logs and acks."""

from dataclasses import replace

import pytest
from minikafka.metadata.image import PartitionState
from minikafka.replication.partition import TruncationMode

from .cluster import Exchange, Replica, catch_up, fetch, states

MODES = [TruncationMode.LEADER_EPOCH, TruncationMode.HIGH_WATERMARK]


class Client:
    """Produces with acks=all and remembers what was acknowledged."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, str]] = []
        self.acknowledged: list[tuple[int, str]] = []

    def produce(self, leader: Replica, value: str) -> None:
        self.waiting.append((leader.produce(value), value))

    def look(self, leader: Replica) -> None:
        state = leader.partition.leader
        assert state is not None
        for offset, value in list(self.waiting):
            if state.acknowledgement(offset + 1) == 0:
                self.waiting.remove((offset, value))
                self.acknowledged.append((offset, value))


def lost(client: Client, replica: Replica) -> list[str]:
    """Acknowledged values that this replica does not hold at their offset."""
    values = replica.values()
    return [v for o, v in client.acknowledged if o >= len(values) or values[o] != v]


def diverging(a: Replica, b: Replica) -> list[tuple[int, str, str]]:
    """Offsets at which two replicas hold different records."""
    return [(o, x, y) for o, (x, y) in enumerate(zip(a.values(), b.values(), strict=False)) if x != y]


@pytest.mark.parametrize("mode", MODES)
def test_story_a_acknowledged_record(mode: TruncationMode) -> None:
    """R13. A restarts with HW 1 and LEO 2, then the leader B dies: truncating to the HW loses the acknowledged m1."""
    a, b = Replica(1, mode), Replica(2, mode)
    state = PartitionState(replicas=(2, 1), isr=(2, 1), leader=2)
    states([a, b], state)
    client = Client()
    client.produce(b, "m0")
    catch_up(a, b)
    client.produce(b, "m1")
    fetch(a, b)
    Exchange(a, b).ask()  # B learns that A has m1 and answers, but A never sees that answer
    client.look(b)
    assert (b.hw, a.leo, a.hw) == (2, 2, 1)
    assert [v for _, v in client.acknowledged] == ["m0", "m1"]

    a.restart()
    states([a], state)
    # before A fetches again, B crashes; A is in the ISR and leads
    led_by_a = replace(state, leader=1, isr=(1,), leader_epoch=1, partition_epoch=1)
    states([a], led_by_a)
    b.restart()
    states([b], led_by_a)
    catch_up(b, a)

    assert diverging(a, b) == []
    if mode is TruncationMode.LEADER_EPOCH:
        assert lost(client, a) == lost(client, b) == []
        assert a.partition.log.epochs.entries == [(0, 0), (1, 2)]
    else:
        assert lost(client, a) == lost(client, b) == ["m1"]


@pytest.mark.parametrize("mode", MODES)
def test_story_b_silent_divergence(mode: TruncationMode) -> None:
    """R13, R17. Both lose power, B without m1 on disk returns first: truncating to the HW leaves m1 on A, m2 on B for ever."""
    a, b = Replica(1, mode), Replica(2, mode)
    state = PartitionState(replicas=(1, 2), isr=(1, 2), leader=1)
    states([a, b], state)
    client = Client()
    client.produce(a, "m0")
    catch_up(b, a)
    b.flush()
    client.produce(a, "m1")
    fetch(b, a)
    Exchange(b, a).ask()
    client.look(a)
    a.flush()
    assert (a.leo, a.hw, b.leo, b.hw) == (2, 2, 2, 1)

    a.power_loss()
    b.power_loss()
    assert (a.leo, b.leo) == (2, 1)
    led_by_b = replace(state, leader=2, isr=(2,), leader_epoch=1, partition_epoch=1)
    states([b], led_by_b)
    client.produce(b, "m2")
    client.look(b)
    assert b.hw == 2
    states([a], led_by_b)
    for _ in range(4):
        fetch(a, b)

    if mode is TruncationMode.LEADER_EPOCH:
        assert diverging(a, b) == []
        assert a.values() == b.values() == ["m0", "m2"]
        assert b.partition.log.epochs.entries == [(0, 0), (1, 1)]
    else:
        assert diverging(a, b) == [(1, "m1", "m2")]
    assert lost(client, b) == ["m1"], "losing m1 is accepted in this story: every member of the ISR lost power"
