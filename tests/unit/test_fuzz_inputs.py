"""What `make fuzz` begins with, and all that it has found, once through the reader it is for (docs/internals/fuzzing.md)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from tests.forms import for_each
from tests.fuzz.target import FOUND, Refuted, Target, TooLarge, TooSlow
from tests.fuzz.targets import TARGETS


def inputs() -> Iterator[tuple[str, str, bytes]]:
    """Make (target, what it is, input), for all targets, without seeds that cost too much."""
    for target in TARGETS.values():
        for number, seed in enumerate(islice(target.seeds(), target.tested)):
            yield target.name, f"seed {number}", seed
        yield from ((target.name, path.name, path.read_bytes()) for path in target.found())


@for_each(inputs())
def test_what_is_known_raises_nothing_but_what_is_declared(target: str, what: str, data: bytes) -> None:
    TARGETS[target].check(data)


def test_what_was_found_has_a_target() -> None:
    assert {folder.name for folder in FOUND.iterdir()} <= TARGETS.keys()


def _memory(_data: bytes) -> None:
    bytearray(64 << 20)


def _refuted(_data: bytes) -> None:
    raise Refuted("by any input")


def _undeclared(data: bytes) -> None:
    data[1000]


def test_the_limits_of_an_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a target does not declare is a finding; so is what takes more memory or time than an input may."""
    monkeypatch.setattr("tests.fuzz.target.SECONDS_MAX", 0.0)
    with pytest.raises(TooSlow, match=r"some: 0\.0 s for 1 bytes"):
        Target("some", lambda _: None, tuple).check(b"x")
    monkeypatch.undo()
    for run, error in ((_memory, TooLarge), (_refuted, Refuted), (_undeclared, IndexError)):
        with pytest.raises(error):
            Target("some", run, tuple, (ValueError,), megabytes_max=32).check(b"x")
    Target("some", int, tuple, (ValueError,)).check(b"x")
