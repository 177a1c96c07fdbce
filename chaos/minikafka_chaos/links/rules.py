"""What is wrong with one way of one link, and how several faults of it add up."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

CLIENTS = -1
"""The one address of all clients."""

SEGMENT_BYTES = 1448
"""What a TCP segment holds on an Ethernet; loss is counted in these."""

RETRANSMIT_SECONDS = 0.2
"""Linux' least retransmission timeout; it doubles with each loss of the same segment."""

RETRANSMIT_SECONDS_MAX = 5.0
"""Of one wait. Linux' own limit is two minutes, longer than any scenario."""


class Way(NamedTuple):
    """From one node to another: a broker's id, or `CLIENTS`."""

    source: int
    target: int


class LinkRule(NamedTuple):
    """What holds for everything that goes one way."""

    cut: bool = False
    millis: int = 0
    jitter_millis: int = 0
    percent: int = 0

    def plus(self, other: Self) -> LinkRule:
        """Both at once: delays add up, and whatever survives one loss may fall to the other."""
        survives = (100 - self.percent) * (100 - other.percent)
        return LinkRule(
            self.cut or other.cut,
            self.millis + other.millis,
            self.jitter_millis + other.jitter_millis,
            100 - survives // 100,
        )

    @property
    def blocks(self) -> bool:
        """Return whether nothing passes at all."""
        return self.cut or self.percent >= 100

    def seconds(self, size: int, rng: random.Random) -> float:
        """Return how much later so many bytes arrive than they would."""
        late = (self.millis + rng.uniform(0, self.jitter_millis)) / 1000
        if self.percent:
            segments = max(1, -(-size // SEGMENT_BYTES))
            lost = 1 - (1 - self.percent / 100) ** segments
            again = RETRANSMIT_SECONDS
            while rng.random() < lost:
                late += again
                again = min(2 * again, RETRANSMIT_SECONDS_MAX)
                lost = self.percent / 100  # what is sent again is the segment that was lost
        return late


NOTHING = LinkRule()


def summed(rules: Iterable[tuple[Way, LinkRule]]) -> dict[Way, LinkRule]:
    """The rules of every way that has any."""
    found: dict[Way, LinkRule] = {}
    for way, rule in rules:
        found[way] = found.get(way, NOTHING).plus(rule)
    return found


def as_json(rules: dict[Way, LinkRule]) -> list[Any]:
    """Write rules as the proxy reads them."""
    return [[*way, *rule] for way, rule in rules.items()]


def from_json(rows: list[Any]) -> dict[Way, LinkRule]:
    """The other side of `as_json`."""
    return {Way(source, target): LinkRule(*rule) for source, target, *rule in rows}
