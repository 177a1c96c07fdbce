"""Where the replicas of new partitions go (R1): spread over brokers, over racks, and leaders evenly.

The rule is Kafka's ``StripedReplicaPlacer`` in spirit: brokers are ordered so that neighbours are in different racks, the
first replica walks through that order, and the others follow it at a shift that changes with every turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from minikafka.protocol.errors import ErrorCode, KafkaError


def rack_alternated(racks: Mapping[int, str | None]) -> list[int]:
    """Broker ids ordered so that neighbours sit in different racks as far as possible."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker] or "", []).append(broker)
    columns = [by_rack[rack] for rack in sorted(by_rack)]
    return [broker for row in zip_longest(*columns) for broker in row if broker is not None]


def walk_start(racks: Mapping[int, str | None], leader: int) -> int:
    """The ``start`` that gave the first partition this preferred leader, so that a growing topic goes on where it was."""
    order = rack_alternated(racks)
    return order.index(leader) if leader in order else 0


def place(
    racks: Mapping[int, str | None], partitions: int, replication_factor: int, start: int, first_partition: int = 0
) -> list[tuple[int, ...]]:
    """Replica lists for ``partitions`` new partitions, the preferred leader first.

    Args:
        racks: rack by broker id, of the brokers that are alive; None for a broker without one.
        start: where to begin the walk; the caller varies it, so that single-partition topics do not all lead on one broker.
        first_partition: index of the first new partition (when a topic grows).

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR when there are fewer brokers than replicas.
    """
    if replication_factor < 1 or replication_factor > len(racks):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor} must be between 1 and the number of alive brokers, {len(racks)}",
        )
    order = rack_alternated(racks)
    return [
        _row(order, racks, start + first_partition + index, (first_partition + index) // len(order), replication_factor)
        for index in range(partitions)
    ]


def _row(
    order: Sequence[int], racks: Mapping[int, str | None], lead: int, turn: int, replication_factor: int
) -> tuple[int, ...]:
    """One partition: the leader by position, then walk on, taking unused racks first and any broker when none is left."""
    count = len(order)
    rack_count = len({racks[b] for b in order})
    row = [order[lead % count]]
    shift = 1 + turn % max(count - 1, 1)
    candidates = [order[(lead + (shift + step) % count) % count] for step in range(count)]
    candidates = [b for b in candidates if b != row[0]]
    used = {racks[row[0]]}
    for broker in candidates:
        if len(row) == replication_factor:
            break
        if racks[broker] in used and len(used) < rack_count:
            continue
        row.append(broker)
        used.add(racks[broker])
    for broker in candidates:
        if len(row) == replication_factor:
            break
        if broker not in row:
            row.append(broker)
    return tuple(row)


def check_manual_assignment(assignment: Sequence[Sequence[int]], brokers: Mapping[int, str | None]) -> None:
    """A hand-made assignment: same size everywhere, no broker twice in a row, only known brokers.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT naming the partition.
    """
    for index, row in enumerate(assignment):
        if not row:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {index} has no replicas")
        if len(set(row)) != len(row):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {index} names a broker twice: {list(row)}"
            )
        if len(row) != len(assignment[0]):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"partition {index} has {len(row)} replicas, partition 0 has {len(assignment[0])}",
            )
        unknown = [b for b in row if b not in brokers]
        if unknown:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {index} names unknown brokers: {unknown}"
            )
