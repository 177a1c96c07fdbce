"""What `minikafka watch` shows of stories that were told in simulation, where nobody scrapes, and of the trace of a schedule."""

from __future__ import annotations

from pathlib import Path

import pytest
from minikafka.cli.main import main
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.watch.lines import BAD
from minikafka_chaos.watch.recording import Recording
from minikafka_chaos.watch.run_folder import read_run
from minikafka_chaos.watch.state import EpochStart, ReplicaKey
from minikafka_chaos.watch.trace import is_trace, read_trace

STORY = TopicPartition("story", 0)
FIRST, SECOND = EpochStart(0, 0), EpochStart(1, 1)


def watched(name: str, folder: Path) -> Recording:
    assert main(["chaos", "run", name, "--ground", "simulation", "--out", str(folder)]) == 0
    (run,) = folder.iterdir()
    recording = Recording()
    recording.take_all(read_run(run))
    return recording


def after(recording: Recording, words: str) -> int:
    """How many steps were over when a line with these words had come first."""
    return next(n for n, step in enumerate(recording.steps, 1) if step.line is not None and words in step.line.text)


def test_story_a_loses_what_was_acknowledged_on_the_follower_first(tmp_path: Path) -> None:
    recording = watched("kip-101-data-loss.high-watermark", tmp_path)
    state = recording.state(after(recording, "follower-stands-one-behind"))
    leader, follower = (state.replica(ReplicaKey(*STORY, broker)) for broker in (0, 1))
    assert (leader.log_end, leader.high_watermark, follower.log_end, follower.high_watermark) == (2, 2, 2, 1)
    assert [(each.offset, each.value) for each in state.partition(STORY).records] == [(0, "m0"), (1, "m1")]

    cut = after(recording, "log_truncated story-0")
    follower = recording.state(cut).replica(ReplicaKey(*STORY, 1))
    assert (follower.log_end, follower.cut_end, recording.state(cut).broker(0).condition.value) == (1, 2, "paused")
    assert recording.state(cut - 2).replica(ReplicaKey(*STORY, 1)).log_end == 2

    state = recording.state(after(recording, "follower-takes-over"))
    assert (state.partition(STORY).leader, state.replica(ReplicaKey(*STORY, 1)).epochs) == (1, (FIRST, SECOND))
    assert recording.steps[after(recording, "1 acknowledged record lost") - 1].line.tone == BAD  # type: ignore[union-attr]


def test_story_b_ends_with_two_records_at_one_offset(tmp_path: Path) -> None:
    recording = watched("kip-101-divergence.high-watermark", tmp_path)
    state = recording.state(after(recording, "both-in-sync"))
    epochs = [state.replica(ReplicaKey(*STORY, broker)).epoch_at(1) for broker in (0, 1)]
    values = {(each.offset, each.leader_epoch): each.value for each in state.partition(STORY).records}
    assert sorted(epochs) == [0, 1]
    assert (values[1, 0], values[1, 1]) == ("m1", "m2")


def test_the_trace_of_a_schedule_is_gone_through(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "3", "--seconds", "1", "--trace"]) == 0
    trace = capsys.readouterr().out
    assert is_trace(trace)
    recording = Recording()
    evidence, torn = read_trace(trace)
    assert torn is None, "the hash of its lines is known here, too"
    recording.take_all(evidence)
    assert recording.newest.brokers == [1, 2, 3]
    led = recording.newest.partition(TopicPartition("t", 0))
    assert led.leader is not None
    assert (recording.newest.replica(ReplicaKey("t", 0, led.leader)).log_end or 0) > 0
