"""Finds what the evidence proves to be wrong: one query for each kind of anomaly, as docs/reference/verdicts.md defines it.

The rules are those of Jepsen's Kafka checker, of Redpanda's log player and of the TLA+ models of Kafka's replication.
Two ideas carry all of them. *Values are unique*, so a value names its send. And *unknown is not failed*: a send without
an answer may or may not be in the log, and either is right; only what was acknowledged must be there, and only what
definitely failed must not.

A query gives topic, part, pos, value and `note`, and whatever else its sentence needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from minikafka_chaos.record.history import WorkloadSettings
from minikafka_chaos.verdict.anomalies import Anomaly, AnomalyKind, Severity
from minikafka_chaos.verdict.evidence import Evidence

EXAMPLES_MAX = 20
"""Of each kind: the count tells the size, the first few tell the story."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Check:
    """A kind of anomaly, the query that finds it, and its sentence. Queries may use `$idempotence`.

    It is not asked where there are no rows of what it is `about` (a table, or one with a condition): it would find nothing.
    """

    kind: AnomalyKind
    query: str
    sentence: Callable[[Row], str]
    about: str | None = None


@dataclass(slots=True)
class AnomalySummary:
    """How many of one kind, how many of them are errors, and the first few."""

    kind: AnomalyKind
    number: int
    errors: int
    examples: list[Anomaly]


def find(
    evidence: Evidence, checks: Iterable[Check], settings: WorkloadSettings, strict: frozenset[AnomalyKind]
) -> list[AnomalySummary]:
    """Return what each check finds; kinds without any are left out. `strict` kinds are errors also where they would be notes."""
    found = []
    is_there: dict[str | None, bool] = {None: True}
    for check in checks:
        if check.about not in is_there:
            is_there[check.about] = evidence.one(f"SELECT 1 FROM {check.about} LIMIT 1") is not None
        if not is_there[check.about]:
            continue
        query = check.query.replace("$idempotence", str(settings.idempotence).lower())
        evidence.run(f"CREATE OR REPLACE TEMP TABLE found AS {query}")
        number, notes = evidence.db.execute("SELECT count(*), count(*) FILTER (note) FROM found").fetchall()[0]
        if not number:
            continue
        rows = evidence.rows(
            f"SELECT * FROM found ORDER BY note, topic, part, pos NULLS FIRST, value NULLS FIRST LIMIT {EXAMPLES_MAX}"
        )
        lenient = check.kind not in strict
        examples = [_anomaly(check, row, lenient) for row in rows]
        found.append(AnomalySummary(check.kind, number, number - notes * lenient, examples))
    return found


def _anomaly(check: Check, row: Row, lenient: bool) -> Anomaly:
    severity = Severity.NOTE if row["note"] and lenient else Severity.ERROR
    about = {name: value for name, value in row.items() if name not in ("topic", "part", "pos", "value", "note")}
    return Anomaly(
        check.kind, severity, row["topic"], row["part"], row["pos"], row["value"], check.sentence(row), about
    )


# -- loss --------------------------------------------------------------------------------------------------------------

_LOST = """
    SELECT s.topic, s.part, s.pos, s.value, false AS note, s.done AS acknowledged_at, s.process AS producer,
           h.value AS offset_holds_now, f.start AS log_start, f."end" AS end_offset, r.value IS NOT NULL AS read_earlier
    FROM (SELECT * FROM fates WHERE fate = '{}') s LEFT JOIN finals f USING (tp)
    LEFT JOIN (SELECT tp, pos, min(value) AS value FROM final_reads
               SEMI JOIN (SELECT tp, pos FROM fates WHERE fate = '{}') USING (tp, pos) GROUP BY tp, pos) h
      ON h.tp = s.tp AND h.pos = s.pos
    LEFT JOIN present r ON r.tp = s.tp AND r.value = s.value
"""


def _loss(kind: AnomalyKind, sentence: Callable[[Row], str]) -> Check:
    return Check(kind, _LOST.format(kind.value, kind.value), sentence, about=f"fates WHERE fate = '{kind.value}'")


def _where(row: Row) -> str:
    return "an untold offset" if row["pos"] is None else f"offset {row['pos']}"


def _lost(row: Row) -> str:
    if row["offset_holds_now"] is not None:
        fate = f"now holds {row['offset_holds_now']!r}"
    elif row["end_offset"] is not None:
        fate = f"the partition ends at {row['end_offset']}"
    else:
        fate = "a reader passed that offset, and nobody has read it"
    return f"{row['value']!r} was acknowledged at {_where(row)}, and is gone: {fate}"


