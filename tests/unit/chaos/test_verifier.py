"""Every anomaly: a history where it is found, and one beside it where it is not."""

from __future__ import annotations

import pytest
from minikafka_chaos.anomalies import Anomaly, Kind, Severity
from minikafka_chaos.evidence import collect
from minikafka_chaos.history import HistoryError, WorkloadSettings
from minikafka_chaos.verifier import find_anomalies, undecided

from .story import READER, Story


def anomalies(story: Story, accept_loss_before: float | None = None) -> list[Anomaly]:
    return find_anomalies(collect(story.lines, accept_loss_before=accept_loss_before))


def kinds(story: Story) -> set[Kind]:
    return {anomaly.kind for anomaly in anomalies(story)}


def healthy() -> Story:
    story = Story(WorkloadSettings())
    return story.acked("a", 0).acked("b", 1).invoke("c").unknown("c").acked("d", 2).final(["a", "b", "d"])


def test_a_healthy_history_has_no_anomaly() -> None:
    assert anomalies(healthy()) == []


# A1, A2 -----------------------------------------------------------------------------------------------------------


def test_a1_an_acknowledged_record_whose_offset_holds_another_is_lost() -> None:
    story = Story().acked("a", 0).acked("b", 1).invoke("c").unknown("c").final(["a", "c"])
    lost = [a for a in anomalies(story) if a.kind is Kind.LOST_WRITE]
    assert [(a.offset, a.value, a.severity) for a in lost] == [(1, "b", Severity.ERROR)]
    assert lost[0].evidence["offset_holds_now"] == "c"


def test_a2_an_acknowledged_record_beyond_the_end_is_unseen() -> None:
    found = anomalies(Story().acked("a", 0).acked("b", 1).final(["a"]))
    assert [(a.kind, a.value) for a in found] == [(Kind.UNSEEN, "b")]
    assert found[0].evidence["end_offset"] == 1


def test_a2_an_empty_partition_has_lost_all() -> None:
    assert kinds(Story().acked("a", 0).final([])) == {Kind.UNSEEN}


def test_an_unknown_record_may_be_there_or_not() -> None:
    there = Story().acked("a", 0).invoke("b").unknown("b").final(["a", "b"])
    absent = Story().acked("a", 0).invoke("b").unknown("b").final(["a"])
    unanswered = Story().acked("a", 0).invoke("b").final(["a", "b"])
    assert anomalies(there) == anomalies(absent) == anomalies(unanswered) == []


def test_a1_without_a_reader_at_the_end_only_passed_offsets_are_judged() -> None:
    story = Story().acked("a", 0).acked("b", 1).acked("c", 2).acked("d", 3)
    story.assign().poll([(0, "a"), (2, "c")]).read_stopped(3)
    assert [(a.kind, a.value) for a in anomalies(story) if a.kind is Kind.LOST_WRITE] == [(Kind.LOST_WRITE, "b")]
    assert sum(undecided(collect(story.lines)).values()) == 2  # b is lost for certain, d nobody can tell


def test_a1_a_reader_that_started_later_does_not_accuse() -> None:
    story = Story().acked("a", 0).acked("b", 1).assign(1).poll([(1, "b")]).read_stopped(2)
    assert anomalies(story) == []


def test_records_acknowledged_after_the_final_read_began_are_not_judged_by_it() -> None:
    story = Story().acked("a", 0).invoke("b").final(["a"]).ok("b", 1)
    assert anomalies(story) == []
    assert sum(undecided(collect(story.lines)).values()) == 1


def test_records_below_the_log_start_were_retired_not_lost() -> None:
    assert anomalies(Story().acked("a", 0).acked("b", 1).final(["b"], start=1)) == []


def test_partitions_are_judged_apart() -> None:
    story = Story().acked("a", 0, partition=0).acked("b", 0, partition=1)
    story.final(["a"]).assign(0, READER, partition=1).read_to(0, READER, partition=1)
    assert [(a.kind, a.partition) for a in anomalies(story)] == [(Kind.UNSEEN, 1)]


def test_an_acknowledgement_without_offset_is_judged_by_its_value() -> None:
    assert anomalies(Story().invoke("a").ok("a", None).final(["a"])) == []
    assert kinds(Story().invoke("a").ok("a", None).final([])) == {Kind.UNSEEN}


# A3 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("idempotence", "severity"), [(True, Severity.ERROR), (False, Severity.NOTE)])
def test_a3_a_duplicate_is_an_error_with_idempotence_only(idempotence: bool, severity: Severity) -> None:
    story = Story(WorkloadSettings(idempotence=idempotence)).acked("a", 1).final(["a", "a"])
    assert [(a.kind, a.severity) for a in anomalies(story)] == [(Kind.DUPLICATE, severity)]


