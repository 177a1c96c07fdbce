"""The state of a watched cluster against what its replicas really had, and row by row through the articles' golden table."""

from __future__ import annotations

from minikafka.metadata.image import PartitionState
from minikafka.protocol.types import TopicPartition
from minikafka.telemetry.fault_verbs import Verb, verbs
from minikafka_chaos.record.observe import Sample
from minikafka_chaos.watch.evidence import Acknowledgements, EventLine, JournalLine, LogGrowth, ProcessCondition, Scrape
from minikafka_chaos.watch.fold import Fold
from minikafka_chaos.watch.recording import Recording
from minikafka_chaos.watch.state import UNKNOWN_EPOCH, EpochStart, ReplicaKey, WatchedCondition

from tests.forms import for_each
from tests.unit.chaos.watch import golden_trace
from tests.unit.replication.cluster import Exchange, Replica, states

T0 = TopicPartition("t", 0)
SCHEDULES = sorted(path.name for path in golden_trace.FOLDER.glob("*.txt"))


@for_each(SCHEDULES)
def test_each_record_has_the_leader_epoch_that_it_really_has(name: str) -> None:
    """A follower's epochs are told by nobody: they follow from whom it followed (KIP-101)."""
    fold, compared = Fold(), 0
    for block in golden_trace.read(name):
        for evidence in block.evidence:
            fold.take(evidence)
        for log in block.logs:
            watched = fold.state.replica(ReplicaKey("t", 0, log.broker))
            assert {offset: watched.epoch_at(offset) for offset in log.epochs} == log.epochs, (block.order, log.broker)
            compared += 1
    assert compared > 3


def states_of(name: str) -> list[tuple[str, Fold]]:
    """The state after each line of a schedule."""
    found = []
    blocks = list(golden_trace.read(name))
    for count, block in enumerate(blocks, 1):
        fold = Fold()
        for each in blocks[:count]:
            for evidence in each.evidence:
                fold.take(evidence)
        found.append((block.order, fold))
    return found


def lanes(fold: Fold) -> dict[int, tuple[int | None, int | None, tuple[EpochStart, ...]]]:
    """(log end offset, high watermark, epochs) of each replica."""
    return {broker: (each.log_end, each.high_watermark, each.epochs) for broker, each in fold.state.replicas(T0)}


def test_story_a_shows_where_the_acknowledged_record_goes() -> None:
    after = dict(states_of("kip-101-a.high-watermark.txt"))
    first, second = EpochStart(0, 0), EpochStart(1, 1)
    assert lanes(after["send m1"]) == {0: (2, 1, (first,)), 1: (2, 2, (first,))}
    restarted = after["start 0 for 5"]
    assert lanes(restarted) == {0: (1, 1, (first, second)), 1: (2, 2, (first,))}
    assert restarted.state.partition(T0).leader == 0
    assert restarted.state.broker(1).condition is WatchedCondition.PAUSED or restarted.state.broker(1).fenced
    assert lanes(after["start 1"])[1] == (1, 1, (first,))


def test_story_b_shows_two_records_at_one_offset() -> None:
    after = dict(states_of("kip-101-b.high-watermark.txt"))
    apart = after["start 1"].state
    mine, other = (apart.replica(ReplicaKey("t", 0, broker)) for broker in (1, 2))
    assert (mine.epoch_at(1), other.epoch_at(1)) == (0, 1)
    assert apart.partition(T0).isr == (2, 1)


def scrapes(leader: Replica, follower: Replica) -> list[Scrape]:
    """What both would tell at /metrics."""
    assert leader.partition.leader is not None
    remote = max(leader.partition.leader.remotes[2].leo, 0)
    labels = {"topic": "t", "partition": "0"}
    found = []
    for broker, replica, role in ((1, leader, 2), (2, follower, 1)):
        values = {
            "replica_role": role,
            "leader_epoch": 0,
            "partition_leader": 1,
            "log_end_offset": replica.leo,
            "high_watermark": replica.hw,
        }
        samples = [Sample(f"minikafka_{name}", labels, value) for name, value in values.items()]
        if role == 2:
            samples.append(Sample("minikafka_follower_lag", {**labels, "follower": "2"}, replica.leo - remote))
        found.append(Scrape(0.0, broker, samples))
    return found


