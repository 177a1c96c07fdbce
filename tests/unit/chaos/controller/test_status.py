"""The status of an experiment as a typed value: whatever stands there is read, and nothing is lost when it is written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from minikafka_chaos.experiment.reasons import ChaosCondition, ChaosReason
from minikafka_chaos.experiment.status import ExperimentStatus, Phase
from minikafka_kube.conditions import Judgement

NOW = datetime(2026, 11, 22, 9, 0, 0, tzinfo=UTC)
FAULT = {"id": "f1", "step": "kill", "verb": "Kill", "state": "Injected", "expiresAt": "2026-11-22T09:30:00Z"}
ACCEPTED = {
    "type": "Accepted",
    "status": "True",
    "reason": "Accepted",
    "message": "",
    "lastTransitionTime": "0000-01-01",
}


def read(status: dict[str, Any]) -> ExperimentStatus:
    return ExperimentStatus.of({"status": status})


@pytest.mark.parametrize(
    "status",
    [
        {},
        {
            "phase": "Running",
            "faults": [FAULT],
            "faultsMade": 1,
            "faultNow": "Kill",
            "deadline": "2026-11-22T10:00:00Z",
        },
        {"phase": "Completed", "report": {"claim": "c", "path": "p", "verdict": "Passed", "copy": "kubectl ..."}},
        {"phase": "Running", "newer": {"field": 1}, "faults": [{**FAULT, "newer": True}]},
        {"conditions": [{**ACCEPTED, "newer": 1}, {**ACCEPTED, "type": "Others"}]},
    ],
    ids=["nothing", "faults", "alias", "fields of a newer version", "conditions as they stand"],
)
def test_it_is_written_as_it_was_read(status: dict[str, Any]) -> None:
    assert read(status).document() == status


@pytest.mark.parametrize("time", ["0000-01-01T00:00:00Z", "tomorrow"])
def test_what_is_no_time_is_none(time: str) -> None:
    """The API server lets a year 0 pass, and an experiment with it has to end all the same."""
    status = read({"phase": "Running", "deadline": time, "recoveryFailing": [{"pod": "p", "since": time, "why": "w"}]})
    assert status.deadline is None and status.document()["recoveryFailing"][0]["since"] == "1970-01-01T00:00:00Z"


def test_conditions_stand_in_their_order_and_those_of_others_come_last() -> None:
    status = read({"conditions": [{**ACCEPTED, "type": "Others"}, {**ACCEPTED, "type": "Complete"}]})
    told = Judgement(ChaosCondition.ACCEPTED, True, ChaosReason.ACCEPTED, "so")
    after = status.with_condition(told, 7, NOW)
    assert [one["type"] for one in after.conditions or ()] == ["Accepted", "Complete", "Others"]
    assert after.message(ChaosCondition.ACCEPTED) == "so" and not status.condition(ChaosCondition.ACCEPTED)
    again = after.with_condition(told, 8, NOW.replace(hour=10))
    assert again.condition(ChaosCondition.ACCEPTED)["lastTransitionTime"] == "2026-11-22T09:00:00Z"


def test_another_value_is_another_status() -> None:
    status = read({"phase": "Running"})
    assert status.but(phase=Phase.HEALING) != status == read({"phase": "Running"})
