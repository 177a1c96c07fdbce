"""Reads the trace of a simulated schedule, as `minikafka simulate --seed N --trace` prints it, as evidence.

Behind its lines stand what became of the schedule and the hash of the lines. By these a whole trace is known from one that is
torn, whose end is not there: of a run that was killed, or of a disk that was full.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from minikafka.protocol.types import TopicPartition
from minikafka.telemetry.events import EVENTS, FIELDS

from minikafka_chaos.errors import BadScenario
from minikafka_chaos.watch.evidence import EventLine, Evidence, LogGrowth, Note, ProcessCondition
from minikafka_chaos.watch.state import WatchedCondition

_LINE: Final = re.compile(r"\s*(?P<time>\d+\.\d{3}) (?P<rest>\S.*)", re.DOTALL)
_SUMMARY: Final = re.compile(
    r"^seed \d+: .*?(?:\n[^\n]*; trace hash (?P<hash>[0-9a-f]{16})$|\Z)", re.MULTILINE | re.DOTALL
)
"""Of a torn trace the hash, or all of it, is not there."""
_VIOLATION: Final = re.compile(r"^ *\d+\.\d{3} VIOLATION ", re.MULTILINE)
_BEFORE_LINE: Final = re.compile(r"\n(?= *\d+\.\d{3} \S)")
"""From a violation on, whose own words may be several lines."""
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
UNREADABLE: Final = "\N{REPLACEMENT CHARACTER}"
"""For bytes that are no text."""
SHOWN_MAX: Final = 60
REPEATED: Final = "controller: "
"""The beginning of lines that tell of an event which a broker tells as well."""


def is_trace(text: str) -> bool:
    """Return whether it begins as a trace does."""
    return _LINE.match(text) is not None and " seed " in text.split("\n", 1)[0]


class Trace(NamedTuple):
    """What a trace tells; `torn` says where it ends, where it is not whole."""

    evidence: list[Evidence]
    torn: str | None


def read_trace(text: str) -> Trace:
    """Read a trace; of what follows it nothing is read. Raises BadScenario for one that is damaged before its end."""
    summary = _SUMMARY.search(text)
    body = text if summary is None else text[: summary.start()]
    if summary is None:
        body = body[: body.rfind("\n") + 1]  # the last line was cut off
    lines = _lines(body)
    evidence = list(_read(lines))
    if summary is not None and summary["hash"] is not None:
        if blake2b("".join(lines).encode(), digest_size=8).hexdigest() != summary["hash"]:
            raise BadScenario(f"its lines are not those that trace hash {summary['hash']} is of: make it anew")
        return Trace(evidence, None)
    end = evidence[-1].time if evidence else 0.0
    torn = f"the trace is torn: it ends after line {len(lines)}, at {end:.3f} s, and what came then is not known"
    return Trace([*evidence, Note(end, torn)], torn)


def _lines(body: str) -> list[str]:
    violation = _VIOLATION.search(body)
    words = len(body) if violation is None else violation.start()
    return [*body[:words].split("\n")[:-1], *filter(None, _BEFORE_LINE.split(body[words:].rstrip("\n")))]


def _read(lines: list[str]) -> Iterator[Evidence]:
    before = 0.0
    for number, line in enumerate(lines, 1):
        found = _LINE.fullmatch(line)
        if found is None or UNREADABLE in line or (time := float(found["time"])) < before:
            raise BadScenario(
                f"line {number} is damaged: {line[:SHOWN_MAX]!r} is no line of a trace there: make it anew"
            )
        before = time
        if not found["rest"].startswith(REPEATED):
            yield _evidence(time, found["rest"])


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
