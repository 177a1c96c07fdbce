"""The policy for a disk that refuses, step by step: what is asked of the broker, and when (R17, KIP-112)."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from minikafka.log.errors import LogDirFailure
from minikafka.protocol.types import TopicPartition
from minikafka.replication.clock import Clock
from minikafka.replication.offline_logs import RETRY_SECONDS_FIRST, RETRY_SECONDS_MAX, WELL_SECONDS, OfflineLogs

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def failure(permanent: bool = False) -> LogDirFailure:
    return LogDirFailure("no space", permanent=permanent, topic_partition=A)


class Scene:
    """A broker of two replicas with records up to 10, committed up to 8, and a clock that a test turns."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waiting: list[tuple[float, Callable[[], None]]] = []
        self.asked: list[str] = []
        self.is_fenced = False
        self.is_ending = False
        self.refuses: Exception | None = None
        self.checkpoints: Exception | None = None
        self.comes_back_with = 10
        self.restarted = False
        self.parts = {
            tp: SimpleNamespace(high_watermark=8, log=None, set_high_watermark=lambda _: None) for tp in (A, B)
        }
        logs = {tp: SimpleNamespace(failure=None) for tp in (A, B)}
        self.logs = SimpleNamespace(logs=logs, replace=self._replace, high_watermarks={})
        replicas: Any = SimpleNamespace(get=lambda topic, index: self.parts.get(TopicPartition(topic, index)))
        clock = Clock(lambda: self.now, lambda: 0, lambda s, event: self.waiting.append((self.now + s, event)))
        self.policy = OfflineLogs(self, replicas, clock, lambda: self.logs)  # type: ignore[arg-type, return-value]

    def breaks(self, *partitions: TopicPartition) -> None:
        for tp in partitions or (A,):
            self.logs.logs[tp].failure = failure()
            self.policy.failed(tp, failure())
        self.turn(0.0)

    def turn(self, seconds: float) -> list[str]:
        """So much time passes; what was asked meanwhile."""
        self.asked.clear()
        end = self.now + seconds
        while due := [one for one in self.waiting if one[0] <= end]:
            first = min(due, key=lambda one: one[0])
            self.waiting.remove(first)
            self.now = max(self.now, first[0])
            first[1]()
        self.now = end
        return list(self.asked)

    def _replace(self, tp: TopicPartition, log: Any) -> None:
        self.logs.logs[tp] = log

    # -- the shell

    def end(self, reason: str) -> None:
        self.asked.append(f"end: {reason}")
        self.is_ending = True

    def resign(self, topic_partition: TopicPartition, failure: LogDirFailure) -> None:
        del failure
        self.asked.append(f"resign {topic_partition}")

    def tell(self, count: int, line: str) -> None:
        self.asked.append(f"tell {count} {line}".strip())

    def unexpected(self, error: Exception) -> None:
        self.asked.append(f"unexpected {error!r}")

    def open_anew(self, topic_partition: TopicPartition, done: Callable[[Any], None]) -> None:
        self.asked.append(f"open {topic_partition}")
        end, recovery = self.comes_back_with, SimpleNamespace(restarted=self.restarted)
        done(self.refuses or SimpleNamespace(failure=None, log_end_offset=end, recovery=recovery))

    def write_checkpoints(self, done: Callable[[Exception | None], None]) -> None:
        self.asked.append("checkpoints")
        done(self.checkpoints)

    def settle(self, back: list[TopicPartition]) -> None:
        self.asked.append("settle " + " ".join(map(str, back)))


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_it_resigns_in_the_next_round_of_events_and_once(scene: Scene) -> None:
    scene.policy.failed(A, failure())
    assert scene.asked == [] and A not in scene.policy
    assert scene.turn(0.0) == ["tell 1 1 log offline: no space", "resign a-0"]
    assert A in scene.policy and len(scene.policy) == 1
    scene.policy.failed(A, failure())
    assert scene.turn(0.0) == ["tell 1 1 log offline: no space"]


