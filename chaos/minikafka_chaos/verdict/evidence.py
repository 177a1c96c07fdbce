"""The evidence of a run as tables: a history and the replicas' logs, loaded into DuckDB, joined and indexed.

What the words mean (sends, sittings, F, deleted-to, fate) is said in docs/reference/verdicts.md. Everything is a join, a
sort or an aggregate that goes to disk when it does not fit, so memory is flat: `MEMORY_LIMIT` whatever the length of the
history.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
from minikafka.local.scratch import ScratchFolder

from minikafka_chaos.record.history import HistoryError, check_history
from minikafka_chaos.record.replica_lines import CONTRADICTIONS, check_replicas

REPLICAS_FILE = "replicas.jsonl"

MEMORY_LIMIT = "192MiB"
"""Of DuckDB's buffers; the process needs about 150 MiB beside."""

ON_DISK_FROM_BYTES = 32 << 20
"""A history of at least this size is loaded into a file, which is compressed; a smaller one stays in memory."""

ALWAYS = float("-inf")

HISTORY_COLUMNS = {
    "time": "DOUBLE",
    "process": "BIGINT",
    "op": "VARCHAR",
    "type": "VARCHAR",
    "topic": "VARCHAR",
    "partition": "INTEGER",
    "offset": "BIGINT",
    "value": "VARCHAR",
    "error": "VARCHAR",
    "batch": "BIGINT",
    "seq": "BIGINT",
    "settings": "JSON",
}
REPLICA_COLUMNS = {
    "kind": "VARCHAR",
    "topic": "VARCHAR",
    "partition": "INTEGER",
    "broker": "INTEGER",
    "partitions": "INTEGER",
    "replication_factor": "INTEGER",
    "config": "JSON",
    "in_sync": "BOOLEAN",
    "start": "BIGINT",
    "end": "BIGINT",
    "batches": "BIGINT",
    "damage": "VARCHAR",
    "index": "BIGINT",
    "base_offset": "BIGINT",
    "last_offset": "BIGINT",
    "leader_epoch": "INTEGER",
    "producer_id": "BIGINT",
    "producer_epoch": "INTEGER",
    "base_sequence": "BIGINT",
    "crc": "BIGINT",
    "crc_right": "BOOLEAN",
    "segment": "VARCHAR",
    "position": "BIGINT",
    "time": "DOUBLE",
    "to": "BIGINT",
    "reason": "VARCHAR",
    "values": "VARCHAR[]",
}
CLOCK_ERROR_S = 1.0
"""An outcome that is told this much earlier than its send was invoked: the clock was set back meanwhile."""


