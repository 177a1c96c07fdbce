"""Logs, their indexes and checkpoints, and what is on the disk (B): each invariant fires when one thing is made wrong."""

from __future__ import annotations

import pytest
from minikafka.log.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINTS, format_checkpoint, write_offsets
from minikafka.log.epochs import CHECKPOINT_NAME
from minikafka.protocol.records import Record, build_batch

from tests.simulation.scene import FAR, MakeWrong, Scene, fires


def a_log_start_hides_a_committed_record(scene: Scene) -> None:
    """The leader's log begins later than anybody asked for: that is no deletion."""
    scene.partition.log.increment_log_start_offset(1)
    scene.checker.after(scene.leader)


def a_log_start_hides_it_at_the_start(scene: Scene) -> None:
    scene.partition.log.increment_log_start_offset(1)
    scene.look(scene.leader)


def epoch_noted_too_late(scene: Scene) -> None:
    epochs = scene.partition.log.epochs
    epochs._starts[-1] += 1
    scene.look(scene.leader)


def epoch_left_over_after_truncation(scene: Scene) -> None:
    log = scene.follower.partitions[scene.tp].log
    log.assign_epoch(log.epochs.latest + 1, log.log_end_offset)
    scene.look(scene.follower)


def epoch_not_noted_by_a_follower(scene: Scene) -> None:
    log = scene.follower.partitions[scene.tp].log
    log.epochs._starts[-1] = scene.end
    batch = build_batch([Record(0, scene.world.now_ms, None, b"x")])
    info = log.append_as_leader(memoryview(bytearray(batch)), log.epochs.latest, scene.world.now_ms)
    log.epochs._starts[-1] = info.last_offset + 1
    scene.checker.after(scene.follower)


def producer_forgotten(scene: Scene) -> None:
    scene.follower.partitions[scene.tp].log.producers.clear()
    scene.look(scene.follower)


def producer_forgotten_while_records_come(scene: Scene) -> None:
    batch = build_batch([Record(0, scene.world.now_ms, None, b"x")], producer_id=99, producer_epoch=0, base_sequence=0)
    log = scene.partition.log
    log.append_as_leader(memoryview(bytearray(batch)), log.epochs.latest, scene.world.now_ms)
    log.producers.clear()
    scene.checker.after(scene.leader)


def producer_remembered_of_records_that_were_cut_off(scene: Scene) -> None:
    log = scene.follower.partitions[scene.tp].log
    log.producers.update(99, 0, 0, 0, scene.end, scene.end, 0, False)
    scene.look(scene.follower)


def producer_remembered_with_an_earlier_batch_that_is_wrong(scene: Scene) -> None:
    """What a duplicate of any but the last batch is recognised by."""
    state = scene.partition.log.producers.get(scene.lane.numbers.producer_id)
    assert state is not None
    state.batches[-2] = state.batches[-2]._replace(first_offset=state.batches[-2].first_offset + 1)
    scene.look(scene.leader)


def index_entry_points_into_a_batch(scene: Scene) -> None:
    segment = next(s for s in scene.partition.log.segments if len(s.index))
    relative, position = segment.index.entry(len(segment.index) - 1)
    segment.index.truncate_entries(len(segment.index) - 1)
    segment.index._put(relative, position + 1)
    scene.look(scene.leader)


def time_index_names_a_later_batch(scene: Scene) -> None:
    segment = next(s for s in scene.partition.log.segments if len(s.time_index))
    timestamp, relative = segment.time_index.entry(len(segment.time_index) - 1)
    segment.time_index.truncate_entries(len(segment.time_index) - 1)
    segment.time_index._put(timestamp, relative + 1)
    scene.look(scene.leader)


def log_end_without_records(scene: Scene) -> None:
    scene.partition.log.log_end_offset += 1
    scene.checker.started(scene.leader)


def sequence_refused(scene: Scene) -> None:
    scene.checker.clients.begins_anew(scene.sent, "OUT_OF_ORDER_SEQUENCE_NUMBER", by_leader=True)


def flushed_records_are_gone(scene: Scene) -> None:
    scene.follower.partitions[scene.tp].log._flusher.flushed_offset = FAR
    scene.checker.lost_power(scene.follower)
    scene.look(scene.follower)


def epoch_checkpoint_lags_behind_the_flush(scene: Scene) -> None:
    log = scene.follower.partitions[scene.tp].log
    log.flush()
    scene.follower.disk.write_atomic(f"{log.directory}/{CHECKPOINT_NAME}", format_checkpoint([]))
    scene.checker.lost_power(scene.follower)


def epoch_checkpoint_damaged_though_flushed(scene: Scene) -> None:
    log = scene.follower.partitions[scene.tp].log
    log.flush()
    scene.follower.disk.write_atomic(f"{log.directory}/{CHECKPOINT_NAME}", b"")
    scene.checker.lost_power(scene.follower)


def recovery_point_beyond_the_flush(scene: Scene) -> None:
    write_offsets(scene.follower.disk, f"{scene.world.data_dir}/{RECOVERY_POINTS}", {scene.tp: FAR})
    scene.checker.lost_power(scene.follower)


def clean_marker_is_back(scene: Scene) -> None:
    scene.follower.disk.write_atomic(f"{scene.world.data_dir}/{CLEAN_SHUTDOWN}", b"{}")
    scene.checker.lost_power(scene.follower)


WRONG: dict[str, MakeWrong] = {
    "B15 recovery": log_end_without_records,
    "B16 producer state": sequence_refused,
    "B20 DeletedByRequest": a_log_start_hides_a_committed_record,
    "B20 DeletedByRequest, at the start": a_log_start_hides_it_at_the_start,
    "B21 EpochCache": epoch_noted_too_late,
    "B21 EpochCache, left over": epoch_left_over_after_truncation,
    "B21 EpochCache, not noted": epoch_not_noted_by_a_follower,
    "B22 ProducerState": producer_forgotten,
    "B22 ProducerState, while records come": producer_forgotten_while_records_come,
    "B22 ProducerState, of an earlier batch": producer_remembered_with_an_earlier_batch_that_is_wrong,
    "B22 ProducerState, of no record": producer_remembered_of_records_that_were_cut_off,
    "B23 Indexes": index_entry_points_into_a_batch,
    "B23 Indexes, of time": time_index_names_a_later_batch,
    "B30 FlushedIsKept": flushed_records_are_gone,
    "B30 FlushedIsKept, epochs": epoch_checkpoint_lags_behind_the_flush,
    "B30 FlushedIsKept, epochs, damaged": epoch_checkpoint_damaged_though_flushed,
    "B30 FlushedIsKept, recovery point": recovery_point_beyond_the_flush,
    "B33 CleanOnce": clean_marker_is_back,
}


@pytest.mark.parametrize(("invariant", "make_wrong"), WRONG.items(), ids=[wrong.__name__ for wrong in WRONG.values()])
def test_the_invariant_fires(invariant: str, make_wrong: MakeWrong) -> None:
    fires(invariant, make_wrong)


def test_what_was_deleted_by_request_is_no_loss() -> None:
    """The same as :func:`a_log_start_hides_a_committed_record`, asked for by somebody."""
    scene = Scene()
    scene.checker.records_deleted(scene.tp, 2)
    for replica in scene.state.replicas:
        hosted = scene.world.brokers[replica]
        hosted.partitions[scene.tp].log.increment_log_start_offset(2)
        scene.checker.after(hosted)
        scene.look(hosted)
    scene.checker.lost_power(scene.follower)
    scene.checker.final()
