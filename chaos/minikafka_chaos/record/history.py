"""The history of a run: what clients invoked, and what they were told.

A history is a file of JSON lines, `history.jsonl`. A send is two lines: one when it is invoked (written *before* the
record is handed to the client library, so that a crash of this process can never hide a record that reached a broker),
one when its outcome is known. The outcomes are kept apart as Jepsen does:

- `ok`    the client was told that the record is acknowledged;
- `fail`  the record was definitely not written: no reader may ever see it;
- `info`  unknown: it may be in the log, may come later, or may never appear. So is a send without a second line.

Everything else is one line: a record that was read (`poll`), where a reader was placed (`assign`), how far a final
reader came (`read`), what a member of a consumer group did (`join`, `process`, `commit`), which dead letters the group has
(`dead_letter`), what a leader said about the ends
of its log (`start_offset`, `end_offset`), and the settings that the outcomes are to be judged by (`workload`). Times are unix
seconds.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeGuard

from minikafka.protocol.types import TopicPartition

from minikafka_chaos.clock import MACHINE_CLOCK

FILE_NAME = "history.jsonl"

SEND, POLL, ASSIGN, READ, START_OFFSET, END_OFFSET, WORKLOAD, JOIN, PROCESS, DEAD_LETTER, COMMIT = (
    "send",
    "poll",
    "assign",
    "read",
    "start_offset",
    "end_offset",
    "workload",
    "join",
    "process",
    "dead_letter",
    "commit",
)
INVOKE, OK, FAIL, INFO = "invoke", "ok", "fail", "info"
OPS = frozenset((SEND, POLL, ASSIGN, READ, START_OFFSET, END_OFFSET, WORKLOAD, JOIN, PROCESS, DEAD_LETTER, COMMIT))
TYPES = frozenset((INVOKE, OK, FAIL, INFO))

FLUSH_INTERVAL_S = 0.25
"""Lines reach the file at least this often: a run that is watched or killed keeps all but its last moments."""

_quote = json.encoder.encode_basestring_ascii  # the C string encoder: a history line is on the path of every record


class HistoryError(ValueError):
    """A history file that cannot be judged: names the file, the line and what is wrong with it."""


class Op(NamedTuple):
    """One line of a history.

    `process` numbers the client (a producer or a reader); `batch` numbers the poll that a record came with, for telling
    a jump inside one poll from a jump between polls; `settings` is for `workload` lines only; `seq` is the number of the
    line in its file, from 0: lines can be told in order wherever they are read, and a missing one is noticed.
    """

    time: float
    process: int
    op: str
    type: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    value: str | None = None
    error: str | None = None
    leader_epoch: int | None = None
    batch: int | None = None
    settings: dict[str, Any] | None = None
    seq: int | None = None

    @property
    def topic_partition(self) -> TopicPartition | None:
        if self.topic is None or self.partition is None:
            return None
        return TopicPartition(self.topic, self.partition)

    def line(self, seq: int | None = None) -> str:
        """The line of the file, without its newline. Optional fields are left out when they are absent.

        `seq` stands in for the operation's own.
        """
        seq = self.seq if seq is None else seq
        topic = "null" if self.topic is None else _quote(self.topic)
        value = "null" if self.value is None else _quote(self.value)
        error = "null" if self.error is None else _quote(self.error)
        text = (
            f'{{"time":{self.time:.6f},"process":{self.process},"op":"{self.op}","type":"{self.type}","topic":{topic},'
            f'"partition":{"null" if self.partition is None else self.partition},'
            f'"offset":{"null" if self.offset is None else self.offset},"value":{value},"error":{error}'
        )
        if self.leader_epoch is not None:
            text += f',"leader_epoch":{self.leader_epoch}'
        if self.batch is not None:
            text += f',"batch":{self.batch}'
        if seq is not None:
            text += f',"seq":{seq}'
        if self.settings is not None:
            text += f',"settings":{json.dumps(self.settings, sort_keys=True)}'
        return text + "}"


History: TypeAlias = list[Op]


@dataclass(frozen=True, slots=True)
class WorkloadSettings:
    """What the judgement of a history depends on: some anomalies are none where the client asked for no guarantee.

    `acks` as in Kafka: "all", "1" or "0". `max_in_flight` is max.in.flight.requests.per.connection.
    """

    acks: str = "all"
    idempotence: bool = False
    max_in_flight: int = 1

    def as_settings(self) -> dict[str, Any]:
        return {"acks": self.acks, "idempotence": self.idempotence, "max_in_flight": self.max_in_flight}

    @classmethod
    def from_history(cls, history: Iterable[Op]) -> WorkloadSettings:
        """The settings on the history's `workload` line; Kafka's strictest settings where there is none."""
        for op in history:
            if op.op == WORKLOAD and op.settings is not None:
                return cls.known(op.settings)
        return cls()

    @classmethod
    def known(cls, settings: Mapping[str, Any]) -> WorkloadSettings:
        """From a `workload` line's settings; what means nothing here is left out."""
        return cls(
            **{
                name: value
                for name, value in settings.items()
                if name in cls.__dataclass_fields__ and value is not None
            }
        )


