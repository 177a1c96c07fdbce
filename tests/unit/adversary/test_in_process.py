"""A bug is put into the running process, and taken out again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from minikafka_simulator.bugs.bug import Bug, Drifted, SourcePatch
from minikafka_simulator.bugs.catalogue import BUG_SEEDS, with_bug_seed
from minikafka_simulator.bugs.in_process import CannotPatch, planted

SOURCE = """
from __future__ import annotations

import functools
import math

LIMIT = 3


def wrapped(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)

    return wrapper


def doubled(number, factor=2, *, more=0):
    return number * factor + more


@wrapped
def halved(number):
    return number // 2


@functools.cache
def slow(number):
    return number


class Base:
    def name(self):
        return "base"


class Thing(Base):
    size = 1

    def name(self):
        return super().name() + " thing"

    @property
    def room(self):
        return self.size

    @room.setter
    def room(self, size):
        self.size = size

    @staticmethod
    def twice(number):
        return doubled(number)

    @classmethod
    def made(cls):
        return cls()

    async def answer(self):
        return "sound"

    def counter(self):
        count = 0

        def counted():
            nonlocal count
            count += 1
            return count

        return counted

    class Inner:
        def depth(self):
            return 1
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "victim.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    import victim

    yield victim
    del sys.modules["victim"]


def bug(old: str, new: str, *also: tuple[str, str]) -> Bug:
    further = tuple(SourcePatch("operator/victim.py", *place) for place in also)
    return Bug("z01", "any", "none", "operator/victim.py", old, new, also=further)


ALTERED = {
    "a function": ("number * factor + more", "7", "victim.doubled(1)", 7),
    "a default": ("factor=2", "factor=5", "victim.doubled(1)", 5),
    "a keyword's default": ("more=0", "more=LIMIT", "victim.doubled(1)", 5),
    "a method with super": ('" thing"', '" bug"', "victim.Thing().name()", "base bug"),
    "a property": ("return self.size", "return 9", "victim.Thing().room", 9),
    "a setter": ("        self.size = size", "        self.size = 8", "[t := victim.Thing(), setattr(t, 'room', 1)][0].size", 8),
    "a static method": ("return doubled(number)", "return 6", "victim.Thing.twice(1)", 6),
    "a class method": ("return cls()", "return cls", "victim.Thing.made()()", None),
    "a coroutine": ('return "sound"', 'return "bug"', "asyncio.run(victim.Thing().answer())", "bug"),
    "a nested function": ("count += 1", "count += 2", "victim.Thing().counter()()", 2),
    "a nested class": ("return 1", "return 2", "victim.Thing.Inner().depth()", 2),
    "below a decorator": ("return number // 2", "return 4", "victim.halved(1)", 4),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "told", "wrong"), ALTERED.values(), ids=ALTERED)
def test_what_is_altered(module: ModuleType, old: str, new: str, told: str, wrong: object) -> None:
    def seen() -> object:
        found = eval(told, {"victim": module, "asyncio": asyncio})
        return None if isinstance(found, module.Thing) else found

    sound = eval(told, {"victim": module, "asyncio": asyncio}) if told != "victim.Thing.made()()" else TypeError
    with planted(bug(old, new)):
        assert seen() == wrong
    if sound is TypeError:
        assert isinstance(module.Thing.made(), module.Thing)
    else:
        assert eval(told, {"victim": module, "asyncio": asyncio}) == sound != wrong


def test_who_holds_a_function_runs_the_bug(module: ModuleType) -> None:
    function, method = module.doubled, module.Thing().name
    with planted(bug("number * factor + more", "7", ('" thing"', '" bug"'))):
        assert (function(1), method()) == (7, "base bug")
    assert (function(1), method()) == (2, "base thing")


def test_what_is_added_goes_again(module: ModuleType) -> None:
    before = dict(vars(module)), dict(vars(module.Thing))
    added = (
        "    def counter(self):\n",
        "    def name_of_all(self, mark=LIMIT):\n        return super().name() + str(mark) + SUFFIX\n\n"
        "    @staticmethod\n    def other():\n        return third(ceil(LIMIT + 0.5))\n\n    def counter(self):\n",
    )
    names = (
        "LIMIT = 3\n",
        'LIMIT = 3\nSUFFIX = "!"\n\n\ndef third(number):\n    return number + LIMIT\n',
    )
    with planted(bug(*added, names, ("import math\n", "import math\nfrom math import ceil\n"))):
        assert module.Thing().name_of_all() == "base3!"
        assert module.Thing.other() == 7
    assert (dict(vars(module)), dict(vars(module.Thing))) == before


IMPOSSIBLE = {
    "a constant": ("LIMIT = 3", "LIMIT = 4", "takes 'LIMIT = 3' away, or alters it"),
    "a field": ("size = 1", "size = 2", "takes 'size = 1' away, or alters it"),
    "a new field": ("    size = 1\n", "    size = 1\n    room_max = 2\n", "alters what Thing has been made of"),
    "a base": ("class Thing(Base)", "class Thing", "alters the bases or decorators of Thing"),
    "a decorator": ("@staticmethod", "@functools.cache", "alters the decorators or the kind of Thing.twice"),
    "a coroutine": ("    async def answer", "    def answer", "alters the decorators or the kind of Thing.answer"),
    "a method less": ("    def counter(self):\n", "    def counted(self):\n", "takes Thing.counter away"),
    "a cached function": ("    return number\n", "    return 1\n", "slow is no plain function in the process"),
    "a new super": ('return "base"', "return super().__repr__()", "Base.name would refer to __class__ around it"),
}


@pytest.mark.parametrize(("old", "new", "problem"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_a_process_cannot_take(module: ModuleType, old: str, new: str, problem: str) -> None:
    before = dict(vars(module)), dict(vars(module.Thing))
    with pytest.raises(CannotPatch, match=problem), planted(bug(old, new)):
        raise AssertionError("it was planted")
    assert (dict(vars(module)), dict(vars(module.Thing))) == before


@pytest.mark.usefixtures("module")
def test_a_text_that_is_not_there_once() -> None:
    for old, times in (("return 3", 0), ("return number", 3)):
        with (
            pytest.raises(Drifted, match=f"z01: its text stands {times} times in operator/victim.py"),
            planted(bug(old, "")),
        ):
            raise AssertionError("it was planted")


def test_what_is_no_python() -> None:
    with (
        pytest.raises(CannotPatch, match="z01: _socket has no Python source"),
        planted(Bug("z01", "any", "none", "operator/_socket.py", "a", "b")),
    ):
        raise AssertionError("it was planted")


@pytest.mark.slow
def test_every_bug_seed_in_this_process() -> None:
    """Those that the texts alone do not show to be impossible: wrapped functions, and what refers to variables around it."""
    for name in BUG_SEEDS:
        with with_bug_seed(name):
            pass
    with pytest.raises(KeyError), with_bug_seed("no-such-bug"):
        raise AssertionError("it was planted")
