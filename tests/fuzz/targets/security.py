"""Who is not yet let in: SASL's messages, from both sides, and TLS."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterator
from functools import cache

from cryptography import x509
from joserfc.jws import JWSRegistry
from minikafka.security.access_tokens import Key, read_keys, read_token
from minikafka.security.distinguished_name import distinguished_name
from minikafka.security.jaas import parse_for
from minikafka.security.oauthbearer import END, TokenRules, first_message, read_first
from minikafka.security.sasl_client import AuthenticationError, Login, exchange
from minikafka.security.sasl_server import NotAuthenticated, OAuthBearer, Plain, Scram
from minikafka.security.scram import (
    HASHES,
    ITERATIONS_MIN,
    ScramClient,
    ScramCredential,
    ScramError,
    ScramServer,
    credential_of,
)
from minikafka.security.tls import TlsSettings, client_context, server_context
from minikafka.security.tls_stream import TlsStream

from tests.certificates import authority, broker_keystore, certificate_of, client_keystore
from tests.fuzz.choices import Choices, pieces
from tests.fuzz.target import Refuted, Target
from tests.tokens import Issuer, part

USER, PASSWORD, NONCE = "u", "p", "server-nonce"
MECHANISMS = ("PLAIN", *HASHES)


@cache
def _credential(mechanism: str) -> ScramCredential:
    return credential_of(mechanism, PASSWORD, ITERATIONS_MIN, b"0123456789abcdef")


def read_sasl(data: bytes) -> None:
    """Read two messages of a mechanism: as a server, and as a client what a server has answered. Nobody but the user gets in."""
    choices = Choices(data)
    mechanism = choices.one_of(MECHANISMS)
    as_client = choices.number() & 1
    first, last = choices.piece(), choices.rest()
    if as_client:
        _client(mechanism, first, last)
    elif mechanism == "PLAIN":
        plain = Plain({USER: PASSWORD})
        plain.step(first)
        if first.split(b"\0")[1:] != [USER.encode(), PASSWORD.encode()]:
            raise Refuted(f"let in by {first!r}")
    else:
        _scram_server(mechanism, first, last)


def _client(mechanism: str, first: bytes, last: bytes) -> None:
    if mechanism != "PLAIN":
        client = ScramClient(mechanism, USER, PASSWORD, "client-nonce")
        client.first()
        client.final(first)
        client.check(last)
        raise Refuted(f"believed {first!r} and {last!r}")  # no input has the right signature but for one in 2^256
    steps = exchange(Login(mechanism, USER, PASSWORD))
    next(steps)
    for answer in (first, last):
        try:
            steps.send(answer)
        except StopIteration:
            return


def _scram_server(mechanism: str, first: bytes, last: bytes) -> None:
    chosen = ScramServer(mechanism, NONCE)
    if chosen.hello(first) == USER:
        chosen.first(_credential(mechanism))
        chosen.final(last)  # the seeds know the password, and the nonce
    server = Scram(mechanism, lambda which, user: _credential(which) if user == USER else None, b"secret")
    for message in (first, last):
        server.step(message)
    raise Refuted(f"let in by {first!r} and {last!r}")  # the nonce was another


def sasl_messages() -> Iterator[bytes]:
    """Make the messages of logins that succeed, from both sides."""
    yield b"\0\0" + pieces([f"\0{USER}\0{PASSWORD}".encode()])
    yield b"\0\1" + pieces([b""])
    for number, mechanism in enumerate(MECHANISMS[1:], 1):
        client, server = ScramClient(mechanism, USER, PASSWORD, "client-nonce"), ScramServer(mechanism, NONCE)
        server.hello(client.first())
        answer = server.first(_credential(mechanism))
        final = client.final(answer)
        yield bytes((number, 0)) + pieces([client.first()]) + final
        yield bytes((number, 1)) + pieces([answer]) + server.final(final)[:-4] + b"AAA="


def read_jaas(data: bytes) -> None:
    """Read a login module."""
    parse_for("PLAIN", data.decode(errors="replace"))


def jaas() -> Iterator[bytes]:
    """Make login modules with what their syntax has."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    yield f'{module} required username="u" password="p\\"q" user_a=\'b\';'.encode()


NOW = 1_700_000_000.0


@cache
def _issuer() -> tuple[Issuer, tuple[Key, ...]]:
    issuer = Issuer()
    return issuer, read_keys(issuer.key_set().encode())


def read_access_token(data: bytes) -> None:
    """Read a set of keys; or a client's first message, in which header and claims are the input's.

    A bit of the input has them signed right, and nobody is let in without that.
    """
    choices = Choices(data)
    if choices.number() & 1:
        read_keys(choices.rest())
        return
    is_signed, header, claims = choices.number() & 1, choices.piece(), choices.piece()
    issuer, keys = _issuer()
    text = f"{part(header)}.{part(claims)}"
    signature = JWSRegistry.algorithms["ES256"].sign(text.encode(), issuer.key) if is_signed else choices.piece()
    server = OAuthBearer(lambda token: read_token(token, keys, TokenRules(("a",), "i"), NOW))
    server.step(first_message(f"{text}.{part(signature)}"))
    if server.refusal is not None:
        server.step(END)
    said = json.loads(claims)
    if not is_signed or said["exp"] <= NOW - 30 or said["iss"] != "i" or "a" not in said["aud"]:
        raise Refuted(f"let in by {header!r} and {claims!r}, {is_signed=}")
    read_first(choices.rest())