def test_a3_one_value_at_one_offset_read_by_many_is_no_duplicate() -> None:
    story = Story(WorkloadSettings(idempotence=True)).acked("a", 0).assign().poll([(0, "a")]).final(["a"])
    assert anomalies(story) == []


# A4 ---------------------------------------------------------------------------------------------------------------


def test_a4_one_offset_with_two_values() -> None:
    story = Story().acked("a", 0).invoke("b").unknown("b").assign().poll([(0, "a")]).assign(process=7)
    story.poll([(0, "b")], process=7)
    assert Kind.INCONSISTENT_OFFSETS in kinds(story)


def test_a4_holes_are_consistent() -> None:
    story = Story().acked("a", 0).acked("b", 5).assign().poll([(0, "a"), (5, "b")]).read_to(6)
    assert anomalies(story) == []


# A5 ---------------------------------------------------------------------------------------------------------------


def test_a5_a_failed_record_that_is_read() -> None:
    found = anomalies(Story().acked("a", 0).invoke("b").fail("b").final(["a", "b"]))
    assert [(a.kind, a.value, a.offset) for a in found] == [(Kind.ABORTED_READ, "b", 1)]


def test_a5_a_failed_record_that_is_not_read_is_right() -> None:
    assert anomalies(Story().acked("a", 0).invoke("b").fail("b").final(["a"])) == []


# A7, A8 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batch", "kind"), [(1, Kind.INT_POLL_SKIP), (2, Kind.POLL_SKIP)])
def test_a7_a_reader_jumps_over_a_known_record(batch: int, kind: Kind) -> None:
    story = Story().acked("a", 0).acked("b", 1).acked("c", 2)
    story.assign().poll([(0, "a")], batch=1).poll([(2, "c")], batch=batch).final(["a", "b", "c"])
    assert [(a.kind, a.offset) for a in anomalies(story)] == [(kind, 1)]


def test_a7_a_reader_that_misses_the_first_known_record() -> None:
    story = Story().acked("a", 0).acked("b", 1).assign().poll([(1, "b")]).final(["a", "b"])
    assert kinds(story) == {Kind.POLL_SKIP}


def test_a7_a_hole_that_nobody_knows_a_record_in_is_no_skip() -> None:
    assert anomalies(Story().acked("a", 0).acked("c", 2).assign().poll([(0, "a"), (2, "c")]).read_to(3)) == []


@pytest.mark.parametrize(("batch", "kind"), [(1, Kind.INT_NONMONOTONIC_POLL), (2, Kind.NONMONOTONIC_POLL)])
def test_a8_a_reader_goes_back(batch: int, kind: Kind) -> None:
    story = Story().acked("a", 0).acked("b", 1)
    story.assign().poll([(0, "a"), (1, "b")], batch=1).poll([(0, "a")], batch=batch).final(["a", "b"])
    assert [(a.kind, a.offset) for a in anomalies(story)] == [(kind, 0)]


def test_a8_a_reader_that_was_placed_anew_may_go_back() -> None:
    story = Story().acked("a", 0).assign().poll([(0, "a")]).assign().poll([(0, "a")]).final(["a"])
    assert anomalies(story) == []


# A9 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("idempotent", "severity"), [(True, Severity.ERROR), (False, Severity.NOTE)])
def test_a9_a_send_overtakes_one_that_is_still_open(idempotent: bool, severity: Severity) -> None:
    """librdkafka #1092: a client does that by itself when the leader moves, unless it is idempotent."""
    story = Story(WorkloadSettings(idempotence=idempotent)).invoke("a").invoke("b").ok("b", 0).ok("a", 1)
    found = anomalies(story.final(["b", "a"]))
    assert [(a.kind, a.value, a.severity) for a in found] == [(Kind.NONMONOTONIC_SEND, "b", severity)]


@pytest.mark.parametrize("in_flight", [1, 5])
def test_a9_acknowledged_in_order_at_offsets_that_are_not(in_flight: int) -> None:
    """No client can do that."""
    story = Story(WorkloadSettings(max_in_flight=in_flight)).invoke("a").invoke("b").ok("a", 1).ok("b", 0)
    found = anomalies(story.final(["b", "a"]))
    assert [(a.kind, a.value, a.severity) for a in found] == [(Kind.NONMONOTONIC_SEND, "b", Severity.ERROR)]