class HistoryWriter:
    """Writes a history; may be called from many threads, as librdkafka's callbacks come on several.

    Lines of one thread keep their order. `close()` must be called for the last lines to reach the file; a context
    manager does it.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = MACHINE_CLOCK.time) -> None:
        self.path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._flushed_at = clock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._seq = _lines_in(path)
        self.acknowledged_to: dict[TopicPartition, int] = {}
        """The highest offset of each partition that this writer was told is acknowledged."""
        self._file: TextIOWrapper | None = path.open("a", encoding="utf-8", buffering=1 << 16)

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _write(self, process: int, op: str, kind: str, *fields: Any, **more: Any) -> float:
        """Append one line; returns its time, in unix seconds. The time is taken when it is the line's turn, so it never
        goes back from line to line. Lines after `close()` are dropped: late callbacks of a stopped client have no reader."""
        with self._lock:
            now = self._clock()
            if self._file is not None:
                self._file.write(Op(now, process, op, kind, *fields, **more).line(self._seq) + "\n")
                self._seq += 1
                if now - self._flushed_at >= FLUSH_INTERVAL_S:
                    self._file.flush()
                    self._flushed_at = now
            return now

    def workload(self, settings: WorkloadSettings, **more: Any) -> None:
        self._write(-1, WORKLOAD, INFO, settings=settings.as_settings() | more)

    def invoke_send(self, process: int, topic: str, partition: int | None, value: str) -> float:
        """Record that `value` is about to be sent; returns the time that was written, in unix seconds."""
        return self._write(process, SEND, INVOKE, topic, partition, None, value)

    def complete_send(
        self,
        process: int,
        outcome: str,
        topic: str,
        partition: int | None,
        offset: int | None,
        value: str,
        error: str | None = None,
    ) -> float:
        """Record the outcome (`ok`, `fail` or `info`) of the send of `value`; returns the time, in unix seconds."""
        assert outcome in (OK, FAIL, INFO), outcome
        if outcome == OK and partition is not None and offset is not None:
            where = TopicPartition(topic, partition)
            self.acknowledged_to[where] = max(offset, self.acknowledged_to.get(where, -1))
        return self._write(process, SEND, outcome, topic, partition, offset, value, error)

    def assign(self, process: int, topic: str, partition: int, offset: int) -> None:
        self._write(process, ASSIGN, OK, topic, partition, offset)

    def poll(
        self, process: int, batch: int, topic: str, partition: int, offset: int, value: str, leader_epoch: int | None
    ) -> None:
        self._write(process, POLL, OK, topic, partition, offset, value, None, leader_epoch, batch)

    def poll_failed(self, process: int, topic: str | None, partition: int | None, error: str) -> None:
        self._write(process, POLL, FAIL, topic, partition, error=error)

    def read_done(self, process: int, topic: str, partition: int, offset: int, error: str | None = None) -> None:
        """A final reader stopped at `offset`: at the end of the partition when `error` is None, else before it."""
        outcome = OK if error is None else INFO
        self._write(process, READ, outcome, topic, partition, offset, error=error)

    def log_bounds(self, process: int, topic: str, partition: int, start: int, end: int) -> None:
        """What a leader answered to ListOffsets: the first offset it has and the next one it will give out."""
        self._write(process, START_OFFSET, OK, topic, partition, start)
        self._write(process, END_OFFSET, OK, topic, partition, end)

    def join(self, process: int, group: str) -> None:
        """This client is a member of a consumer group from now on, or reads its dead letters."""
        self._write(process, JOIN, OK, value=group)

    def process(self, process: int, topic: str, partition: int, offset: int, value: str) -> None:
        """A member has done its work with a record."""
        self._write(process, PROCESS, OK, topic, partition, offset, value)

    def dead_letter(self, process: int, topic: str, partition: int, offset: int, value: str) -> None:
        """A dead letter was read: the record that it is, and where that came from."""
        self._write(process, DEAD_LETTER, OK, topic, partition, offset, value)

    def commit(self, process: int, topic: str, partition: int, offset: int, error: str | None = None) -> None:
        """A member's commit of `offset`, the next one to read: acknowledged, or unknown when there is an `error`."""
        self._write(process, COMMIT, OK if error is None else INFO, topic, partition, offset, error=error)

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None


