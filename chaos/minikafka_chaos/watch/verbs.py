"""The verbs by hand that are offered while a cluster is watched: on buttons of the page, and on keys in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

CarryOut = Callable[[str, Mapping[str, Any]], Any]
"""Does a verb of a session, given its fields (`minikafka_chaos.session.by_hand.carry_out` of one data directory)."""

HEAL = "heal"
"""The only one that is not of one broker."""


class OfferedVerb(NamedTuple):
    """How a verb is offered."""

    words: str
    key: str


VERBS: Mapping[str, OfferedVerb] = {
    "kill": OfferedVerb("Kill", "k"),
    "power_loss": OfferedVerb("Power loss", "w"),
    "pause": OfferedVerb("Pause", "p"),
    "resume": OfferedVerb("Resume", "r"),
    "restart": OfferedVerb("Restart", "s"),
    "cut": OfferedVerb("Cut", "c"),
    HEAL: OfferedVerb("Heal all", "h"),
}