def test_a9_two_producers_need_no_common_order() -> None:
    story = Story().invoke("a", process=1).invoke("b", process=2).ok("b", 0, process=2).ok("a", 1, process=1)
    assert anomalies(story.final(["b", "a"])) == []


# A13 --------------------------------------------------------------------------------------------------------------


def test_a13_what_was_read_once_must_stay() -> None:
    story = Story().acked("a", 0).invoke("b").unknown("b").assign().poll([(0, "a"), (1, "b")]).final(["a"])
    assert [(a.kind, a.value) for a in anomalies(story)] == [(Kind.VANISHED_READ, "b")]


def test_a13_what_is_read_again_has_not_vanished() -> None:
    story = Story().acked("a", 0).assign().poll([(0, "a")]).final(["a"])
    assert anomalies(story) == []


# A14 --------------------------------------------------------------------------------------------------------------


def test_a14_the_end_offset_goes_back() -> None:
    found = anomalies(healthy().end_offset(3).end_offset(2).end_offset(3))
    assert [(a.kind, a.offset) for a in found] == [(Kind.END_OFFSET_WENT_BACK, 2)]


def test_a14_other_clients_may_be_told_at_other_times() -> None:
    assert anomalies(healthy().end_offset(3, process=7).end_offset(2, process=8).end_offset(3, process=8)) == []


# A15 --------------------------------------------------------------------------------------------------------------


def test_a15_a_record_is_elsewhere_than_acknowledged() -> None:
    story = Story().acked("a", 0).acked("b", 5).assign().poll([(0, "a"), (1, "b")]).read_to(2)
    assert kinds(story) == {Kind.ACK_OFFSET}


def test_a15_a_copy_elsewhere_does_not_matter_while_the_acknowledged_one_is_there() -> None:
    assert kinds(Story().acked("a", 1).final(["a", "a"])) == {Kind.DUPLICATE}


def test_a15_a_record_gets_an_offset_that_was_taken() -> None:
    story = Story().acked("a", 0).acked("b", 1).acked("c", 1, process=2).final(["a", "c"])
    stale = [a for a in anomalies(story) if a.kind is Kind.STALE_OFFSET]
    assert [(a.value, a.offset, a.evidence["known"]) for a in stale] == [("c", 1, 1)]


def test_a15_an_unknown_record_may_turn_up_late_but_never_low() -> None:
    late = Story().invoke("x").unknown("x").acked("a", 0).final(["a", "x"])
    assert anomalies(late) == []
    early_elsewhere = Story().invoke("x").acked("a", 1, process=2).unknown("x").final(["x", "a"])
    assert anomalies(early_elsewhere) == []  # x was on its way before anybody knew of offset 1
    low = Story().acked("a", 1).invoke("x").unknown("x").final(["x", "a"])
    assert kinds(low) == {Kind.STALE_OFFSET}


# accepted loss, contradictions --------------------------------------------------------------------------------------


def test_a_loss_that_was_declared_beforehand_is_accepted_and_counted() -> None:
    story = Story().acked("m0", 0).acked("m1", 1).end_offset(2)
    power_loss = story.now
    story.acked("m2", 1).end_offset(2).final(["m0", "m2"])
    assert Kind.LOST_WRITE in kinds(story)
    assert anomalies(story, accept_loss_before=power_loss) == []
    assert [s.value for s in collect(story.lines, accept_loss_before=power_loss).accepted] == ["m1"]


def test_what_is_acknowledged_after_the_declared_moment_must_be_kept() -> None:
    story = Story().acked("m0", 0)
    power_loss = story.now
    story.acked("m1", 1).acked("m2", 2).final(["m0", "m1"])
    assert [a.value for a in anomalies(story, accept_loss_before=power_loss)] == ["m2"]


def test_a_value_that_is_sent_twice_makes_the_history_useless() -> None:
    with pytest.raises(HistoryError, match="sent twice"):
        collect(Story().acked("a", 0).acked("a", 1).lines)


def test_an_outcome_without_a_send_makes_the_history_useless() -> None:
    with pytest.raises(HistoryError, match="never sent"):
        collect(Story().ok("a", 0).lines)


def test_records_of_other_clients_are_no_anomaly() -> None:
    """A cluster may be in use: values that this workload never sent are somebody else's."""
    assert anomalies(Story().acked("a", 1).final(["stranger", "a"])) == []


def test_errors_come_before_notes() -> None:
    story = Story().acked("a", 1).acked("b", 2).final(["a", "a"])
    assert [a.severity for a in anomalies(story)] == [Severity.ERROR, Severity.NOTE]
