"""Reads a golden schedule (tests/simulation/golden) as what could be watched of it, beside what the replicas really had.

The brokers' events are evidence as they stand. A replica's line says more than anybody could see from outside: of it a scrape
is made, with its offsets and its role, while the epoch of each record is kept for the comparison.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from minikafka.telemetry.events import EVENTS, FIELDS
from minikafka_chaos.record.observe import Sample
from minikafka_chaos.watch.evidence import EventLine, Evidence, JournalLine, ProcessCondition, Scrape

FOLDER = Path(__file__).parents[3] / "simulation" / "golden"
TOPIC, PARTITION = "t", 0
LABELS = {"topic": TOPIC, "partition": str(PARTITION)}
_REPLICA = re.compile(
    r"  b(?P<broker>\d+) (?P<role>leads|follows) epoch (?P<epoch>\d+)   "
    r"(?P<records>.*?)   hw (?P<hw>\d+) flushed (?P<flushed>\d+)"
    r"(?P<paused> \(paused\))?"
)
_DOWN = re.compile(r"  b(?P<broker>\d+) is down")
_EVENT = re.compile(r"  b(?P<broker>\d+) (?P<event>[a-z_]+)(?P<fields>(?: .*)?)")


class RealLog(NamedTuple):
    """What a replica really has: the leader epoch of each record, by offset."""

    broker: int
    epochs: dict[int, int]


class Block(NamedTuple):
    """A line of the schedule, what was seen of what came of it, and what the replicas have then."""

    order: str
    evidence: list[Evidence]
    logs: list[RealLog]


def read(name: str) -> Iterator[Block]:
    """Yield the blocks of a schedule."""
    time, block = 0.0, Block("", [], [])
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        time += 1
        if line.startswith("> "):
            yield block
            block = Block(line[2:], [], [])
            if line.startswith("> wipe"):
                block.evidence.extend(_wiped(time, broker) for broker in line.split()[2:])
        elif found := _REPLICA.fullmatch(line):
            epochs = _records(found["records"])
            block.evidence.append(_scrape(time, found, len(epochs)))
            block.logs.append(RealLog(int(found["broker"]), epochs))
        elif found := _DOWN.fullmatch(line):
            block.evidence.append(ProcessCondition(time, int(found["broker"]), "dead"))
        elif (found := _EVENT.fullmatch(line)) and found["event"] in EVENTS:
            of_partition = EVENTS[found["event"]].partition
            where = (TOPIC, PARTITION) if of_partition else (None, None)
            fields = _fields(found["fields"])
            block.evidence.append(EventLine(time, int(found["broker"]), found["event"], *where, fields))
    yield block


def _records(text: str) -> dict[int, int]:
    rows = [re.fullmatch(r"(\d+):.*@(\d+)", each) for each in text.split() if each != "-"]
    return {int(row[1]): int(row[2]) for row in rows if row is not None}


def _wiped(time: float, broker: str) -> JournalLine:
    line = {"kind": "action", "phase": "end", "fault": "WipeVolume", "target": f"broker-{broker}", "ok": True}
    return JournalLine(time, line)


def _scrape(time: float, found: re.Match[str], end: int) -> Scrape:
    values = {
        "log_end_offset": end,
        "high_watermark": int(found["hw"]),
        "log_flushed_offset": int(found["flushed"]),
        "leader_epoch": int(found["epoch"]),
        "replica_role": 2 if found["role"] == "leads" else 1,
    }
    return Scrape(
        time, int(found["broker"]), [Sample(f"minikafka_{name}", LABELS, value) for name, value in values.items()]
    )


def _fields(text: str) -> dict[str, Any]:
    pairs = (each.split("=", 1) for each in text.split() if "=" in each)
    return {name: _value(name, value) for name, value in pairs}


def _value(name: str, text: str) -> Any:
    return text.replace("_", " ") if FIELDS[name].type == "str" else ast.literal_eval(text)
