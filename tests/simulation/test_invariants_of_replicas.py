"""Replicas, their high watermarks and who waits for them (B): each invariant fires when one thing is made wrong."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from minikafka.protocol.records import Record, build_batch
from minikafka.protocol.types import TopicPartition
from minikafka.replication.isr import IsrProposal
from minikafka_simulator.checks.mirror import GONE
from minikafka_simulator.cluster.waiting import Waiting

from tests.simulation.scene import ALIEN, FAR, MakeWrong, Scene, fires


def another_record_is_committed(scene: Scene) -> None:
    scene.committed_is(0, ALIEN)
    scene.checker.after(scene.leader)


def follower_takes_what_is_not_committed_for_committed(scene: Scene) -> None:
    del scene.checker.commits.truth[scene.tp][-1]
    scene.committed_is(scene.end - 1, scene.checker.commits.truth[scene.tp][-1])
    scene.follower.partitions[scene.tp].high_watermark = scene.end + 1
    scene.checker.after(scene.follower)


def everything_is_lost_at_once(scene: Scene) -> None:
    scene.committed_is(scene.end, ALIEN)
    scene.checker.lost_power(scene.follower)


def everything_is_lost_though_some_was_deleted(scene: Scene) -> None:
    scene.checker.records_deleted(scene.tp, 2)
    scene.committed_is(2, ALIEN)
    scene.checker.lost_power(scene.follower)


def committed_beside_the_controllers_view(scene: Scene) -> None:
    assert scene.partition.leader is not None
    scene.partition.leader.isr.committed = (
        scene.leader.id,
    )  # of the others the controller knows, and they still count
    committed_on_the_leader_alone(scene)


def committed_on_the_leader_alone(scene: Scene) -> None:
    assert scene.partition.leader is not None
    batch = build_batch([Record(0, scene.world.now_ms, None, b"x")])
    scene.partition.leader.append(memoryview(bytearray(batch)), scene.world.now_ms, scene.world.now)
    scene.partition.high_watermark = scene.partition.log.log_end_offset
    scene.checker.after(scene.leader)


def new_leader_lacks_a_record(scene: Scene) -> None:
    scene.committed_is(scene.end, ALIEN)
    scene.view(scene.leader).term = None
    scene.checker.after(scene.leader)


def member_lacks_a_record(scene: Scene) -> None:
    scene.committed_is(scene.end, ALIEN)
    scene.checker.commits.candidates(scene.tp)


def member_has_another_record_at_the_same_length(scene: Scene) -> None:
    scene.committed_is(scene.end - 1, ALIEN)
    scene.checker.commits.candidates(scene.tp)


def leader_counts_without_a_member(scene: Scene) -> None:
    assert scene.partition.leader is not None
    scene.partition.leader.isr.maximal = frozenset({scene.leader.id})
    scene.checker.after(scene.leader)


def replicas_differ(scene: Scene) -> None:
    scene.view(scene.follower).identities[0] = ALIEN
    scene.checker.final()


def a_record_is_gone_though_nobody_deleted_it(scene: Scene) -> None:
    scene.checker.records_deleted(scene.tp, 1)
    scene.view(scene.follower).identities[1] = GONE
    scene.checker.final()


def two_records_of_one_epoch_at_one_offset(scene: Scene) -> None:
    epoch = scene.view(scene.follower).identities[0][0]
    scene.checker.logs.written[scene.tp][0, epoch] = ALIEN
    scene.look(scene.follower)


def answer_of_a_zombie_is_taken(scene: Scene) -> None:
    follower = scene.follower.partitions[scene.tp]
    scene.checker.fetched(scene.follower, follower, scene.leader.id, scene.state.leader_epoch - 1)


def answer_of_a_usurper_is_taken(scene: Scene) -> None:
    follower = scene.follower.partitions[scene.tp]
    usurper = next(i for i in scene.world.brokers if i not in (scene.leader.id, scene.follower.id))
    scene.checker.fetched(scene.follower, follower, usurper, scene.state.leader_epoch)


def committed_and_not_answered(scene: Scene) -> None:
    waiting = Waiting(scene.world.now + 60)
    waiting.parts.append((scene.partition, scene.end))
    scene.leader.gate._waiting.append(waiting)
    scene.checker.after(scene.leader)


def not_answered_in_time(scene: Scene) -> None:
    scene.leader.gate._waiting.append(Waiting(scene.world.now - 1))
    scene.checker.after(scene.leader)


def waits_at_a_leader_that_is_none_any_more(scene: Scene) -> None:
    scene.partition.resign()
    waiting = Waiting(scene.world.now + 60)
    waiting.parts.append((scene.partition, FAR))
    scene.leader.gate._waiting.append(waiting)
    scene.checker.after(scene.leader)


def high_watermark_beyond_the_end(scene: Scene) -> None:
    scene.partition.high_watermark = scene.partition.log.log_end_offset + 1
    scene.checker.after(scene.leader)


def high_watermark_not_restored(scene: Scene) -> None:
    scene.checker.marks[scene.leader.id, scene.tp] = scene.partition.high_watermark
    scene.partition.high_watermark = 0
    scene.checker.hosted(scene.leader, scene.partition)


def log_of_a_topic_that_is_gone(scene: Scene) -> None:
    assert scene.leader.logs is not None
    gone = TopicPartition("gone", 0)
    scene.leader.logs.logs[gone] = scene.partition.log
    scene.checker.final()


def log_of_the_topic_before(scene: Scene) -> None:
    assert scene.leader.logs is not None
    scene.leader.logs.topic_ids[scene.tp] = UUID(int=1)
    scene.checker.final()


def log_of_a_partition_that_others_have(scene: Scene) -> None:
    others = tuple(replica for replica in scene.state.replicas if replica != scene.follower.id)
    scene.checker.states[scene.tp] = replace(scene.state, replicas=others, isr=others)
    scene.checker.final()


def a_follower_that_is_behind_stays_in_sync(scene: Scene) -> None:
    scene.world.scheduler.now += 1
    scene.checker.isr.after(scene.leader)
    scene.follower.partitions[scene.tp].log.truncate_to(0)
    scene.world.scheduler.now += 60
    scene.checker.isr.after(scene.leader)


def a_follower_that_keeps_up_stays_out(scene: Scene) -> None:
    leader = scene.partition.leader
    assert leader is not None
    scene.partition.log.segments.remove_first(len(scene.partition.log.segments) - 1)  # one read gives all there is
    leader.isr.commit((scene.leader.id,))
    scene.world.served_whole.add(scene.follower.id)
    for _ in range(6):
        scene.checker.isr.fetched(scene.follower, scene.follower.partitions[scene.tp], scene.leader.id)
        scene.world.scheduler.now += 0.5


def hasty_shrink(scene: Scene) -> None:
    scene.checker.term_began[scene.leader.id, scene.tp, scene.state.leader_epoch] = scene.world.now
    alone = ((scene.leader.id, -1),)
    scene.checker.proposed(scene.leader, IsrProposal(scene.tp, b"", scene.state.leader_epoch, 0, alone, 0))


def committed_before_its_flush(scene: Scene) -> None:
    log = scene.partition.log
    log.configure(replace(log.config, flush_interval_messages=1))
    log._flusher.flushed_offset = scene.partition.high_watermark - 1
    scene.view(scene.leader).hw -= 1
    scene.checker.after(scene.leader)


WRONG: dict[str, MakeWrong] = {
    "B2 WeakIsr": committed_on_the_leader_alone,
    "B3 StrongIsr": another_record_is_committed,
    "B3 StrongIsr, by a follower": follower_takes_what_is_not_committed_for_committed,
    "B4 ValidHighWatermark": committed_beside_the_controllers_view,
    "B5 LeaderCompleteness": new_leader_lacks_a_record,
    "B6 LeaderCandidateCompleteness": member_lacks_a_record,
    "B6 LeaderCandidateCompleteness, of equal length": member_has_another_record_at_the_same_length,
    "B7 ReplicationQuorumSuperset": leader_counts_without_a_member,
    "B8 LogMatching": replicas_differ,
    "B8 LogMatching, gone and not deleted": a_record_is_gone_though_nobody_deleted_it,
    "B8 LogMatching, within an epoch": two_records_of_one_epoch_at_one_offset,
    "B11 NoCommittedRecordLostGlobally": everything_is_lost_at_once,
    "B11 NoCommittedRecordLostGlobally, after a deletion": everything_is_lost_though_some_was_deleted,
    "B12 ValidFetcherState": answer_of_a_zombie_is_taken,
    "B12 ValidFetcherState, another leader": answer_of_a_usurper_is_taken,
    "B14 offsets": high_watermark_beyond_the_end,
    "B17 restored high watermark": high_watermark_not_restored,
    "B18 NoHastyShrink": hasty_shrink,
    "B19 FlushedBeforeCommitted": committed_before_its_flush,
    "B25 OwnLogsOnly": log_of_a_topic_that_is_gone,
    "B25 OwnLogsOnly, made anew": log_of_the_topic_before,
    "B25 OwnLogsOnly, reassigned": log_of_a_partition_that_others_have,
    "B24 Purgatory": committed_and_not_answered,
    "B24 Purgatory, in time": not_answered_in_time,
    "B24 Purgatory, of a term that is over": waits_at_a_leader_that_is_none_any_more,
    "B31 LaggardsLeave": a_follower_that_is_behind_stays_in_sync,
    "B32 WhoKeepsUpJoins": a_follower_that_keeps_up_stays_out,
}


@pytest.mark.parametrize(("invariant", "make_wrong"), WRONG.items(), ids=[wrong.__name__ for wrong in WRONG.values()])
def test_the_invariant_fires(invariant: str, make_wrong: MakeWrong) -> None:
    fires(invariant, make_wrong)


def test_a_topic_of_the_same_name_is_another_one() -> None:
    """What was known of a deleted topic accuses nobody; a replica of it that a broker still has is not looked at."""
    scene = Scene()
    image = scene.leader.image
    topic = image.topics[scene.tp.topic]
    image.put_topic(replace(topic, topic_id=UUID(int=1)))
    scene.checker.committed([], image)
    assert scene.tp not in scene.checker.commits.truth and scene.tp in scene.checker.states
    scene.partition.high_watermark = FAR
    scene.checker.after(scene.leader)
    del image.topics[topic.name]
    scene.checker.committed([], image)
    assert not [tp for tp in scene.checker.states if tp.topic == topic.name]