def test_the_golden_table_row_by_row() -> None:
    """Rules R3 to R6; as tests/unit/replication/test_golden_table.py, seen from outside."""
    leader, follower = Replica(1), Replica(2)
    states([leader, follower], PartitionState(replicas=(1, 2), isr=(1, 2), leader=1))
    fold = Fold()

    def row() -> tuple[int | None, ...]:
        for scrape in scrapes(leader, follower):
            fold.take(scrape)
        mine, other = (fold.state.replica(ReplicaKey("t", 0, broker)) for broker in (1, 2))
        return mine.log_end, other.remote_end, mine.high_watermark, other.log_end, other.high_watermark

    assert row() == (0, 0, 0, 0, 0)
    leader.produce("m0")
    assert row() == (1, 0, 0, 0, 0)
    first = Exchange(follower, leader).ask()
    assert first.answer is not None and follower.partition.follower is not None
    follower.partition.follower.append(memoryview(bytearray(first.answer[4])))
    assert row() == (1, 0, 0, 1, 0)
    follower.partition.follower.take_high_watermark(first.answer[2])
    assert row() == (1, 0, 0, 1, 0)
    second = Exchange(follower, leader).ask()
    assert row() == (1, 1, 1, 1, 0)
    second.deliver()
    assert row() == (1, 1, 1, 1, 1)


def event(broker: int, name: str, topic: str | None = "t", time: float = 0.0, **fields: object) -> EventLine:
    return EventLine(time, broker, name, topic, None if topic is None else 0, fields)


def led() -> Fold:
    """Broker 1 leads, 2 follows, both up."""
    fold = Fold()
    for broker in (1, 2):
        fold.take(event(broker, "broker_ready", None))
    fold.take(
        event(1, "became_leader", leader_epoch=3, partition_epoch=1, start_offset=5, isr=[1, 2], high_watermark=5)
    )
    fold.take(
        event(2, "became_follower", leader=1, leader_epoch=3, partition_epoch=1, log_end_offset=5, high_watermark=4)
    )
    return fold


def offsets(fold: Fold, broker: int) -> tuple[int | None, int | None]:
    replica = fold.state.replica(ReplicaKey("t", 0, broker))
    return replica.log_end, replica.high_watermark


def test_what_all_acknowledged_is_committed_and_in_every_log_of_the_isr() -> None:
    fold = led()
    fold.take(Acknowledgements(1.0, T0, 7, True, {6: "six"}))
    assert (offsets(fold, 1), offsets(fold, 2)) == ((7, 7), (7, 4))
    (record,) = fold.state.partition(T0).records
    assert (record.offset, record.leader_epoch, record.value) == (6, 3, "six")


def test_what_the_leader_alone_acknowledged_is_not() -> None:
    fold = led()
    fold.take(Acknowledgements(1.0, T0, 7, False, {}))
    assert (offsets(fold, 1), offsets(fold, 2)) == ((7, 5), (5, 4))


def test_who_leads_no_more_acknowledges_nothing() -> None:
    fold = led()
    fields = {"offset": 5, "records": 4, "crc": 1, "acks": -1}
    fold.take(event(2, "produce_acknowledged", **fields))
    assert (offsets(fold, 1), offsets(fold, 2)) == ((5, 5), (5, 4))
    fold.take(event(1, "produce_acknowledged", **fields))
    assert (offsets(fold, 1), offsets(fold, 2)) == ((9, 9), (9, 4))


def test_a_dead_follower_is_given_nothing() -> None:
    fold = led()
    kill = {"kind": "action", "phase": "end", "fault": "Kill", "target": "broker-2", "ok": True}
    fold.take(JournalLine(0.5, kill))
    fold.take(Acknowledgements(1.0, T0, 7, True, {}))
    assert fold.state.broker(2).condition is WatchedCondition.DEAD
    assert offsets(fold, 2) == (5, 4)


def test_a_leader_of_the_past_does_not_take_the_partition_back() -> None:
    """A zombie tells of its ISR after another was elected."""
    fold = led()
    fold.take(event(2, "leader_elected", leader=2, leader_epoch=4, partition_epoch=2, isr=[2], clean=True))
    fold.take(event(1, "isr_shrunk", leader_epoch=3, partition_epoch=9, isr=[1], high_watermark=5, log_end_offset=5))
    partition = fold.state.partition(T0)
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 4, (2,))


