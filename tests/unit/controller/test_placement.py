"""Where replicas go (R1): properties of every placement."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from minikafka.controller.placement import check_manual_assignment, place, rack_alternated, walk_start
from minikafka.protocol.errors import ErrorCode, KafkaError

BROKERS = st.builds(lambda mask: [5 * bit for bit in range(12) if mask >> bit & 1], st.integers(1, (1 << 12) - 1))
"""One draw for all of them: Hypothesis takes its time for each."""
RACKS: tuple[str | None, ...] = ("a", "b", "c", None)


def spread(counts: Counter[int], among: list[int]) -> int:
    """How much more the busiest has than the idlest."""
    return max(counts[b] for b in among) - min(counts[b] for b in among)


@st.composite
def wishes(draw: st.DrawFn) -> tuple[dict[int, str | None], int, int, int]:
    """(racks by broker, partitions, replication factor 1 to 5, start)."""
    brokers, names, where = draw(BROKERS), draw(st.integers(1, 15)), draw(st.integers(0, (1 << 24) - 1))
    there = [name for bit, name in enumerate(RACKS) if names >> bit & 1]
    racks = {b: there[(where >> 2 * n) % 4 % len(there)] for n, b in enumerate(brokers)}
    factor = draw(st.integers(1, min(5, len(brokers))))
    return racks, draw(st.integers(1, 40)), factor, draw(st.integers(0, 100))


@settings(max_examples=300, deadline=None)
@given(wishes())
def test_every_placement(wish: tuple[dict[int, str | None], int, int, int]) -> None:
    """R1: never two replicas of one partition on one broker; as many as asked for, on brokers that are there; as many racks as
    there are, or as there are replicas; no broker is preferred for more than one partition more than another."""
    racks, partitions, factor, start = wish
    rows = place(racks, partitions, factor, start)
    assert len(rows) == partitions
    for row in rows:
        assert len(row) == len(set(row)) == factor
        assert set(row) <= set(racks)
        assert len({racks[b] for b in row}) == min(factor, len(set(racks.values())))
    assert spread(Counter(row[0] for row in rows), sorted(racks)) <= 1


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(BROKERS, st.integers(1, 5), st.integers(1, 6), st.integers(0, 100))
def test_replicas_are_spread_evenly(brokers: list[int], factor: int, turns: int, start: int) -> None:
    """R1: after every whole turn each broker has the same number of replicas; the followers of a leader vary."""
    factor = min(factor, len(brokers))
    rows = place(dict.fromkeys(brokers), turns * len(brokers), factor, start)
    assert spread(Counter(b for row in rows for b in row), brokers) == 0


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.integers(2, 4), st.integers(1, 3), st.integers(1, 5), st.integers(1, 4), st.integers(0, 50))
def test_replicas_are_spread_evenly_over_equal_racks(
    racks: int, brokers_per_rack: int, factor: int, turns: int, start: int
) -> None:
    """R1: the same with racks of the same size."""
    by_broker: dict[int, str | None] = {b: f"r{b % racks}" for b in range(racks * brokers_per_rack)}
    factor = min(factor, racks)
    rows = place(by_broker, turns * len(by_broker), factor, start)
    assert spread(Counter(b for row in rows for b in row), sorted(by_broker)) <= turns


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(wishes(), st.integers(1, 40))
def test_a_topic_grows_as_if_it_had_been_made_larger(
    wish: tuple[dict[int, str | None], int, int, int], more: int
) -> None:
    """R1: leaders stay even over old and new partitions."""
    racks, partitions, factor, start = wish
    rows = place(racks, partitions, factor, start)
    grown = place(racks, more, factor, walk_start(racks, rows[0][0]), partitions)
    assert grown == place(racks, partitions + more, factor, start)[partitions:]


def test_followers_of_a_leader_vary_from_turn_to_turn() -> None:
    """R1: when a broker dies, its leaderships go to more than one other."""
    rows = place(dict.fromkeys(range(5)), 20, 3, 0)
    assert len({row[1] for row in rows if row[0] == 0}) > 2


def test_neighbours_sit_in_different_racks() -> None:
    """R1: the walk alternates as long as it can."""
    assert rack_alternated({1: "a", 2: "a", 3: "b", 4: "b", 5: "b"}) == [1, 3, 2, 4, 5]
    assert walk_start({1: "a", 2: "a", 3: "b"}, 3) == 1
    assert walk_start({1: "a", 2: "a", 3: "b"}, 99) == 0, "the preferred leader of the first partition is not there"


@pytest.mark.parametrize("factor", [0, -1, 4])
def test_more_replicas_than_brokers(factor: int) -> None:
    """R1: refused, with the numbers."""
    with pytest.raises(KafkaError, match="between 1 and the number of alive brokers, 3") as refused:
        place(dict.fromkeys([1, 2, 3]), 1, factor, 0)
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([[]], "partition 0 has no replicas"),
        ([[1, 2], [2, 2]], "partition 1 names a broker twice"),
        ([[1, 2], [3]], "partition 1 has 1 replicas, partition 0 has 2"),
        ([[1, 9]], r"partition 0 names unknown brokers: \[9\]"),
    ],
)
def test_manual_assignments_are_checked(rows: list[list[int]], says: str) -> None:
    """R1: never two replicas of a partition on a broker, also by hand."""
    with pytest.raises(KafkaError, match=says) as refused:
        check_manual_assignment(rows, dict.fromkeys([1, 2, 3]))
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
