"""The messages of OAUTHBEARER from both sides (RFC 7628), and tokens in files (31 item 1)."""

from __future__ import annotations

from pathlib import Path

import pytest
from minikafka.security.oauthbearer import (
    END,
    INVALID_TOKEN,
    MESSAGE_BYTES_MAX,
    TOKEN_BYTES_MAX,
    AccessToken,
    ClientFirst,
    TokenRefused,
    expiry_of,
    first_message,
    path_of,
    read_first,
    read_token_file,
)
from minikafka.security.sasl_client import AuthenticationError, Login, exchange
from minikafka.security.sasl_server import NotAuthenticated, OAuthBearer

from tests.forms import for_each
from tests.tokens import Issuer, part


def believe(token: str) -> AccessToken:
    """One token is good."""
    if token != "good":
        raise TokenRefused("the token is another")
    return AccessToken("a,l=ice", 5.0)


@for_each(
    [
        (first_message("t.o-k_"), ClientFirst("t.o-k_")),
        (b"n,a=a=2Cl=3Dice,\x01auth=bEARER  t\x01\x01", ClientFirst("t", "a,l=ice")),
        (first_message("t" * TOKEN_BYTES_MAX), ClientFirst("t" * TOKEN_BYTES_MAX)),
        (b"n,,\x01auth=Bearer t\x01" + b"a=b\x01" * 16 + b"\x01", ClientFirst("t")),
        (b"n,,\x01host=h:1\x01auth=Bearer t\x01logicalCluster=lkc 1\x01\x01", ClientFirst("t")),
    ]
)
def test_a_first_message(message: bytes, found: ClientFirst) -> None:
    assert read_first(message) == found
    assert "t" not in repr(found).removeprefix("ClientFirst(acts_as=")


@for_each(
    [
        b"",
        END,
        b"\xff",
        b"\0alice\0password",
        b"n,,\x01auth=Bearer t\x01",
        b"n,,\x01auth=Bearer t\x01\x01 ",
        b"y,,\x01auth=Bearer t\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer t\x01\x01",
        b"n,alice,\x01auth=Bearer t\x01\x01",
        b"n,a=a=l,\x01auth=Bearer t\x01\x01",
        b"n,,\x01\x01",
        b"n,,\x01host=h\x01\x01",
        b"n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01",
        b"n,,\x01auth=Basic t\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer t u\x01\x01",
        b"n,,\x01auth=Bearer t+/=\x01\x01",
        b"n,,\x01auth=Bearer t\x01a1=x\x01\x01",
        b"n,,\x01auth=Bearer t\x01a=\x01\x01",
        b"n,,\x01auth=Bearer t\x01a=\xc3\xa4\x01\x01",
        b"n,,\x01auth=Bearer t\x01" + b"a=b\x01" * 17 + b"\x01",
        b"n,,\x01auth=Bearer t\x01a=" + b"b" * MESSAGE_BYTES_MAX + b"\x01\x01",
    ]
)
def test_a_first_message_of_oauthbearer_that_is_refused(message: bytes) -> None:
    server = OAuthBearer(believe)
    with pytest.raises(NotAuthenticated, match="the message of OAUTHBEARER cannot be read") as refused:
        server.step(message)
    assert refused.value.public.endswith("due to invalid credentials with SASL mechanism OAUTHBEARER")
    assert not server.is_done


@for_each([b"n,,\x01auth=Bearer good\x01\x01", b"n,a=a=2Cl=3Dice,\x01auth=Bearer good\x01x=y\x01\x01"])
def test_a_good_token(message: bytes) -> None:
    server = OAuthBearer(believe)
    assert server.step(message) == b""
    assert (server.is_done, server.user, server.expires, server.refusal) == (True, "a,l=ice", 5.0, None)


@for_each(
    [
        (b"n,,\x01auth=Bearer bad\x01\x01", END, "the token is another"),
        (b"n,,\x01auth=Bearer bad\x01\x01", b"n,,\x01auth=Bearer good\x01\x01", "the token is another"),
        (b"n,a=bob,\x01auth=Bearer good\x01\x01", END, "asks to act for somebody else"),
    ]
)
def test_a_bad_token_is_answered_before_it_is_refused(first: bytes, then: bytes, reason: str) -> None:
    """RFC 7628, 3.2.3. What is wrong with it is not told; another token does not help."""
    server = OAuthBearer(believe)
    assert server.step(first) == INVALID_TOKEN
    assert str(server.refusal) == reason
    with pytest.raises(NotAuthenticated, match=reason) as refused:
        server.step(then)
    assert (refused.value.public, refused.value.user) == (INVALID_TOKEN.decode(), "")
    assert (server.is_done, server.user, server.expires) == (False, "", None)


# -- the client ------------------------------------------------------------------------------------------------------------


def test_a_client_and_its_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("good\n")
    steps = exchange(Login("OAUTHBEARER", token_file=str(path)))
    assert next(steps) == first_message("good")
    with pytest.raises(StopIteration):
        steps.send(b"")


def test_a_client_acknowledges_that_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("bad")
    steps = exchange(Login("OAUTHBEARER", token_file=str(path)))
    next(steps)
    assert steps.send(INVALID_TOKEN) == END
    with pytest.raises(AuthenticationError, match="the token was refused"):
        steps.send(b"whatever")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file or directory"),
        (b"", "no token in it, of at most 65536 bytes"),
        (b"two tokens", "no token in it, of at most 65536 bytes"),
        (b"\xff", "no token in it, of at most 65536 bytes"),
        (b"x" * (TOKEN_BYTES_MAX + 1), "no token in it, of at most 65536 bytes"),
    ],
)
def test_a_file_without_a_token(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(AuthenticationError, match=f"{path}: {problem}"):
        next(exchange(Login("OAUTHBEARER", token_file=str(path))))


def test_a_path_that_is_none() -> None:
    with pytest.raises(ValueError, match="no path"):
        read_token_file("\0")


@for_each(
    [
        ("file:///etc/t%20n", "/etc/t n"),
        ("file:/etc/t", "/etc/t"),
        ("file://localhost/t", "/t"),
        ("file://elsewhere/t", None),
        ("file:t", None),
        ("https://h/t", None),
        ("http://[", None),
        ("", None),
    ]
)
def test_addresses_of_files(url: str, path: str | None) -> None:
    assert path_of(url) == path


def test_until_when_a_token_is_valid() -> None:
    assert expiry_of(Issuer().token(exp=1234.5)) == 1234.5


@for_each(
    [
        "",
        "x",
        "a.b.c",
        f"a.{part({})}.c",
        f"a.{part([])}.c",
        f"a.{part({'exp': {}})}.c",
        f"a.{part({'exp': 10**400})}.c",
    ]
)
def test_a_token_that_does_not_say_so(token: str) -> None:
    with pytest.raises(ValueError, match="no JSON Web Token with the claim exp"):
        expiry_of(token)
