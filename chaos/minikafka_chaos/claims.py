"""What a run is judged by: the claims that were made of it, and what kept it from showing more.

The runner writes both into the journal, as a line of kind `claims` (docs/verdicts.md), so that any judge can judge the run
folder again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minikafka_chaos import journal
from minikafka_chaos.evidence import ALWAYS
from minikafka_chaos.history import HistoryError

LINE_KIND = "claims"
NEVER = math.inf
"""The `since` of a claim whose step was never begun."""

NO_LOSS, NO_DIVERGENCE, NO_DUPLICATES, NO_REORDERING, ACK_GAP = (
    "NoAcknowledgedRecordLost",
    "NoDivergence",
    "NoDuplicates",
    "NoReordering",
    "AckGapAtMost",
)
TYPES = frozenset((NO_LOSS, NO_DIVERGENCE, NO_DUPLICATES, NO_REORDERING, ACK_GAP))


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim. `since` is unix time, for NoAcknowledgedRecordLost only; `limit_millis` is for AckGapAtMost."""

    name: str
    type: str
    since: float | None = None
    limit_millis: int | None = None

    def as_json(self) -> dict[str, Any]:
        since = "never" if self.since == NEVER else self.since
        return {"name": self.name, "type": self.type, "since": since, "limit_millis": self.limit_millis}


@dataclass(frozen=True, slots=True)
class Terms:
    """Claims and problems of a run."""

    claims: Sequence[Claim] = ()
    problems: Sequence[str] = field(default=())

    @property
    def loss(self) -> Sequence[Claim]:
        """The claims of no loss; they replace the one that is made of every run."""
        return [claim for claim in self.claims if claim.type == NO_LOSS]

    @property
    def accept_before(self) -> float:
        """A of docs/verdicts.md: nothing that was acknowledged before that time was to be kept."""
        return min((ALWAYS if claim.since is None else claim.since for claim in self.loss), default=ALWAYS)

    def as_json(self) -> dict[str, Any]:
        return {"claims": [claim.as_json() for claim in self.claims], "problems": list(self.problems)}


def read_terms(path: Path) -> Terms:
    """The terms that a run's journal tells; none at all where there is no journal or no such line.

    Raises HistoryError for a line that cannot be understood.
    """
    try:
        lines = journal.read_journal(path) if path.exists() else []
    except (OSError, ValueError) as error:
        raise HistoryError(f"{path}: {error}") from error
    told = [line for line in lines if line.get("kind") == LINE_KIND]
    if not told:
        return Terms()
    claims = told[-1].get("claims")
    problems = told[-1].get("problems")
    if not isinstance(claims, list) or not isinstance(problems, list):
        raise HistoryError(f"{path}: the line of kind claims needs the lists claims and problems")
    return Terms([_claim(claim, path) for claim in claims], [str(problem) for problem in problems])


def _claim(told: Any, path: Path) -> Claim:
    if not isinstance(told, dict) or told.get("type") not in TYPES:
        raise HistoryError(f"{path}: a claim has one of the types {', '.join(sorted(TYPES))}")
    since = told.get("since")
    if since is not None and since != "never" and not isinstance(since, int | float):
        raise HistoryError(f"{path}: since of a claim is a time, never or null")
    return Claim(str(told.get("name")), told["type"], NEVER if since == "never" else since, told.get("limit_millis"))