class Evidence:
    """The tables of one run. Close it: it holds a scratch folder.

    `accept_before` is A of docs/reference/verdicts.md, in unix seconds: what readers were told before it is no evidence, and
    acknowledged records of before it that are gone are accepted.

    Raises HistoryError when the evidence contradicts itself or cannot be read.
    """

    def __init__(self, history: Path, replicas: Path | None = None, accept_before: float = ALWAYS) -> None:
        self.has_replicas = replicas is not None
        self._folder = ScratchFolder(Path(tempfile.gettempdir()), "minikafka-verdict-")
        self._history, self._replicas = history, replicas
        try:
            large = history.is_file() and history.stat().st_size >= ON_DISK_FROM_BYTES
            self.db = duckdb.connect(str(self._folder.path / "evidence.db") if large else ":memory:")
            self.db.execute("SET threads = 1")
            self.db.execute("SET asof_loop_join_threshold = 0")  # it guesses too low, and then compares all with all
            self.db.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
            self.db.execute(f"SET temp_directory = '{_quoted(self._folder.path / 'spill')}'")
            self.db.execute("SET VARIABLE accept_before = ?::DOUBLE", [accept_before])
            self._load()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        try:
            if hasattr(self, "db"):
                self.db.close()
        finally:
            self._folder.remove()

    # -- asking ----------------------------------------------------------------------------------------------------------

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.db.execute(statement)

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """The rows of a query, each as column -> value."""
        cursor = self.db.execute(query, list(parameters))
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def one(self, query: str, parameters: Sequence[Any] = ()) -> Any:
        """The first column of the first row; None without a row."""
        row = self.db.execute(query, list(parameters)).fetchone()
        return None if row is None else row[0]

    # -- loading ---------------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        self._load_history()
        self._load_replicas()
        self._name_partitions()
        self._join_sends()
        self._join_reads()
        self.run("DROP TABLE lines")

    def _load_history(self) -> None:
        check_history(self._history)
        with _whole_lines(self._history, self._folder.path) as path:
            try:
                self.run(
                    f"""
                    CREATE TABLE lines AS
                    SELECT coalesce(seq, place) AS n, seq, coalesce(seq <> place, false) AS moved, time, process, op, type, topic,
                           partition AS part, "offset" AS pos, value, error, batch, settings
                    FROM (SELECT *, row_number() OVER () - 1 AS place
                          FROM read_json('{_quoted(path)}', format = 'newline_delimited', columns = {HISTORY_COLUMNS}))
                    """
                )
            except duckdb.Error as error:
                raise HistoryError(f"{self._history}: {_one_line(error)}") from error
        self._count_lines()

    def _count_lines(self) -> None:
        """Lines are numbered 0 to N - 1, each once, or not at all; `missing_lines`: how many numbers are not there."""
        total, numbered, after_last, moved = self.db.execute(
            "SELECT count(*), count(seq), coalesce(max(seq) + 1, 0), bool_or(moved) FROM lines"
        ).fetchall()[0]
        if 0 < numbered < total:
            raise HistoryError(f"{self._history}: some lines have a number (seq), and some have none")
        twice = moved and numbered >= after_last > self.one("SELECT count(DISTINCT seq) FROM lines")
        if numbered > after_last or twice:
            raise HistoryError(f"{self._history}: two lines have the same number (seq): is this more than one history?")
        self.missing_lines = after_last - numbered

    def _load_replicas(self) -> None:
        columns = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in REPLICA_COLUMNS.items())
        if self._replicas is None:
            self.run(f"CREATE TABLE told AS SELECT {columns} WHERE false")
            return
        check_replicas(self._replicas)
        with _whole_lines(self._replicas, self._folder.path) as path:
            source = f"read_json('{_quoted(path)}', format = 'newline_delimited', columns = {REPLICA_COLUMNS})"
            try:
                self.run(f"CREATE TABLE told AS SELECT * FROM {source}")
            except duckdb.Error as error:
                raise HistoryError(f"{self._replicas}: {_one_line(error)}") from error
        for query, what in CONTRADICTIONS:
            if (where := self.one(query)) is not None:
                raise HistoryError(f"{self._replicas}: {what} {where}")

    def _name_partitions(self) -> None:
        """`partitions`: every partition that the evidence names, by number, with what is known of its topic and its start."""
        self.run(
            """
            CREATE TABLE topics AS
            SELECT topic, max(partitions) AS partitions, max(replication_factor) AS replication_factor,
                   coalesce(bool_or(contains(coalesce(config->>'$."cleanup.policy"', ''), 'compact')), false) AS compacted
            FROM told WHERE kind = 'topic' GROUP BY topic
            """,
            """
            CREATE TABLE gone AS
            SELECT topic, max(time) AS deleted_at FROM told WHERE kind = 'start' AND reason = 'topic_deleted' GROUP BY topic
            """,
            """
            CREATE TABLE partitions AS
            WITH named AS (
              SELECT topic, part FROM lines LEFT JOIN gone USING (topic)
              WHERE op = 'send' OR (op IN ('assign', 'poll', 'read', 'end_offset') AND time >= getvariable('accept_before')
                                    AND time > coalesce(deleted_at, '-Infinity'::DOUBLE))
              UNION SELECT topic, partition FROM told WHERE kind <> 'topic'
              UNION SELECT topic, unnest(range(partitions))::INTEGER FROM topics
            ), starts AS (
              SELECT topic, partition AS part, max("to") AS deleted_to, max(time) AS deleted_until
              FROM told LEFT JOIN gone USING (topic)
              WHERE kind = 'start' AND reason IN ('retention', 'delete_records')
                AND time > coalesce(deleted_at, '-Infinity'::DOUBLE)
              GROUP BY ALL
            ), logs AS (SELECT DISTINCT topic, partition AS part FROM told WHERE kind = 'replica')
            SELECT row_number() OVER (ORDER BY topic, part)::INTEGER AS tp, named.topic, named.part,
                   coalesce(deleted_to, 0) AS deleted_to, deleted_until, coalesce(compacted, false) AS compacted,
                   logs.topic IS NOT NULL AS has_logs, deleted_at
            FROM named LEFT JOIN starts USING (topic, part) LEFT JOIN logs USING (topic, part)
            LEFT JOIN topics USING (topic) LEFT JOIN gone USING (topic)
            WHERE named.topic IS NOT NULL AND part IS NOT NULL
            """,
        )

    def _join_sends(self) -> None:
        """`sends`: each invocation with its outcome (`info` without one)."""
        twice = "SELECT first(value) FROM (SELECT value FROM lines WHERE op = 'send' AND {} GROUP BY value HAVING count(*) > 1)"
        if (value := self.one(twice.format("type = 'invoke'"))) is not None:
            raise HistoryError(f"value {value!r} is sent twice: unique values are what every check rests on")
        if (value := self.one(twice.format("type <> 'invoke'"))) is not None:
            raise HistoryError(f"value {value!r} has two outcomes")
        self.run(
            """
            CREATE TABLE sends AS
            SELECT value, process, n, invoked, s.topic, coalesce(told_part, asked_part) AS part, tp, outcome, pos, done, done_n,
                   error, strayed
            FROM (
              SELECT i.value, i.process, i.n, i.time AS invoked, i.topic, i.part AS asked_part, o.part AS told_part,
                     coalesce(o.topic <> i.topic OR o.part <> i.part, false) AS strayed,
                     coalesce(o.type, 'info') AS outcome, o.pos, o.time AS done, o.n AS done_n, o.error
              FROM (SELECT * FROM lines WHERE op = 'send' AND type = 'invoke') i
              LEFT JOIN (SELECT * FROM lines WHERE op = 'send' AND type <> 'invoke') o USING (value)
            ) s
            LEFT JOIN (SELECT topic, part, tp FROM partitions) p
              ON p.topic = s.topic AND p.part = coalesce(s.told_part, s.asked_part)
            """
        )
        outcomes = self.one("SELECT count(*) FROM lines WHERE op = 'send' AND type <> 'invoke'")
        if outcomes != self.one("SELECT count(*) FROM sends WHERE done_n > n"):
            value = self.one(
                "SELECT first(value) FROM lines o WHERE op = 'send' AND type <> 'invoke' AND NOT EXISTS "
                "(SELECT 1 FROM sends s WHERE s.value = o.value AND s.n < o.n)"
            )
            raise HistoryError(f"an outcome of value {value!r}, which was never sent (or only later)")
        if (value := self.one("SELECT first(value) FROM sends WHERE strayed")) is not None:
            raise HistoryError(f"value {value!r} was sent to one partition, and its outcome tells of another")
        self.early_outcomes = self.one("SELECT count(*) FROM sends WHERE done < invoked - ?", [CLOCK_ERROR_S])

    def _join_reads(self) -> None:
        """`reads`, `sittings`, `finals` (F) and `present`: where each value was read."""
        self.run(
            """
            CREATE VIEW seen AS
            SELECT lines.*, tp FROM lines JOIN (SELECT topic, part, tp, deleted_at FROM partitions) USING (topic, part)
            WHERE op IN ('assign', 'poll', 'read', 'end_offset', 'process', 'dead_letter', 'commit')
              AND time >= getvariable('accept_before')
              AND time > coalesce(deleted_at, '-Infinity'::DOUBLE)
            """,
            """
            CREATE TABLE assigns AS
            SELECT process, tp, n, pos, time FROM seen WHERE op = 'assign' AND type = 'ok' AND pos IS NOT NULL ORDER BY n
            """,
            """
            CREATE TABLE reads AS
            SELECT r.n, r.time, r.process, r.tp, r.pos, r.value, r.batch, coalesce(a.n, -1) AS sitting
            FROM (SELECT * FROM seen WHERE op = 'poll' AND type = 'ok' AND pos IS NOT NULL AND value IS NOT NULL) r
            ASOF LEFT JOIN assigns a ON r.process = a.process AND r.tp = a.tp AND r.n > a.n
            """,
            """
            CREATE TABLE sittings AS
            WITH had AS (
              SELECT process, tp, sitting, min(n) AS first_n, arg_min(time, n) AS first_time, max(pos) AS highest
              FROM reads GROUP BY ALL
            ), placed AS (SELECT process, tp, n AS sitting, n AS first_n, time AS first_time, pos AS start FROM assigns)
            SELECT process, tp, sitting, coalesce(placed.first_n, had.first_n) AS first_n,
                   coalesce(placed.first_time, had.first_time) AS first_time, start, highest
            FROM placed FULL OUTER JOIN had USING (process, tp, sitting)
            """,
            """
            CREATE TABLE finals AS
            WITH ended AS (
              SELECT s.process, s.tp, s.sitting, arg_max(e.pos, e.n) AS "end"
              FROM (SELECT * FROM seen WHERE op = 'read' AND type = 'ok' AND pos IS NOT NULL) e
              ASOF JOIN sittings s ON e.process = s.process AND e.tp = s.tp AND e.n > s.first_n
              GROUP BY ALL
            )
            SELECT tp, process, sitting, first_n, first_time, coalesce(start, 0) AS start, coalesce(highest, -1) AS highest,
                   greatest("end", highest + 1) AS "end"
            FROM ended JOIN sittings USING (process, tp, sitting)
            QUALIFY row_number() OVER (PARTITION BY tp ORDER BY first_n DESC) = 1
            """,
            """
            CREATE VIEW final_reads AS
            SELECT r.* FROM reads r JOIN finals f ON r.tp = f.tp AND r.process = f.process AND r.sitting = f.sitting
            """,
            """
            CREATE TABLE present AS
            SELECT r.value, r.tp, min(pos) AS low, max(pos) AS high, bool_or(f.tp IS NOT NULL) AS in_final,
                   min(pos) FILTER (f.tp IS NOT NULL) AS final_low, max(pos) FILTER (f.tp IS NOT NULL) AS final_high
            FROM reads r LEFT JOIN finals f ON r.tp = f.tp AND r.process = f.process AND r.sitting = f.sitting
            GROUP BY r.value, r.tp
            """,
            "CREATE TABLE ends AS SELECT n, process, tp, pos, time FROM seen WHERE op = 'end_offset' AND pos IS NOT NULL",
            """
            CREATE TABLE members AS
            SELECT process, min(value) AS "group" FROM lines
            WHERE op = 'join' AND type = 'ok' AND value IS NOT NULL GROUP BY process
            """,
            """
            CREATE TABLE positions AS
            SELECT "group", process, tp, n, pos, op = 'commit' AS committed FROM seen JOIN members USING (process)
            WHERE op IN ('assign', 'commit') AND type = 'ok' AND pos IS NOT NULL
            """,
            """
            CREATE TABLE done AS
            SELECT op, "group", tp, pos, value FROM seen JOIN members USING (process)
            WHERE op IN ('process', 'dead_letter') AND type = 'ok' AND pos IS NOT NULL AND value IS NOT NULL
            """,
            """CREATE VIEW processed AS SELECT "group", tp, pos, value FROM done WHERE op = 'process'""",
            """CREATE VIEW dead_letters AS SELECT "group", tp, pos, value FROM done WHERE op = 'dead_letter'""",
            """
            CREATE TABLE figures AS
            SELECT count(*) FILTER (op = 'poll' AND type = 'fail') AS read_failures,
                   arg_min(settings, n) FILTER (op = 'workload' AND settings IS NOT NULL) AS settings
            FROM lines WHERE op IN ('poll', 'workload')
            """,
            "SET VARIABLE first_send = (SELECT coalesce(min(n), 0) FROM sends)",
            "SET VARIABLE last_send = (SELECT coalesce(max(n), 0) FROM sends)",
            "DROP VIEW seen",
        )


