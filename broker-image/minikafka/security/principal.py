"""Principals: under which name a connection acts, and how one follows from a client's certificate."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

ANONYMOUS = "User:ANONYMOUS"
"""Whoever did not have to say who it is."""

_SHORT_NAMES = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""The attributes that have a name in RFC 2253; Java writes every other by its number, with its value in hexadecimal."""

_NUMBERS = {
    "emailAddress": ("1.2.840.113549.1.9.1", 0x16),
    "serialNumber": ("2.5.4.5", 0x13),
    "title": ("2.5.4.12", 0x0C),
    "surname": ("2.5.4.4", 0x0C),
    "givenName": ("2.5.4.42", 0x0C),
}
"""Number, and the tag of the string type that is usual for it."""


def user(name: str) -> str:
    """The principal of a user."""
    return f"User:{name}"


def distinguished_name(certificate: dict[str, Any]) -> str:
    """The subject of a certificate as `ssl` tells it, in RFC 2253's form, which Kafka uses: the last part first."""
    parts = []
    for relative in reversed(certificate.get("subject", ())):
        parts.append("+".join(_attribute(name, value) for name, value in relative))
    return ",".join(parts)


def _attribute(name: str, value: str) -> str:
    short = _SHORT_NAMES.get(name)
    if short is not None:
        return f"{short}={_escaped(value)}"
    number, tag = _NUMBERS.get(name, (name, 0x0C))
    data = value.encode()
    if len(data) > 127:
        return f"{number}={_escaped(value)}"
    return f"{number}=#{bytes((tag, len(data))).hex()}{data.hex()}"


def _escaped(value: str) -> str:
    value = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    if value.startswith(("#", " ")):
        value = "\\" + value
    if value.endswith(" ") and len(value) > 1 and not value.endswith("\\ "):
        value = value[:-1] + "\\ "
    return value


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
        if match is None:
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
            pattern = re.compile(match[2])
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
