"""Steps of a recording as the page takes them: a whole state to begin with, then what each step changes. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from minikafka.protocol.types import TopicPartition
from minikafka.telemetry.events import EVENTS

from minikafka_chaos.watch.recording import Recording, WatchedStep
from minikafka_chaos.watch.state import BrokerKey, Entity, GroupName, Key, ReplicaKey, WatchedGroup
from minikafka_chaos.watch.verbs import VERBS


def key_text(key: Key) -> str:
    """Return a key as the page has it: a letter for what it is, then its parts, of which only the last may be any text."""
    match key:
        case BrokerKey(broker=broker):
            return f"b|{broker}"
        case TopicPartition(topic=topic, partition=partition):
            return f"p|{topic}|{partition}"
        case ReplicaKey(topic=topic, partition=partition, broker=broker):
            return f"r|{topic}|{partition}|{broker}"
        case GroupName(group=group):
            return f"g|{group}"


def entity_json(entity: Entity | None) -> dict[str, Any] | None:
    """Return an entity's fields; those that are None or empty are left out."""
    if entity is None:
        return None
    if isinstance(entity, WatchedGroup):
        committed = [[where.topic, where.partition, offset] for where, offset in entity.committed]
        return {"members": entity.members, "committed": committed}
    return {
        name: value for name, value in asdict(entity).items() if not (value is None or value is False or value == ())
    }


def state_json(entities: Mapping[Key, Entity]) -> dict[str, Any]:
    """Return a whole state."""
    return {key_text(key): entity_json(entity) for key, entity in entities.items()}


def step_json(step: WatchedStep) -> dict[str, Any]:
    """Return one step: `t` its time, `s` who tells, `x` the text, `k` how it is meant, `e` the event, `c` the changes.

    `i`: the event is of an internal topic.
    """
    found: dict[str, Any] = {"t": round(step.time, 6)}
    if step.line is not None:
        found |= {"s": step.line.source, "x": step.line.text, "k": step.line.tone}
        if step.line.event in EVENTS:
            found["e"] = step.line.event
        if step.line.internal:
            found["i"] = 1
    if step.changes:
        found["c"] = {key_text(key): entity_json(entity) for key, entity in step.changes.items()}
    return found


def beginning(title: str, recording: Recording, *, live: bool) -> dict[str, Any]:
    """Return what the page has to know before the first step."""
    return {
        "title": title,
        "live": live,
        "forgotten": recording.forgotten,
        "state": state_json(recording.oldest),
        "meanings": {name: declared.doc for name, declared in EVENTS.items()},
        "verbs": {name: verb.words for name, verb in VERBS.items()} if live else {},
    }


def steps_json(steps: Iterable[WatchedStep]) -> list[dict[str, Any]]:
    """Return some steps."""
    return [step_json(step) for step in steps]