def _below_start(row: Row) -> str:
    return (
        f"{row['value']!r} was acknowledged at {_where(row)}, and the log starts at {row['log_start']}: neither retention "
        "nor a request moved it there"
    )


# -- the checks ----------------------------------------------------------------------------------------------------------

_JUMPS = """
    SELECT * FROM (
      SELECT n, time, process, tp, sitting, pos, value,
             coalesce(lag(pos) OVER run, start - 1) AS before, coalesce(batch = lag(batch) OVER run, false) AS inside
      FROM reads JOIN (SELECT process, tp, sitting, start FROM sittings) USING (process, tp, sitting)
      WINDOW run AS (PARTITION BY process, tp, sitting ORDER BY n)
    ) WHERE before IS NOT NULL AND pos <> before + 1
"""
"""Reads that do not follow the one before them."""


def _back_query(inside: bool) -> str:
    return f"""
        SELECT topic, part, pos, value, false AS note, process AS reader, before, time AS read_at
        FROM jumps JOIN partitions USING (tp) WHERE pos <= before AND inside = {inside}
    """


def _skip_query(inside: bool) -> str:
    return f"""
        SELECT topic, part, k.pos, k.value, false AS note, j.process AS reader, j.before, j.pos AS after, j.time AS read_at
        FROM (SELECT * FROM jumps WHERE pos > before AND inside = {inside}) j JOIN partitions p USING (tp)
        ASOF JOIN (SELECT tp, pos, min(value) AS value FROM known
                   WHERE EXISTS (SELECT 1 FROM jumps WHERE pos > before) GROUP BY ALL) k ON k.tp = j.tp AND k.pos < j.pos
        WHERE k.pos > j.before AND k.pos >= p.deleted_to
    """


def _went_back(row: Row) -> str:
    return f"reader {row['reader']} got offset {row['pos']} after offset {row['before']}"


def _skipped(row: Row) -> str:
    return (
        f"reader {row['reader']} jumped from offset {row['before']} to {row['after']}, over offset {row['pos']}, which is "
        f"known to hold {row['value']!r}"
    )


