"""Events as `kubectl describe` needs them."""

from __future__ import annotations

from datetime import UTC, datetime

from minikafka_chaos.controller.reconciler import event_of
from minikafka_chaos.experiment.kinds import EXPERIMENT
from minikafka_kube.events import Emit

THING = {"metadata": {"name": "try", "namespace": "lab", "uid": "u", "resourceVersion": "7"}}


def test_they_have_the_time_by_which_kubectl_puts_them_in_order() -> None:
    """`kubectl describe` sorts by lastTimestamp, which events.k8s.io/v1 refuses: of 20 Events it made a story in random order."""
    made = event_of(EXPERIMENT, THING, Emit("Told", "a line"), "me", datetime(2026, 1, 1, 12, 0, 1, 500_000, UTC))
    assert (made["apiVersion"], made["kind"]) == ("v1", "Event")
    assert made["lastTimestamp"] == made["firstTimestamp"] == "2026-01-01T12:00:01Z"
    assert made["eventTime"] == "2026-01-01T12:00:01.500000Z"
    assert made["involvedObject"]["uid"] == "u" and made["message"] == "a line"
