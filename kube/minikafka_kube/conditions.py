"""Conditions in the standard form of Kubernetes: what is to be said in one, and how a status has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from minikafka_kube.instants import time_text


@dataclass(frozen=True)
class Judgement:
    """What is to be said in one condition."""

    type: StrEnum
    holds: bool | None
    reason: StrEnum
    message: str

    @property
    def status(self) -> str:
        """As Kubernetes writes it."""
        return "Unknown" if self.holds is None else str(self.holds)


def condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """One of the conditions that a status has; empty when it has none of that type."""
    return next((one for one in status.get("conditions") or () if one["type"] == kind), {})


def written(
    judgements: Sequence[Judgement], before: Sequence[Mapping[str, Any]], generation: int, now: datetime
) -> list[dict[str, Any]]:
    """The conditions as they stand in the status; the time of the last transition is kept where there was none."""
    old = {condition["type"]: condition for condition in before}
    made = []
    for judgement in judgements:
        same = old.get(judgement.type.value, {})
        changed = same.get("status") != judgement.status
        made.append(
            {
                "type": judgement.type.value,
                "status": judgement.status,
                "reason": judgement.reason.value,
                "message": judgement.message,
                "lastTransitionTime": time_text(now) if changed else same["lastTransitionTime"],
                "observedGeneration": generation,
            }
        )
    return made
