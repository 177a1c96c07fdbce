"""What a reliable consumer asks of its client's settings, in whichever spelling the library has them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

SHARED = (
    *(
        "api",
        "bootstrap",
        "broker",
        "client",
        "connections",
        "error",
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
    values[auto_commit] = False
    # By default a group without offsets would begin at the end, and a consumer that dies before its first commit begins there
    # anew, behind records that it had fetched.
    values.setdefault(reset, "earliest")
    return values


def connection(config: Mapping[str, Any]) -> dict[str, Any]:
    """Find the settings that say how to connect and as whom."""
    return {name: value for name, value in config.items() if re.split("[._]", name)[0] in SHARED}


def checked_topics(topics: Sequence[str]) -> list[str]:
    """Take the topics to subscribe to; raises ValueError."""
    if isinstance(topics, str) or not topics or not all(isinstance(topic, str) and topic for topic in topics):
        raise ValueError(f"topics: {topics!r} is not a list of names")
    return list(topics)


def positive(name: str, seconds: float) -> float:
    """Take a number of seconds; raises ValueError."""
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{name}: {seconds!r} is not a number of seconds from 0 on")
    return seconds
