"""Schedules: cron and intervals, templates by weight, what is missed, what is kept."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from minikafka_chaos.controller.schedules.decisions import experiment
from minikafka_chaos.controller.schedules.reconciler import ScheduleReconciler
from minikafka_chaos.controller.schedules.status import MissedTime
from minikafka_chaos.controller.schedules.times import BadSchedule, spec_of, times
from minikafka_chaos.controller.telemetry import ControllerTelemetry
from minikafka_chaos.experiment.kinds import EXPERIMENT, SCHEDULE
from minikafka_kube.api_server import ApiError
from minikafka_kube.instants import time_text
from minikafka_kube.kinds import Object
from minikafka_kube.leadership import Alone

from tests.unit.chaos.controller.world import BEGIN, NAMESPACE, SCENARIO
from tests.unit.kube.fake_api_server import FakeApiServer, Killed

TEMPLATES = [{"name": "kill", "spec": SCENARIO}]


def schedule(**spec: Any) -> Object:
    metadata = {
        "name": "nightly",
        "namespace": NAMESPACE,
        "uid": "u-1",
        "generation": 1,
        "creationTimestamp": time_text(BEGIN),
    }
    return {"metadata": metadata, "spec": {"templates": TEMPLATES, **spec}}


def first(count: int, after: datetime = BEGIN, **spec: Any) -> list[datetime]:
    return list(islice(times(spec_of(schedule(**spec)), "u-1", BEGIN, after), count))


class TestTimes:
    def test_cron(self) -> None:
        assert first(2, cron="*/30 * * * *") == [BEGIN + timedelta(minutes=30), BEGIN + timedelta(minutes=60)]

    def test_time_zone(self) -> None:
        """02:30 in Berlin is 00:30 or 01:30 in UTC; on the last Sunday of March there is none."""
        march = datetime(2027, 3, 27, 0, 0, tzinfo=UTC)
        found = first(3, march, cron="30 2 * * *", timeZone="Europe/Berlin")
        assert [when.strftime("%d %H:%M") for when in found] == ["27 01:30", "28 01:00", "29 00:30"]

    @pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Africa/Cairo", "Antarctica/Troll"])
    @pytest.mark.parametrize("cron", ["30 2 * * *", "45 1-2 * * *", "15 0,1,23 * * *", "*/20 * * * *", "0 3 * * *"])
    def test_every_time_is_later_where_clocks_are_put_back_or_forward(self, zone: str, cron: str) -> None:
        """Asked from any moment on, the times are later than it, and the same as those that were foretold."""
        spec = spec_of(schedule(cron=cron, timeZone=zone))
        clock, begin = ZoneInfo(zone), datetime(2026, 1, 1, tzinfo=UTC)
        days = [begin + timedelta(days=n) for n in range(365)]
        changes = [
            day for day in days if day.astimezone(clock).dst() != (day + timedelta(days=1)).astimezone(clock).dst()
        ]
        assert len(changes) == 2
        for day in changes:
            foretold = list(islice(times(spec, "u-1", begin, day), 80))
            assert foretold == sorted(set(foretold))
            for minutes in range(0, 24 * 60, 40):
                after = day + timedelta(minutes=minutes)
                found = list(islice(times(spec, "u-1", begin, after), 2))
                assert found == [when for when in foretold if when > after][:2], after

    def test_interval(self) -> None:
        assert first(3, interval={"seconds": 60}) == [BEGIN + timedelta(seconds=60 * n) for n in (1, 2, 3)]

    @pytest.mark.slow
    def test_jitter_is_the_seeds(self) -> None:
        spec = {"interval": {"seconds": 60, "jitterSeconds": 30}}
        found = first(50, **spec)
        late = [(when - BEGIN).total_seconds() - 60 * (n + 1) for n, when in enumerate(found)]
        assert all(0 <= one <= 30 for one in late) and len(set(late)) > 10
        assert found == first(50, **spec) != first(50, seed=8, **spec)
        # Asked from any moment on, the times are the same; no time comes twice, however the jitter falls.
        every = first(5000, interval={"seconds": 10, "jitterSeconds": 10})
        assert all(later > earlier for earlier, later in pairwise(every))
        assert first(10, found[20], **spec) == found[21:31]

    @pytest.mark.parametrize(
        ("spec", "says"),
        [
            ({"cron": "61 * * * *"}, "spec.cron: '61 * * * *' is no crontab(5) expression"),
            ({"cron": "0 2 * * * *"}, "is no crontab(5) expression of five fields: it has 6"),
            ({"cron": "* * *"}, "cron"),
            ({"cron": "0 0 30 2 *"}, "spec.cron"),
            ({"cron": "* * * * *", "timeZone": "Mars/Olympus"}, "spec.timeZone: there is no time zone Mars/Olympus"),
            ({}, "exactly one of cron and interval"),
            (
                {"interval": {"seconds": 10, "jitterSeconds": 11}},
                "spec.interval.jitterSeconds: 11; allowed: at most spec.interval.seconds (10)",
            ),
            ({"cron": "* * * * *", "interval": {"seconds": 60}}, "exactly one of cron and interval"),
            ({"interval": {"seconds": 60}, "templates": TEMPLATES * 2}, "two have one name"),
            ({"interval": {"seconds": 60}, "templates": [{"name": "x", "spec": {}}]}, "topics"),
        ],
        ids=str,
    )
    def test_bad_input(self, spec: dict[str, Any], says: str) -> None:
        with pytest.raises(BadSchedule, match=re.escape(says)):
            spec_of(schedule(**spec))


def test_templates_come_by_weight() -> None:
    templates = [{"name": "often", "weight": 9, "spec": SCENARIO}, {"name": "seldom", "weight": 1, "spec": SCENARIO}]
    thing = schedule(interval={"seconds": 60}, templates=templates)
    spec = spec_of(thing)
    made = [experiment(thing, spec, BEGIN + timedelta(minutes=n)) for n in range(1000)]
    found = Counter(one["metadata"]["labels"]["minikafka.dev/template"] for one in made)
    assert 850 < found["often"] < 950
    assert len({one["spec"]["seed"] for one in made}) > 990, "each has a seed of its own"
    assert made[3] == experiment(thing, spec, BEGIN + timedelta(minutes=3)), "the same time is the same experiment"


class Clock:
    """A schedule with a controller, and experiments that end when they are told to."""

    def __init__(self, **spec: Any) -> None:
        self.server = FakeApiServer(NAMESPACE, BEGIN)
        self.telemetry = ControllerTelemetry()
        self.server.put(SCHEDULE, "nightly", copy.deepcopy(schedule(**spec)))

    async def look(self) -> None:
        made = ScheduleReconciler(
            self.server,  # type: ignore[arg-type]
            self.telemetry,
            lambda: self.server.now,
            "controller-0",
            Alone(),
        )
        await made.reconcile(NAMESPACE, "nightly")

    async def at(self, seconds: float) -> None:
        self.server.now = BEGIN + timedelta(seconds=seconds)
        await self.look()

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.server.objects[SCHEDULE.name, "nightly"].get("status") or {})

    @property
    def experiments(self) -> list[str]:
        return [name for kind, name in self.server.objects if kind == EXPERIMENT.name]

    def end(self, phase: str = "Completed", verdict: str = "Passed") -> None:
        """Every experiment that goes on ends."""
        for (kind, _), thing in self.server.objects.items():
            if kind == EXPERIMENT.name and not thing.get("status"):
                thing["status"] = {"phase": phase, "verdict": verdict, "endedAt": time_text(self.server.now)}


class TestByTheClock:
    async def test_three_in_a_row_without_hands(self) -> None:
        clock = Clock(interval={"seconds": 60}, successfulHistoryLimit=2)
        await clock.at(0)
        assert clock.status["nextScheduleTime"] == time_text(BEGIN + timedelta(seconds=60)) and not clock.experiments
        for number in (1, 2, 3):
            await clock.at(60 * number)
            assert clock.status["made"] == number and clock.status["active"]
            clock.end()
        await clock.at(181)
        assert len(clock.experiments) == 2, "the oldest is gone"
        assert (clock.status["lastVerdict"], clock.status.get("active"), clock.status.get("missed")) == (
            "Passed",
            "",
            None,
        )

    async def test_both_limits_of_the_history(self) -> None:
        clock = Clock(interval={"seconds": 60}, successfulHistoryLimit=1, failedHistoryLimit=2)
        for number, verdict in enumerate(["Passed", "Failed", "Failed", "Passed", "Failed"], 1):
            await clock.at(60 * number)
            clock.end(verdict=verdict)
        await clock.at(301)
        kept = [
            thing["status"]["verdict"] for (kind, _), thing in clock.server.objects.items() if kind == EXPERIMENT.name
        ]
        assert kept == ["Failed", "Passed", "Failed"]

    @pytest.mark.parametrize("code", [400, 403, 422])
    async def test_an_experiment_that_the_api_server_refuses(self, code: int) -> None:
        """By a quota, a webhook, a policy: that time is missed, and told; the schedule goes on. Nothing said so."""
        clock = Clock(interval={"seconds": 60})
        clock.server.refuses[EXPERIMENT.name] = ApiError(code, "No", "exceeded quota: few")
        await clock.at(60)
        await clock.at(61)
        why = clock.status["lastMissed"]["why"]
        assert why.endswith("is refused: exceeded quota: few")
        assert (clock.status["missed"], clock.status.get("made"), clock.status.get("active")) == (1, None, "")
        assert [reason for reason, _ in clock.server.events] == ["TimeMissed"]
        clock.server.refuses.clear()
        await clock.at(120)
        assert clock.status["made"] == 1 and len(clock.experiments) == 1

    async def test_an_api_server_that_cannot_now_is_asked_again(self) -> None:
        clock = Clock(interval={"seconds": 60})
        clock.server.refuses[EXPERIMENT.name] = ApiError(500, "InternalError", "failed calling webhook")
        with pytest.raises(ApiError):
            await clock.at(60)
        clock.server.refuses.clear()
        await clock.at(65)
        assert clock.status["made"] == 1 and not clock.status.get("missed")

    async def test_an_api_server_that_cannot_for_long(self) -> None:
        """An admission webhook that does not answer: nothing was ever told, nor counted."""
        clock = Clock(interval={"seconds": 60})
        clock.server.refuses[EXPERIMENT.name] = ApiError(500, "InternalError", "failed calling webhook")
        with pytest.raises(ApiError):
            await clock.at(89)
        await clock.at(90)
        why = clock.status["lastMissed"]["why"]
        assert why.startswith("ChaosExperiment nightly-") and why.endswith(
            " cannot be made now: failed calling webhook"
        )
        assert (clock.status["missed"], [reason for reason, _ in clock.server.events]) == (1, ["TimeMissed"])
        await clock.at(185)  # two times later, of which nobody was told
        assert clock.status["missed"] == 3
        clock.server.refuses.clear()
        await clock.at(240)
        assert (clock.status["made"], clock.status["missed"]) == (1, 3)

    async def test_long_words_of_a_refusal(self) -> None:
        """They have to fit into the status: one that is refused for its length would never be told."""
        clock = Clock(interval={"seconds": 60})
        clock.server.refuses[EXPERIMENT.name] = ApiError(403, "No", "because " * 1000)
        await clock.at(60)
        MissedTime.model_validate_json(json.dumps(clock.status["lastMissed"]))

    async def test_somebody_elses_experiment_that_has_the_name(self) -> None:
        clock = Clock(interval={"seconds": 60})
        name = f"nightly-{int(BEGIN.timestamp()) + 60}"
        clock.server.put(EXPERIMENT, name, {"spec": {}, "metadata": {}})
        await clock.at(60)
        assert clock.status["lastMissed"]["why"] == f"there is a ChaosExperiment {name} that is not this schedule's"
        assert clock.status.get("made") is None and not clock.status.get("active")

    @pytest.mark.parametrize("when", [{"interval": {"seconds": 60}}, {"cron": "* * * * *"}])
    async def test_a_clock_that_was_ahead_for_a_moment(self, when: dict[str, Any]) -> None:
        """A year ahead, and the schedule would have stood still for a year."""
        clock = Clock(**when)
        await clock.at(365 * 86_400)
        clock.end()
        await clock.at(120)
        assert clock.status["nextScheduleTime"] == time_text(BEGIN + timedelta(seconds=180))
        made = clock.status["made"]
        await clock.at(180)
        assert clock.status["made"] == made + 1
        clock.end()
        await clock.at(239)
        assert clock.status["made"] == made + 1

    async def test_forbid(self) -> None:
        clock = Clock(interval={"seconds": 60})
        await clock.at(60)
        await clock.at(120)
        assert len(clock.experiments) == 1
        assert clock.status["missed"] == 1 and "was still going on" in clock.status["lastMissed"]["why"]
        assert any(reason == "TimeMissed" for reason, _ in clock.server.events)
        labels = {"namespace": NAMESPACE, "schedule": "nightly"}
        assert clock.telemetry.registry.get_sample_value("minikafka_chaos_schedule_missed_total", labels) == 1

    async def test_a_controller_that_was_away(self) -> None:
        """The times before the last are missed; the last one is made up for only within the deadline."""
        clock = Clock(interval={"seconds": 60}, startingDeadlineSeconds=20)
        await clock.at(0)
        await clock.at(250)
        assert clock.status["missed"] == 3 and len(clock.experiments) == 1
        clock.end()
        await clock.at(330)
        assert clock.status["missed"] == 4 and "30 s ago" in clock.status["lastMissed"]["why"]
        assert len(clock.experiments) == 1

    async def test_suspend(self) -> None:
        """What it shows stands still meanwhile, and what passed is nobody's: neither made nor missed."""
        clock = Clock(interval={"seconds": 60})
        await clock.at(60)
        clock.end()
        spec = clock.server.objects[SCHEDULE.name, "nightly"]["spec"]
        spec["suspend"] = True
        for seconds in (61, 200, 260):
            await clock.at(seconds)
            assert clock.status["lastScheduleTime"] == time_text(BEGIN + timedelta(seconds=60))
            assert "nextScheduleTime" not in clock.status, "there is no next one"
        writes = clock.server.writes
        await clock.at(270)
        assert clock.server.writes == writes
        spec["suspend"] = False
        await clock.at(300)
        assert (len(clock.experiments), clock.status.get("missed")) == (2, None)
        assert clock.status["lastScheduleTime"] == time_text(BEGIN + timedelta(seconds=300))
        assert clock.status["nextScheduleTime"] == time_text(BEGIN + timedelta(seconds=360))

    async def test_suspended_before_its_first_time_by_a_clock_that_was_ahead(self) -> None:
        clock = Clock(interval={"seconds": 60}, suspend=True)
        await clock.at(365 * 86_400)
        assert not clock.experiments and "lastScheduleTime" not in clock.status
        clock.server.objects[SCHEDULE.name, "nightly"]["spec"]["suspend"] = False
        await clock.at(120)
        await clock.at(180)
        assert (len(clock.experiments), clock.status.get("missed")) == (1, None)

    async def test_a_bad_one_is_told_once(self) -> None:
        clock = Clock(cron="61 * * * *")
        await clock.look()
        await clock.look()
        condition = clock.status["conditions"][0]
        assert (condition["status"], condition["reason"]) == ("False", "InvalidSpec")
        assert len(clock.server.events) == 1

    async def test_after_a_year_away(self) -> None:
        clock = Clock(cron="* * * * *")
        await clock.at(0)
        await clock.at(365 * 86_400)
        assert len(clock.experiments) == 1 and clock.server.writes < 5

    @pytest.mark.slow
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    async def test_the_controller_dies_at_every_write(self, after: bool) -> None:
        for point in range(1, 12):
            clock = Clock(interval={"seconds": 60}, successfulHistoryLimit=1)
            clock.server.dies_at, clock.server.dies_after = point, after
            for number in (0, 1, 2, 3):
                try:
                    await clock.at(60 * number)
                except Killed:
                    await clock.look()
                clock.end()
            clock.server.dies_at = None
            await clock.at(200)
            assert (clock.status["made"], clock.status.get("missed")) == (3, None), (point, clock.server.log)
            assert len(clock.experiments) == 1
