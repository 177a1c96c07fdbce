"""Topics that an experiment makes in a cluster which stays: removed by their ids, and never anybody else's."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka_chaos.controller.ledger import FaultRefused
from minikafka_chaos.experiment import topics
from minikafka_chaos.experiment.kinds import ABORT_ANNOTATION, FORCE_ANNOTATION, JOB
from minikafka_kube.instants import time_text
from minikafka_kube.kinds import CLUSTER, CONFIG_MAP, POD, TOPIC

from tests.unit.chaos.controller.world import NAMES, SCENARIO, Killed, World

OTHERS = "bank-of-others"
TWO = {**SCENARIO, "topics": [{"name": "bank"}, {"name": "audit"}]}


async def begun(spec: dict[str, Any] = SCENARIO) -> World:
    world = World(spec)
    await world.settle()
    assert world.phase == "Running"
    world.ledger().take()
    return world


def make(world: World, name: str = "bank", **more: Any) -> str:
    """As the runner does: written down, made, written down."""
    ledger = world.ledger()
    ledger.intend_topic(name)
    topic_id = world.make_topic(name, **more)
    ledger.topic_made(name, topic_id)
    return topic_id


def done(world: World) -> None:
    world.ledger().set_fields(verdict="Passed", summary="")
    world.job_ends()


def topic_states(world: World) -> dict[str, tuple[str, str]]:
    return {each["name"]: (each["state"], each.get("detail", "")) for each in world.status.get("topics") or ()}


def events(world: World, reason: str) -> list[str]:
    return [note for one, note in world.server.events if one == reason]


class TestRemoved:
    async def test_at_the_end_and_before_the_lease_goes(self) -> None:
        world = await begun(TWO)
        ids = [make(world), make(world, "audit", object_name="audit-0123abcd")]
        assert topic_states(world) == {"bank": ("Made", ""), "audit": ("Made", "")} and len(set(ids)) == 2
        done(world)
        await world.settle()
        assert (world.phase, world.topics) == ("Completed", [OTHERS])
        assert [state for state, _ in topic_states(world).values()] == ["Removed", "Removed"]
        assert events(world, "TopicsRemoved") == ["topics of the experiment: bank, audit"]
        log = world.server.log
        assert log.index("delete MiniKafkaTopic") < log.index("replace Lease", log.index("status Healing"))

    async def test_when_the_job_was_deleted_by_force(self) -> None:
        world = await begun()
        make(world)
        world.server.objects.pop((JOB.name, "try-run"))
        world.server.objects.pop((POD.name, "try-run-abcde"))
        await world.settle()
        assert (world.phase, world.topics) == ("Error", [OTHERS])

    @pytest.mark.parametrize("ending", ["abort", "delete"])
    async def test_when_it_is_called_off(self, ending: str) -> None:
        world = await begun()
        make(world)
        if ending == "abort":
            world.annotate(ABORT_ANNOTATION)
        else:
            world.delete()
        await world.settle()
        assert world.topics == [OTHERS] and world.there == (ending == "abort")

    @pytest.mark.slow
    async def test_not_while_a_runner_lives(self) -> None:
        """It could make one more, or be in the middle of writing down an id."""
        world = await begun()
        make(world)
        world.annotate(ABORT_ANNOTATION)
        for pod in world.runner_pods():
            pod["metadata"]["finalizers"] = ["tests/slow"]  # it takes its time to end
        for _ in range(5):
            await world.look()
        assert topic_states(world) == {"bank": ("Made", "")} and "bank" in world.topics
        world.server.objects.pop((POD.name, "try-run-abcde"))
        await world.settle()
        assert world.topics == [OTHERS]

    async def test_one_whose_object_comes_late(self) -> None:
        world = await begun()
        topic_id = make(world, object_name="-")
        done(world)
        for _ in range(10):
            await world.look()
        assert topic_states(world) == {"bank": ("Removing", "")}
        world.show_topic("bank", topic_id, "bank", with_status=False)
        await world.settle()
        assert world.topics == [OTHERS] and world.phase == "Completed"

    async def test_one_that_somebody_has_deleted_already(self) -> None:
        world = await begun()
        make(world)
        world.delete_topic("bank")
        done(world)
        await world.settle()
        assert topic_states(world)["bank"][0] == "Removed" and "delete MiniKafkaTopic" not in world.server.log

    async def test_nothing_was_made(self) -> None:
        world = await begun()
        world.ledger().intend_topic("bank")
        done(world)
        await world.settle()
        assert topic_states(world) == {"bank": ("NotMade", "it was never made")} and world.phase == "Completed"
        assert not events(world, "TopicsRemoved") and not events(world, "TopicLeft")


class TestNeverAnothers:
    """A name is no identity."""

    async def test_one_that_was_made_anew_by_somebody_else(self) -> None:
        world = await begun()
        make(world)
        world.delete_topic("bank")
        theirs = world.make_topic("bank")
        done(world)
        await world.settle()
        assert world.id_of("bank") == theirs and "delete MiniKafkaTopic" not in world.server.log
        assert topic_states(world)["bank"][0] == "Removed" and world.phase == "Completed"

    async def test_made_anew_and_the_object_is_still_that_of_the_old_one(self) -> None:
        """A client deletes and creates at one stroke: the object shows ours, the metadata has theirs."""
        world = await begun()
        make(world)
        old = dict(world.server.objects[TOPIC.name, "bank"])
        world.delete_topic("bank")
        theirs = world.make_topic("bank", object_name="-")
        world.server.objects[TOPIC.name, "bank"] = old
        done(world)
        await world.settle()
        assert world.id_of("bank") == theirs and "delete MiniKafkaTopic" not in world.server.log

    async def test_made_anew_between_look_and_deletion(self) -> None:
        """The deletion is bound to the object as it was seen."""
        world = await begun()
        make(world)
        done(world)
        delete, theirs = world.server.delete, []

        async def late(kind: Any, *more: Any) -> None:
            if kind is TOPIC and not theirs:
                uid = world.server.objects[TOPIC.name, "bank"]["metadata"]["uid"]
                world.delete_topic("bank")
                theirs.append(world.make_topic("bank"))
                world.server.objects[TOPIC.name, "bank"]["metadata"]["uid"] = (
                    uid  # brokers keep the object, and write into it
                )
            await delete(kind, *more)

        world.server.delete = late  # type: ignore[method-assign]
        await world.settle()
        assert theirs and world.id_of("bank") == theirs[0] and world.phase == "Completed"

    async def test_one_whose_id_was_never_written_down(self) -> None:
        """The runner died between the two: it may be ours, or somebody's who was a moment faster."""
        world = await begun()
        world.ledger().intend_topic("bank")
        world.make_topic("bank")
        world.job_ends("Failed")
        await world.settle()
        assert "bank" in world.topics and topic_states(world)["bank"][0] == "Left"
        assert "may be somebody else's" in events(world, "TopicLeft")[0]

    async def test_one_that_was_refused(self) -> None:
        """Somebody was faster, and brokers have said so."""
        world = await begun()
        ledger = world.ledger()
        ledger.intend_topic("bank")
        theirs = world.make_topic("bank")
        ledger.topic_not_made("bank", "TOPIC_ALREADY_EXISTS")
        ledger.topic_made("bank", theirs)  # whatever is said later
        done(world)
        await world.settle()
        assert world.id_of("bank") == theirs and topic_states(world) == {"bank": ("NotMade", "TOPIC_ALREADY_EXISTS")}

    async def test_a_forged_status(self) -> None:
        """Who may write the status of an experiment cannot have it delete what is not in its spec, or was there before."""
        world = World()
        before = world.make_topic("payments")
        world.pass_time(60)
        world.experiment["metadata"]["creationTimestamp"] = time_text(world.server.now)
        await world.settle()
        forged = [
            {"name": "payments", "state": "Made", "topicId": before},
            {"name": "bank", "state": "Made", "topicId": before},
        ]
        world.experiment["status"]["topics"] = forged
        done(world)
        await world.settle()
        assert world.id_of("payments") == before and world.phase == "Completed"
        assert topic_states(world)["payments"] == ("Left", "the experiment's spec has no such topic")
        assert topic_states(world)["bank"][0] == "Removed"  # there is none of that name and id

    async def test_a_topic_that_is_older_than_the_experiment(self) -> None:
        world = await begun()
        theirs = world.make_topic("bank")
        world.server.objects[TOPIC.name, "bank"]["metadata"]["creationTimestamp"] = "2026-11-22T08:59:59Z"
        world.experiment["status"]["topics"] = [{"name": "bank", "state": "Made", "topicId": theirs}]
        done(world)
        await world.settle()
        assert world.id_of("bank") == theirs and topic_states(world)["bank"] == (
            "Left",
            "it was there before the experiment",
        )


