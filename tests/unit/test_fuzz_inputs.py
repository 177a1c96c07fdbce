"""What `make fuzz` begins with, and all that it has found, once through the reader it is for (docs/internals/fuzzing.md).

The targets are imported by the test that needs them: they bring nearly all packages, which no other worker has to load.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from tests.forms import for_each
from tests.fuzz.target import FOUND, Refuted, Target, TooLarge, TooSlow, peak_bytes, resident_bytes


def inputs() -> Iterator[tuple[Target, str, bytes]]:
    """Make (target, what it is, input), for all targets, without seeds that cost too much."""
    from tests.fuzz.targets import TARGETS

    assert {folder.name for folder in FOUND.iterdir()} <= TARGETS.keys(), "what was found has a target"
    for target in TARGETS.values():
        for number, seed in enumerate(islice(target.seeds(), target.tested)):
            yield target, f"seed {number}", seed
        yield from ((target, path.name, path.read_bytes()) for path in target.found())


def test_what_is_known_raises_nothing_but_what_is_declared() -> None:
    from tests.fuzz.targets.broker import end_brokers

    try:
        for_each(inputs())(lambda target, _what, data: target.check(data))()
    finally:
        end_brokers()


def _memory(_data: bytes) -> None:
    """Take more than this process ever had: its peak is of its whole life, whatever ran before."""
    bytearray(peak_bytes() - resident_bytes() + (64 << 20))


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
