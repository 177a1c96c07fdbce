"""What an experiment needs and does not get: told, tried again, and given up, so that nothing is held for ever."""

from __future__ import annotations

import contextlib

import pytest
from minikafka_chaos.controller.phases.creation import START_SECONDS, START_SECONDS_MAX
from minikafka_chaos.experiment.kinds import ABORT_ANNOTATION, JOB
from minikafka_kube.api_server import ApiError
from minikafka_kube.kinds import CLUSTER, LEASE

from tests.unit.chaos.controller.happenings import edit, running, world_with_own_cluster
from tests.unit.chaos.controller.test_reports import REPORT
from tests.unit.chaos.controller.test_reports import world as world_with_claim
from tests.unit.chaos.controller.world import SCENARIO, World

WEBHOOK = ApiError(500, "InternalError", 'failed calling webhook "jobs.example": context deadline exceeded')
NO_ANSWER = TimeoutError()
"""As when the webhook is more patient than who waits for it."""


async def tries(world: World, seconds: float) -> None:
    """The controller looks as often as it says, and a second after what it raises, which goes into its log; and at the end."""
    left = seconds
    while left > 0:
        wait = 1.0
        with contextlib.suppress(ApiError, TimeoutError):
            wait = min(left, max(1.0, (await world.look()).retry_seconds or 1.0))
        world.pass_time(wait)
        left -= wait
    with contextlib.suppress(ApiError, TimeoutError):
        await world.look()


def notes(world: World, reason: str) -> list[str]:
    return [note for one, note in world.server.events if one == reason]


class TestItsJob:
    """Seen on kind: an admission webhook for Jobs that did not answer. The controller's log said so, and nobody else."""

    @pytest.mark.parametrize(
        ("error", "why"),
        [(WEBHOOK, WEBHOOK.message), (NO_ANSWER, "the API server has not answered within 30 s")],
        ids=["webhook", "no answer"],
    )
    async def test_it_is_told_why(self, error: Exception, why: str) -> None:
        world = World()
        world.server.refuses[JOB.name] = error
        await tries(world, START_SECONDS - 1)
        assert world.phase == "Running" and world.condition("Accepted")[2] == "it happens to cluster shop"
        await tries(world, 3)
        says = f"it happens to cluster shop; Job try-run cannot be made now: {why}"
        assert world.condition("Accepted") == ("True", "Accepted", says)
        assert notes(world, "JobWaits") == [says]
        before = world.server.log.copy()
        await tries(world, 30)
        assert world.server.log == before, "told once"

    async def test_its_words_may_change(self) -> None:
        world = World()
        world.server.refuses[JOB.name] = WEBHOOK
        await tries(world, START_SECONDS + 3)
        world.server.refuses[JOB.name] = ApiError(503, "Unavailable", "no endpoints")
        await tries(world, 3)
        assert world.condition("Accepted")[2].endswith("cannot be made now: no endpoints")
        assert len(notes(world, "JobWaits")) == 1

    async def test_it_is_tried_again(self) -> None:
        world = World()
        world.server.refuses[JOB.name] = WEBHOOK
        await tries(world, START_SECONDS + 5)
        world.server.refuses.clear()
        await running(world)
        world.ledger().take()
        await world.look()
        assert world.condition("Accepted") == ("True", "Accepted", "it happens to cluster shop")

    @pytest.mark.slow
    @pytest.mark.parametrize("error", [WEBHOOK, NO_ANSWER], ids=["webhook", "no answer"])
    async def test_it_is_given_up(self, error: Exception) -> None:
        world = World()
        world.server.refuses[JOB.name] = error
        await tries(world, START_SECONDS_MAX - 5)
        assert world.phase == "Running" and world.lease_holder()
        await tries(world, 15)
        assert (world.phase, world.condition("Complete")[1]) == ("Error", "CreationRefused")
        assert world.status["summary"].startswith("Job try-run could not be made within 600 s: ")
        assert world.lease_holder() == "" and not world.experiment["metadata"]["finalizers"]

    async def test_it_can_be_aborted_meanwhile(self) -> None:
        world = World()
        world.server.refuses[JOB.name] = WEBHOOK
        await tries(world, START_SECONDS + 5)
        world.annotate(ABORT_ANNOTATION)
        await tries(world, 5)
        assert world.phase == "Aborted" and world.lease_holder() == ""


