"""What a reliable consumer asks of its client's settings, in whichever spelling the library has them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

Handler = TypeVar("Handler", bound=Callable[..., Any])

SHARED = (
    *(
        "api",
        "bootstrap",
        "broker",
        "client",
        "connections",
        "error",
        "https",
        "log",
        "logger",
        "metadata",
        "oauth",
        "reconnect",
    ),
    *("retry", "sasl", "security", "socket", "ssl"),
)
"""First words of the settings that say how to connect and as whom: the producer of dead letters has them, too."""


def checked(config: Mapping[str, Any], separator: str) -> dict[str, Any]:
    """Take a consumer's settings, and add what loses nothing; raises ValueError where they say otherwise."""
    group, auto_commit, reset = (separator.join(words) for words in (("group", "id"), ("enable", "auto", "commit"),
                                                                     ("auto", "offset", "reset")))  # fmt: skip
    values = dict(config)
    if not values.get(group):
        raise ValueError(f"{group}: missing; offsets are committed for a group")
    if str(values.get(auto_commit, False)).lower() != "false":
        raise ValueError(f"{auto_commit}: {values[auto_commit]} would commit what was not processed; leave it out")
    for name in (separator.join((part, "deserializer")) for part in ("key", "value")):
        if values.get(name) is not None:
            raise ValueError(f"{name}: a record that it cannot read would be no dead letter; let the handler read it")
    values[auto_commit] = False
    # By default a group without offsets would begin at the end, and a consumer that dies before its first commit begins there
    # anew, behind records that it had fetched.
    values.setdefault(reset, "earliest")
    return values


def connection(config: Mapping[str, Any]) -> dict[str, Any]:
    """Find the settings that say how to connect and as whom."""
    return {
        name: value for name, value in config.items() if re.split("[._]", name.removeprefix("enable."))[0] in SHARED
    }


def checked_topics(topics: Sequence[str]) -> list[str]:
    """Take the topics to subscribe to; raises ValueError."""
    if isinstance(topics, str) or not topics or not all(isinstance(topic, str) and topic for topic in topics):
        raise ValueError(f"topics: {topics!r} is not a list of names")
    if len(set(topics)) < len(topics):
        raise ValueError(f"topics: {topics!r} names one twice")
    return list(topics)


def checked_handler(handler: Handler, *, awaited: bool) -> Handler:
    """Take a handler that may be a coroutine function only where it is awaited; raises ValueError."""
    if not callable(handler):
        raise ValueError(f"handler: {handler!r} is not a function")
    call = getattr(handler, "func", handler)
    kinds = (call, getattr(call, "__call__", None))  # noqa: B004 - an object's method may be a coroutine function
    if any(map(inspect.isgeneratorfunction, kinds)) or any(map(inspect.isasyncgenfunction, kinds)):
        raise ValueError("handler: it has a yield, so that calling it processes nothing")
    if not awaited and any(map(inspect.iscoroutinefunction, kinds)):
        raise ValueError("handler: it is a coroutine function, which AsyncReliableConsumer awaits")
    return handler


def positive_count(name: str, count: int) -> int:
    """Take a number of things; raises ValueError."""
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"{name}: {count!r} is not a whole number from 1 on")
    return count


def positive(name: str, seconds: float) -> float:
    """Take a number of seconds; raises ValueError."""
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{name}: {seconds!r} is not a number of seconds from 0 on")
    return seconds
