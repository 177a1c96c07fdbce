"""What /healthz, the metric and the events say of a component that cannot do its work."""

from __future__ import annotations

from typing import Any

from minikafka.server.health import PROBLEM_CHARACTERS_MAX, Health
from minikafka.telemetry.events import EventLog
from minikafka.telemetry.exposition import BrokerCollector
from minikafka.telemetry.stats import BrokerStats


class Told:
    """Events, and the time."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.clock = 0.0
        self.health = Health(self.emit, lambda: self.clock)

    def emit(self, event: str, **fields: Any) -> None:
        EventLog(None, 1).emit(event, **fields)  # asserts that both are declared
        self.events.append((event, fields))


def test_nothing_is_wrong() -> None:
    told = Told()
    told.health.clear("retention")
    assert told.health.verdict() == (True, "ok")
    assert told.events == []


def test_a_problem_is_told_once_and_shown_until_it_is_over() -> None:
    told = Told()
    told.health.report("retention", "OSError: no\nspace")
    told.clock = 2.5
    told.health.report("retention", "OSError: still none")
    assert told.health.verdict() == (False, "retention: OSError: still none")
    told.health.clear("retention")
    assert told.health.verdict() == (True, "ok")
    assert told.events == [
        ("component_failed", {"component": "retention", "error": "OSError: no space"}),
        ("component_recovered", {"component": "retention", "seconds": 2.5}),
    ]


def test_one_line_for_each() -> None:
    told = Told()
    told.health.report("b", "x" * 10_000)
    told.health.report("a", "second")
    well, text = told.health.verdict()
    assert not well
    assert text.splitlines() == ["b: " + "x" * PROBLEM_CHARACTERS_MAX, "a: second"]
    assert list(told.health.problems()) == ["b", "a"]


def test_what_a_restart_does_not_mend_is_told_without_asking_for_one() -> None:
    told = Told()
    told.health.report("metadata", "older than a log", restart_helps=False)
    assert told.health.verdict() == (True, "metadata: older than a log")
    assert told.events == [("component_failed", {"component": "metadata", "error": "older than a log"})]
    told.health.report("retention", "no space")
    assert told.health.verdict() == (False, "metadata: older than a log\nretention: no space")
    told.health.clear("retention")
    assert told.health.verdict()[0]
    told.health.report("metadata", "unreadable")
    assert not told.health.verdict()[0]


def test_the_metric() -> None:
    told = Told()
    collector = BrokerCollector(BrokerStats(), lambda: [], failed=told.health.problems)
    assert "minikafka_component_failed{" not in b"".join(collector.render()).decode()
    told.health.report("cluster image", "KeyError: 'x'")
    assert 'minikafka_component_failed{component="cluster image"} 1' in b"".join(collector.render()).decode()
