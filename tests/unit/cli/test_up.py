"""`minikafka up` in the foreground: what ends it, brings the brokers down."""

from __future__ import annotations

import argparse
import signal
import sys
import types
import weakref

import pytest
from minikafka.cli import up


class Callback:
    """Something whose end is told by a callback, as an import's lock."""


class Brokers:
    """One broker that runs; while it is looked at a signal comes, in a callback that has nobody to pass an exception to."""

    record = types.SimpleNamespace(proxied=[])

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
    assert up.run(argparse.Namespace(data="unused", detach=False, control=None, json=True)) == 0
    assert brokers.stopped and brokers.looks == 1
    assert signal.getsignal(number) == before