class TestLeft:
    async def left(self, world: World) -> str:
        done(world)
        for _ in range(10):
            await world.look()
            world.kubernetes()
        world.pass_time(topics.REMOVE_SECONDS_MAX + 1)
        await world.settle()
        assert world.phase == "Completed" and world.lease_holder() == "" and topic_states(world)["bank"][0] == "Left"
        (note,) = events(world, "TopicLeft")
        assert note == f"bank: {topic_states(world)['bank'][1]}"
        return note

    async def test_brokers_that_do_not_delete_it(self) -> None:
        world = await begun()
        make(world)
        world.brokers_away = True
        assert "the brokers have not done so within 120 s" in await self.left(world)

    async def test_one_that_is_never_shown(self) -> None:
        world = await begun()
        make(world, object_name="-")
        assert "no MiniKafkaTopic showed it" in await self.left(world)

    async def test_a_cluster_that_deletes_no_topics(self) -> None:
        world = await begun()
        make(world)
        world.server.objects[CLUSTER.name, "shop"]["spec"]["config"] = {"delete.topic.enable": "false"}
        assert "delete.topic.enable=false" in await self.left(world)
        assert "delete MiniKafkaTopic" not in world.server.log

    async def test_metadata_that_cannot_be_read(self) -> None:
        world = await begun()
        make(world)
        world.server.objects[CONFIG_MAP.name, NAMES.metadata]["data"] = {"metadata.json": "{}"}
        assert "metadata cannot be read" in await self.left(world)

    async def test_a_cluster_that_is_gone(self) -> None:
        world = await begun()
        make(world)
        world.server.objects.pop((CLUSTER.name, "shop"))
        assert "its cluster is gone" in await self.left(world)

    async def test_force_names_them(self) -> None:
        world = await begun()
        make(world)
        world.delete()
        world.annotate(FORCE_ANNOTATION)
        await world.look()
        assert not world.there and "bank" in world.topics
        assert events(world, "ForceDeleted")[0].endswith("topics that stay: bank")


