"""OAUTHBEARER (RFC 7628, KIP-255): its messages, what a token has to be like, and what the client shows.

What is in a token, and who has signed it, is `security.access_tokens`' to say, which needs a library that not every broker has.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from minikafka.security.fresh import read_at_most
from minikafka.security.shown import shown

MECHANISM = "OAUTHBEARER"

TOKEN_BYTES_MAX = 64 << 10
"""Of a token; those with many claims have some thousands."""

MESSAGE_BYTES_MAX = TOKEN_BYTES_MAX + (4 << 10)
"""Of a client's message in any mechanism, whatever its requests may have: it is read while nobody else is served, and before
anybody knows who has sent it. A token is the largest thing in one."""

_PAIRS_MAX = 16
"""Beside the token: host and port (RFC 7628), and extensions (KIP-342), of which known ones are two."""

INVALID_TOKEN = b'{"status":"invalid_token"}'
"""All that a client is told of a token that is refused, whatever is wrong with it."""

END = b"\x01"
"""What a client answers to that, before the exchange fails."""

_TOKEN = re.compile(r"[-_.A-Za-z0-9]+")
_FIRST = re.compile(
    r"n,(?:a=(?P<authzid>(?:[^=,\x00\x01]|=2C|=3D)+))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7E \t\r\n]+\x01)*)\x01"
)
_BEARER = re.compile(rf"(?i:bearer) +({_TOKEN.pattern})")


class TokenRefused(Exception):
    """A token is not to be believed. What it says is for events; it has nothing of the token in it."""


class AccessToken(NamedTuple):
    """What a token says that is believed."""

    subject: str
    expires: float
    """In seconds of Unix time."""


Believe = Callable[[str], AccessToken]
"""Reads a token. Raises TokenRefused."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token has to say; names are those of Kafka's ``sasl.oauthbearer.*``."""

    expected_audience: tuple[str, ...] = ()
    """One of these; empty: any, or none."""
    expected_issuer: str | None = None
    """None: any, or none."""
    sub_claim_name: str = "sub"
    scope_claim_name: str = "scope"
    clock_skew_seconds: int = 30


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The first message of a client. Its extensions are read and not used, as Kafka's own validator takes them."""

    token: str = field(repr=False)
    acts_as: str = ""


def read_first(message: bytes) -> ClientFirst:
    """Read it. Raises ValueError."""
    if len(message) > MESSAGE_BYTES_MAX or message.count(END) > _PAIRS_MAX + 3:
        raise ValueError("too long")
    match = _FIRST.fullmatch(message.decode())
    if match is None:
        raise ValueError("not as RFC 7628 has it")
    pairs = [pair.split("=", 1) for pair in match["pairs"].split("\x01")[:-1]]
    found = [value for name, value in pairs if name == "auth"]
    bearer = _BEARER.fullmatch(found[0]) if len(found) == 1 else None
    if bearer is None:
        raise ValueError("not one bearer token")
    acts_as = (match["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
    return ClientFirst(bearer[1], acts_as)


def first_message(token: str) -> bytes:
    """Return what a client with this token begins with."""
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


# -- what a client shows -----------------------------------------------------------------------------------------------------


def path_of(url: str) -> str | None:
    """Return the path of a ``file:`` address of this machine; None: it is another kind of address."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        return None
    from urllib.request import url2pathname  # which imports a client of HTTP, and 20 ms with it

    return url2pathname(parts.path)


def read_token_file(path: str) -> str:
    """Read the token in a file. Raises ValueError, in words that hold nothing of it."""
    try:
        token = read_at_most(path, TOKEN_BYTES_MAX + 1).strip()  # with the line's end
    except OSError as error:
        raise ValueError(f"{shown(path)}: {error.strerror}") from None
    except ValueError:  # a null character
        raise ValueError(f"{shown(path)}: no path") from None
    if len(token) > TOKEN_BYTES_MAX or not token.isascii() or not _TOKEN.fullmatch(token.decode()):
        raise ValueError(f"{shown(path)}: no token in it, of at most {TOKEN_BYTES_MAX} bytes")
    return token.decode()


def expiry_of(token: str) -> float:
    """Return until when one's own token says that it is valid, in seconds of Unix time. Raises ValueError."""
    try:
        payload = token.split(".")[1]
        expires = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"]
        return float(expires)
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        raise ValueError("no JSON Web Token with the claim exp") from None
