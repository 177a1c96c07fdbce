"""What clients may see (A): each invariant fires when one thing is made wrong in a healthy world; see `scene.py`."""

from __future__ import annotations

import pytest
from minikafka_simulator.checks.client_checks import Ack

from tests.simulation.scene import ALIEN, FAR, MakeWrong, Scene, fires


def acknowledged_but_not_there(scene: Scene) -> None:
    scene.checker.clients.acks[scene.tp].append(Ack(0, "another"))
    scene.checker.final()


def read_at_two_offsets(scene: Scene) -> None:
    scene.checker.clients.seen.clear()
    scene.reads(0, "x")
    scene.reads(1, "x")


def two_values_at_one_offset(scene: Scene) -> None:
    scene.reads(0, "another")


def read_though_never_sent(scene: Scene) -> None:
    scene.checker.clients.consumed(scene.tp, 0, 0, "x", scene.checker.commits.truth[scene.tp][0])


def acknowledged_and_never_read(scene: Scene) -> None:
    scene.checker.clients.seen.clear()
    scene.checker.final()


def reader_jumps(scene: Scene) -> None:
    scene.reads(1, "x", position=0)


def read_beyond_the_true_high_watermark(scene: Scene) -> None:
    scene.reads(scene.end, "x", identity=ALIEN)


def read_another_record_than_the_committed(scene: Scene) -> None:
    scene.reads(0, "x", identity=ALIEN)


def reader_is_sent_back(scene: Scene) -> None:
    scene.checker.clients.parted(scene.tp, scene.end, 0, scene.end - 1)


def reader_is_given_what_it_has(scene: Scene) -> None:
    scene.checker.clients.given(scene.tp, 5, 4)


def reader_is_sent_over_what_nobody_deleted(scene: Scene) -> None:
    scene.checker.clients.out_of_range(scene.tp, 0, 1)


def reader_is_out_of_range_though_it_read_what_is_committed(scene: Scene) -> None:
    scene.checker.clients.out_of_range(scene.tp, scene.end, 0)


def acknowledged_and_passed_over_beyond_the_deletions(scene: Scene) -> None:
    """Records were deleted, but the one that nobody read is a later one."""
    ack = scene.checker.clients.acks[scene.tp][-1]
    scene.checker.records_deleted(scene.tp, ack.offset)
    scene.checker.clients.out_of_range(scene.tp, 0, ack.offset)
    del scene.checker.clients.seen[scene.tp, ack.offset]
    scene.checker.final()


def acknowledged_at_a_lower_offset(scene: Scene) -> None:
    scene.checker.clients.acknowledged(scene.sent, 0, 0)


def reader_lags_in_the_end(scene: Scene) -> None:
    next(c for c in scene.world.consumers if c.tp == scene.tp).position = 0
    scene.checker.final()


def silence_with_a_minority_down(scene: Scene) -> None:
    assert scene.world.nemesis is not None
    scene.world.nemesis.minority = True
    scene.checker.clients.ack_times[scene.tp] = scene.world.now - 60
    scene.checker.clients._last_acks.clear()
    scene.checker.clients.acknowledged(scene.sent, 0, 0)


def end_goes_back(scene: Scene) -> None:
    scene.checker.clients.end_offset(scene.tp, scene.world.now + 1, 0, 0)


def acknowledged_above_the_true_high_watermark(scene: Scene) -> None:
    scene.checker.clients.acknowledged(scene.sent, 0, FAR)


def _lost_by_election(scene: Scene) -> None:
    """An unclean election, of a leader that has everything."""
    scene.checker.commits.excuse(scene.tp, scene.leader.id, scene.state.leader_epoch)


def read_beyond_the_true_high_watermark_since_an_unclean_election(scene: Scene) -> None:
    _lost_by_election(scene)
    scene.reads(scene.end, "x", identity=ALIEN)


def acknowledged_above_the_true_high_watermark_since_an_unclean_election(scene: Scene) -> None:
    _lost_by_election(scene)
    scene.checker.logs.written[scene.tp][FAR, FAR] = ALIEN
    scene.checker.clients.promised(scene.sent, ALIEN[1], FAR)


WRONG: dict[str, MakeWrong] = {
    "A1 lost-write": acknowledged_but_not_there,
    "A1 lost-write, deleted by nobody": reader_is_sent_over_what_nobody_deleted,
    "A1 lost-write, beyond the end": reader_is_out_of_range_though_it_read_what_is_committed,
    "A2 unseen": acknowledged_and_never_read,
    "A2 unseen, behind a deletion": acknowledged_and_passed_over_beyond_the_deletions,
    "A3 duplicate": read_at_two_offsets,
    "A4 inconsistent-offsets": two_values_at_one_offset,
    "A5 aborted read": read_though_never_sent,
    "A7 poll-skip": reader_jumps,
    "A8 nonmonotonic-poll": reader_is_sent_back,
    "A8 nonmonotonic-poll, given twice": reader_is_given_what_it_has,
    "A9 nonmonotonic-send": acknowledged_at_a_lower_offset,
    "A11 realtime lag": reader_lags_in_the_end,
    "A14 end offset monotone": end_goes_back,
    "A15 ack-offset": acknowledged_above_the_true_high_watermark,
    "A16 progress": silence_with_a_minority_down,
    "A15 ack-offset, since an unclean election": acknowledged_above_the_true_high_watermark_since_an_unclean_election,
    "A18 uncommitted read, since an unclean election": read_beyond_the_true_high_watermark_since_an_unclean_election,
    "A18 uncommitted read": read_beyond_the_true_high_watermark,
    "A18 uncommitted read, another record": read_another_record_than_the_committed,
}


@pytest.mark.parametrize(("invariant", "make_wrong"), WRONG.items(), ids=[wrong.__name__ for wrong in WRONG.values()])
def test_the_invariant_fires(invariant: str, make_wrong: MakeWrong) -> None:
    fires(invariant, make_wrong)


def test_the_reader_names_the_epoch_of_its_last_record() -> None:
    """KIP-320: a reader that never did could not be told that what it has read is gone (audit)."""
    scene = Scene()
    reader = next(c for c in scene.world.consumers if c.tp == scene.tp)
    assert reader.position == scene.end
    assert reader.last_epoch == scene.checker.commits.truth[scene.tp][-1][0] >= 0
