"""`minikafka up` in the foreground: what ends it, brings the brokers down."""

from __future__ import annotations

import argparse
import signal
import socket
import sys
import tempfile
import types
import weakref
from pathlib import Path

import pytest
from minikafka.cli import up
from minikafka.cli.main import main
from minikafka.local.layout import ClusterRecord, new_cluster_id, write_record
from minikafka.local.scratch import LOCK


class Callback:
    """Something whose end is told by a callback, as an import's lock."""


class Brokers:
    """One broker that runs; while it is looked at a signal comes, in a callback that has nobody to pass an exception to."""

    record = types.SimpleNamespace(proxied=[])
    was_brought_down = False

    def __init__(self, number: signal.Signals) -> None:
        self.number = number
        self.looks = 0
        self.stopped = False

    def info(self) -> types.SimpleNamespace:
        return types.SimpleNamespace(brokers=[types.SimpleNamespace(id=0, pid=1)])

    def state(self, _broker: int) -> str:
        self.looks += 1
        assert self.looks < 3, "it goes on, though it was told to end"
        locked = Callback()
        seen = weakref.ref(locked, lambda _: signal.raise_signal(self.number))
        del locked
        assert seen() is None
        return "up"

    def down(self) -> list[int]:
        self.stopped = True
        return []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_whose_exception_is_swallowed(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    """All further ones are ignored, so that brokers are left alone while they shut down."""
    brokers = Brokers(number)
    monkeypatch.setattr(sys, "unraisablehook", lambda what: None)
    monkeypatch.setattr(up, "LocalCluster", lambda _: brokers)
    monkeypatch.setattr(up, "_up", lambda cluster, _: cluster.info())
    monkeypatch.setattr(up, "show", lambda info, as_json: None)
    monkeypatch.setattr(up, "_WATCH_SECONDS", 0.0)
    before = signal.getsignal(number)
    assert up.run(argparse.Namespace(data="unused", detach=False, control=None, json=True, while_stdin=False)) == 0
    assert brokers.stopped and brokers.looks == 1
    assert signal.getsignal(number) == before


def test_a_control_port_that_cannot_be_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["up", "--data", str(tmp_path / "data"), "--control", str(port)]) == 1
        assert f"--control: port {port} is in use" in capsys.readouterr().err
    assert main(["up", "--data", str(tmp_path / "data"), "--control", "0", "--detach"]) == 2
    assert "not with --detach" in capsys.readouterr().err
    assert main(["up", "--data", str(tmp_path / "data"), "--control", "70000"]) == 2
    capsys.readouterr()
    assert main(["up", "--data", str(tmp_path / "data"), "--base-port", "0", "--control", "203.0.113.1:0"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("minikafka up: control port: cannot listen on 203.0.113.1:0") and error.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_a_cluster_that_was_made_without_a_proxy_gets_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever asks for one hears what to do, and not that lists of listeners differ."""
    write_record(tmp_path, ClusterRecord(new_cluster_id(), 1, 19092))
    assert main(["up", "--data", str(tmp_path), "--control", "0"]) == 2
    assert f"{tmp_path} was made without it, and cannot get it later: use a new --data" in capsys.readouterr().err
    assert main(["chaos", "cut", "1", "--data", str(tmp_path)]) == 2
    assert "make a new one with minikafka up --data NEW_DIR --control 0" in capsys.readouterr().err
    assert (tmp_path / "journal.jsonl").read_text() == ""


def test_the_temporary_folder_of_one_that_was_killed_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "minikafka-up-0123"
    left.mkdir()
    (left / LOCK).touch()
    seen: list[bool] = []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(up, "_run_tied", lambda args: seen.append(Path(args.data).is_dir()) or 0)
    assert main(["up", "--while-stdin"]) == 0
    assert (seen, list(tmp_path.iterdir())) == ([True], [])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "no" / "file"))
    (tmp_path / "no").touch()
    assert main(["up", "--while-stdin"]) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "--data: is needed; only with --while-stdin"),
        (["--while-stdin", "--detach"], "--while-stdin: lasts as long as this program; not with --detach"),
        (["--data", "no", "--user", "a b=x"], "--user: 'a b' is not a name of letters, digits"),
        (["--data", "no", "--user", "a=x", "--user", "a=y"], "--user: a is given twice, with two passwords"),
        (["--data", "no", "--user", "a"], "--user: 'a' is not KEY=VALUE"),
        (
            ["--data", "no", "--tls", "--config", "listener.security.protocol.map=PLAINTEXT:SSL"],
            "--config: listener.security.protocol.map: PLAINTEXT is the listener for clients",
        ),
    ],
)
def test_what_cannot_be_is_refused(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", *options]) == 2
    assert words in capsys.readouterr().err
    assert not Path("no").exists()
