"""Looking over committed offsets: what has expired goes (KIP-211), and what was committed in a topic that is gone.

Clients may commit as many as they like, so few are looked at in one go; others are served in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from minikafka.groups.commits import Commits
from minikafka.groups.group import Group
from minikafka.groups.timers import Now, TimerQueue
from minikafka.protocol.types import TopicPartition

OFFSETS_MAX: Final = 1000
"""So many are looked at in one go: a millisecond, ten where all of them go."""
NAME_CHARS: Final = 256
"""Of a group's name, which is in each record: one that is longer by so much counts once more."""


class Cleaner:
    """Looks over the groups of one coordinator, where somebody has asked for it."""

    def __init__(self, groups: Mapping[str, Group], commits: Commits, timers: TimerQueue) -> None:
        self._groups = groups
        self._commits = commits
        self._timer = timers.timer(self._go_on)
        self._all: bool | None = None
        """All groups are to be looked over next; True: also for what has expired."""
        self._names: dict[str, bool] = {}
        """Groups that are to be looked over, in this order, with the same."""
        self._group: Group | None = None
        self._expires = False
        self._rest: list[TopicPartition] = []
        """What is still to be looked at of the group that is being looked over."""

    def look_over_all(self, now: Now, *, expire: bool) -> None:
        """Look over all groups soon; where that is being done already, once more."""
        self._all = bool(self._all or expire)
        self._timer.set(now.monotonic)

    def look_over(self, names: Iterable[str], now: Now) -> None:
        """Look over these groups soon, for topics that are gone."""
        for name in names:
            self._names.setdefault(name, False)
        if self._names:
            self._timer.set(now.monotonic)

    def _go_on(self, now: Now) -> None:
        room = OFFSETS_MAX
        while room > 0 and self._begin():
            group = self._group
            assert group is not None
            weight = 1 + len(group.group_id) // NAME_CHARS
            size = max(1, room // weight)
            some = self._rest[-size:]
            del self._rest[-size:]
            room -= 1 + len(some) * weight
            if self._groups.get(group.group_id) is not group:
                self._rest.clear()  # deleted, or another broker's by now
            else:
                self._commits.clean(group, some, now, expire=self._expires)
        if self._rest or self._names or self._all is not None:
            self._timer.set(now.monotonic)

    def _begin(self) -> bool:
        """Go on with a group, or begin with the next; False when none is left."""
        while not self._rest:
            if not self._names:
                if self._all is None:
                    return False
                self._names, self._all = dict.fromkeys(self._groups, self._all), None
                continue
            name = next(iter(self._names))
            self._expires = self._names.pop(name)
            self._group = self._groups.get(name)
            if self._group is not None:
                self._rest = list(self._group.offsets.all())
                if not self._rest:
                    return True
        return True
