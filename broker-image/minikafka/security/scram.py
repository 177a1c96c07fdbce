"""SCRAM (RFC 5802, RFC 7677), both sides, as Kafka has it: user names and passwords are UTF-8, without SASLprep.

Libraries that have it (scramp) apply SASLprep, so that they would refuse passwords that Kafka takes; what is left of it is a
few calls of `hashlib` and `hmac`.
"""

from __future__ import annotations

import hashlib
import heapq
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
NUMBERS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""Mechanisms as Kafka's messages number them (``ScramMechanism.type``)."""

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
"""As Kafka takes them."""

_ASKED_MAX = 4 * ITERATIONS_MAX
"""That a client makes, which a broker is too, on its event loop: some 50 ms. Kafka's brokers, and those of others that have its
limits, ask for a quarter at most; whoever answers in a broker's place may ask for any number before it has shown anything."""

SALT_BYTES = 24
"""Of salts that are made here."""

_LETTERS = b"0123456789abcdefghijklmnopqrstuvwxyz"
_TEXT = frozenset(_LETTERS)

_CLIENT_FIRST = re.compile(
    r"(?P<gs2>[ny],(?:a=(?P<authzid>[^,]+))?,)(?P<bare>n=(?P<name>[^,]*),r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+)(?P<more>,.*)?)",
    re.DOTALL,
)
_CLIENT_FINAL = re.compile(
    r"(?P<bare>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+)(?:,[A-Za-z]=[^,]+)*),p=(?P<proof>[A-Za-z0-9+/=]+)",
    re.DOTALL,
)
_SERVER_FIRST = re.compile(
    r"r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]{1,9})(?:,.*)?", re.DOTALL
)


class ScramError(Exception):
    """The exchange has failed. What it says is for the log of whoever found it, never for the peer."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server keeps of a password."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    def to_json(self) -> dict[str, Any]:
        return {
            "salt": b64encode(self.salt).decode(),
            "storedKey": b64encode(self.stored_key).decode(),
            "serverKey": b64encode(self.server_key).decode(),
            "iterations": self.iterations,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ScramCredential:
        return cls(
            b64decode(value["salt"]), b64decode(value["storedKey"]), b64decode(value["serverKey"]), value["iterations"]
        )


class UserCredential(NamedTuple):
    """Whose it is, and for which mechanism."""

    user: str
    mechanism: str
    found: ScramCredential


def _hmac(mechanism: str, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, HASHES[mechanism])


def _hash(mechanism: str, data: bytes) -> bytes:
    return hashlib.new(HASHES[mechanism], data).digest()


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def credential(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Of a salted password."""
    client_key = _hmac(mechanism, salted, b"Client Key")
    return ScramCredential(salt, _hash(mechanism, client_key), _hmac(mechanism, salted, b"Server Key"), iterations)