CHECKS = (
    _loss(AnomalyKind.LOST_WRITE, _lost),
    _loss(AnomalyKind.UNSEEN, _lost),
    _loss(AnomalyKind.LOST_BELOW_START, _below_start),
    Check(
        AnomalyKind.VANISHED_READ,
        """
        SELECT topic, part, v.pos, v.value, false AS note, min(v.process) AS reader, min(v.time) AS read_at
        FROM reads v JOIN finals f USING (tp) JOIN partitions p USING (tp)
        WHERE v.n < f.first_n AND v.pos >= f.start AND NOT p.compacted
          AND NOT EXISTS (SELECT 1 FROM final_reads r WHERE r.tp = v.tp AND r.pos = v.pos AND r.value = v.value)
        GROUP BY ALL
        """,
        lambda row: f"reader {row['reader']} read {row['value']!r} at offset {row['pos']}; the final reader did not",
    ),
    Check(
        AnomalyKind.DUPLICATE,
        """
        SELECT topic, part, pos, value, NOT $idempotence AS note, low AS first_offset
        FROM (
          SELECT value, min(tp) AS tp, min(low) AS low, max(high) AS pos, count(*) > 1 OR min(low) <> max(high) AS several
          FROM (
            SELECT value, tp, CASE WHEN f.tp IS NULL THEN low ELSE final_low END AS low,
                   CASE WHEN f.tp IS NULL THEN high ELSE final_high END AS high
            FROM present LEFT JOIN (SELECT tp FROM finals) f USING (tp)
          ) WHERE low IS NOT NULL GROUP BY value
        ) JOIN partitions USING (tp)
        WHERE several
        """,
        lambda row: f"{row['value']!r} is at two or more offsets, {row['first_offset']} and {row['pos']} among them",
    ),
    Check(
        AnomalyKind.INCONSISTENT_OFFSETS,
        """
        SELECT topic, part, o.pos, k.value, false AS note, k.values
        FROM (SELECT tp, pos FROM known GROUP BY tp, pos HAVING min(hash(value)) <> max(hash(value))) o
        JOIN (SELECT tp, pos, min(value) AS value, list(DISTINCT value ORDER BY value) AS values FROM known
              SEMI JOIN (SELECT tp, pos FROM known GROUP BY tp, pos HAVING min(hash(value)) <> max(hash(value))) USING (tp, pos)
              GROUP BY tp, pos) k USING (tp, pos)
        JOIN partitions USING (tp)
        """,
        lambda row: f"offset {row['pos']} holds {len(row['values'])} values: {', '.join(map(repr, row['values'][:5]))}",
    ),
    Check(
        AnomalyKind.ABORTED_READ,
        """
        SELECT min(p.topic) AS topic, min(p.part) AS part, min(r.low) AS pos, s.value, false AS note, s.done AS failed_at, s.error
        FROM (SELECT * FROM sends WHERE outcome = 'fail') s JOIN present r USING (value) JOIN partitions p ON p.tp = r.tp
        GROUP BY s.value, s.done, s.error
        """,
        lambda row: f"the send of {row['value']!r} failed ({row['error']}), yet it was read at offset {row['pos']}",
    ),
    Check(
        AnomalyKind.PHANTOM,
        """
        WITH strangers AS (
          SELECT r.value, r.tp FROM present r JOIN partitions p USING (tp) LEFT JOIN sends s ON s.value = r.value
          WHERE s.value IS NULL OR s.tp <> r.tp OR s.topic <> p.topic
        ),
        before AS (
          SELECT tp, max(pos) AS was_there FROM ends
          WHERE n < getvariable('first_send') GROUP BY tp
        )
        SELECT topic, part, r.pos, min(r.value) AS value, false AS note, min(r.process) AS reader, min(r.time) AS read_at
        FROM reads r SEMI JOIN strangers USING (value, tp) JOIN partitions USING (tp) LEFT JOIN before USING (tp)
        WHERE r.pos >= coalesce(was_there, 0)
        GROUP BY topic, part, r.pos
        """,
        lambda row: f"reader {row['reader']} read {row['value']!r} at offset {row['pos']}, which nobody has sent there",
    ),
    Check(AnomalyKind.INT_POLL_SKIP, _skip_query(True), _skipped, "jumps"),
    Check(AnomalyKind.POLL_SKIP, _skip_query(False), _skipped, "jumps"),
    Check(AnomalyKind.INT_NONMONOTONIC_POLL, _back_query(True), _went_back, "jumps"),
    Check(AnomalyKind.NONMONOTONIC_POLL, _back_query(False), _went_back, "jumps"),
    Check(
        AnomalyKind.NONMONOTONIC_SEND,
        """
        WITH late AS (
          SELECT * FROM (
            SELECT value, process, tp, pos, done_n,
                   max(pos) OVER (PARTITION BY process, tp ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest
            FROM acks
          ) WHERE pos <= highest
        ), holders AS (
          SELECT process, tp, pos, arg_min(done_n, n) AS done_n, arg_min(value, n) AS value
          FROM acks SEMI JOIN (SELECT process, tp, highest AS pos FROM late) USING (process, tp, pos) GROUP BY ALL
        )
        SELECT topic, part, late.pos, late.value, holders.done_n > late.done_n AND NOT $idempotence AS note,
               late.process AS producer, holders.value AS before, late.highest AS before_offset
        FROM late JOIN holders ON holders.process = late.process AND holders.tp = late.tp AND holders.pos = late.highest
        JOIN partitions p ON p.tp = late.tp
        """,
        lambda row: (
            f"producer {row['producer']} sent {row['value']!r} after {row['before']!r}, and was told offsets {row['pos']} "
            f"and {row['before_offset']}"
        ),
    ),
    Check(
        AnomalyKind.ACK_OFFSET,
        """
        WITH doubtful AS (
          SELECT DISTINCT a.value, a.tp, a.pos FROM acks a JOIN present r USING (value)
          WHERE r.tp <> a.tp OR (r.low <> a.pos AND r.high <> a.pos)
        )
        SELECT topic, part, d.pos, d.value, false AS note, told.read_offsets
        FROM doubtful d JOIN partitions USING (tp)
        JOIN (SELECT value, list(low) AS read_offsets FROM present SEMI JOIN doubtful USING (value)
              GROUP BY value) told USING (value)
        WHERE NOT EXISTS (SELECT 1 FROM reads r WHERE r.value = d.value AND r.tp = d.tp AND r.pos = d.pos)
        """,
        lambda row: (
            f"{row['value']!r} was acknowledged at offset {row['pos']} and is read at "
            f"{', '.join(map(str, row['read_offsets'][:5]))}"
        ),
    ),
    Check(
        AnomalyKind.STALE_OFFSET,
        """
        WITH told AS (
          SELECT s.n, s.tp, s.value, least(a.pos, r.low) AS pos
          FROM sends s LEFT JOIN acks a USING (value) LEFT JOIN present r ON r.value = s.value AND r.tp = s.tp
          WHERE s.tp IS NOT NULL AND (a.pos IS NOT NULL OR r.low IS NOT NULL)
        ), events AS (
          SELECT n, tp, value, pos, NULL::BIGINT AS learnt FROM told
          UNION ALL SELECT n, tp, NULL, NULL, pos FROM known WHERE n < getvariable('last_send')
        )
        SELECT topic, part, min(late.pos) AS pos, arg_min(late.value, late.n) AS value, false AS note, late.known
        FROM (SELECT *, max(learnt) OVER (PARTITION BY tp ORDER BY n ROWS UNBOUNDED PRECEDING) AS known FROM events) late
        JOIN partitions USING (tp)
        WHERE late.pos <= late.known GROUP BY topic, part, late.known
        """,
        lambda row: (
            f"{row['value']!r} got offset {row['pos']}, but offset {row['known']} was known to be taken before it was sent"
        ),
    ),
    Check(
        AnomalyKind.END_OFFSET_WENT_BACK,
        """
        SELECT topic, part, pos, NULL::VARCHAR AS value, false AS note, process AS client, before, time AS told_at
        FROM (SELECT *, lag(pos) OVER (PARTITION BY process, tp ORDER BY n) AS before FROM ends) JOIN partitions USING (tp)
        WHERE pos < before
        """,
        lambda row: f"client {row['client']} was told end offset {row['before']}, and later {row['pos']}",
    ),
    Check(
        AnomalyKind.UNPROCESSED,
        """
        SELECT DISTINCT topic, part, r.pos, r.value, false AS note, g."group", g.reach
        FROM final_reads r JOIN partitions USING (tp)
        JOIN (SELECT "group", tp, min(pos) FILTER (NOT committed) AS start, max(pos) AS reach FROM positions GROUP BY ALL) g
          ON g.tp = r.tp AND r.pos >= g.start AND r.pos < g.reach
        WHERE NOT EXISTS (SELECT 1 FROM processed p WHERE p."group" = g."group" AND p.tp = r.tp AND p.value = r.value)
          AND NOT EXISTS (SELECT 1 FROM dead_letters d WHERE d."group" = g."group" AND d.tp = r.tp AND d.value = r.value)
        """,
        lambda row: (
            f"group {row['group']} has gone on to offset {row['reach']}, and no member has processed {row['value']!r} at offset "
            f"{row['pos']}, nor is it a dead letter"
        ),
        about="members",
    ),
    Check(
        AnomalyKind.REPROCESSED,
        """
        SELECT topic, part, pos, value, true AS note, "group", count(*) AS times FROM processed JOIN partitions USING (tp)
        GROUP BY ALL HAVING count(*) > 1
        """,
        lambda row: f"group {row['group']} has processed {row['value']!r} at offset {row['pos']} {row['times']} times",
        about="members",
    ),
    Check(
        AnomalyKind.REWOUND,
        """
        SELECT topic, part, a.pos, NULL::VARCHAR AS value, false AS note, a."group", a.process AS member, c.pos AS committed
        FROM (SELECT * FROM positions WHERE NOT committed) a JOIN partitions p ON p.tp = a.tp
        ASOF JOIN (SELECT * FROM positions WHERE committed) c ON c."group" = a."group" AND c.tp = a.tp AND a.n > c.n
        WHERE a.pos < c.pos
        """,
        lambda row: (
            f"member {row['member']} of group {row['group']} went on at offset {row['pos']}, and {row['committed']} was committed"
        ),
        about="members",
    ),
    Check(
        AnomalyKind.DUPLICATE_DEAD_LETTER,
        """
        SELECT topic, part, pos, value, false AS note, "group", count(*) AS times FROM dead_letters JOIN partitions USING (tp)
        GROUP BY ALL HAVING count(*) > 1
        """,
        lambda row: (
            f"{row['value']!r} at offset {row['pos']} is a dead letter of group {row['group']} {row['times']} times"
        ),
        about="members",
    ),
)


def find_in_history(
    evidence: Evidence,
    settings: WorkloadSettings,
    strict: frozenset[AnomalyKind] = frozenset(),
    left_out: frozenset[AnomalyKind] = frozenset(),
) -> list[AnomalySummary]:
    """Every anomaly that the history shows, but for the kinds `left_out`; `fates.join_fates` has to come first."""
    evidence.run(f"CREATE TEMP TABLE jumps AS {_JUMPS}")
    return find(evidence, [check for check in CHECKS if check.kind not in left_out], settings, strict)
