"""Invariants that planted bugs went by before they were there: each fires in a healthy world in which one thing is made wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from minikafka.controller.workspace import Event
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import Record, build_batch
from minikafka_simulator.checks.account import Violation

from tests.simulation.scene import FAR, Scene


def _appended(scene: Scene, sequence: int, epoch: int = 0) -> None:
    """A leader appends a batch of a producer without looking at its number."""
    records = [Record(0, scene.world.now_ms, None, b"x")]
    number = scene.lane.numbers.producer_id
    batch = build_batch(records, producer_id=number, producer_epoch=epoch, base_sequence=sequence)
    log, leader = scene.partition.log, scene.partition.leader
    assert leader is not None
    log.producers._producers.pop(number)
    log.append_as_leader(batch, leader.epoch, scene.world.now_ms)
    scene.checker.after(scene.leader)


def acknowledged_and_written_nowhere(scene: Scene) -> None:
    sent = scene.sends(acks=1).last
    scene.checker.clients.answered(sent, sent.crc, scene.end)


def acknowledged_at_the_offset_of_another(scene: Scene) -> None:
    sent = scene.sends(acks=1).last
    view = scene.view(scene.leader)
    offset = view.recent_batches[sent.producer_id][-1].first_offset
    scene.checker.clients.answered(sent, sent.crc, offset)  # there it is
    scene.checker.clients.answered(sent, sent.crc, offset + 1)


def a_batch_without_records_is_acknowledged(scene: Scene) -> None:
    scene.checker.clients.refused_if_wrong(scene.tp, ErrorCode.INVALID_RECORD, -1)
    scene.checker.clients.refused_if_wrong(scene.tp, ErrorCode.NONE, scene.end)


def a_leader_cuts_its_own_log(scene: Scene) -> None:
    """What is not committed: of the rest others tell."""
    _appended(scene, scene.lane.numbers.sequence)
    scene.partition.log.truncate_to(scene.end)
    scene.checker.after(scene.leader)


def _lost(scene: Scene, elr: tuple[int, ...] = ()) -> int:
    """Nobody is in the ISR; somebody who is not in the ELR either."""
    scene.decided(isr=(), elr=elr, leader=-1)
    scene.state = scene.checker.states[scene.tp]
    return next(replica for replica in scene.state.replicas if replica not in elr)


def elected_though_another_is_eligible(scene: Scene) -> None:
    outsider = _lost(scene, elr=(scene.follower.id,))
    scene.decided(
        isr=(outsider,), elr=(), leader=outsider, leader_epoch=scene.state.leader_epoch + 1, fence=scene.follower.id
    )


def a_clean_election_is_called_unclean(scene: Scene) -> None:
    _lost(scene, elr=(scene.follower.id,))
    leader, epoch = scene.follower.id, scene.state.leader_epoch + 1
    scene.decided(isr=(leader,), elr=(), leader=leader, leader_epoch=epoch)
    told = {"leader": leader, "leader_epoch": epoch, "clean": False}
    event = Event("leader_elected", scene.tp.topic, scene.tp.partition, told)
    scene.checker.committed([event], scene.leader.image)


def _retains(scene: Scene, milliseconds: int, size: int) -> int:
    """Retention deletes all but the last segment of the leader; where the log begins then."""
    log = scene.partition.log
    log.roll()
    log.configure(replace(log.config, retention_ms=milliseconds, retention_bytes=size, cleanup_policy="delete"))
    log.segments.remove_first(len(log.segments) - 1)
    scene.checker.retained(scene.leader, scene.partition, log.log_end_offset)
    return log.log_end_offset


def young_records_are_deleted(scene: Scene) -> None:
    _retains(scene, FAR, -1)


def too_much_is_deleted(scene: Scene) -> None:
    _retains(scene, -1, 1)


def a_sequence_is_missing(scene: Scene) -> None:
    _appended(scene, scene.lane.numbers.sequence + 1)


def a_batch_comes_twice(scene: Scene) -> None:
    _appended(scene, scene.lane.numbers.sequence - 1)


def a_new_epoch_begins_in_the_middle(scene: Scene) -> None:
    _appended(scene, scene.lane.numbers.sequence, epoch=1)


def a_move_ends_before_the_others_are_in_sync(scene: Scene) -> None:
    stay = tuple(replica for replica in scene.state.replicas if replica != scene.follower.id)
    scene.decided(replicas=stay, isr=(scene.leader.id,))


def a_broker_that_stands_still_stays(scene: Scene) -> None:
    held = scene.world.store.held
    assert held is not None
    controller = scene.world.brokers[held.holder]
    other = next(broker for broker in scene.world.brokers.values() if broker is not controller)
    other.pause()
    scene.world.scheduler.now += 2 * scene.world.session
    scene.checker.terms.after(controller)


WRONG: dict[str, Callable[[Scene], None]] = {
    "A19 acknowledged-unwritten": acknowledged_and_written_nowhere,
    "A19 acknowledged-unwritten, elsewhere": acknowledged_at_the_offset_of_another,
    "A20 unreadable": a_batch_without_records_is_acknowledged,
    "B14 offsets, of a leader": a_leader_cuts_its_own_log,
    "B34 UncleanAtLast": elected_though_another_is_eligible,
    "B34 UncleanAtLast, in name only": a_clean_election_is_called_unclean,
    "B35 RetainedLongEnough": young_records_are_deleted,
    "B35 RetainedLongEnough, by size": too_much_is_deleted,
    "B36 SequenceUnbroken": a_sequence_is_missing,
    "B36 SequenceUnbroken, twice": a_batch_comes_twice,
    "B36 SequenceUnbroken, of a new epoch": a_new_epoch_begins_in_the_middle,
    "B37 SilenceIsFenced": a_broker_that_stands_still_stays,
    "B38 ReassignedInSync": a_move_ends_before_the_others_are_in_sync,
}


@pytest.mark.parametrize(("invariant", "make_wrong"), WRONG.items(), ids=[wrong.__name__ for wrong in WRONG.values()])
def test_the_invariant_fires(invariant: str, make_wrong: Callable[[Scene], None]) -> None:
    scene = Scene()
    with pytest.raises(Violation) as found:
        make_wrong(scene)
    assert found.value.invariant == invariant.split(",", maxsplit=1)[0]


def test_what_is_old_enough_may_go() -> None:
    scene = Scene()
    scene.world.scheduler.now += 10.0
    assert _retains(scene, 1000, -1) == scene.checker.commits.deleted[scene.tp]


def test_the_last_one_who_led_is_elected_when_the_eligible_one_has_lost_its_records() -> None:
    """It was registered anew in the very decision that takes it out of the ELR."""
    scene = Scene()
    outsider = _lost(scene, elr=(scene.follower.id,))
    image = scene.leader.image
    image.brokers[scene.follower.id] = replace(image.brokers[scene.follower.id], epoch=FAR)
    scene.decided(isr=(outsider,), elr=(), leader=outsider, leader_epoch=scene.state.leader_epoch + 1)


def test_who_was_only_about_to_come_may_go() -> None:
    scene = Scene()
    scene.decided(adding=(scene.follower.id,), isr=(scene.leader.id,))
    scene.state = scene.checker.states[scene.tp]
    stay = tuple(replica for replica in scene.state.replicas if replica != scene.follower.id)
    scene.decided(replicas=stay, adding=(), isr=(scene.leader.id,))


def test_the_next_in_order_is_welcome() -> None:
    scene = Scene()
    _appended(scene, scene.lane.numbers.sequence)


def test_a_leader_that_is_none_any_more_may_refuse_a_sequence() -> None:
    """Its successor has taken batches that it does not have. Who leads may not (B16)."""
    scene = Scene()
    scene.checker.clients.begins_anew(scene.sent, "OUT_OF_ORDER_SEQUENCE_NUMBER", by_leader=False)