class TestItsCluster:
    async def test_told_and_tried_again(self) -> None:
        world = world_with_own_cluster()
        world.server.refuses[CLUSTER.name] = WEBHOOK
        await tries(world, START_SECONDS + 5)
        name = world.status["cluster"]
        says = (
            f"cluster {name}, which is made for it: not there yet; cluster {name} cannot be made now: {WEBHOOK.message}"
        )
        assert world.phase == "Pending"
        assert world.condition("Accepted") == ("Unknown", "WaitingForCluster", says)
        assert notes(world, "WaitingForCluster")[1:] == [says]
        before = world.server.log.copy()
        await tries(world, 20)
        assert world.server.log == before, "told once"
        world.server.refuses.clear()
        await tries(world, 2)
        world.make_ready(name)
        await running(world)

    @pytest.mark.slow
    async def test_given_up(self) -> None:
        world = world_with_own_cluster()
        world.experiment["spec"]["activeDeadlineSeconds"] = 60
        world.server.refuses[CLUSTER.name] = WEBHOOK
        await tries(world, 65)
        assert (world.phase, world.condition("Complete")[1]) == ("Error", "DeadlineExceeded")
        assert WEBHOOK.message in world.status["summary"]


class TestACluster:
    """Somebody's, that never gets ready."""

    @staticmethod
    def not_ready() -> World:
        world = World({**SCENARIO, "activeDeadlineSeconds": 60})
        condition = world.server.objects[CLUSTER.name, "shop"]["status"]["conditions"][0]
        condition |= {"status": "False", "message": "1 of 3"}
        return world

    async def test_given_up(self) -> None:
        world = self.not_ready()
        await tries(world, 60)
        assert world.phase == "Pending"
        await tries(world, 5)
        assert (world.phase, world.condition("Complete")[1]) == ("Error", "DeadlineExceeded")
        assert world.status["summary"].endswith(": cluster shop is not ready: 1 of 3")

    async def test_while_no_controller_was_there_it_did_not_wait(self) -> None:
        world = self.not_ready()
        world.pass_time(3600)
        await tries(world, 30)
        assert world.phase == "Pending"
        world.make_ready("shop")
        await running(world)

    @pytest.mark.slow
    async def test_one_that_was_refused_in_between_waits_anew(self) -> None:
        world = self.not_ready()
        await tries(world, 50)
        edit(world, clusterRef={"name": "nowhere"})
        await tries(world, 50)
        assert world.phase == "Refused"
        edit(world, clusterRef={"name": "shop"})
        await tries(world, 50)
        assert world.phase == "Pending"


class TestTheLease:
    @pytest.mark.slow
    async def test_told_and_tried_again(self) -> None:
        world = World()
        world.server.refuses[LEASE.name] = WEBHOOK
        await tries(world, START_SECONDS + 5)
        says = f"it may begin; Lease shop-disruption cannot be made now: {WEBHOOK.message}"
        assert world.phase == "Pending" and world.condition("Accepted") == ("Unknown", "WaitingForLease", says)
        assert notes(world, "WaitingForLease") == [says]
        world.server.refuses.clear()
        await running(world)

    @pytest.mark.slow
    async def test_given_up(self) -> None:
        world = World({**SCENARIO, "activeDeadlineSeconds": 60})
        world.server.refuses[LEASE.name] = WEBHOOK
        await tries(world, 100)
        assert (world.phase, world.condition("Complete")[1]) == ("Error", "DeadlineExceeded")
        assert WEBHOOK.message in world.status["summary"]


class TestTheReport:
    @pytest.mark.slow
    async def test_told_and_given_up(self) -> None:
        world = world_with_claim()
        await running(world)
        world.ledger().take()
        world.ledger().set_fields(run="try-00000000", verdict="Passed", summary="said")
        world.server.refuses[JOB.name] = WEBHOOK
        world.job_ends()
        await tries(world, START_SECONDS + 5)
        says = f"Job {REPORT} makes it; Job {REPORT} cannot be made now: {WEBHOOK.message}"
        assert world.condition("Reported") == ("Unknown", "ReportGoingOn", says)
        assert notes(world, "ReportGoingOn")[1:] == [says]
        before = world.server.log.copy()
        await tries(world, 20)
        assert world.server.log == before, "told once"
        await tries(world, START_SECONDS_MAX)
        assert world.condition("Reported")[:2] == ("False", "ReportFailed")
        assert (world.phase, world.status["verdict"]) == ("Completed", "Passed")
