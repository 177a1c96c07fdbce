"""SCRAM by the vectors of RFC 7677 and against itself: what each side refuses (31 item 1)."""

from __future__ import annotations

import re

import pytest
from minikafka.metadata.image import SCRAM, ClusterImage
from minikafka.security.oauthbearer import MESSAGE_BYTES_MAX
from minikafka.security.sasl_client import AuthenticationError, Login, exchange
from minikafka.security.sasl_server import NotAuthenticated, Plain, Scram
from minikafka.security.scram import (
    HASHES,
    SHAPES_MAX,
    ScramClient,
    ScramCredential,
    ScramError,
    ScramServer,
    Shape,
    ShapeCounts,
    credential_of,
    decoy,
    shape_of,
)

RFC_7677 = {
    "client_first": "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    "server_first": "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    "client_final": "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    "server_final": "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
}
SHA_256 = "SCRAM-SHA-256"


def test_the_client_of_rfc_7677() -> None:
    client = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert client.first().decode() == RFC_7677["client_first"]
    assert client.final(RFC_7677["server_first"].encode()).decode() == RFC_7677["client_final"]
    client.check(RFC_7677["server_final"].encode())


def test_the_server_of_rfc_7677() -> None:
    salt = bytes.fromhex("5b6d99689d12358eec a04b141236fa81".replace(" ", ""))
    server = ScramServer(SHA_256, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert server.hello(RFC_7677["client_first"].encode()) == "user"
    assert server.first(credential_of(SHA_256, "pencil", 4096, salt)).decode() == RFC_7677["server_first"]
    assert server.final(RFC_7677["client_final"].encode()).decode() == RFC_7677["server_final"]


def log_in(mechanism: str, user: str, password: str, known: dict[str, ScramCredential]) -> Scram:
    """Both sides of one exchange."""
    server = Scram(mechanism, lambda _, name: known.get(name), b"secret")
    steps = exchange(Login(mechanism, user, password))
    message = next(steps)
    while not server.is_done:
        answer = server.step(message)
        try:
            message = steps.send(answer)
        except StopIteration:
            break
    return server


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("user", ["alice", "a=b,c", "użytkownik"])
def test_a_user_logs_in(mechanism: str, user: str) -> None:
    server = log_in(mechanism, user, "p,ä=", {user: credential_of(mechanism, "p,ä=", 5000)})
    assert server.user == user


def test_a_wrong_password_and_an_unknown_user_look_alike() -> None:
    known = {"alice": credential_of(SHA_256, "right")}
    said = []
    for user in ("alice", "bob"):
        with pytest.raises(NotAuthenticated) as caught:
            log_in(SHA_256, user, "wrong", known)
        said.append((caught.value.public, str(caught.value), caught.value.user))
    (public, _, _), _ = said
    assert said == [(public, "wrong password", "alice"), (public, "unknown user", "bob")]


def first_answer(user: str, secret: bytes = b"secret") -> str:
    server = Scram(SHA_256, lambda _mechanism, _user: None, secret)
    answer = server.step(f"n,,n={user},r=abc".encode()).decode()
    return answer.split(",", 1)[1]


def test_an_unknown_user_has_always_the_same_salt() -> None:
    assert first_answer("bob") == first_answer("bob")
    assert first_answer("bob") != first_answer("eve")
    assert first_answer("bob") != first_answer("bob", b"another cluster")
    assert re.fullmatch(r"s=[A-Za-z0-9+/]{32},i=4096", first_answer("bob"))


KAFKAS = credential_of(SHA_256, "x", 8192, b"1s2fzm6b7p1m0brgvfzk0abc1d")
"""With a salt as Kafka's tool makes it."""


def test_an_unknown_user_looks_like_those_that_are_there() -> None:
    """Neither iterations nor the kind of salt tell who has a credential."""
    shapes = {shape_of(KAFKAS), shape_of(credential_of(SHA_256, "x", 5000, b"\xff" * 40))}
    told = {name: decoy(SHA_256, name, b"secret", shapes) for name in map(str, range(50))}
    assert {shape_of(found) for found in told.values()} == shapes
    assert all(decoy(SHA_256, name, b"secret", shapes).salt == found.salt for name, found in told.items())
    fewer = {shape_of(KAFKAS)}
    stay = [name for name, found in told.items() if shape_of(found) in fewer]
    assert all(decoy(SHA_256, name, b"secret", fewer).salt == told[name].salt for name in stay)


def test_the_image_knows_the_shapes_that_are_there() -> None:
    image = ClusterImage("cluster")
    for name in ("a", "b"):
        image.apply(f"{SCRAM}{SHA_256}/{name}", KAFKAS.to_json())
    image.apply(f"{SCRAM}{SHA_256}/a", None)
    assert image.scram_shapes[SHA_256].shown == (shape_of(KAFKAS),)
    image.apply(f"{SCRAM}{SHA_256}/b", credential_of(SHA_256, "x").to_json())
    assert image.scram_shapes[SHA_256].shown == (Shape(),)


def test_few_of_many_shapes_are_told_of() -> None:
    """Each of 10,000 was looked at for each stranger, and all were copied for each change."""
    shapes, backwards = ShapeCounts(), ShapeCounts()
    for number in range(2 * SHAPES_MAX):
        shapes.add(Shape(4096 + number), 1)
        backwards.add(Shape(4096 + 2 * SHAPES_MAX - 1 - number), 1)
    assert len(shapes.shown) == SHAPES_MAX
    assert shapes.shown == backwards.shown
    shapes.add(Shape(4096), -1)
    assert Shape(4096) not in shapes.shown and len(shapes.shown) == SHAPES_MAX


def test_a_replayed_exchange_is_refused() -> None:
    known = credential_of(SHA_256, "pw")
    server, client = ScramServer(SHA_256), ScramClient(SHA_256, "u", "pw")
    first = client.first()
    server.hello(first)
    final = client.final(server.first(known))
    server.final(final)
    again = ScramServer(SHA_256)
    again.hello(first)
    again.first(known)
    with pytest.raises(ScramError, match="nonce"):
        again.final(final)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"", "cannot be read"),
        (b"\xff", "UTF-8"),
        (b"n,,n=,r=abc", "names nobody"),
        (b"n,a=eve,n=bob,r=abc", "somebody else"),
        (b"n,,n=b=2Xob,r=abc", "escaped"),
        (b"n,,n=bob,r=abc,tokenauth=true", "delegation tokens"),
        (b"p=tls-unique,,n=bob,r=abc", "cannot be read"),
    ],
)
def test_a_first_message_that_is_refused(message: bytes, said: str) -> None:
    with pytest.raises(ScramError, match=said):
        ScramServer(SHA_256).hello(message)


