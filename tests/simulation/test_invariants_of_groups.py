"""Consumer groups and their offsets (G, L5): each invariant fires when one thing is made wrong; see `scene.py`."""

from __future__ import annotations

import pytest
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.records import CommittedOffset
from minikafka.groups.timers import Now
from minikafka.protocol.types import TopicPartition
from minikafka_simulator.checks.group_checks import Fetched, SentCommit
from minikafka_simulator.clients.group_member import GroupMember

from tests.simulation.scene import FAR, MakeWrong, Scene, fires


def _commits(scene: Scene, times: int) -> tuple[GroupMember, TopicPartition, list[SentCommit]]:
    """Commits of a member, one after the other, each known to be written; the last is not answered yet."""
    groups = scene.checker.groups
    member = groups.members[0]
    tp, made = member.assigned[0], []
    for _ in range(times):
        scene.world.scheduler.now += 1.0
        made.append(groups.sent(member, tp))
        scene.world.scheduler.now += 1.0
        made[-1].is_written(scene.world.now)
    scene.world.scheduler.now += 1.0
    return member, tp, [*made, groups.sent(member, tp)]


def a_member_begins_before_the_last_commit(scene: Scene) -> None:
    member, tp, (first, _, last) = _commits(scene, 2)
    scene.checker.groups.acknowledged(member, tp, last, Fetched(first.offset, scene.world.now, scene.world.now))


def a_member_begins_at_nothing(scene: Scene) -> None:
    member, tp, (*_, last) = _commits(scene, 1)
    scene.checker.groups.acknowledged(member, tp, last, Fetched(None, scene.world.now, scene.world.now))


def a_member_began_where_nobody_wrote(scene: Scene) -> None:
    member, tp, (_, last) = _commits(scene, 1)
    now = scene.world.now
    scene.checker.groups.acknowledged(member, tp, last, Fetched(last.offset - 1, now - 2, now))
    scene.checker.final()


def two_owners(scene: Scene) -> None:
    member = next(member for member in scene.checker.groups.members if member.assigned)
    member.member_id = "another"
    scene.checker.groups.assigned(member)


def a_commit_of_the_past(scene: Scene) -> None:
    member, tp, (last,) = _commits(scene, 0)
    last.generation -= 1
    scene.checker.groups.acknowledged(member, tp, last, None)


def _coordinator(scene: Scene) -> tuple[GroupCoordinator, GroupMember]:
    member = scene.checker.groups.members[0]
    return scene.world.brokers[scene.checker.states[member.tp].leader].groups.coordinator, member


def a_coordinator_that_remembers_too_much(scene: Scene) -> None:
    coordinator, member = _coordinator(scene)
    coordinator._groups[member.group].offsets.restore(member.assigned[0], CommittedOffset(FAR))
    scene.checker.groups.look()


def a_coordinator_that_forgot_a_share(scene: Scene) -> None:
    coordinator, member = _coordinator(scene)
    coordinator._groups[member.group].members[member.member_id].assignment = b""
    scene.checker.final()


def a_member_without_a_share_in_the_end(scene: Scene) -> None:
    scene.checker.groups.members[0].stable = False
    scene.checker.final()


def members_of_two_generations_in_the_end(scene: Scene) -> None:
    member = scene.checker.groups.members[0]
    member.generation = member.duty.committed_in = FAR
    scene.checker.final()


def nobody_coordinates_in_the_end(scene: Scene) -> None:
    coordinator, member = _coordinator(scene)
    coordinator.unload(member.tp.partition, Now(scene.world.now, scene.world.now_ms))
    scene.checker.final()


def a_partition_that_nobody_has_in_the_end(scene: Scene) -> None:
    for member in scene.checker.groups.members:
        member.assigned = ()
    scene.checker.final()


WRONG: dict[str, MakeWrong] = {
    "G1 CommittedOffsets": a_member_begins_before_the_last_commit,
    "G1 CommittedOffsets, none": a_member_begins_at_nothing,
    "G1 CommittedOffsets, not written": a_member_began_where_nobody_wrote,
    "G2 OneOwner": two_owners,
    "G3 FencedGeneration": a_commit_of_the_past,
    "G4 MemoryIsLog": a_coordinator_that_remembers_too_much,
    "G4 MemoryIsLog, share": a_coordinator_that_forgot_a_share,
    "L5 groups": a_member_without_a_share_in_the_end,
    "L5 groups, generations": members_of_two_generations_in_the_end,
    "L5 groups, coordinator": nobody_coordinates_in_the_end,
    "L5 groups, partitions": a_partition_that_nobody_has_in_the_end,
}


@pytest.mark.parametrize(("invariant", "make_wrong"), WRONG.items(), ids=[wrong.__name__ for wrong in WRONG.values()])
def test_the_invariant_fires(invariant: str, make_wrong: MakeWrong) -> None:
    fires(invariant, make_wrong)
