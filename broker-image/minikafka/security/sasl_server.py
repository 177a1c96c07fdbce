"""The server's side of SASL: mechanisms, and who may log in by them.

A failed attempt says the same, in the same number of steps, whether the user is unknown or the password wrong.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from minikafka.security.oauthbearer import INVALID_TOKEN, MESSAGE_BYTES_MAX, Believe, TokenRefused, read_first
from minikafka.security.scram import ITERATIONS_MIN, ScramCredential, ScramError, ScramServer, Shape, decoy

Credentials = Callable[[str, str], ScramCredential | None]
"""(mechanism, user) -> what is known of the password."""

NAME_BYTES_MAX = 1024
"""Of a user that is told in an event."""


class NotAuthenticated(Exception):
    """Somebody is not let in.

    Attributes:
        public: what the client is told.
        user: whose name was used; empty when it did not come to that.
    """

    def __init__(self, public: str, reason: str, user: str = "") -> None:
        super().__init__(reason)
        self.public = public
        self.user = user[:NAME_BYTES_MAX]


def _invalid_credentials(mechanism: str) -> str:
    return f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"


class Mechanism(Protocol):
    """One exchange."""

    user: str
    is_done: bool
    expires: float | None
    """Until when what was shown is valid, in seconds of Unix time; None: for ever."""
    refusal: NotAuthenticated | None
    """Who has been refused already, and hears it only after his next message."""

    def step(self, message: bytes) -> bytes:
        """The answer. Raises NotAuthenticated."""
        ...


class Plain:
    """RFC 4616. Users and passwords are in the broker's settings."""

    expires: float | None = None
    refusal: NotAuthenticated | None = None

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self.user = ""
        self.is_done = False

    def step(self, message: bytes) -> bytes:
        public = "Authentication failed: Invalid username or password"
        try:
            parts = message.decode().split("\0") if len(message) <= MESSAGE_BYTES_MAX else []
        except UnicodeDecodeError:
            parts = []
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise NotAuthenticated(
                "Authentication failed: Invalid SASL/PLAIN response", "the message of PLAIN cannot be read"
            )
        acts_as, user, password = parts
        known = self._users.get(user)
        # of one length, whatever was sent and whatever is right
        key = secrets.token_bytes(32)
        right = hmac.compare_digest(
            hmac.digest(key, password.encode(), "sha256"), hmac.digest(key, (known or "").encode(), "sha256")
        )
        if known is None or not right:
            raise NotAuthenticated(public, "unknown user" if known is None else "wrong password", user)
        if acts_as and acts_as != user:
            raise NotAuthenticated(
                "Authentication failed: Client requested an authorization id that is different from username",
                "asks to act for somebody else",
                user,
            )
        self.user, self.is_done = user, True
        return b""


class Scram:
    """RFC 5802. Credentials are in the cluster store.

    Args:
        secret: makes the salts of users that are not there.
        shapes: what credentials look like that are there.
    """

    expires: float | None = None
    refusal: NotAuthenticated | None = None

    def __init__(self, mechanism: str, credentials: Credentials, secret: bytes, shapes: Collection[Shape] = ()) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._secret = secret
        self._shapes = shapes
        self._exchange = ScramServer(mechanism)
        self._known = False
        self._begun = False
        self.user = ""
        self.is_done = False

    def step(self, message: bytes) -> bytes:
        public = _invalid_credentials(self._mechanism)
        try:
            if len(message) > MESSAGE_BYTES_MAX:
                raise ScramError("a message is too long")
            if not self._begun:
                self._begun = True
                user = self._exchange.hello(message)
                found = self._credentials(self._mechanism, user)
                self._known = found is not None and found.iterations >= ITERATIONS_MIN
                false = decoy(self._mechanism, user, self._secret, self._shapes)
                return self._exchange.first(found if found is not None and self._known else false)
            answer = self._exchange.final(message)
        except ScramError as error:
            unknown = self._begun and self._exchange.user and not self._known and str(error) == "wrong password"
            raise NotAuthenticated(public, "unknown user" if unknown else str(error), self._exchange.user) from None
        self.user, self.is_done = self._exchange.user, True
        return answer


class OAuthBearer:
    """RFC 7628. Who is let in says a token that somebody has signed.

    A refused token is answered with a status, which the client acknowledges; only then the exchange fails (3.2.3). Whatever it
    sends is taken for that: another token needs another connection.
    """

    def __init__(self, believe: Believe) -> None:
        self._believe = believe
        self.user = ""
        self.is_done = False
        self.expires: float | None = None
        self.refusal: NotAuthenticated | None = None

    def step(self, message: bytes) -> bytes:
        if self.refusal is not None:
            raise self.refusal
        try:
            first = read_first(message)
        except ValueError:
            raise NotAuthenticated(
                _invalid_credentials("OAUTHBEARER"), "the message of OAUTHBEARER cannot be read"
            ) from None
        try:
            token = self._believe(first.token)
        except TokenRefused as refused:
            return self._refuse(str(refused))
        if first.acts_as and first.acts_as != token.subject:
            return self._refuse("asks to act for somebody else")
        self.user, self.expires, self.is_done = token.subject, token.expires, True
        return b""

    def _refuse(self, reason: str) -> bytes:
        self.refusal = NotAuthenticated(INVALID_TOKEN.decode(), reason)
        return INVALID_TOKEN
