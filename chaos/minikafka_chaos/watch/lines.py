"""What a person is to read of a piece of evidence: one line, and how it is meant. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from minikafka_chaos.watch.evidence import (
    Acknowledgements,
    EventLine,
    Evidence,
    JournalLine,
    Note,
    ProcessCondition,
)
from minikafka_chaos.watch.state import is_internal

TEXT_MAX = 400
GOOD, BAD, WARNING, PLAIN, FAULT = "good", "bad", "warning", "plain", "fault"
ORDINARY = "ordinary"
"""Of what comes by the hundred while all is well: acknowledgements."""

TONES: Final[Mapping[str, str]] = {
    "produce_acknowledged": ORDINARY,
    "log_truncated": BAD,
    "log_restarted": BAD,
    "unflushed_lost": BAD,
    "corrupt_batch": BAD,
    "log_offline": BAD,
    "partition_offline": BAD,
    "internal_error": BAD,
    "metadata_behind_log": BAD,
    "isr_shrunk": WARNING,
    "broker_fenced": WARNING,
    "component_failed": WARNING,
    "alter_partition_refused": WARNING,
    "replica_fetch_failed": WARNING,
    "error_injected": WARNING,
    "leader_elected": GOOD,
    "isr_expanded": GOOD,
    "broker_unfenced": GOOD,
    "broker_ready": GOOD,
}
"""Of events; all others are plain."""
HELD: Final[Mapping[bool | None, tuple[str, str]]] = {
    True: ("held", GOOD),
    False: ("NOT HELD", BAD),
    None: ("not judged", WARNING),
}
"""What became of a claim, and its tone."""


class Line(NamedTuple):
    """One line of the list of events."""

    source: str
    """`broker 1`, `journal`, `client`, `process`."""
    text: str
    tone: str
    event: str | None = None
    """The name of a broker's event: what it means is declared with it."""
    internal: bool = False
    """Whether it is of a topic of the brokers' own, of which there are many partitions and little to be read."""


def line_of(evidence: Evidence) -> Line | None:
    """Return what is to be read of it; None of what shows in the state only."""
    found = _line(evidence)
    return None if found is None else found._replace(text=_shortened(found.text))


def _line(evidence: Evidence) -> Line | None:
    match evidence:
        case EventLine(broker=broker, event=event):
            internal = evidence.topic is not None and is_internal(evidence.topic)
            return Line(f"broker {broker}", _event_text(evidence), _tone(evidence), event, internal)
        case JournalLine(line=line):
            return _journal_line(line)
        case Acknowledgements():
            source = "client" if evidence.broker is None else f"broker {evidence.broker}"
            return Line(source, _acknowledged_text(evidence), PLAIN if evidence.values else ORDINARY)
        case ProcessCondition(broker=broker, text=text) if text:
            return Line(f"broker {broker}", text, FAULT)
        case Note(text=text):
            return Line("simulation", text, FAULT)
    return None


def _tone(event: EventLine) -> str:
    unclean = event.fields.get("clean") is False
    if unclean and event.event in ("leader_elected", "log_recovered"):
        return BAD if event.event == "leader_elected" else WARNING
    return TONES.get(event.event, PLAIN)


def _event_text(event: EventLine) -> str:
    where = (
        "" if event.topic is None else event.topic if event.partition is None else f"{event.topic}-{event.partition}"
    )
    known = {name: value for name, value in event.fields.items() if value is not None}
    return " ".join([event.event, *([where] if where else []), *(f"{name}={_plain(v)}" for name, v in known.items())])


def _acknowledged_text(acknowledged: Acknowledgements) -> str:
    where, end = acknowledged.topic_partition, acknowledged.end
    if len(acknowledged.values) == 1:
        ((offset, value),) = acknowledged.values.items()
        return f"{value!r} acknowledged at {where} offset {offset}"
    return f"{acknowledged.records} records acknowledged, {where} up to offset {end - 1}"


def _journal_line(line: Mapping[str, Any]) -> Line | None:
    match line.get("kind"):
        case "scenario":
            return Line("journal", f"scenario {_name(line.get('scenario'))}", PLAIN)
        case "action" if line.get("phase") == "begin":
            return Line("journal", _action_text(line), FAULT)
        case "action" if line.get("ok") is False:
            return Line("journal", f"failed: {_action_text(line)}: {line.get('detail')}", BAD)
        case "recovered":
            targets = ", ".join(map(str, line.get("targets") or ()))
            return Line("journal", f"{line.get('fault')} of {targets} is over: {line.get('by')}", GOOD)
        case "check":
            return _check_line(line)
        case "note":
            return Line("journal", str(line.get("text")), PLAIN)
        case "verdict":
            tone = {"Passed": GOOD, "Failed": BAD}.get(str(line.get("verdict")), WARNING)
            return Line("journal", f"{line.get('verdict')}: {line.get('summary')}", tone)
    return None


def _check_line(line: Mapping[str, Any]) -> Line:
    if "claim" in line:
        word, tone = HELD[line.get("held")]
        detail = f": {line['detail']}" if line.get("detail") else ""
        return Line("journal", f"{line['claim']}: {word}{detail}", tone)
    if "expectation" in line:
        return Line("journal", f"expectation: {line.get('detail')}", GOOD if line.get("held") else BAD)
    return Line("journal", f"{line.get('step')}: {line.get('seen')}", PLAIN if line.get("ok") else BAD)


def _action_text(line: Mapping[str, Any]) -> str:
    step, fault, target = line.get("step"), line.get("fault"), line.get("target")
    more = [f"{name}={_plain(line[name])}" for name in ("values", "parameters", "peers", "role") if line.get(name)]
    return " ".join([f"{step}:", str(fault), str(target), *more])


def _name(scenario: Any) -> str:
    metadata = scenario.get("metadata") if isinstance(scenario, Mapping) else None
    return str(metadata.get("name")) if isinstance(metadata, Mapping) else "?"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _shortened(text: str) -> str:
    # What a client or a disk has brought in must not move the cursor of somebody's terminal.
    text = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in " ".join(text.split()))
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"