@contextmanager
def _whole_lines(path: Path, scratch: Path) -> Iterator[Path]:
    """The file, or a copy of it without a last line that was cut off by the death of its writer."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            cut = _cut_at(file, size)
            if cut is None:
                yield _named_safely(path, scratch)
                return
            copy = scratch / f"whole-{path.name}"
            file.seek(0)
            with copy.open("wb") as target:
                left = cut
                while left and (block := file.read(min(left, 1 << 20))):
                    target.write(block)
                    left -= len(block)
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}") from error
    yield copy
    copy.unlink(missing_ok=True)


def _named_safely(path: Path, scratch: Path) -> Path:
    """A name for the file in which DuckDB finds no pattern to expand."""
    link = scratch / path.name
    link.unlink(missing_ok=True)
    link.symlink_to(path.resolve())
    return link


def _cut_at(file: Any, size: int) -> int | None:
    """Return where the cut-off last line begins, or None when the last line is whole."""
    at = size
    tail = b""
    while at and b"\n" not in tail:
        step = min(at, 1 << 16)
        at -= step
        file.seek(at)
        tail = file.read(step) + tail
    last = tail[tail.rfind(b"\n") + 1 :]
    if not last.strip():
        return None
    try:
        json.loads(last)
    except (ValueError, RecursionError):
        return size - len(last)
    return None


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
