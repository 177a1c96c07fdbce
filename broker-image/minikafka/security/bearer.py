"""Bearer tokens (RFC 6750) by which metrics are read: a file of them, of which each is accepted.

One a line, so that a token can be replaced: the new one is added, readers change over, the old one is removed. Our own readers
send the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from hashlib import sha256
from hmac import compare_digest

from minikafka.security.fresh import Fresh, read_at_most
from minikafka.security.shown import shown

TOKENS_KEY = "minikafka.metrics.tokens.path"
TOKENS_MAX = 16
_BYTES_MAX = 64 << 10
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{16,512}=*")
_ALLOWED = f"allowed: a file with 1 to {TOKENS_MAX} tokens, each a line of 16 to 512 of A-Z a-z 0-9 - . _ ~ + / ="


class TokensUnusable(ValueError):
    """A file of tokens cannot be used; one line, with nothing of them."""


def is_token(text: str) -> bool:
    """Return whether it can be a token."""
    return _TOKEN.fullmatch(text) is not None


def read_tokens(path: str, key: str = TOKENS_KEY) -> tuple[str, ...]:
    """Read a file of tokens, which is named by this setting. Raises TokensUnusable."""
    try:
        lines = read_at_most(path, _BYTES_MAX).decode("ascii").split("\n")
    except OSError as error:
        raise TokensUnusable(f"{key}={shown(path)}: {error.strerror or error}; {_ALLOWED}") from None
    except ValueError:  # no ASCII in it, or a null character in the path
        raise TokensUnusable(f"{key}={shown(path)}: no text that can be read; {_ALLOWED}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            found[number] = line.strip()
            if not is_token(line.strip()):
                raise TokensUnusable(f"{key}={shown(path)}: line {number} is no token; {_ALLOWED}")
    if not 1 <= len(found) <= TOKENS_MAX:
        raise TokensUnusable(f"{key}={shown(path)}: {len(found)} tokens; {_ALLOWED}")
    return tuple(found.values())


class AcceptedTokens:
    """Those of a file, as it is now.

    Args:
        path: of the file.
        failed: gets one line when a changed file cannot be used, once for each change; what was in it before stays in force.
        renewed: called when a changed one is in force.
        key: the setting that names it.

    Raises:
        TokensUnusable: it cannot be used from the beginning.
    """

    def __init__(
        self,
        path: str,
        failed: Callable[[str], None] = lambda _line: None,
        renewed: Callable[[], None] = lambda: None,
        key: str = TOKENS_KEY,
    ) -> None:
        self._digests = Fresh([path], lambda: _digests(read_tokens(path, key)), TokensUnusable, failed, renewed)

    def refusal(self, authorizations: Iterable[str]) -> str:
        """Say why these values of the header Authorization do not let in, or nothing where they do."""
        found = list(authorizations)
        if not found:
            return "no token"
        scheme, _, token = found[0].strip().partition(" ")
        shown = sha256(token.strip().encode(errors="surrogateescape")).digest()
        # digests are of one length, and all are compared: the time tells neither which one was nearest, nor how near
        known = sum([compare_digest(shown, digest) for digest in self._digests.get()]) > 0
        return "" if known and len(found) == 1 and scheme.lower() == "bearer" else "a token that is not accepted"


def _digests(tokens: Iterable[str]) -> tuple[bytes, ...]:
    return tuple(sha256(token.encode()).digest() for token in tokens)
