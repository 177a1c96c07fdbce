"""Reads the trace of a simulated schedule, as `minikafka simulate --seed N --trace` prints it, as evidence."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from minikafka.protocol.types import TopicPartition
from minikafka.telemetry.events import EVENTS, FIELDS

from minikafka_chaos.watch.evidence import EventLine, Evidence, LogGrowth, Note, ProcessCondition
from minikafka_chaos.watch.state import WatchedCondition

_LINE: Final = re.compile(r"\s*(?P<time>\d+\.\d{3}) (?P<rest>\S.*)")
_OF_BROKER: Final = re.compile(r"b(?P<broker>\d+) (?P<rest>.+)")
_PARTITION: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+|None) (?P<rest>.+)")
_APPEND: Final = re.compile(r"(?:leads append|appends) \d+\.\.(?P<end>\d+)")
PROCESS: Final[Mapping[str, WatchedCondition]] = {
    "is killed": WatchedCondition.DEAD,
    "loses power": WatchedCondition.DEAD,
    "exits": WatchedCondition.DEAD,
    "pauses": WatchedCondition.PAUSED,
    "resumes": WatchedCondition.UP,
}
"""What becomes of a broker's process, by the words that the trace has for it."""
REPEATED: Final = "controller: "
"""The beginning of lines that tell of an event which a broker tells as well."""


def is_trace(text: str) -> bool:
    """Return whether it begins as a trace does."""
    return _LINE.match(text) is not None and " seed " in text.split("\n", 1)[0]


def read_trace(lines: Iterable[str]) -> Iterator[Evidence]:
    """Yield what the lines of a trace tell; of what follows the trace nothing is read."""
    for line in lines:
        found = _LINE.fullmatch(line.rstrip("\n"))
        if found is not None and not found["rest"].startswith(REPEATED):
            yield _evidence(float(found["time"]), found["rest"])


def _evidence(time: float, text: str) -> Evidence:
    of_broker = _OF_BROKER.fullmatch(text)
    if of_broker is None:
        return Note(time, text)
    broker, rest = int(of_broker["broker"]), of_broker["rest"]
    for words, condition in PROCESS.items():
        if rest.startswith(words):
            return ProcessCondition(time, broker, condition, rest)
    topic, partition = None, None
    found = _PARTITION.fullmatch(rest)
    if found is not None:
        topic, rest = found["topic"], found["rest"]
        partition = None if found["partition"] == "None" else int(found["partition"])
        append = _APPEND.match(rest)
        if append is not None and partition is not None:
            return LogGrowth(time, broker, TopicPartition(topic, partition), int(append["end"]))
    event, _, fields = rest.partition(" ")
    if event not in EVENTS:
        return Note(time, text)
    return EventLine(time, broker, event, topic, partition, _fields(event, fields))


def _fields(event: str, text: str) -> dict[str, Any]:
    """Take the fields apart by their names, which are declared; a value may have blanks in it."""
    names = "|".join(map(re.escape, EVENTS[event].fields))
    if not names:
        return {}
    parts = re.split(rf"(?:^| )({names})=", text)
    return {name: _value(name, value) for name, value in zip(parts[1::2], parts[2::2], strict=True)}


def _value(name: str, text: str) -> Any:
    if text == "None":
        return None
    if FIELDS[name].type == "str":
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