def test_what_a_new_leader_had_copied_unseen_is_the_old_leaders() -> None:
    """Nobody saw it grow; when it says so it leads already."""
    fold = led()
    fold.take(LogGrowth(0.5, 1, T0, 8))
    fold.take(event(2, "leader_elected", leader=2, leader_epoch=4, partition_epoch=2, isr=[2], clean=True))
    fold.take(event(2, "became_leader", leader_epoch=4, partition_epoch=2, start_offset=8, isr=[2], high_watermark=8))
    assert fold.state.replica(ReplicaKey("t", 0, 2)).epochs[-2:] == (EpochStart(3, 5), EpochStart(4, 8))


def test_epochs_above_a_cut_are_gone() -> None:
    """KIP-101: a follower forgets the epochs of what it cuts off, and has its new leader's from there."""
    fold = led()
    fold.take(LogGrowth(0.5, 1, T0, 8))
    fold.take(event(2, "became_leader", leader_epoch=4, partition_epoch=2, start_offset=6, isr=[2], high_watermark=6))
    fold.take(LogGrowth(0.6, 2, T0, 9))
    fold.take(
        event(1, "became_follower", leader=2, leader_epoch=4, partition_epoch=2, log_end_offset=8, high_watermark=5)
    )
    fold.take(event(1, "log_truncated", from_offset=8, to_offset=4, records=4, leader_epoch=4))
    replica = fold.state.replica(ReplicaKey("t", 0, 1))
    assert (replica.log_end, replica.epochs, replica.high_watermark, replica.cut_end) == (
        4,
        (EpochStart(UNKNOWN_EPOCH, 0),),
        4,
        8,
    )
    fold.take(LogGrowth(0.7, 1, T0, 7))
    assert fold.state.replica(ReplicaKey("t", 0, 1)).cut_end == 8
    fold.take(LogGrowth(0.7, 1, T0, 9))
    replica = fold.state.replica(ReplicaKey("t", 0, 1))
    assert (replica.epochs[-2:], replica.cut_end) == ((EpochStart(3, 5), EpochStart(4, 6)), None)


def scrape_of_two(role: int, epoch: int, end: int) -> Scrape:
    values = {"replica_role": role, "leader_epoch": epoch, "partition_leader": 2, "log_end_offset": end}
    labels = {"topic": "t", "partition": "0"}
    return Scrape(0.0, 2, [Sample(f"minikafka_{name}", labels, value) for name, value in values.items()])


def test_a_scrape_may_see_a_leader_before_its_event_is_read() -> None:
    """What it had copied unseen stays of the old epoch, and nothing that it has appended since is cut off."""
    fold = led()
    fold.take(LogGrowth(0.5, 1, T0, 8))
    fold.take(scrape_of_two(role=2, epoch=4, end=9))
    fold.take(event(2, "became_leader", leader_epoch=4, partition_epoch=2, start_offset=8, isr=[2], high_watermark=8))
    replica = fold.state.replica(ReplicaKey("t", 0, 2))
    assert (replica.log_end, replica.cut_end, replica.epochs[1:]) == (9, None, (EpochStart(3, 5), EpochStart(4, 8)))


def test_a_scrape_may_see_a_follower_fetch_before_its_event_is_read() -> None:
    fold = led()
    fold.take(LogGrowth(0.5, 1, T0, 8))
    fold.take(scrape_of_two(role=1, epoch=3, end=8))
    fold.take(
        event(2, "became_follower", leader=1, leader_epoch=3, partition_epoch=1, log_end_offset=6, high_watermark=5)
    )
    replica = fold.state.replica(ReplicaKey("t", 0, 2))
    assert (replica.log_end, replica.cut_end) == (8, None)


def test_what_nobody_had_seen_is_cut_off_as_well() -> None:
    fold = led()
    fold.take(event(2, "log_truncated", from_offset=9, to_offset=4, records=5, leader_epoch=4))
    replica = fold.state.replica(ReplicaKey("t", 0, 2))
    assert (replica.log_end, replica.cut_end) == (4, 9)