def access_tokens() -> Iterator[bytes]:
    """Make a set of keys, and claims that are believed."""
    issuer, _ = _issuer()
    yield b"\1" + issuer.key_set({"kty": "RSA", "n": "AQAB", "e": "AQAB"}).encode()
    claims = {"iss": "i", "aud": ["a"], "sub": "u", "scope": "x", "iat": int(NOW), "nbf": 1.5, "exp": int(NOW) + 60}
    rest = b"n,a=x,\x01auth=Bearer t\x01k=v\x01\x01"
    for header in (
        {"alg": "ES256", "kid": issuer.name},
        {"alg": "none"},
        {"alg": "HS256", "crit": ["exp"], "b64": False},
    ):
        yield b"\0\1" + pieces([json.dumps(header).encode(), json.dumps(claims).encode()]) + rest
        yield b"\0\0" + pieces([json.dumps(header).encode(), json.dumps(claims).encode(), b"x" * 64]) + rest


@cache
def _contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    trusted = authority().pem
    keystore = broker_keystore()
    server = TlsSettings(
        keystore_key=keystore,
        keystore_certificate_chain=keystore,
        truststore_certificates=trusted,
        client_auth="requested",
    )
    return server_context(server), client_context(TlsSettings(truststore_certificates=trusted))


class _Wire:
    """Stands in for a socket: takes all."""

    def __init__(self) -> None:
        self.sent = bytearray()

    def send(self, data: memoryview) -> int:
        self.sent += data
        return len(data)


def read_tls(data: bytes) -> None:
    """Take a handshake, some bytes of which the input replaces or adds, on the side that its first byte names.

    Its bytes are: side; how many times the two sides are heard before it is disturbed; where; and the bytes that go there.
    """
    choices = Choices(data)
    disturbed = choices.number() & 1
    rounds, place, adds = choices.number() % 4, choices.number(2), choices.number() & 1
    bytes_there = choices.rest()
    server, client = _contexts()
    sides = [
        TlsStream(server, server_side=True),
        TlsStream(client, server_side=False, host="localhost"),
    ]
    wires = [_Wire(), _Wire()]
    for side, wire in zip(sides, wires, strict=True):
        side.attach(wire)
    for number in range(6):
        for side in (1, 0):
            if not sides[side].established:
                sides[side].shake_hands()
            sides[side].flush()
            flight = bytes(wires[side].sent)
            wires[side].sent.clear()
            if number == rounds and side != disturbed:
                at = min(place, len(flight))
                flight = flight[:at] + bytes_there + flight[at if adds else at + len(bytes_there) :]
            sides[1 - side].feed(memoryview(flight))
    room = memoryview(bytearray(1 << 14))
    for stream in sides:
        if stream.established:
            stream.read_into(room)
        stream.say_goodbye()


def handshakes() -> Iterator[bytes]:
    """Make places to disturb: none, the first bytes of each flight, and another protocol."""
    yield b"\0\0\0\0\1"
    for side in (0, 1):
        for rounds in range(3):
            yield bytes((side, rounds, 0, 5, 0)) + b"\1"
    yield b"\0\0\0\0\0GET / HTTP/1.1\r\n\r\n"
    yield b"\0\0\0\0\0" + bytes.fromhex("1603010200010001fc0303")


def read_subject(data: bytes) -> None:
    """Name a certificate's subject, or what is taken for one in a certificate. No value looks like an attribute."""
    choices = Choices(data)
    is_subject, given = choices.number() & 1, choices.rest()
    name = distinguished_name(certificate_of(given) if is_subject else given)
    plain = re.sub(r"\\.", "", name, flags=re.DOTALL)
    if plain.count("=") > plain.count(",") + plain.count("+") + 1:
        raise Refuted(f"a value with another attribute in it: {name!r}")


def subjects() -> Iterator[bytes]:
    """Make certificates of clients, and subjects with more."""
    yield b"\0" + ssl.PEM_cert_to_DER_cert("-----BEGIN CERT" + client_keystore().split("-----BEGIN CERT")[1])
    name = x509.Name.from_rfc4514_string(r"CN=a\=b\ ,OU=x+UID=\#\00,C=DE,2.5.4.12=t,1.3.6.1.4.1.4=#0c0161")
    yield b"\1" + name.public_bytes()


TARGETS = (
    Target("sasl", read_sasl, sasl_messages, (NotAuthenticated, ScramError, AuthenticationError)),
    Target("access-tokens", read_access_token, access_tokens, (NotAuthenticated, ValueError)),
    Target("jaas", read_jaas, jaas, (ValueError,)),
    Target("subjects", read_subject, subjects, (ValueError,)),
    Target("tls", read_tls, handshakes, (ssl.SSLError,)),
)