def credential_of(
    mechanism: str, password: str, iterations: int = ITERATIONS_MIN, salt: bytes = b""
) -> ScramCredential:
    """Of a password, with a random salt unless one is given."""
    salt = salt or secrets.token_bytes(SALT_BYTES)
    return credential(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


class Shape(NamedTuple):
    """What can be told of a credential that is not the user's own: clients make salts of different kinds."""

    iterations: int = ITERATIONS_MIN
    salt_bytes: int = SALT_BYTES
    is_text: bool = False
    """Whether the salt is of small letters and digits only, as Kafka's tool makes it."""


def shape_of(found: ScramCredential) -> Shape:
    return Shape(found.iterations, len(found.salt), set(found.salt) <= _TEXT)


SHAPES_MAX = 64
"""As many are told of: whoever is asked for an unknown user looks at each of them."""


class ShapeCounts:
    """How many credentials have each shape."""

    def __init__(self) -> None:
        self._counts: dict[Shape, int] = {}
        self._shown: tuple[Shape, ...] | None = ()

    def add(self, shape: Shape, more: int) -> None:
        """Count some more of a shape, or fewer."""
        count = self._counts.pop(shape, 0) + more
        if count:
            self._counts[shape] = count
        self._shown = None

    @property
    def shown(self) -> tuple[Shape, ...]:
        """Those that strangers are shown, up to SHAPES_MAX: the same on every broker, in whatever order they came."""
        if self._shown is None:
            self._shown = tuple(heapq.nsmallest(SHAPES_MAX, self._counts))
        return self._shown


def false_salt(mechanism: str, user: str, secret: bytes, shapes: Iterable[Shape] = ()) -> tuple[bytes, int]:
    """Salt and iterations that somebody is told who has none in the store: for a name always the same.

    They are of one of the shapes of those that are there, which for a name changes only with that shape's coming or going.
    """
    key = hmac.digest(secret, f"{mechanism} {user}".encode(), "sha256")
    usual = Shape()
    shape = max(shapes, key=lambda each: hmac.digest(key, repr(each).encode(), "sha256"), default=usual)
    salt = hashlib.shake_256(key).digest(shape.salt_bytes)
    if shape.is_text:
        salt = bytes(_LETTERS[each % len(_LETTERS)] for each in salt)
    return salt, shape.iterations


def decoy(mechanism: str, user: str, secret: bytes, shapes: Iterable[Shape] = ()) -> ScramCredential:
    """What an unknown user is answered with: it looks like those that are there, and no password opens it."""
    size = hashlib.new(HASHES[mechanism]).digest_size
    salt, iterations = false_salt(mechanism, user, secret, shapes)
    return ScramCredential(salt, secrets.token_bytes(size), secrets.token_bytes(size), iterations)


def sasl_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _plain_name(name: str) -> str:
    if re.search("=(?!2C|3D)", name):
        raise ScramError("the user's name is not escaped as RFC 5802 says")
    return name.replace("=2C", ",").replace("=3D", "=")


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramError("a message is not UTF-8") from None


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ScramError("a message has no base64 where it should") from None


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


class ScramServer:
    """The server's side of one exchange: `first`, then `final`."""

    def __init__(self, mechanism: str, nonce: str = "") -> None:
        self._mechanism = mechanism
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._credential: ScramCredential | None = None
        self.user = ""

    def hello(self, client_first: bytes) -> str:
        """The user who wants to log in; the answer is made by `first`. Raises ScramError."""
        match = _CLIENT_FIRST.fullmatch(_text(client_first))
        if match is None:
            raise ScramError("the client's first message cannot be read")
        self.user = _plain_name(match["name"])
        if not self.user:
            raise ScramError("the client's first message names nobody")
        if match["authzid"] is not None and _plain_name(match["authzid"]) != self.user:
            raise ScramError("the client asks to act for somebody else")
        if match["more"] is not None:
            raise ScramError("the client's first message has extensions (delegation tokens are not there)")
        self._gs2, self._client_first, self._nonce = match["gs2"], match["bare"], match["nonce"] + self._nonce
        return self.user

    def first(self, found: ScramCredential) -> bytes:
        """The server's first message."""
        self._credential = found
        self._server_first = f"r={self._nonce},s={b64encode(found.salt).decode()},i={found.iterations}"
        return self._server_first.encode()

    def final(self, client_final: bytes) -> bytes:
        """The server's last message, when the client has shown that it knows the password. Raises ScramError."""
        found = self._credential
        assert found is not None, "first comes first"
        match = _CLIENT_FINAL.fullmatch(_text(client_final))
        if match is None:
            raise ScramError("the client's last message cannot be read")
        if _bytes(match["binding"]) != self._gs2.encode():
            raise ScramError("the client's channel binding is another")
        if not hmac.compare_digest(match["nonce"].encode(), self._nonce.encode()):
            raise ScramError("the client's nonce is another")
        auth = f"{self._client_first},{self._server_first},{match['bare']}".encode()
        signature = _hmac(self._mechanism, found.stored_key, auth)
        proof = _bytes(match["proof"])
        if len(proof) != len(signature):
            raise ScramError("wrong password")
        if not hmac.compare_digest(_hash(self._mechanism, _xor(proof, signature)), found.stored_key):
            raise ScramError("wrong password")
        return b"v=" + b64encode(_hmac(self._mechanism, found.server_key, auth))


class ScramClient:
    """The client's side of one exchange: `first`, `final`, `check`."""

    def __init__(self, mechanism: str, user: str, password: str, nonce: str = "") -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._bare = f"n={sasl_name(user)},r={self._nonce}"
        self._verifier = b""

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """Raises ScramError: the server's message makes no sense, or asks for less than it may."""
        text = _text(server_first)
        match = _SERVER_FIRST.fullmatch(text)
        if match is None or not match["nonce"].startswith(self._nonce) or match["nonce"] == self._nonce:
            raise ScramError("the server's first message is wrong")
        iterations = int(match["iterations"])
        if not ITERATIONS_MIN <= iterations <= _ASKED_MAX:
            raise ScramError(f"the server asks for {iterations} iterations")
        mechanism = self._mechanism
        salted = salted_password(mechanism, self._password, _bytes(match["salt"]), iterations)
        client_key = _hmac(mechanism, salted, b"Client Key")
        bare = f"c=biws,r={match['nonce']}"
        auth = f"{self._bare},{text},{bare}".encode()
        self._verifier = _hmac(mechanism, _hmac(mechanism, salted, b"Server Key"), auth)
        proof = _xor(client_key, _hmac(mechanism, _hash(mechanism, client_key), auth))
        return f"{bare},p={b64encode(proof).decode()}".encode()

    def check(self, server_final: bytes) -> None:
        """Raises ScramError unless the server knows the password, too."""
        text = _text(server_final)
        if not text.startswith("v=") or not hmac.compare_digest(_bytes(text[2:].split(",")[0]), self._verifier):
            raise ScramError("the server does not know the password")
