"""``sasl.jaas.config``: one login module, in the syntax of Java's JAAS files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

MODULES = {
    "PLAIN": PLAIN_MODULE,
    "SCRAM-SHA-256": SCRAM_MODULE,
    "SCRAM-SHA-512": SCRAM_MODULE,
    "OAUTHBEARER": OAUTHBEARER_MODULE,
}
"""Which module a mechanism wants."""

USER = "user_"
"""Begins the options of PlainLoginModule that name a user, whose value is the password."""

_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(r'\s*(?:"((?:\\.|[^"\\])*)"|\'((?:\\.|[^\'\\])*)\'|([^\s="\';]+)|([=;]))', re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A module and its options. Options hold passwords, and are never shown."""

    module: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def username(self) -> str | None:
        """As whom a client logs in."""
        return self.options.get("username")

    @property
    def password(self) -> str | None:
        return self.options.get("password")

    @property
    def users(self) -> dict[str, str]:
        """Passwords by user, of a server with PLAIN."""
        return {name.removeprefix(USER): value for name, value in self.options.items() if name.startswith(USER)}


class _Sign(str):
    """`=` or `;` that is not a value."""

    __slots__ = ()


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    at, text = 0, text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError("a quotation mark is missing")
        at = match.end()
        quoted = match[1] if match[1] is not None else match[2]
        if quoted is not None:
            found.append(re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), quoted, flags=re.DOTALL))
        else:
            found.append(match[3] or _Sign(match[4]))
    return found


def parse(text: str) -> LoginModule:
    """``MODULE required KEY="VALUE" ...;``. Raises ValueError, in words that hold no value."""
    tokens = _tokens(text)
    signs = [token if isinstance(token, _Sign) else "" for token in tokens]
    if not signs or signs[-1] != ";":
        raise ValueError("does not end with ;")
    if len(tokens) < 3 or tokens[1].lower() not in _FLAGS:
        raise ValueError(f"after the module comes one of {', '.join(_FLAGS)}")
    if ";" in signs[:-1]:
        raise ValueError("names more than one module")
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    if len(rest) % 3 or any(sign != "=" for sign in signs[3:-1:3]):
        raise ValueError('options are KEY="VALUE"')
    for index in range(0, len(rest), 3):
        options[rest[index]] = rest[index + 2]
    return LoginModule(tokens[0], options)


def parse_for(mechanism: str, text: str) -> LoginModule:
    """As `parse`; refuses a module that is not the mechanism's."""
    found = parse(text)
    wanted = MODULES[mechanism]
    if found.module != wanted:
        raise ValueError(f"the module of {mechanism} is {wanted}")
    return found