def test_nothing_is_opened_before_the_controller_has_fenced_it(scene: Scene) -> None:
    scene.breaks()
    assert scene.turn(10 * RETRY_SECONDS_FIRST) == []
    scene.is_fenced = True
    assert scene.turn(RETRY_SECONDS_FIRST) == ["open a-0", "checkpoints", "tell 0", "settle a-0"]
    assert len(scene.policy) == 0 and scene.waiting == []


def test_all_of_them_are_opened_before_any_is_settled(scene: Scene) -> None:
    scene.is_fenced = True
    scene.breaks(A, B)
    assert scene.turn(RETRY_SECONDS_FIRST) == ["open a-0", "open b-0", "checkpoints", "tell 0", "settle a-0 b-0"]


@pytest.mark.parametrize("what", ["refuses", "checkpoints"])
def test_tries_get_rarer_and_never_end(scene: Scene, what: str) -> None:
    scene.is_fenced = True
    setattr(scene, what, OSError("still full"))
    scene.breaks()
    pause, waited = RETRY_SECONDS_FIRST, []
    for _ in range(9):
        (when, _), *none = scene.waiting
        assert none == [] and when - scene.now == pytest.approx(pause)
        waited.append(pause)
        assert scene.turn(pause)[-1].endswith("tried again: still full")
        pause = min(2 * pause, RETRY_SECONDS_MAX)
    assert waited[-1] == RETRY_SECONDS_MAX
    setattr(scene, what, None)
    assert scene.turn(RETRY_SECONDS_MAX)[-1] == "settle a-0"


def test_a_disk_that_was_well_for_long_is_tried_soon_again(scene: Scene) -> None:
    scene.is_fenced = True
    for pause in (RETRY_SECONDS_FIRST, 2 * RETRY_SECONDS_FIRST):  # refused again soon after it came back
        scene.breaks()
        assert scene.turn(0.99 * pause) == []
        assert scene.turn(0.02 * pause)[-1] == "settle a-0"
    scene.turn(WELL_SECONDS + 1)
    scene.breaks()
    assert scene.turn(RETRY_SECONDS_FIRST)[-1] == "settle a-0"


def test_a_mistake_of_this_program_is_told_and_tried_again(scene: Scene) -> None:
    scene.is_fenced = True
    scene.refuses = KeyError("mistake")
    scene.breaks()
    assert "unexpected KeyError('mistake')" in scene.turn(RETRY_SECONDS_FIRST)
    scene.refuses = None
    assert scene.turn(2 * RETRY_SECONDS_FIRST)[-1] == "settle a-0"


def test_after_a_failed_fsync_the_process_ends(scene: Scene) -> None:
    scene.logs.logs[A].failure = failure(True)
    scene.policy.failed(A, failure(True))
    assert scene.turn(0.0) == ["end: no space; what it held unflushed cannot be trusted"]
    scene.policy.failed(B, failure())
    assert scene.turn(RETRY_SECONDS_MAX) == [], "who ends does nothing more"


@pytest.mark.parametrize(("end", "restarted", "ends"), [(7, False, True), (8, False, False), (7, True, False)])
def test_a_log_that_lacks_what_was_committed_ends_the_process(
    scene: Scene, end: int, restarted: bool, ends: bool
) -> None:
    """Unless it was about to begin anew, by its leader's word."""
    scene.is_fenced, scene.comes_back_with, scene.restarted = True, end, restarted
    scene.breaks()
    last = scene.turn(RETRY_SECONDS_FIRST)[-1]
    assert last.endswith("and was committed up to 8") if ends else last == "settle a-0"


def test_a_deleted_partition_is_no_longer_waited_for(scene: Scene) -> None:
    scene.is_fenced = True
    scene.breaks(A, B)
    scene.policy.forget(A)
    assert scene.asked[-1] == "tell 1 1 log offline: no space"
    assert scene.turn(RETRY_SECONDS_FIRST) == ["open b-0", "checkpoints", "tell 0", "settle b-0"]


def test_who_stops_tries_nothing_more(scene: Scene) -> None:
    scene.is_fenced = True
    scene.breaks()
    scene.policy.stop()
    assert scene.turn(RETRY_SECONDS_MAX) == []
