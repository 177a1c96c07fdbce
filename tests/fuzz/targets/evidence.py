"""The evidence of a run, as the verifier reads it: history, journal, replicas."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from minikafka_chaos.record.history import (
    HistoryError,
    Op,
    WorkloadSettings,
    check_history,
    read_history,
)
from minikafka_chaos.record.journal import read_journal
from minikafka_chaos.record.replica_lines import KINDS, NUMBERS, check_replicas

from tests.fuzz.target import Refuted, Target


@cache
def _file() -> Path:
    """A file in memory that goes with the process."""
    place = tempfile.TemporaryDirectory(prefix="minikafka-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    _KEPT.append(place)
    return Path(place.name) / "lines.jsonl"


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def _history(path: Path) -> None:
    """Whether the quick check refuses a history must not differ from whether it can be read."""
    try:
        found = read_history(path)
    except HistoryError:
        try:
            check_history(path)
        except HistoryError:
            raise
        raise Refuted("the check passed what cannot be read") from None
    check_history(path)
    WorkloadSettings.from_history(found)
    for op in found:
        op.line()


def _journal(path: Path) -> None:
    try:
        read_journal(path)
    except ValueError as error:
        raise HistoryError(str(error)) from error


_READERS: tuple[Callable[[Path], object], ...] = (_history, _journal, check_replicas)


def read_evidence(data: bytes) -> None:
    """Read a file of lines: the first byte says which."""
    path = _file()
    path.write_bytes(data[1:])
    _READERS[data[0] % len(_READERS) if data else 0](path)


def evidence() -> Iterator[bytes]:
    """Make lines of each kind."""
    settings = WorkloadSettings().as_settings()
    ops = (
        Op(1.0, -1, "workload", "info", settings=settings, seq=0),
        Op(1.0, 0, "send", "invoke", "t", 0, None, "v", seq=1),
        Op(1.5, 0, "send", "ok", "t", 0, 5, "v", seq=2),
        Op(2.0, 1, "poll", "ok", "t", 0, 5, "v", None, 3, 1, seq=3),
        Op(2.0, 1, "read", "info", "t", 0, 5, error="timed out", seq=4),
    )
    for count in (1, 2, len(ops)):
        yield b"\0" + "".join(op.line() + "\n" for op in ops[:count]).encode()
    yield b'\1{"time":1.0,"kind":"note","text":"a"}\n{"time":2,"kind":"verdict"}\n{"ti'
    for kind in KINDS:
        line = {"kind": kind, "topic": "t", **dict.fromkeys(NUMBERS[kind], 1), "crc_right": True, "in_sync": True}
        line |= {"leader": True, "values": ["v"], "time": 1, "reason": "retention", "to": 1}
        yield b"\2" + json.dumps(line if kind != "start" else {**line, "partition": 0}).encode() + b"\n"


TARGETS = (
    Target(
        "evidence",
        read_evidence,
        evidence,
        (HistoryError,),
        words=lambda: sorted({name for numbers in NUMBERS.values() for name in numbers}),
    ),
)
