"""Principals: under which name a connection acts, and how one follows from the name in a client's certificate."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

ANONYMOUS = "User:ANONYMOUS"
"""Whoever did not have to say who it is."""


def user(name: str) -> str:
    """The principal of a user."""
    return f"User:{name}"


_JAVAS_LINE_ENDS = re.compile("[\n\r\x85\u2028\u2029]")
"""What no dot of a pattern stands for in Java; in Python it does for all but the first."""


class MappingRule(NamedTuple):
    """One rule of ``ssl.principal.mapping.rules``. No pattern: DEFAULT."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """The mapped name; None when the rule does not apply."""
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None or _JAVAS_LINE_ENDS.search(name):
            return None
        mapped = re.sub(r"\$(\d)", lambda group: match[int(group[1])] or "", self.replacement)
        return {"L": mapped.lower, "U": mapped.upper, "": mapped.__str__}[self.case]()


_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")


def parse_rules(text: str) -> tuple[MappingRule, ...]:
    """``RULE:pattern/replacement/[LU]`` or ``DEFAULT``, with commas between (KIP-371). Raises ValueError.

    Patterns are regular expressions as Python has them, which for what such rules use is as Java has them.
    """
    rules: list[MappingRule] = []
    at = 0
    while at < len(text):
        match = _RULE.match(text, at)
        if match is None:
            raise ValueError(f"{text[at:]!r} is no rule")
        at = match.end()
        if match[1]:
            rules.append(MappingRule())
            continue
        try:
            pattern = re.compile(match[2], re.ASCII)  # as Java's: a Kelvin sign is no k, also where case does not count
        except re.error as error:
            raise ValueError(f"{match[2]!r} is no regular expression ({error})") from None
        highest = max((int(number) for number in re.findall(r"\$(\d)", match[3])), default=0)
        if highest > pattern.groups:
            raise ValueError(f"{match[3]!r} names group {highest}, and {match[2]!r} has {pattern.groups}")
        rules.append(MappingRule(pattern, match[3], match[4]))
    return tuple(rules) or (MappingRule(),)


def mapped(rules: Iterable[MappingRule], name: str) -> str | None:
    """By the first rule that applies; None when none does: then the certificate is nobody's."""
    for rule in rules:
        found = rule.apply(name)
        if found is not None:
            return found
    return None
