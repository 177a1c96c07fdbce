"""What is watched, offered and coloured is declared elsewhere, under these names."""

from __future__ import annotations

from minikafka.telemetry.events import EVENTS
from minikafka.telemetry.metrics import METRICS
from minikafka_chaos.session.verbs import VERBS as VERBS_OF_A_SESSION
from minikafka_chaos.watch.event_rules import RULES
from minikafka_chaos.watch.lines import TONES
from minikafka_chaos.watch.sample_rules import WATCHED
from minikafka_chaos.watch.terminal import WatchScreen
from minikafka_chaos.watch.verbs import VERBS
from textual.binding import Binding


def test_events_are_declared() -> None:
    assert set(RULES) | set(TONES) <= set(EVENTS)


def test_metrics_are_declared() -> None:
    assert set(WATCHED) <= {metric.name for metric in METRICS}


def test_verbs_are_a_sessions() -> None:
    assert set(VERBS) <= set(VERBS_OF_A_SESSION)


def test_no_key_does_two_things() -> None:
    keys = [each.key for each in WatchScreen.BINDINGS if isinstance(each, Binding)]
    keys += ["b", *(verb.key for verb in VERBS.values())]
    assert len(set(keys)) == len(keys)
