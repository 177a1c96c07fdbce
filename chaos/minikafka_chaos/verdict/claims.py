"""What a run is judged by: the claims that were made of it, and what kept it from showing more.

The runner writes both into the journal, as a line of kind `claims` (docs/reference/verdicts.md), so that any judge can judge
the run folder again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from minikafka_chaos.record import journal
from minikafka_chaos.record.history import HistoryError, is_int, is_time
from minikafka_chaos.verdict.evidence import ALWAYS, REPLICAS_FILE

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
    """Claims and problems of a run, and the files that it left as evidence."""

    claims: Sequence[Claim] = ()
    problems: Sequence[str] = field(default=())
    files: Sequence[str] = ()
    by_brokers: bool = False
    """The history was made of what brokers told as acknowledged: nobody knows what was sent, read or processed."""

    @property
    def loss(self) -> Sequence[Claim]:
        """The claims of no loss; they replace the one that is made of every run."""
        return [claim for claim in self.claims if claim.type == NO_LOSS]

    @property
    def accept_before(self) -> float:
        """A of docs/reference/verdicts.md: nothing that was acknowledged before that time was to be kept."""
        return min((ALWAYS if claim.since is None else claim.since for claim in self.loss), default=ALWAYS)

    def as_json(self) -> dict[str, Any]:
        document = {"claims": [claim.as_json() for claim in self.claims], "problems": list(self.problems)}
        return document | ({"files": list(self.files)} if self.files else {})


CUT_SHORT = "nothing tells what the run is to be judged by: it was cut short, or its journal is not whole"
"""The problem of a run folder without a line of claims."""


def terms_of(folder: Path) -> Terms:
    """Return what a run folder is to be judged by: the last line of kind claims in its journal.

    A folder with neither a journal nor `replicas.jsonl` holds a history alone, of which nothing was claimed. One with
    either was left by a run, and a run that came to its end has such a line: without it, and where a file that the line names
    is missing, that is a problem. Raises HistoryError for a line that cannot be understood.
    """
    path = folder / journal.FILE_NAME
    terms = read_terms(path)
    if terms is None:
        of_a_run = path.exists() or (folder / REPLICAS_FILE).exists()
        return Terms(problems=[CUT_SHORT] if of_a_run else [])
    missing = [f"{name} is missing" for name in terms.files if not (folder / name).exists()]
    return replace(terms, problems=[*terms.problems, *missing])


def read_terms(path: Path) -> Terms | None:
    """The terms that a run's journal tells; None where there is no journal or no such line.

    Raises HistoryError for a line that cannot be understood.
    """
    try:
        lines = journal.read_journal(path) if path.exists() else []
    except (OSError, ValueError) as error:
        raise HistoryError(f"{path}: {error}") from error
    found = [line for line in lines if line.get("kind") == LINE_KIND]
    if not found:
        return None
    claims = found[-1].get("claims")
    texts = [found[-1].get("problems"), found[-1].get("files", [])]
    if not isinstance(claims, list) or not all(_are_texts(each) for each in texts):
        raise HistoryError(f"{path}: the line of kind claims needs the lists claims and problems")
    return Terms([_claim(claim, path) for claim in claims], *texts)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _claim(given: Any, path: Path) -> Claim:
    if not isinstance(given, dict) or given.get("type") not in TYPES or not isinstance(given.get("name"), str):
        raise HistoryError(f"{path}: a claim has a name, and one of the types {', '.join(sorted(TYPES))}")
    type_, since, limit = given["type"], given.get("since"), given.get("limit_millis")
    if since is not None and (type_ != NO_LOSS or not (since == "never" or is_time(since))):
        raise HistoryError(f"{path}: since is for NoAcknowledgedRecordLost, and is a time, never or null")
    if type_ == ACK_GAP and not (is_int(limit, 2**53) and limit >= 0):
        raise HistoryError(f"{path}: limit_millis of AckGapAtMost is a whole number of milliseconds")
    return Claim(given["name"], type_, NEVER if since == "never" else since, limit)