def _lines_in(path: Path) -> int:
    """Return how many lines a history has that is written on; one that was cut off stays what it is."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


TIME_MAX = 1e11
"""Unix seconds, up to the year 5138: milliseconds are no time of a run."""

_TEXT = rb'(?:null|"[^"\\\x00-\x1f\x7f-\xff]*")'
_DIGITS = rb"(?:0|[1-9][0-9]{0,8})"
"""Of a number of JSON, which does not begin with a 0."""
_NUMBER = rb"(?:null|" + _DIGITS + rb")"
_PLAIN = re.compile(
    rb'\{"time":(?:0|[1-9][0-9]{0,9})\.[0-9]+,"process":-?'
    + _DIGITS
    + rb',"op":"([a-z_]+)","type":"([a-z]+)","topic":'
    + _TEXT
    + rb',"partition":'
    + _NUMBER
    + rb',"offset":'
    + _NUMBER
    + rb',"value":'
    + _TEXT
    + rb',"error":'
    + _TEXT
    + rb'(?:,"leader_epoch":-?'
    + _DIGITS
    + rb')?(?:,"batch":'
    + _DIGITS
    + rb')?,"seq":'
    + _DIGITS
    + rb"\}\n"
)
"""A line as `Op.line` writes nearly all of them: fields in order, no escapes, no settings. It needs no parser to be checked."""


def check_history(path: Path) -> None:
    """Raise HistoryError for the first line that is no line of a history (docs/reference/verdicts.md, Evidence)."""
    for number, raw in raw_lines(path):
        plain = _PLAIN.fullmatch(raw)
        if plain is None or not _has_all_fields(plain, raw):
            _op_of(path, number, raw)


def _has_all_fields(plain: re.Match[bytes], raw: bytes) -> bool:
    """Return whether a plain line has, without a look at its values, all that `_op` asks of it; False: ask `_op`."""
    if plain[1] == b"send":
        return plain[2] in (b"invoke", b"ok") and b'"topic":null' not in raw and b'"value":null' not in raw
    return (plain[1], plain[2]) == (b"poll", b"ok") and b":null" not in raw.partition(b',"error"')[0]


def read_history(path: Path) -> History:
    """All lines of a history file, in the order they were written.

    A last line that was cut off (the writer died) is left out. Anything else that is not a history line raises
    HistoryError naming the line: a verdict over half-understood input would be worth nothing.
    """
    return list(iter_history(path))


def iter_history(path: Path) -> Iterator[Op]:
    """Like `read_history`, one line at a time."""
    for number, raw in raw_lines(path):
        op = _op_of(path, number, raw)
        if op is None:
            return
        yield op


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}") from error
    with file:
        for number, raw in enumerate(file, 1):
            if raw.strip():
                yield number, raw


def _op_of(path: Path, number: int, raw: bytes) -> Op | None:
    """The operation of a line; None for one that was cut off by the death of its writer."""
    try:
        fields = parse_line(raw)
    except ValueError as error:
        if not raw.endswith(b"\n"):
            return None
        raise HistoryError(f"{path}:{number}: not a JSON line ({error})") from error
    return _op(fields, f"{path}:{number}")


def parse_line(raw: bytes) -> Any:
    """The JSON of one line; raises ValueError for what is none, a name that is given twice, NaN, Infinity, levels without end,
    and half a surrogate pair, which JSON can say and no text has.
    """
    text = raw.decode("utf-8-sig")
    try:
        line = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
        if "\\u" in text:
            json.dumps(line, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair is no text") from None
    return line


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field is given twice")
    return fields


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


_OPTIONAL_INTS = {"partition": 2**31, "offset": 2**63, "leader_epoch": 2**31, "batch": 2**63, "seq": 2**63}
_OPTIONAL_TEXTS = ("topic", "value", "error")
_NEEDED = {
    POLL: ("topic", "partition", "offset", "value"),
    ASSIGN: ("topic", "partition", "offset"),
    READ: ("topic", "partition", "offset"),
    START_OFFSET: ("topic", "partition", "offset"),
    END_OFFSET: ("topic", "partition", "offset"),
    JOIN: ("value",),
    PROCESS: ("topic", "partition", "offset", "value"),
    DEAD_LETTER: ("topic", "partition", "offset", "value"),
    COMMIT: ("topic", "partition", "offset"),
}
"""What a line of type ok has to tell, by its op. A send has a topic and a value, whatever its type."""


def _op(fields: Any, where: str) -> Op:
    if not isinstance(fields, dict):
        raise HistoryError(f"{where}: a history line is a JSON object")
    op, kind = fields.get("op"), fields.get("type")
    if not isinstance(op, str) or op not in OPS:
        raise HistoryError(f"{where}: op is {op!r}, allowed: {', '.join(sorted(OPS))}")
    if not isinstance(kind, str) or kind not in TYPES:
        raise HistoryError(f"{where}: type is {kind!r}, allowed: {', '.join(sorted(TYPES))}")
    time, process = fields.get("time"), fields.get("process")
    if not is_time(time) or not is_int(process, 2**63):
        raise HistoryError(f"{where}: time must be a number (unix seconds) and process an integer")
    for name, limit in _OPTIONAL_INTS.items():
        if fields.get(name) is not None and not is_int(fields[name], limit):
            raise HistoryError(f"{where}: {name} must be an integer or null")
    for name in _OPTIONAL_TEXTS:
        if not is_text(fields.get(name)):
            raise HistoryError(f"{where}: {name} must be a string or null")
    if op == SEND and (fields.get("value") is None or fields.get("topic") is None):
        raise HistoryError(f"{where}: a send needs its value and its topic")
    if kind == OK:
        for name in _NEEDED.get(op, ()):
            if fields.get(name) is None:
                raise HistoryError(f"{where}: {op} of type ok needs its {name}")
    for name in ("partition", "batch", "seq", *(("offset",) if kind == OK else ())):
        if (fields.get(name) or 0) < 0:
            raise HistoryError(f"{where}: {name} must not be negative")
    settings = fields.get("settings")
    if settings is not None and (
        not isinstance(settings, dict) or not isinstance(settings.get("idempotence") or False, bool)
    ):
        raise HistoryError(f"{where}: settings must be an object, and idempotence in it true or false")
    return Op(
        float(time),
        process,
        op,
        kind,
        fields.get("topic"),
        fields.get("partition"),
        fields.get("offset"),
        fields.get("value"),
        fields.get("error"),
        fields.get("leader_epoch"),
        fields.get("batch"),
        fields.get("settings"),
        fields.get("seq"),
    )


def is_time(value: Any) -> TypeGuard[int | float]:
    """Return whether it is a number of unix seconds that a run can have."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= TIME_MAX


def is_int(value: Any, limit: int) -> TypeGuard[int]:
    """Return whether it is a whole number from -limit to limit - 1; true and 1.0 are none."""
    return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


def is_text(value: Any) -> bool:
    """Return whether it is null or a string."""
    return value is None or isinstance(value, str)
