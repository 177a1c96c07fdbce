"""A schedule whose experiment hangs: what is skipped is told with why it hangs, the experiment ends, and the schedule goes on."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from minikafka_chaos.controller.schedules.reconciler import ScheduleReconciler
from minikafka_chaos.experiment.kinds import EXPERIMENT, JOB, SCHEDULE, job_name
from minikafka_kube.api_server import ApiError
from minikafka_kube.kinds import CLUSTER, Object
from minikafka_kube.leadership import Alone

from tests.unit.chaos.controller.happenings import make_fault
from tests.unit.chaos.controller.test_schedules import schedule
from tests.unit.chaos.controller.world import NAMES, NAMESPACE, SCENARIO, World

EVERY = 300
DEADLINE = 700


class Lab(World):
    """A schedule, and a controller that looks at it and at its experiments every ten seconds."""

    def __init__(self, spec: dict[str, Any], look_seconds: int = 10) -> None:
        super().__init__()
        self.server.objects.pop((EXPERIMENT.name, self.name))
        templates = [{"name": "kill", "spec": {**spec, "activeDeadlineSeconds": DEADLINE}}]
        self.server.put(SCHEDULE, "nightly", copy.deepcopy(schedule(interval={"seconds": EVERY}, templates=templates)))
        self.look_seconds = look_seconds
        self.starts = True
        """Whether Jobs' pods begin."""

    @property
    def made(self) -> list[Object]:
        found = [thing for (kind, _), thing in self.server.objects.items() if kind == EXPERIMENT.name]
        return sorted(found, key=lambda thing: str(thing["metadata"]["name"]))

    @property
    def schedule(self) -> dict[str, Any]:
        return dict(self.server.objects[SCHEDULE.name, "nightly"].get("status") or {})

    def notes(self, reason: str) -> list[str]:
        return [note for one, note in self.server.events if one == reason]

    async def goes_on(self, seconds: float) -> None:
        schedules = ScheduleReconciler(
            self.server,  # type: ignore[arg-type]
            self.telemetry,
            lambda: self.server.now,
            "controller-0",
            Alone(),
        )
        for _ in range(0, int(seconds), self.look_seconds):
            await schedules.reconcile(NAMESPACE, "nightly")
            for one in self.made:
                self.name = one["metadata"]["name"]
                with contextlib.suppress(ApiError):
                    await self.look()
            self.kubernetes()
            if not self.starts:
                for pod in self.runner_pods():
                    pod["status"] = {"phase": "Pending", "conditions": [UNSCHEDULABLE]}
            self.pass_time(self.look_seconds)

    def job_of(self, experiment: Object) -> Object | None:
        return self.server.objects.get((JOB.name, job_name(experiment["metadata"]["name"])))


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes: unbound claims"}


def not_ready(lab: Lab) -> None:
    condition = lab.server.objects[CLUSTER.name, "shop"]["status"]["conditions"][0]
    condition |= {"status": "False", "message": "1 of 3"}


@pytest.mark.slow
async def test_its_jobs_pod_never_starts() -> None:
    lab = Lab(SCENARIO)
    lab.starts = False
    await lab.goes_on(EVERY + 590)
    (first,) = lab.made
    assert first["status"]["phase"] == "Running" and lab.schedule["active"] == first["metadata"]["name"]
    (why,) = lab.notes("TimeMissed")
    assert "was still going on (concurrencyPolicy: Forbid): Running, " in why
    assert "its Job has not begun" in why and "0/1 nodes: unbound claims" in why
    assert why.endswith(lab.schedule["lastMissed"]["why"]) and lab.schedule["missed"] == 1
    await lab.goes_on(100)
    assert first["metadata"]["name"] == lab.made[0]["metadata"]["name"]
    assert lab.made[0]["status"]["phase"] == "Error" and lab.lease_holder().count(first["metadata"]["name"]) == 0
    assert lab.schedule["lastVerdict"] == "Error"
    lab.starts = True
    await lab.goes_on(EVERY)
    assert len(lab.made) == 2 and lab.made[1]["status"]["phase"] == "Running", "the schedule goes on"
    assert lab.schedule["active"] == lab.made[1]["metadata"]["name"]


@pytest.mark.slow
@pytest.mark.parametrize("own", [False, True], ids=["somebody's", "its own"])
async def test_its_cluster_never_gets_ready(own: bool) -> None:
    """On somebody's cluster it waited for ever, and no other experiment of the schedule was made."""
    spec = {key: value for key, value in SCENARIO.items() if not own or key != "clusterRef"}
    lab = Lab({**spec, "cluster": {"brokers": 3}} if own else spec)
    not_ready(lab)
    await lab.goes_on(EVERY + DEADLINE - 20)
    (first,) = lab.made
    assert first["status"]["phase"] == "Pending"
    why = lab.notes("TimeMissed")[-1]
    assert "Pending, cluster " in why and ("1 of 3" in why or own)
    await lab.goes_on(EVERY)
    first, second = lab.made
    assert (first["status"]["phase"], second["status"]["phase"]) == ("Error", "Pending")
    (complete,) = [one for one in first["status"]["conditions"] if one["type"] == "Complete"]
    assert complete["reason"] == "DeadlineExceeded"
    assert complete["message"].startswith("it has not begun within spec.activeDeadlineSeconds: cluster ")
    assert not first["metadata"]["finalizers"]
    if not own:
        lab.make_ready("shop")
        await lab.goes_on(20)
        assert lab.made[1]["status"]["phase"] == "Running", "the schedule goes on"


@pytest.mark.slow
async def test_a_fault_that_cannot_be_undone() -> None:
    """Until it has expired; then the schedule goes on."""
    lab = Lab(SCENARIO)
    await lab.goes_on(EVERY + 20)
    lab.name = lab.made[0]["metadata"]["name"]
    make_fault(lab)
    lab.mute.add(NAMES.pod(1))
    lab.job_ends("Failed")
    await lab.goes_on(EVERY)
    assert lab.made[0]["status"]["phase"] == "Healing"
    assert "Healing, Kill broker 1: cannot be undone in shop-broker-1 since " in lab.notes("TimeMissed")[-1]
    await lab.goes_on(1800 + EVERY)
    assert lab.made[0]["status"]["phase"] == "Error" and len(lab.made) == 2


async def test_a_webhook_that_does_not_answer_for_its_job() -> None:
    lab = Lab(SCENARIO)
    lab.server.refuses[JOB.name] = ApiError(500, "InternalError", "failed calling webhook")
    await lab.goes_on(EVERY + 320)
    assert "cannot be made now: failed calling webhook" in lab.notes("TimeMissed")[-1]
    lab.server.refuses.clear()
    await lab.goes_on(20)
    assert lab.job_of(lab.made[0]) is not None and len(lab.made) == 1
