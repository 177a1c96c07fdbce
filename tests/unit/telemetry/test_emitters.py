"""What the code emits is what is declared: an undeclared event would only be found when a broker meets it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import minikafka
import pytest
from minikafka.telemetry import events
from minikafka.telemetry.events import EVENTS

PACKAGE = Path(minikafka.__file__).parent
OF_EVENTS = re.compile(r"\.(emit|note)\(|['\"](" + "|".join(EVENTS) + r")['\"]")


@cache
def nodes() -> tuple[tuple[Path, ast.AST], ...]:
    """All that is in the package's files which emit or name an event; those that declare events are left out."""
    texts = [(path, path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))]
    files = [
        (path, ast.parse(text)) for path, text in texts if OF_EVENTS.search(text) and path != Path(events.__file__)
    ]
    return tuple((path, node) for path, tree in files for node in ast.walk(tree))


def emissions() -> Iterator[tuple[str, str, list[str | None]]]:
    """Place, event and keyword names of each ``something.emit("event", ...)`` in the package.

    ``something.note("event", topic, partition, ...)`` is the controller's way of emitting when its changes are stored.
    """
    for path, node in nodes():
        if not (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("emit", "note")
        ):
            continue
        names = node.args[0] if node.args else None
        # `emit("a" if x else "b", ...)` names two events.
        options = [names.body, names.orelse] if isinstance(names, ast.IfExp) else [names]
        for option in options:
            if isinstance(option, ast.Constant) and isinstance(option.value, str):
                place = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                positional = ["topic", "partition"][: len(node.args) - 1]
                yield place, option.value, [*positional, *(keyword.arg for keyword in node.keywords)]


@pytest.mark.slow
def test_every_emission_is_declared() -> None:
    wrong: list[str] = []
    for place, name, keywords in emissions():
        event = EVENTS.get(name)
        if event is None:
            wrong.append(f"{place}: undeclared event {name}")
            continue
        given = {keyword for keyword in keywords if keyword is not None}
        extra = given - {"topic", "partition", *event.fields}
        if extra:
            wrong.append(f"{place}: {name} has undeclared fields {sorted(extra)}")
        if event.partition and not {"topic", "partition"} <= given and None not in keywords:
            wrong.append(f"{place}: {name} needs topic and partition")
    assert wrong == []


@pytest.mark.slow
def test_no_event_is_promised_that_never_comes() -> None:
    """Each declared event is named somewhere else in the broker, where it is emitted."""
    named = {node.value for _, node in nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert set(EVENTS) <= named