@pytest.mark.parametrize("final", [b"", b"c=biws,r={n},p=AAAA", b"c=eSws,r={n},p=AAAA", b"c=biws,r={n}x,p=AAAA"])
def test_a_last_message_that_is_refused(final: bytes) -> None:
    server = ScramServer(SHA_256, "server")
    server.hello(b"n,,n=bob,r=client")
    server.first(credential_of(SHA_256, "pw"))
    with pytest.raises(ScramError):
        server.final(final.replace(b"{n}", b"clientserver"))


@pytest.mark.parametrize(
    "answer",
    [
        b"r=other,s=AAAA,i=4096",
        b"r=mine,s=AAAA,i=4096",
        b"r=mine2,s=AAAA,i=1",
        b"r=mine2,s=AAAA,i=65537",
        b"e=x",
    ],
)
def test_a_client_does_not_believe_every_server(answer: bytes) -> None:
    with pytest.raises(ScramError):
        ScramClient(SHA_256, "u", "pw", "mine").final(answer)


def test_a_server_that_does_not_know_the_password_is_noticed() -> None:
    steps = exchange(Login(SHA_256, "u", "pw"))
    next(steps)
    server = ScramServer(SHA_256)
    server.hello(ScramClient(SHA_256, "u", "pw", "x").first())
    with pytest.raises(AuthenticationError):
        steps.send(server.first(credential_of(SHA_256, "pw")))


def test_no_long_message_is_read() -> None:
    """Others wait while it is read, and it may be a stranger's."""
    long = b"x" * MESSAGE_BYTES_MAX
    with pytest.raises(NotAuthenticated, match="cannot be read"):
        Plain({"alice": "right"}).step(b"\0alice\0" + long)
    with pytest.raises(NotAuthenticated, match="a message is too long"):
        Scram(SHA_256, lambda mechanism, user: None, b"secret").step(b"n,,n=" + long + b",r=abc")
    begun = Scram(SHA_256, lambda mechanism, user: None, b"secret")
    begun.step(b"n,,n=bob,r=abc")
    with pytest.raises(NotAuthenticated, match="a message is too long"):
        begun.step(b"c=biws,r=" + long + b",p=AAAA")


def test_plain() -> None:
    mechanism = Plain({"alice": "right"})
    assert mechanism.step(b"\0alice\0right") == b""
    assert (mechanism.user, mechanism.is_done) == ("alice", True)
    assert Plain({"alice": "right"}).step(b"alice\0alice\0right") == b""


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\0alice\0wrong", "wrong password"),
        (b"\0bob\0right", "unknown user"),
        (b"\0bob\0", "the message of PLAIN cannot be read"),
        (b"eve\0alice\0right", "asks to act for somebody else"),
        (b"alice", "the message of PLAIN cannot be read"),
        (b"\0\xff\0x", "the message of PLAIN cannot be read"),
    ],
)
def test_plain_refuses(message: bytes, reason: str) -> None:
    with pytest.raises(NotAuthenticated) as caught:
        Plain({"alice": "right", "none": ""}).step(message)
    assert str(caught.value) == reason
    assert "right" not in caught.value.public


def test_plain_does_not_tell_which_part_was_wrong() -> None:
    public = []
    for message in (b"\0alice\0wrong", b"\0bob\0wrong"):
        with pytest.raises(NotAuthenticated) as caught:
            Plain({"alice": "right"}).step(message)
        public.append(caught.value.public)
    assert public == ["Authentication failed: Invalid username or password"] * 2
