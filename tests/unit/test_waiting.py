"""What tests wait with: it gives what was seen, and fails where that does not come."""

from __future__ import annotations

import itertools

import pytest

from tests.waiting import until, until_now


async def test_it_looks_until_it_is_satisfied() -> None:
    looks = itertools.count()
    assert until_now(lambda: next(looks), lambda seen: seen == 3) == 3

    async def look() -> int:
        return next(looks)

    assert await until(look, lambda seen: seen == 5) == 5
    assert await until(lambda: next(looks), lambda seen: seen == 7) == 7


async def test_it_fails_with_what_was_waited_for_and_what_was_seen_last() -> None:
    with pytest.raises(AssertionError, match=r"not after 0 s: the end; seen last: 'nothing'"):
        until_now(lambda: "nothing", lambda _: False, seconds=0, what="the end")
    with pytest.raises(AssertionError, match=r"not after 0 s: the end; seen last: 'nothing'"):
        await until(lambda: "nothing", lambda _: False, seconds=0, what=lambda: "the end")
