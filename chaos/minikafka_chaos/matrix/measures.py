"""What is measured in a cell, and how sure that is.

Each measure is a share of trials: a trial lost something or did not. Trials of one cell are independent draws of the seed;
records of one trial are not independent of each other, so no interval is given for shares of records. Intervals are
Wilson's score intervals: they stay within 0 and 1, and say something at 0 of N, where the usual one is empty. What 0 of N
means is their upper end: with 200 trials up to 1.9 % is compatible with it, and no number of trials makes it "never".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from minikafka_chaos.matrix.trials import Trial

CONFIDENCE = 0.95
Z = 1.959963984540054
"""The two-sided quantile of the normal distribution for `CONFIDENCE`."""


class Share(NamedTuple):
    """How many of the trials that could tell, with Wilson's interval."""

    number: int
    trials: int
    """Those that could tell; 0 when none could."""
    low: float
    high: float

    @property
    def share(self) -> float | None:
        return self.number / self.trials if self.trials else None


def wilson(number: int, trials: int) -> Share:
    """Wilson's score interval of `number` of `trials` (E. B. Wilson 1927); 0 to 1 where there are no trials."""
    if not trials:
        return Share(number, 0, 0.0, 1.0)
    share, square = number / trials, Z * Z / trials
    middle = (share + square / 2) / (1 + square)
    half = Z * math.sqrt(share * (1 - share) / trials + square / (4 * trials)) / (1 + square)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    # At the ends the formula gives them exactly; floating point does not.
    return Share(number, trials, 0.0 if number == 0 else low, 1.0 if number == trials else high)


class Measure(StrEnum):
    """What is counted."""

    LOSS = "loss"
    DUPLICATION = "duplication"
    UNAVAILABILITY = "unavailability"
    DIVERGENCE = "divergence"


@dataclass(frozen=True, slots=True)
class Definition:
    """A measure in words, and whether a trial shows it: None when the trial cannot tell."""

    title: str
    meaning: str
    shown_by: Callable[[Trial, float], bool | None]


def _found(found: bool, conclusive: bool) -> bool | None:
    """Return what was found was found, also in a trial that could not tell everything; what was not may still be there."""
    return True if found else (False if conclusive else None)


def _lost(trial: Trial, _limit_s: float) -> bool | None:
    return _found(trial.lost > 0, trial.told) if trial.acknowledged else None


def _unavailable(trial: Trial, limit_s: float) -> bool | None:
    return None if not trial.acknowledged or trial.longest_gap_s is None else trial.longest_gap_s > limit_s


MEASURES: dict[Measure, Definition] = {
    Measure.LOSS: Definition(
        "Loss",
        "An acknowledged record was gone in the end. Not told with acks=0, where nothing is acknowledged, and where no reader "
        "came to the end, as of a partition that had no leader any more.",
        _lost,
    ),
    Measure.DUPLICATION: Definition(
        "Duplication",
        "A record that was sent once is in the log twice or more often (a producer without idempotence sends again).",
        lambda trial, _limit_s: _found(trial.duplicated > 0, trial.told),
    ),
    Measure.UNAVAILABILITY: Definition(
        "Unavailability",
        "For longer than {limit} no send to the partition was acknowledged. Not told with acks=0.",
        _unavailable,
    ),
    Measure.DIVERGENCE: Definition(
        "Divergence",
        "In-sync replicas of the partition hold different records at rest, or one lacks some.",
        lambda trial, _limit_s: _found(trial.divergent > 0, trial.told),
    ),
}


@dataclass(frozen=True, slots=True)
class CellSummary:
    """What was counted in one cell."""

    trials: int
    shares: dict[Measure, Share]
    first_seeds: dict[Measure, int]
    """The first seed that shows a measure, for `--cell ... --seed N`."""
    by_faults: dict[Measure, Counter[str]]
    """Mix of faults -> how many of the trials that show a measure drew it."""
    lost_records: int
    acknowledged: int
    unacknowledged_share: float
    """Of all sends: refused, or without an answer."""
    unknown_gone_share: float
    """Of the sends without an outcome: those that are not in the log. All that can be said with acks=0."""


def summary(trials: Sequence[Trial], limit_s: float) -> CellSummary:
    """Count the trials of one cell. `limit_s`: what is unavailable, in seconds."""
    shares: dict[Measure, Share] = {}
    first: dict[Measure, int] = {}
    by_faults: dict[Measure, Counter[str]] = {}
    for measure, definition in MEASURES.items():
        known = [(trial, shown) for trial in trials if (shown := definition.shown_by(trial, limit_s)) is not None]
        showing = [trial for trial, shown in known if shown]
        shares[measure] = wilson(len(showing), len(known))
        by_faults[measure] = Counter(trial.faults for trial in showing)
        if showing:
            first[measure] = min(trial.seed for trial in showing)
    sent = sum(trial.sent for trial in trials)
    unknown = sum(trial.unknown for trial in trials)
    there = sum(trial.unknown_but_there for trial in trials)
    return CellSummary(
        trials=len(trials),
        shares=shares,
        first_seeds=first,
        by_faults=by_faults,
        lost_records=sum(trial.lost for trial in trials),
        acknowledged=sum(trial.acknowledged for trial in trials),
        unacknowledged_share=sum(trial.failed + trial.unknown for trial in trials) / sent if sent else 0.0,
        unknown_gone_share=(unknown - there) / unknown if unknown else 0.0,
    )
