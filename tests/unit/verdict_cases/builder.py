"""Writes a run folder by hand: history.jsonl, replicas.jsonl and the claims, one call a line or a few."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TOPIC = "t"
TAIL, FINAL, LETTERS, MEMBER = 1000, 2000, 2001, 3001
Line = dict[str, Any]
Edit = Callable[[Path], None]


class Run:
    """The evidence of one run. Each line of the history is one second after the one before, from `epoch` on."""

    epoch = 1_000.0

    def __init__(self, acks: str | None = None, idempotence: bool = False, max_in_flight: int = 1) -> None:
        self.history: list[Line] = []
        self.replicas: list[Line] = []
        self.claims: list[Line] = []
        self.problems: list[str] = []
        self.raw_tail = ""
        self.edits: list[Edit] = []
        if acks is not None or idempotence or max_in_flight != 1:
            settings = {"acks": acks or "all", "idempotence": idempotence, "max_in_flight": max_in_flight}
            self.line(-1, "workload", "info", topic=None, partition=None, settings=settings)

    @property
    def now(self) -> float:
        """The time of the next line."""
        return self.epoch + len(self.history)

    def wait(self, seconds: float) -> Run:
        """Let time pass before the next line."""
        self.epoch += seconds
        return self

    # -- history ---------------------------------------------------------------------------------------------------------

    def line(self, process: int, op: str, kind: str, **fields: Any) -> Run:
        common = {"topic": TOPIC, "partition": 0, "offset": None, "value": None, "error": None}
        line = {"time": self.now, "process": process, "op": op, "type": kind, **common, **fields}
        self.history.append({**line, "seq": len(self.history)})
        return self

    def invoke(self, *values: str, process: int = 1, partition: int | None = 0) -> Run:
        for value in values:
            self.line(process, "send", "invoke", partition=partition, value=value)
        return self

    def ok(self, value: str, offset: int | None, process: int = 1, partition: int | None = 0) -> Run:
        return self.line(process, "send", "ok", partition=partition, offset=offset, value=value)

    def fail(self, value: str, process: int = 1) -> Run:
        return self.line(process, "send", "fail", value=value, error="MSG_SIZE_TOO_LARGE")

    def unknown(self, value: str, process: int = 1) -> Run:
        return self.line(process, "send", "info", value=value, error="_MSG_TIMED_OUT")

    def acked(self, value: str, offset: int | None, process: int = 1, partition: int = 0) -> Run:
        return self.invoke(value, process=process, partition=partition).ok(value, offset, process, partition)

    def acked_many(self, count: int, first: int = 0, process: int = 1, partition: int = 0) -> Run:
        """Values `v<offset>`, acknowledged one after the other at the offsets from `first` on."""
        for offset in range(first, first + count):
            self.acked(f"v{offset}", offset, process, partition)
        return self

    def assign(self, offset: int = 0, process: int = TAIL, partition: int = 0) -> Run:
        return self.line(process, "assign", "ok", partition=partition, offset=offset)

    def poll(
        self, records: Sequence[tuple[int, str]], batch: int | None = 1, process: int = TAIL, partition: int = 0
    ) -> Run:
        for offset, value in records:
            self.line(process, "poll", "ok", partition=partition, offset=offset, value=value, batch=batch)
        return self

    def read_to(self, end: int, process: int = TAIL, partition: int = 0) -> Run:
        return self.line(process, "read", "ok", partition=partition, offset=end)

    def read_stopped(self, offset: int = -1, process: int = TAIL, partition: int = 0) -> Run:
        return self.line(process, "read", "info", partition=partition, offset=offset, error="deadline")

    def end_offset(self, offset: int, process: int = TAIL, partition: int = 0) -> Run:
        return self.line(process, "end_offset", "ok", partition=partition, offset=offset)

    def final(self, values: Sequence[str], start: int = 0, end: int | None = None, partition: int = 0) -> Run:
        """A final reader that finds these values from `start` on, and reaches the end."""
        records = [(start + index, value) for index, value in enumerate(values)]
        self.assign(start, FINAL, partition).poll(records, process=FINAL, partition=partition)
        return self.read_to(start + len(values) if end is None else end, FINAL, partition)

    def final_many(self, first: int, end: int, partition: int = 0) -> Run:
        """A final reader that finds the values `v<offset>` of [first, end)."""
        return self.final([f"v{offset}" for offset in range(first, end)], first, partition=partition)

    # -- groups ----------------------------------------------------------------------------------------------------------

    def join(self, member: int = MEMBER, group: str = "g") -> Run:
        return self.line(member, "join", "ok", topic=None, partition=None, value=group)

    def process(self, first: int, end: int, member: int = MEMBER, partition: int = 0) -> Run:
        """The member has done its work with the values `v<offset>` of [first, end)."""
        for offset in range(first, end):
            self.line(member, "process", "ok", partition=partition, offset=offset, value=f"v{offset}")
        return self

    def commit(self, offset: int, member: int = MEMBER, kind: str = "ok", partition: int = 0) -> Run:
        return self.line(member, "commit", kind, partition=partition, offset=offset)

    def dead_letters(self, *offsets: int, group: str = "g") -> Run:
        """The reader of a group's dead letters finds one of the value `v<offset>` for each of these."""
        self.join(LETTERS, group)
        for offset in offsets:
            self.line(LETTERS, "dead_letter", "ok", offset=offset, value=f"v{offset}")
        return self

    # -- replicas --------------------------------------------------------------------------------------------------------

    def topic(self, partitions: int = 1, replication_factor: int = 3, name: str = TOPIC, **config: str) -> Run:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.replicas.append(
            {
                "kind": "topic",
                "topic": name,
                "partitions": partitions,
                "replication_factor": replication_factor,
                "config": settings,
            }
        )
        return self

    def replica(
        self,
        broker: int,
        batches: Sequence[Mapping[str, Any]] = (),
        *,
        start: int = 0,
        end: int | None = None,
        in_sync: bool = True,
        damage: str | None = None,
        partition: int = 0,
        told_batches: int | None = None,
    ) -> Run:
        if end is None:
            end = max((int(each["last_offset"]) + 1 for each in batches), default=start)
        count = len(batches) if told_batches is None else told_batches
        where = {"topic": TOPIC, "partition": partition, "broker": broker}
        bounds = {"start": start, "end": end, "batches": count, "damage": damage}
        self.replicas.append({"kind": "replica", **where, "leader": broker == 1, "in_sync": in_sync, **bounds})
        self.replicas += [{"kind": "batch", **where, "index": index, **each} for index, each in enumerate(batches)]
        return self

    def alike(self, end: int, start: int = 0, brokers: Sequence[int] = (1, 2, 3), partition: int = 0) -> Run:
        """These replicas hold one batch for each offset of [start, end), and the same."""
        for broker in brokers:
            self.replica(broker, records(start, end), start=start, partition=partition)
        return self

    def start_moved(
        self,
        to: int | None,
        reason: str = "delete_records",
        *,
        from_: int | None = 0,
        broker: int = 1,
        partition: int | None = 0,
        time: float | None = None,
    ) -> Run:
        when = {"kind": "start", "time": self.now if time is None else time, "broker": broker}
        where = {"topic": TOPIC, "partition": partition}
        self.replicas.append({**when, **where, "from": from_, "to": to, "reason": reason})
        return self

    # -- claims ----------------------------------------------------------------------------------------------------------

    def claim(self, type_: str, since: float | str | None = None, limit_millis: int | None = None) -> Run:
        name = f"claim-{len(self.claims) + 1}"
        self.claims.append({"name": name, "type": type_, "since": since, "limit_millis": limit_millis})
        return self

    def problem(self, text: str) -> Run:
        self.problems.append(text)
        return self

    def changed(self, edit: Edit) -> Run:
        """Do this to the run folder once it is written: what nobody's tool would write."""
        self.edits.append(edit)
        return self

    # -- files -----------------------------------------------------------------------------------------------------------

    def write(self, folder: Path) -> Path:
        """Write the run folder; returns it."""
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "history.jsonl", self.history, self.raw_tail)
        if self.replicas:
            _write(folder / "replicas.jsonl", self.replicas)
        claims = {"time": self.now, "kind": "claims", "claims": self.claims, "problems": self.problems}
        _write(folder / "journal.jsonl", [claims])
        for edit in self.edits:
            edit(folder)
        return folder


def batch(base: int, last: int | None = None, epoch: int = 0, crc: int | None = None, **more: Any) -> Line:
    """A batch line's own fields; `crc` follows from the base offset and the epoch unless it is given."""
    last = base if last is None else last
    return {
        "base_offset": base,
        "last_offset": last,
        "leader_epoch": epoch,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "crc": 7_000_000 + 1000 * base + epoch if crc is None else crc,
        "crc_right": True,
        "control": False,
        "segment": "00000000000000000000.log",
        "position": 100 * base,
        "size": 100,
        **more,
    }


def records(start: int, end: int, epoch: int = 0) -> list[Line]:
    """One batch for each offset."""
    return [batch(offset, epoch=epoch) for offset in range(start, end)]


def _write(path: Path, lines: Sequence[Line], tail: str = "") -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + tail, encoding="utf-8")


@dataclass(frozen=True)
class Case:
    """A run, and what both judges have to say of it."""

    name: str
    make: Callable[[], Run]
    verdict: str
    anomalies: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int | float | None] = field(default_factory=dict)
    """Only those of interest."""
    proven: int | None = None
    """The number of the falsified run in the audit that both judges, or one, once called Passed."""
