"""The gate holds until its time or its removal, and what is no gate's file does not hold."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from minikafka.agent.gate import (
    HOLD_SECONDS_MAX,
    BadGate,
    GateHold,
    holds,
    read_gate,
    remove_gate,
    wait_at_gate,
    write_gate,
)

SOON = 0.3


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gate.json"


class TestReading:
    def test_what_was_written(self, path: Path) -> None:
        hold = GateHold(time.time() + 60, "x1", "kill")
        write_gate(path, hold)
        assert read_gate(path) == hold
        assert holds(path, hold.until - 1) == hold
        assert holds(path, hold.until) is None, "its time has come"
        remove_gate(path)
        remove_gate(path)
        assert read_gate(path) is None

    @pytest.mark.parametrize("until", ["1e300", "1e999", "9" * 400, "99999999999"])
    def test_no_more_than_an_hour_from_the_files_time(self, path: Path, until: str) -> None:
        path.write_text(f'{{"until": {until}}}')
        os.utime(path, (1000.0, 1000.0))
        assert read_gate(path) == GateHold(1000.0 + HOLD_SECONDS_MAX)
        assert holds(path, 1000.0 + HOLD_SECONDS_MAX) is None

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "not JSON"),
            (b"{", "not JSON"),
            (b"\xff\xfe", "not JSON"),
            (b"[" * 20_000, "not JSON"),
            (b"[]", "no time"),
            (b"{}", "no time"),
            (b'{"until": null}', "no time"),
            (b'{"until": "9999999999"}', "no time"),
            (b'{"until": true}', "no time"),
            (b'{"until": NaN}', "no time"),
        ],
    )
    def test_what_is_no_gate(self, path: Path, content: bytes, said: str) -> None:
        path.write_bytes(content)
        with pytest.raises(BadGate, match=said):
            read_gate(path)
        assert holds(path, 0.0) is None

    def test_what_cannot_be_read(self, path: Path) -> None:
        path.mkdir()
        with pytest.raises(BadGate, match="directory"):
            read_gate(path)


class TestWaiting:
    def passes(self, path: Path) -> tuple[bool, list[str]]:
        told: list[str] = []
        return wait_at_gate(path, told.append), told

    def after(self, act: Callable[[], object], seconds: float = SOON) -> None:
        threading.Timer(seconds, act).start()

    def test_nothing_to_wait_for(self, path: Path) -> None:
        assert self.passes(path) == (True, [])
        write_gate(path, GateHold(time.time() - 1))
        assert self.passes(path) == (True, [])

    def test_a_file_that_does_not_hold_is_told_of(self, path: Path) -> None:
        path.write_text("nonsense")
        passed, told = self.passes(path)
        assert passed
        assert len(told) == 1 and "does not hold" in told[0]

    def test_its_time_comes(self, path: Path) -> None:
        until = time.time() + SOON
        write_gate(path, GateHold(until, "x1", "kill"))
        passed, told = self.passes(path)
        assert passed and time.time() >= until
        assert "(kill x1)" in told[0] and "its time has come" in told[1]

    def test_it_is_removed(self, path: Path) -> None:
        write_gate(path, GateHold(time.time() + 600))
        self.after(lambda: remove_gate(path))
        passed, told = self.passes(path)
        assert passed and "it was opened" in told[1]

    def test_it_becomes_nonsense(self, path: Path) -> None:
        write_gate(path, GateHold(time.time() + 600))
        self.after(lambda: path.write_text("nonsense"))
        passed, told = self.passes(path)
        assert passed and "does not hold" in told[1]

    @pytest.mark.slow
    def test_it_is_prolonged(self, path: Path) -> None:
        first = time.time() + 6 * SOON
        write_gate(path, GateHold(first))
        until = first + SOON
        assert wait_at_gate(path, lambda _: path.write_text(json.dumps({"until": until})) and None)
        assert time.time() >= until

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_ends_it(self, path: Path, number: signal.Signals) -> None:
        """The signal is for this thread alone: another one, which pytest has and a broker that waits has not, may take it."""
        write_gate(path, GateHold(time.time() + 600))
        said: list[str] = []

        def hear(line: str) -> None:
            said.append(line)
            if len(said) == 1:
                signal.pthread_kill(threading.get_ident(), number)

        assert not wait_at_gate(path, hear) and "told to end" in said[1]
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set(), "signals arrive again"
