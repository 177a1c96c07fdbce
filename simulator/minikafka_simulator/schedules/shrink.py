"""Makes a failing schedule small: fewer strikes, single strikes left out, fewer seconds.

The nemesis draws its random numbers from the generator that everything else draws from, so a schedule stays what it was up
to the first strike that is left out, and is another one from there on. That other one counts as smaller when it breaks the
same invariant. Cutting off the end is therefore sure to work for a violation that happens before the end; the rest is luck,
and cheap to try.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from minikafka_simulator.faults.plan import Plan
from minikafka_simulator.schedules.world import Result, simulate

SECONDS_STEP = 0.5
TRIES_MAX = 400
"""Schedules to try at most: some 20 seconds of work."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest schedule found, and what it cost to find it."""

    result: Result
    plan: Plan
    strikes: int
    """How many faults are left."""
    tries: int


class _Search:
    def __init__(self, seed: int, invariant: str, tried: Callable[[int], None]) -> None:
        self.seed = seed
        self.invariant = invariant
        self.tried = tried
        self.tries = 0

    def fails(self, plan: Plan) -> Result | None:
        """The run, when it breaks the same invariant."""
        if self.tries >= TRIES_MAX:
            return None
        self.tries += 1
        self.tried(self.tries)
        result = simulate(self.seed, plan)
        return result if result.invariant == self.invariant else None


def shrink(
    seed: int,
    plan: Plan | None = None,
    tried: Callable[[int], None] = lambda _: None,
) -> Shrunk | None:
    """The smallest schedule found that breaks what this seed breaks; None when it breaks nothing."""
    plan = plan or Plan()
    result = simulate(seed, plan)
    if result.invariant is None:
        return None
    search = _Search(seed, result.invariant, tried)
    while True:
        before = plan
        result, plan = _fewer_strikes(search, result, plan)
        result, plan = _without_some(search, result, plan)
        result, plan = _fewer_seconds(search, result, plan)
        if plan == before or search.tries >= TRIES_MAX:
            break
    return Shrunk(result, plan, _strikes(result, plan), search.tries)


def _strikes(result: Result, plan: Plan) -> int:
    return result.faults - len([number for number in plan.skip if number <= result.faults])


def _fewer_strikes(search: _Search, result: Result, plan: Plan) -> tuple[Result, Plan]:
    """The shortest beginning of the strikes that is enough."""
    for most in range(result.faults):
        candidate = replace(plan, strikes_max=most, skip=frozenset(n for n in plan.skip if n <= most))
        smaller = search.fails(candidate)
        if smaller is not None:
            return smaller, candidate
    return result, replace(plan, strikes_max=result.faults)


def _without_some(search: _Search, result: Result, plan: Plan) -> tuple[Result, Plan]:
    """Leave out one strike after the other, the last first: the later the change, the more stays as it was."""
    for number in range(result.faults, 0, -1):
        if number in plan.skip:
            continue
        candidate = replace(plan, skip=plan.skip | {number})
        smaller = search.fails(candidate)
        if smaller is not None:
            result, plan = smaller, candidate
    return result, plan


def _fewer_seconds(search: _Search, result: Result, plan: Plan) -> tuple[Result, Plan]:
    """The soonest healing that still fails; nothing to do when the length is given in events."""
    if plan.steps is not None:
        return result, plan
    seconds = SECONDS_STEP
    while seconds < plan.seconds:
        candidate = replace(plan, seconds=seconds)
        smaller = search.fails(candidate)
        if smaller is not None:
            return smaller, candidate
        seconds += SECONDS_STEP
    return result, plan