async def test_nobody_makes_a_topic_once_it_heals() -> None:
    world = await begun()
    world.annotate(ABORT_ANNOTATION)
    with pytest.raises(FaultRefused, match="being aborted"):
        world.ledger().intend_topic("bank")
    assert topic_states(world) == {}


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["verdict", "runner", "delete"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_the_controller_is_killed_at_every_write(ending: str, after: bool) -> None:
    """Before a write took effect, and after it: the end is the same, and a topic of somebody else's is never touched."""

    async def life(world: World, kill_at: int | None) -> None:
        await world.settle()
        world.ledger().take()
        make(world)
        make(world, "audit", object_name="-")
        # Made anew by somebody else: what is in the status is not there any more.
        world.delete_topic("audit")
        world.make_topic("audit")
        if ending == "verdict":
            done(world)
        elif ending == "runner":
            world.job_ends("Failed")
        else:
            world.delete()
        world.server.dies_at = None if kill_at is None else world.server.writes + kill_at
        world.server.dies_after = after
        for _ in range(3):
            try:
                await world.settle()
                return
            except Killed:
                world.server.dies_at = None
                world.new_reconciler()
        raise AssertionError("never settled")

    whole = World(TWO)
    await whole.settle()
    before = whole.server.writes
    whole = World(TWO)
    await life(whole, None)
    points = whole.server.writes - before
    assert points > 8
    for point in range(1, points + 1):
        world = World(TWO)
        await life(world, point)
        said = f"killed {'after' if after else 'before'} write {point}: {world.server.log}"
        assert world.topics == ["audit", OTHERS], said
        assert world.lease_holder() == "", said
        assert world.there == (ending != "delete"), said
        if world.there:
            assert [state for state, _ in topic_states(world).values()] == ["Removed", "Removed"], said
