"""Which fault has put which rules on which ways; what is in force is the sum of all."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka_chaos.links.rules import LinkRule, Way, summed


class LinkFaults:
    """Sets of rules by the id of their fault. Methods say whether that changed anything."""

    def __init__(self) -> None:
        self._faults: dict[str, list[tuple[Way, LinkRule]]] = {}

    @property
    def rules(self) -> dict[Way, LinkRule]:
        return summed(each for fault in self._faults.values() for each in fault)

    def add(self, fault: str, rules: Iterable[tuple[Way, LinkRule]]) -> bool:
        self._faults[fault] = list(rules)
        return True

    def remove(self, fault: str) -> bool:
        return self._faults.pop(fault, None) is not None

    def join(self, links: Iterable[tuple[int, int]]) -> bool:
        """End everything about these links, both ways, whichever fault it is of."""
        ways = {way for one, other in links for way in (Way(one, other), Way(other, one))}
        hit = False
        for fault, rules in list(self._faults.items()):
            left = [each for each in rules if each[0] not in ways]
            hit |= len(left) < len(rules)
            if left:
                self._faults[fault] = left
            else:
                del self._faults[fault]
        return hit

    def clear(self) -> bool:
        hit = bool(self._faults)
        self._faults.clear()
        return hit
