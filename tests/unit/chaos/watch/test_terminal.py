"""The terminal, by textual's pilot: keys go through a recording, and have verbs carried out while a cluster is watched."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.session.errors import VerbRefused
from minikafka_chaos.watch.evidence import Acknowledgements, EventLine, Evidence
from minikafka_chaos.watch.recording import Recording
from minikafka_chaos.watch.terminal import WatchScreen
from textual.pilot import Pilot
from textual.widgets import Static

DEADLINE_S = 120
LED = {"leader_epoch": 0, "partition_epoch": 0, "start_offset": 0, "isr": [1, 2], "high_watermark": 0}
FOLLOWED = {"leader": 1, "leader_epoch": 0, "partition_epoch": 0, "log_end_offset": 0, "high_watermark": 0}
CUT = {"from_offset": 2, "to_offset": 1, "records": 1, "reason": "as told", "leader_epoch": 0}
T0 = TopicPartition("t", 0)


def story() -> list[Evidence]:
    """Two replicas, two records, and one of them is cut off."""
    return [
        EventLine(1.0, 1, "broker_ready", None, None, {}),
        EventLine(1.1, 2, "broker_ready", None, None, {}),
        EventLine(1.2, 1, "became_leader", "t", 0, LED),
        EventLine(1.3, 2, "became_follower", "t", 0, FOLLOWED),
        Acknowledgements(2.0, T0, 2, True, {1: "m1"}),
        EventLine(3.0, 2, "log_truncated", "t", 0, CUT),
    ]


class FakeCluster:
    """Hands out evidence once, and what is put to it later."""

    def __init__(self, *later: Evidence) -> None:
        self.waiting: list[Evidence] = story()
        self.later = list(later)
        self.closed = False

    def read_files(self) -> list[Evidence]:
        found, self.waiting = self.waiting, []
        return found

    def ask_brokers(self) -> list[Evidence]:
        return []

    def close(self) -> None:
        self.closed = True


def shown(app: WatchScreen, name: str) -> str:
    """The text of one part of the screen."""
    app.draw()
    part = app.query_one(f"#{name}", Static)
    return "\n".join("".join(segment.text for segment in part.render_line(y)) for y in range(part.size.height))


async def until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        await pilot.pause(0.01)


def replay() -> WatchScreen:
    recording = Recording()
    recording.take_all(story())
    return WatchScreen("a run", recording)


@pytest.mark.slow
async def test_keys_go_through_a_recording() -> None:
    app = replay()
    async with app.run_test(size=(140, 40)) as pilot:
        assert "step 0 of 6" in shown(app, "now")
        await pilot.press("end")
        await pilot.pause()
        assert "step 6 of 6" in shown(app, "now") and "log_truncated" in shown(app, "now")
        assert "▒✗" in shown(app, "replicas")
        await pilot.press("left")
        await pilot.pause()
        assert "'m1' acknowledged" in shown(app, "now") and "✗" not in shown(app, "replicas")
        await pilot.press("home", "right")
        await pilot.pause()
        assert "step 1 of 6" in shown(app, "now")
        await pilot.press("left", "left", "left")
        await pilot.pause()
        assert "step 0 of 6" in shown(app, "now")
        await pilot.press("right", "right", "shift+right")
        await pilot.pause()
        assert "step 6 of 6" in shown(app, "now")  # past who leads and what was acknowledged, to what was cut off
        await pilot.press("shift+left")
        await pilot.pause()
        assert "step 2 of 6" in shown(app, "now")


@pytest.mark.slow
async def test_a_replay_plays_to_its_end_and_from_there_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka_chaos.watch.terminal.PLAY_S_MIN", 0.001)
    monkeypatch.setattr("minikafka_chaos.watch.terminal.PLAY_S_MAX", 0.001)
    app = replay()
    async with app.run_test(size=(140, 40)) as pilot:
        await pilot.press("end", "space")
        await until(pilot, lambda: app.at == 6)
        assert "step 6 of 6" in shown(app, "now")


async def test_no_verb_is_offered_on_a_recording() -> None:
    app = replay()
    async with app.run_test(size=(140, 40)) as pilot:
        await pilot.press("end", "k")
        await pilot.pause()
        assert app.answer.line == ""


class Verbs:
    """Notes what was asked for; `let_go` ends it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.let_go = threading.Event()

    def carry_out(self, verb: str, given: Mapping[str, Any]) -> None:
        self.asked.append((verb, given))
        self.let_go.wait(DEADLINE_S)
        if verb == "resume":
            raise VerbRefused("broker 2 is running: it has to be paused for that")


@pytest.mark.slow
async def test_keys_have_verbs_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minikafka_chaos.watch.terminal.ANSWER_S", 0.5)
    cluster, verbs = FakeCluster(), Verbs()
    app = WatchScreen("cluster", Recording(), cluster, verbs.carry_out)  # type: ignore[arg-type]
    async with app.run_test(size=(140, 40)) as pilot:
        await until(pilot, lambda: len(app.recording.steps) == 6)
        assert "▸broker 1 up" in shown(app, "brokers") and "step 6 of 6" in shown(app, "now")
        await pilot.press("2", "k")
        await until(pilot, lambda: len(verbs.asked) == 1)
        await pilot.press("p")
        await pilot.pause()
        assert "the verb before it is not done yet" in shown(app, "now")
        verbs.let_go.set()
        await until(pilot, lambda: "kill of broker 2: done" in shown(app, "now"))
        await pilot.press("b", "b", "r")
        await until(pilot, lambda: "broker 2 is running: it has to be paused for that" in shown(app, "now"))
        await pilot.press("h")
        await until(pilot, lambda: "heal: done" in shown(app, "now"))
        await until(pilot, lambda: "heal: done" not in shown(app, "now"))
    assert verbs.asked == [("kill", {"broker": 2}), ("resume", {"broker": 2}), ("heal", {})]
    assert cluster.closed


@pytest.mark.slow
async def test_who_looks_back_is_not_carried_away() -> None:
    cluster = FakeCluster()
    app = WatchScreen("cluster", Recording(), cluster, Verbs().carry_out)  # type: ignore[arg-type]
    async with app.run_test(size=(140, 40)) as pilot:
        await until(pilot, lambda: len(app.recording.steps) == 6)
        await pilot.press("left")
        cluster.waiting = [Acknowledgements(4.0, T0, 9, True, {})]
        await until(pilot, lambda: len(app.recording.steps) == 7)
        assert app.at == 5
        await pilot.press("end")
        cluster.waiting = [Acknowledgements(5.0, T0, 10, True, {})]
        await until(pilot, lambda: len(app.recording.steps) == 8)
        assert app.at == 8


@pytest.mark.slow
async def test_a_watcher_that_fails_says_so() -> None:
    cluster = FakeCluster()

    def fail() -> list[Evidence]:
        raise OSError("the disk\nhas gone")

    cluster.ask_brokers = fail  # type: ignore[method-assign]
    app = WatchScreen("cluster", Recording(), cluster, Verbs().carry_out)  # type: ignore[arg-type]
    async with app.run_test(size=(140, 40)) as pilot:
        await until(pilot, lambda: "OSError: the disk has gone" in shown(app, "now"))
    await asyncio.to_thread(lambda: None)