def test_a_fault_is_on_until_it_is_recovered() -> None:
    fold = led()
    cut = {"kind": "action", "fault": "Cut", "target": "broker-1", "ok": True, "id": "cut-1"}
    fold.take(JournalLine(1.0, {**cut, "phase": "begin"}))
    assert fold.state.broker(1).faults == ()
    fold.take(JournalLine(1.1, {**cut, "phase": "end"}))
    assert fold.state.broker(1).faults == ("Cut",)
    fold.take(JournalLine(2.0, {"kind": "recovered", "fault": "Cut", "targets": ["broker-1"], "by": "heal"}))
    assert fold.state.broker(1).faults == ()


@for_each(verbs(lambda rule: rule.lasts and not rule.everywhere))
def test_every_fault_that_lasts_is_shown_and_ends(verb: Verb) -> None:
    """Also one that is added to the table: it is on, or its broker is paused or dead."""
    fold = led()
    before = fold.state.broker(1)
    fold.take(
        JournalLine(1.0, {"kind": "action", "phase": "end", "fault": str(verb), "target": "broker-1", "ok": True})
    )
    during = fold.state.broker(1)
    assert during.faults == (verb,) or (during.faults == () and during.condition != before.condition)
    fold.take(JournalLine(2.0, {"kind": "recovered", "fault": str(verb), "targets": ["broker-1"], "by": "heal"}))
    assert fold.state.broker(1).faults == ()


def test_a_fault_that_failed_changes_nothing() -> None:
    fold = led()
    line = {"kind": "action", "phase": "end", "fault": "Kill", "target": "broker-1", "ok": False, "detail": "no"}
    assert fold.take(JournalLine(1.0, line)) == {}


def test_a_check_that_held_tells_the_offset_it_waited_for() -> None:
    """A simulation is not scraped: this is where its followers' high watermarks are told."""
    fold = led()
    condition = {"type": "HighWatermark", "broker": 2, "topic": "t", "equals": 5}
    steps = [{"name": "caught-up", "wait": {"conditions": [condition]}}]
    fold.take(JournalLine(0.0, {"kind": "scenario", "scenario": {"spec": {"steps": steps}}}))
    fold.take(JournalLine(1.0, {"kind": "check", "step": "caught-up", "ok": False, "seen": "4"}))
    assert offsets(fold, 2) == (5, 4)
    fold.take(JournalLine(2.0, {"kind": "check", "step": "caught-up", "ok": True, "seen": "5"}))
    assert offsets(fold, 2) == (5, 5)


def test_a_deleted_topic_is_gone() -> None:
    fold = led()
    fold.take(EventLine(1.0, 1, "topic_deleted", "t", None, {}))
    assert fold.state.partitions == [] and fold.state.replicas(T0) == []


def recording(steps: int, steps_max: int | None = None) -> Recording:
    found = Recording(steps_max)
    for number in range(steps):
        found.take(Scrape(float(number), 1, [Sample("minikafka_connections", {}, number)]))
    return found


def test_every_step_can_be_gone_back_to() -> None:
    watched = recording(1000)
    assert [watched.state(steps).broker(1).connections for steps in (1, 255, 256, 257, 1000, 5)] == [
        0, 254, 255, 256, 999, 4,
    ]  # fmt: skip
    assert watched.state(0).brokers == []
    assert sum(step.time <= 499.5 for step in watched.steps) == 500


def test_the_oldest_steps_are_forgotten_and_the_state_is_not() -> None:
    watched = recording(3000, steps_max=1024)
    assert len(watched.steps) <= 1024 and watched.forgotten + len(watched.steps) == 3000
    for steps in range(1, len(watched.steps) + 1):
        assert watched.state(steps).broker(1).connections == watched.forgotten + steps - 1


def test_a_broker_that_runs_and_is_fenced_does_not_start() -> None:
    """It was never dead. One that does start is said to, as its events have it, until it is ready."""
    fold = Fold()
    fold.take(EventLine(1.0, 1, "broker_ready", None, None, {}))
    fold.take(EventLine(1.0, 2, "broker_starting", None, None, {}))
    for broker in (1, 2):
        fold.take(ProcessCondition(2.0, broker, "not ready"))
    assert [fold.state.broker(broker).condition for broker in (1, 2)] == ["not ready", "starting"]
