"""The times of a schedule, by cron or by interval. The same schedule gives the same times."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from pydantic import ValidationError

from minikafka_chaos.controller.api import ScheduleSpec
from minikafka_chaos.experiment.kinds import Object
from minikafka_chaos.scenario.document_lines import explain

CRON_FIELDS: Final = 5
"""Cronsim takes six, the first for seconds: `0 2 * * * *`, meant for two o'clock, would come once an hour."""


class BadSchedule(ValueError):
    """One line that names the field and what is allowed."""


def spec_of(schedule: Object) -> ScheduleSpec:
    """The spec as the models have it. Raises BadSchedule."""
    try:
        spec = ScheduleSpec.model_validate_json(json.dumps(schedule.get("spec") or {}))
    except ValidationError as error:
        raise BadSchedule(f"spec: {explain(error, ScheduleSpec)}") from error
    if (spec.cron is None) == (spec.interval is None):
        raise BadSchedule("spec: give exactly one of cron and interval")
    if spec.cron is not None:
        zone = _zone(spec.time_zone)
        bad = f"spec.cron: {spec.cron!r} is no crontab(5) expression of five fields"
        if (fields := len(spec.cron.split())) != CRON_FIELDS:
            raise BadSchedule(f"{bad}: it has {fields}")
        try:
            next(CronSim(spec.cron, datetime(2026, 1, 1, tzinfo=zone)))
        except CronSimError as error:
            raise BadSchedule(f"{bad}: {error}") from error
        except StopIteration:
            raise BadSchedule(f"spec.cron: {spec.cron!r} never comes") from None
    if spec.interval is not None and spec.interval.jitter_seconds > spec.interval.seconds:
        raise BadSchedule(
            f"spec.interval.jitterSeconds: {spec.interval.jitter_seconds}; allowed: at most spec.interval.seconds "
            f"({spec.interval.seconds})"
        )
    names = [template.name for template in spec.templates]
    if len(set(names)) < len(names):
        raise BadSchedule("spec.templates: two have one name")
    return spec


def _zone(name: str | None) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadSchedule(
            f"spec.timeZone: there is no time zone {name}; allowed: names such as Europe/Berlin"
        ) from None


def times(spec: ScheduleSpec, uid: str, begin: datetime, after: datetime) -> Iterator[datetime]:
    """Yield the schedule's times after one of them (or after any other moment); ``begin`` is when it was made.

    Each is later than ``after`` and than the one before it, whatever yields them: where clocks are put back, cronsim answers with
    a wall-clock time of the hour that has passed.
    """
    for when in _by_cron(spec, after) if spec.cron is not None else _by_interval(spec, uid, begin, after):
        if when > after:
            yield when
            after = when


def _by_cron(spec: ScheduleSpec, after: datetime) -> Iterator[datetime]:
    assert spec.cron is not None
    for when in CronSim(spec.cron, after.astimezone(_zone(spec.time_zone))):
        yield when.astimezone(UTC)


def _by_interval(spec: ScheduleSpec, uid: str, begin: datetime, after: datetime) -> Iterator[datetime]:
    assert spec.interval is not None
    seconds = spec.interval.seconds
    first = max(1, int((after - begin).total_seconds() // seconds) - 1)  # by jitter it may be one earlier
    for number in count(first):
        yield begin + timedelta(seconds=number * seconds + _jitter(spec, uid, number))


def _jitter(spec: ScheduleSpec, uid: str, number: int) -> int:
    assert spec.interval is not None
    return random.Random(f"{spec.seed}/{uid}/jitter/{number}").randint(0, spec.interval.jitter_seconds)
