"""Finds what a history proves to be wrong. Pure functions: evidence in, anomalies out.

The rules are those of Jepsen's Kafka checker, of Redpanda's log player and of the TLA+ models of Kafka's replication;
each function names the ones it checks. They ask nothing of the cluster but the Kafka protocol, so a history of any
Kafka-compatible cluster can be judged.

Two ideas carry all of it. *Values are unique*, so a value names its send. And *unknown is not failed*: a send without
an answer may or may not be in the log, and either is right; only what was acknowledged must be there, and only what
definitely failed must not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator

from minikafka.protocol.types import TopicPartition

from minikafka_chaos.anomalies import Anomaly, Kind, Severity
from minikafka_chaos.evidence import Evidence, PartitionView, Send, Sitting
from minikafka_chaos.history import FAIL, OK


def lost_writes(evidence: Evidence) -> Iterator[Anomaly]:
    """A1 lost-write and A2 unseen (Jepsen); `produce_consume_validate` of Kafka's own system tests.

    Where a reader came to the end of the partition after the acknowledgement, the record must be in what it read. Where
    none did, only an offset that some reader passed can be called lost; see `undecided`.
    """
    for topic_partition, view in evidence.partitions.items():
        final = view.final
        present = {seen.value for seen in final.records} if final else set()
        holders = {seen.offset: seen.value for seen in final.records} if final else {}
        last_read = max(holders, default=-1)
        for send in evidence.acked(topic_partition):
            if final is None or (send.completed_at or 0.0) > final.assigned_at:
                yield from _lost_by_passing(view, send)
                continue
            if send.value in present or _expired(send, final):
                continue
            offset = send.offset
            passed = offset is not None and offset <= last_read
            now_there = holders.get(offset) if offset is not None else None
            where = f"offset {offset}" if offset is not None else "an untold offset"
            fate = f"now holds {now_there!r}" if now_there is not None else f"the partition ends at {final.end}"
            yield Anomaly(
                Kind.LOST_WRITE if passed else Kind.UNSEEN,
                Severity.ERROR,
                *topic_partition,
                offset,
                send.value,
                f"{send.value!r} was acknowledged at {where}, and is gone: {fate}",
                {
                    "acknowledged_at": send.completed_at,
                    "producer": send.process,
                    "offset_holds_now": now_there,
                    "final_reader": final.process,
                    "end_offset": final.end,
                    "read_earlier": send.value in view.offsets_of,
                },
            )


def _lost_by_passing(view: PartitionView, send: Send) -> Iterator[Anomaly]:
    if send.offset is None or send.value in view.offsets_of:
        return
    for sitting in view.sittings:
        if not sitting.records or sitting.start is None:
            continue
        last = max(seen.offset for seen in sitting.records)
        if sitting.start <= send.offset <= last:
            assert send.partition is not None
            yield Anomaly(
                Kind.LOST_WRITE,
                Severity.ERROR,
                send.topic,
                send.partition,
                send.offset,
                send.value,
                f"{send.value!r} was acknowledged at offset {send.offset}; reader {sitting.process} passed that offset "
                f"(from {sitting.start} to {last}) and nobody has read it",
                {"acknowledged_at": send.completed_at, "producer": send.process, "reader": sitting.process},
            )
            return


def undecided(evidence: Evidence) -> dict[TopicPartition, int]:
    """Partitions with acknowledged records of which the history cannot tell whether they survived, and how many.

    They make a verdict of Passed impossible: no reader came to the end of the partition after those acknowledgements.
    """
    counts: dict[TopicPartition, int] = {}
    for topic_partition, view in evidence.partitions.items():
        final = view.final
        waiting = sum(
            1
            for send in evidence.acked(topic_partition)
            if send.value not in view.offsets_of and (final is None or (send.completed_at or 0.0) > final.assigned_at)
        )
        if waiting:
            counts[topic_partition] = waiting
    return counts


def vanished_reads(evidence: Evidence) -> Iterator[Anomaly]:
    """A13 ConsistentRead (Vanlightly's TLA+): what was read once is read by every later reader of that offset."""
    for topic_partition, view in evidence.partitions.items():
        final = view.final
        if final is None:
            continue
        there = {(seen.offset, seen.value) for seen in final.records}
        reported: set[tuple[int, str]] = set()
        for sitting in view.sittings:
            for seen in sitting.records:
                record = (seen.offset, seen.value)
                if seen.index >= final.index or record in there or record in reported:
                    continue
                if final.start is not None and seen.offset < final.start:
                    continue
                reported.add(record)
                yield Anomaly(
                    Kind.VANISHED_READ,
                    Severity.ERROR,
                    *topic_partition,
                    seen.offset,
                    seen.value,
                    f"reader {seen.process} read {seen.value!r} at offset {seen.offset}; the final reader did not",
                    {"reader": seen.process, "read_at": seen.time, "final_reader": final.process},
                )


def duplicates(evidence: Evidence) -> Iterator[Anomaly]:
    """A3 duplicate: an error with an idempotent producer, else what retries are allowed to do."""
    severity = Severity.ERROR if evidence.settings.idempotence else Severity.NOTE
    places: dict[str, list[tuple[TopicPartition, int]]] = defaultdict(list)
    for topic_partition, view in evidence.partitions.items():
        final = view.final
        # Across readers a truncated first copy would look like a duplicate; one reader's copies are there together.
        records = ((s.value, s.offset) for s in final.records) if final else _all_reads(view)
        for value, offset in sorted(set(records)):
            places[value].append((topic_partition, offset))
    for value, found in places.items():
        if len(found) > 1:
            (topic, partition), offset = found[1]
            yield Anomaly(
                Kind.DUPLICATE,
                severity,
                topic,
                partition,
                offset,
                value,
                f"{value!r} is at {len(found)} offsets: {', '.join(f'{tp}@{o}' for tp, o in found)}",
                {"places": [[str(tp), o] for tp, o in found]},
            )


def _all_reads(view: PartitionView) -> Iterator[tuple[str, int]]:
    return ((value, offset) for value, offsets in view.offsets_of.items() for offset in offsets)


def inconsistent_offsets(evidence: Evidence) -> Iterator[Anomaly]:
    """A4 inconsistent-offsets: one offset, two values, over all acknowledgements and reads."""
    for topic_partition, view in evidence.partitions.items():
        for offset, values in sorted(view.values_at.items()):
            if len(values) > 1:
                told = ", ".join(f"{value!r} ({by})" for value, by in values.items())
                yield Anomaly(
                    Kind.INCONSISTENT_OFFSETS,
                    Severity.ERROR,
                    *topic_partition,
                    offset,
                    next(iter(values)),
                    f"offset {offset} holds {len(values)} values: {told}",
                    {"values": dict(values)},
                )


def aborted_reads(evidence: Evidence) -> Iterator[Anomaly]:
    """A5 aborted read (G1a): a record whose send definitely failed was read."""
    for topic_partition, view in evidence.partitions.items():
        for value, offsets in view.offsets_of.items():
            send = evidence.sends.get(value)
            if send is not None and send.outcome == FAIL:
                yield Anomaly(
                    Kind.ABORTED_READ,
                    Severity.ERROR,
                    *topic_partition,
                    min(offsets),
                    value,
                    f"the send of {value!r} failed ({send.error}), yet it was read at offset {min(offsets)}",
                    {"failed_at": send.completed_at, "error": send.error, "offsets": sorted(offsets)},
                )


def poll_order(evidence: Evidence) -> Iterator[Anomaly]:
    """A7 poll-skip and A8 nonmonotonic-poll, inside one poll (`int-`) and across polls.

    Offsets need not be contiguous (transaction markers and compaction leave holes); a hole is a skip only when the
    history knows of a record in it.
    """
    for topic_partition, view in evidence.partitions.items():
        taken = sorted(view.values_at)
        for sitting in view.sittings:
            previous = -1 if sitting.start is None else sitting.start - 1
            batch: int | None = None
            first = sitting.start is None
            for seen in sitting.records:
                inside = batch is not None and seen.batch == batch
                if not first and seen.offset <= previous:
                    kind = Kind.INT_NONMONOTONIC_POLL if inside else Kind.NONMONOTONIC_POLL
                    yield Anomaly(
                        kind,
                        Severity.ERROR,
                        *topic_partition,
                        seen.offset,
                        seen.value,
                        f"reader {seen.process} got offset {seen.offset} after offset {previous}",
                        {"reader": seen.process, "before": previous, "read_at": seen.time},
                    )
                elif not first and seen.offset > previous + 1:
                    missed = taken[bisect_right(taken, previous) : bisect_left(taken, seen.offset)]
                    if missed:
                        kind = Kind.INT_POLL_SKIP if inside else Kind.POLL_SKIP
                        yield Anomaly(
                            kind,
                            Severity.ERROR,
                            *topic_partition,
                            missed[0],
                            next(iter(view.values_at[missed[0]])),
                            f"reader {seen.process} jumped from offset {previous} to {seen.offset}, over "
                            f"{len(missed)} records that are known",
                            {"reader": seen.process, "from": previous, "to": seen.offset, "missed": missed[:20]},
                        )
                previous, batch, first = seen.offset, seen.batch, False


def send_order(evidence: Evidence) -> Iterator[Anomaly]:
    """A9 nonmonotonic-send: one producer's acknowledgements in a partition, in the order of its sends.

    Without idempotence a client may overtake itself, and then it is a note only. It does so with several requests in
    flight; and with one, where that is one for each connection: what the old leader never answered is sent again behind
    what the new leader has taken meanwhile (librdkafka #1092, #1969). Both show in the history: the earlier send was
    still open when the later one was acknowledged. Where it was not, the brokers have changed the order.
    """
    for topic_partition in evidence.partitions:
        highest: dict[int, Send] = {}
        for send in evidence.acked(topic_partition):
            if send.offset is None:
                continue
            before = highest.get(send.process)
            if before is not None and before.offset is not None and send.offset <= before.offset:
                overtaken = (before.completed_at or 0.0) > (send.completed_at or 0.0)
                excused = overtaken and not evidence.settings.idempotence
                yield Anomaly(
                    Kind.NONMONOTONIC_SEND,
                    Severity.NOTE if excused else Severity.ERROR,
                    *topic_partition,
                    send.offset,
                    send.value,
                    f"producer {send.process} sent {send.value!r} after {before.value!r}, and was told offsets "
                    f"{send.offset} and {before.offset}",
                    {"producer": send.process, "before": before.value, "before_offset": before.offset},
                )
            else:
                highest[send.process] = send


def ack_offsets(evidence: Evidence) -> Iterator[Anomaly]:
    """A15, first half (Redpanda's log player): a record is where its acknowledgement said it is."""
    for topic_partition, view in evidence.partitions.items():
        for value, offsets in view.offsets_of.items():
            send = evidence.sends.get(value)
            if send is None:
                continue
            if send.outcome == OK and send.offset is not None and send.offset not in offsets:
                yield Anomaly(
                    Kind.ACK_OFFSET,
                    Severity.ERROR,
                    *topic_partition,
                    send.offset,
                    value,
                    f"{value!r} was acknowledged at offset {send.offset} and is read at {_some(offsets)}",
                    {"acknowledged_offset": send.offset, "read_offsets": sorted(offsets)},
                )


def stale_offsets(evidence: Evidence) -> Iterator[Anomaly]:
    """A15, second half: a record gets no offset that somebody already knew to be taken when its send began.

    It holds for unknown sends as well: they may turn up late, but never so low. A log that was cut and written again
    breaks it for every record until the old end is passed: the first of each such run is reported.
    """
    for topic_partition, view in evidence.partitions.items():
        reported = -1
        for send in evidence.sends_of.get(topic_partition, ()):
            told = set(view.offsets_of.get(send.value, ()))
            if send.outcome == OK and send.offset is not None:
                told.add(send.offset)
            known = view.known_before(send.index)
            if told and min(told) <= known and known != reported:
                reported = known
                yield Anomaly(
                    Kind.STALE_OFFSET,
                    Severity.ERROR,
                    *topic_partition,
                    min(told),
                    send.value,
                    f"{send.value!r} got offset {min(told)}, but offset {known} was known to be taken before it was "
                    "sent",
                    {"offsets": sorted(told), "known": known, "invoked_at": send.invoked_at},
                )


def end_offsets(evidence: Evidence) -> Iterator[Anomaly]:
    """A14: the end offset that one client is told never goes back (Spark refuses to go on when it does)."""
    for topic_partition, view in evidence.partitions.items():
        for process, told in view.ends.items():
            highest_at, highest = 0.0, -1
            for time, offset in told:
                if offset < highest:
                    yield Anomaly(
                        Kind.END_OFFSET_WENT_BACK,
                        Severity.ERROR,
                        *topic_partition,
                        offset,
                        None,
                        f"client {process} was told end offset {highest}, and later {offset}",
                        {"client": process, "first": [highest_at, highest], "then": [time, offset]},
                    )
                    # Report each fall once, then watch from the new level.
                highest_at, highest = time, offset


CHECKS = (
    lost_writes,
    vanished_reads,
    duplicates,
    inconsistent_offsets,
    aborted_reads,
    poll_order,
    send_order,
    ack_offsets,
    stale_offsets,
    end_offsets,
)


def find_anomalies(evidence: Evidence) -> list[Anomaly]:
    """Every anomaly of every check, errors first."""
    found = [anomaly for check in CHECKS for anomaly in check(evidence)]
    found.sort(key=lambda anomaly: anomaly.severity is Severity.NOTE)
    return found


def _expired(send: Send, final: Sitting) -> bool:
    """Retention or DeleteRecords moved the start of the log past the record: gone, and rightly so."""
    return send.offset is not None and final.start is not None and send.offset < final.start


def _some(offsets: set[int]) -> str:
    ordered = sorted(offsets)
    return ", ".join(map(str, ordered[:5])) + (" ..." if len(ordered) > 5 else "")
