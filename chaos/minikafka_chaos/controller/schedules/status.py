"""What the status of a schedule says, as a typed value: read once in each look, changed by copies, written once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final, Self

from minikafka_kube.instants import time_text
from pydantic import Field

from minikafka_chaos.experiment.status import Instant, Since, StatusPart, TypedStatus

CLOCK_SECONDS_MAX: Final = 300
"""By how much clocks of controllers differ at most: what was dealt with later than that from now, was so by a wrong clock."""
_WHY_MAX: Final = 1000
"""``why`` and an event's message take 1024 characters."""


class MissedTime(StatusPart):
    """A time at which no experiment was made."""

    time: Annotated[Since, Field(description="When it would have been.")]
    why: Annotated[str, Field(max_length=1024, description="Why there was none.")]


class ScheduleStatus(TypedStatus):
    """The schedule as it is."""

    active: Annotated[str | None, Field(max_length=253, description="The experiment that goes on.")] = None
    last_schedule_time: Annotated[Instant, Field(description="The latest time that was dealt with.")] = None
    last_suspended_time: Annotated[
        Instant,
        Field(description="The latest time that passed while it was suspended: none was made, and none missed."),
    ] = None
    next_schedule_time: Annotated[
        Instant, Field(description="The next one; none while it is suspended, or not accepted.")
    ] = None
    made: Annotated[int | None, Field(description="Experiments made.")] = None
    missed: Annotated[int | None, Field(description="Times at which none was made.")] = None
    last_missed: Annotated[MissedTime | None, Field(description="The latest of these.")] = None
    last_verdict: Annotated[
        str | None, Field(max_length=63, description="The verdict of the experiment that ended last.")
    ] = None

    def by_clock(self, now: datetime) -> Self:
        """Return the status without times that a clock told that was ahead: they become now, or they would end the schedule."""
        ahead = {
            name: now
            for name in ("last_schedule_time", "last_suspended_time")
            if (time := getattr(self, name)) is not None and time > now + timedelta(seconds=CLOCK_SECONDS_MAX)
        }
        return self.but(**ahead)

    @property
    def dealt_with(self) -> datetime | None:
        """The latest time that needs nothing more."""
        found = (self.last_schedule_time, self.last_suspended_time)
        return max((one for one in found if one is not None), default=None)

    def with_missed(self, times: Sequence[datetime], why: str) -> Self:
        """Return the status with these times counted as missed."""
        last = MissedTime(time=times[-1], why=why[:_WHY_MAX])
        return self.but(missed=(self.missed or 0) + len(times), last_missed=last)


def missed_words(times: Sequence[datetime], why: str) -> str:
    """Say which times were missed, and why."""
    number = f"{len(times)} times, the last " if len(times) > 1 else ""
    return f"missed {number}{time_text(times[-1])}: {why[:_WHY_MAX]}"
