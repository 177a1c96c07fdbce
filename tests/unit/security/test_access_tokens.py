"""Which access tokens are believed, and which sets of keys are read (31 item 1; RFC 7515, 7517, 7519)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from minikafka.security.access_tokens import (
    EXPIRES_MAX,
    KEY_SET_BYTES_MAX,
    KEYS_MAX,
    SUBJECT_BYTES_MAX,
    KeysRefused,
    UnknownKey,
    read_keys,
    read_token,
)
from minikafka.security.oauthbearer import TOKEN_BYTES_MAX, AccessToken, TokenRefused, TokenRules

from tests.forms import for_each
from tests.tokens import ALGORITHMS, AUDIENCE, ISSUER, Issuer, other_payload, part, set_of, signed_by_secret, unsigned

NOW = 1_700_000_000.0
RULES = TokenRules((AUDIENCE, "other"), ISSUER)
ONE, TWO, STRANGER = Issuer(), Issuer("two"), Issuer("stranger")
KEYS = read_keys(set_of([ONE.public(), TWO.public()]))


def token(**more: Any) -> str:
    return ONE.token(now=NOW, **more)


def claims(**more: Any) -> dict[str, Any]:
    return ONE.claims(now=NOW, **more)


def refusal(text: str, keys: Any = KEYS, rules: TokenRules = RULES, now: float = NOW) -> str:
    try:
        found = read_token(text, keys, rules, now)
    except TokenRefused as refused:
        return str(refused)
    return f"believed: {found}"


SIGNED_WRONG = "the token's signature is wrong"
UNREADABLE = "the token cannot be read"
NO_ALGORITHM = "the token is not signed by an algorithm that counts"
MISSING = "a claim is missing in the token"
NO_SUBJECT = "the token names no subject"
PUBLIC_PEM = ONE.key.as_pem(private=False)


def unexpected(claim: str) -> str:
    return f"the token's claim {claim} is not what is expected"


@for_each(
    [
        # who has signed it
        ("no signature", unsigned(claims(), kid="one"), NO_ALGORITHM),
        ("none, in other letters", unsigned(claims(), "nOnE", kid="one"), NO_ALGORITHM),
        ("the signature is left out", token().rpartition(".")[0] + ".", SIGNED_WRONG),
        ("a secret that everybody knows", signed_by_secret(claims(), PUBLIC_PEM, kid="one"), NO_ALGORITHM),
        ("a list of algorithms", f"{part({'alg': ['ES256']})}.{part(claims())}.{part(b'x')}", NO_ALGORITHM),
        ("other claims", other_payload(token(), claims(subject="bob")), SIGNED_WRONG),
        ("another's key under the name of ours", STRANGER.sign(claims(), kid="one"), SIGNED_WRONG),
        ("the key of another of ours", TWO.sign(claims(), kid="one"), SIGNED_WRONG),
        ("an unknown key", STRANGER.sign(claims()), "the token's key is not known"),
        ("a key in the token itself", STRANGER.sign(claims(), kid=None, jwk=STRANGER.public()),
         "the token does not say which key has signed it"),
        ("no name of a key, where there are two", ONE.sign(claims(), kid=None), "the token does not say which key has signed it"),
        ("the key is of another curve", Issuer("one", "ES384").sign(claims()), "the token's key is of another algorithm"),
        ("something must be understood", ONE.sign(claims(), crit=["exp"], exp=1),
         "the token wants something understood that is not (crit)"),
        # when
        ("expired", token(lasts=-31), "the token has expired"),
        ("no end", token(exp=None), MISSING),
        ("an end that is text", token(exp="9999999999"), unexpected("exp")),
        ("an end that is no number", token(exp=float("nan")), unexpected("exp")),
        ("not yet valid", token(nbf=int(NOW) + 32), unexpected("nbf")),
        ("issued in the future", token(iat=int(NOW) + 32), unexpected("iat")),
        ("not said when it was issued", token(iat=None), MISSING),
        # by whom, and for whom
        ("another issuer", token(iss="https://issuer.example.org"), unexpected("iss")),
        ("no issuer", token(iss=None), MISSING),
        ("another audience", token(aud="somebody"), unexpected("aud")),
        ("other audiences", token(aud=["kafka2", "Kafka"]), unexpected("aud")),
        ("no audience", token(aud=None), MISSING),
        ("an empty list of audiences", token(aud=[]), unexpected("aud")),
        # who
        ("no subject", token(sub=None), NO_SUBJECT),
        ("an empty subject", token(sub=""), NO_SUBJECT),
        ("a blank subject", token(sub=" "), NO_SUBJECT),
        ("space around the subject", token(sub="alice "), NO_SUBJECT),
        ("a subject that is no text", token(sub=5), unexpected("sub")),
        ("a long subject", token(sub="x" * (SUBJECT_BYTES_MAX + 1)), "the subject is too long, or no text"),
        ("half a character", token(sub="\ud800"), "the subject is too long, or no text"),
        ("as who shows a certificate", token(sub="CN=demo-broker,O=minikafka.dev"), "the subject is the name of a certificate"),
        ("as who has not logged in", token(sub="ANONYMOUS"), "the subject is the name of who has not logged in"),
        ("a scope that is no text", token(scope={"a": 1}), "the token's scope is no text"),
        ("a list of scopes that are no texts", token(scope=[1]), "the token's scope is no text"),
        # what is no token
        ("no parts", "token", UNREADABLE),
        ("five parts, as encrypted ones", "a.b.c.d.e", UNREADABLE),
        ("a header that is no object", f"{part([])}.{part(claims())}.{part(b'x')}", UNREADABLE),
        ("a header that is no text", f"{part(chr(255).encode('latin-1'))}.{part(claims())}.{part(b'x')}", UNREADABLE),
        ("claims that are no object", ONE.sign([]), UNREADABLE),
        ("claims that are no JSON", ONE.sign(b"{"), UNREADABLE),
        ("claims without an end", ONE.sign(b"[" * 30_000), UNREADABLE),
        ("nothing signed", ONE.sign(b""), UNREADABLE),
        ("a header that is a text with alg in it", f"{part('alg')}.{part(claims())}.{part(b'x')}", UNREADABLE),
        ("a header that is a list with alg in it", f"{part(['alg'])}.{part(claims())}.{part(b'x')}", UNREADABLE),
        ("too long", token(more="x" * TOKEN_BYTES_MAX), f"the token has more than {TOKEN_BYTES_MAX} bytes"),
    ]
)  # fmt: skip
def test_a_token_that_is_refused(what: str, text: str, reason: str) -> None:
    assert refusal(text) == reason, what
    assert "alice" not in reason


@for_each(
    [
        ("as usual", {}, RULES),
        ("one of several audiences", {"aud": ["x", "other"]}, RULES),
        ("anybody's", {"aud": None, "iss": None}, TokenRules()),
        ("for others, where nobody says for whom it has to be", {"aud": "x"}, TokenRules()),
        ("just expired", {"lasts": -29}, RULES),
        ("not quite valid yet", {"nbf": int(NOW) + 30}, RULES),
        ("a list of scopes", {"scope": ["a", "b"]}, RULES),
        ("no scope", {"scope": None}, RULES),
        ("another claim names the subject", {"sub": "x", "name": "alice"}, replace(RULES, sub_claim_name="name")),
        ("another claim is the scope", {"scope": 5}, replace(RULES, scope_claim_name="scp")),
    ]
)
def test_a_token_that_is_believed(what: str, more: Mapping[str, Any], rules: TokenRules) -> None:
    assert read_token(token(**more), KEYS, rules, NOW).subject == "alice", what


def test_a_token_says_until_when_it_is_valid() -> None:
    assert read_token(token(lasts=60), KEYS, RULES, NOW) == AccessToken("alice", NOW + 60)
    assert read_token(token(exp=10**400), KEYS, RULES, NOW).expires == EXPIRES_MAX


def test_no_allowance_for_clocks() -> None:
    strict = replace(RULES, clock_skew_seconds=0)
    assert refusal(token(lasts=1), rules=strict) == "believed: AccessToken(subject='alice', expires=1700000001.0)"
    assert refusal(token(lasts=0), rules=strict) == "the token has expired"


@for_each(ALGORITHMS)
def test_every_algorithm(algorithm: str) -> None:
    issuer = Issuer(f"of {ALGORITHMS[algorithm][0]}", algorithm)
    keys = read_keys(issuer.key_set().encode())
    assert read_token(issuer.token(now=NOW), keys, RULES, NOW).subject == "alice"
    assert read_token(issuer.sign(claims(), kid=None), keys, RULES, NOW).subject == "alice", "it is the only key"
    for_another = read_keys(set_of([issuer.public(alg="RS384")]))
    assert refusal(issuer.token(now=NOW), for_another) == "the token's key is of another algorithm"


def test_an_unknown_key_may_be_a_new_one() -> None:
    """Which is a reason to ask for keys, where a wrong signature is none."""
    try:
        read_token(STRANGER.token(now=NOW), KEYS, RULES, NOW)
    except UnknownKey:
        return
    raise AssertionError


# -- keys ------------------------------------------------------------------------------------------------------------------


SECRET = {"kty": "oct", "k": part(b"secret" * 8), "kid": "s", "alg": "HS256"}
NO_KEY = "no key in it that verifies signatures: RSA of at least 2048 bits, EC or OKP"
NO_SET = "no JSON Web Key Set (RFC 7517)"


@for_each(
    [
        (b"", NO_SET),
        (b"\xff", NO_SET),
        (b"[" * 100_000, NO_SET),
        (b"{}", NO_SET),
        (b"[]", NO_SET),
        (b'{"keys": 5}', NO_SET),
        (b'{"keys": [5]}', NO_SET),
        (set_of([]), NO_KEY),
        (set_of([SECRET]), NO_KEY),
        (set_of([{"kty": "EC"}]), NO_KEY),
        (set_of([ONE.public(kty=5)]), NO_KEY),
        (set_of([ONE.public(x="AA")]), NO_KEY),
        (set_of([ONE.public(use="enc")]), NO_KEY),
        (set_of([ONE.public(key_ops=["sign"])]), NO_KEY),
        (set_of([{"kty": "RSA", "e": "AQAB", "n": part(bytes([255]) * 128)}]), NO_KEY),
        (set_of([ONE.key.as_dict(private=True)]), "there is a private key in it, which must stay with whoever signs"),
        (set_of([{}] * KEYS_MAX), NO_KEY),
        (set_of([*[SECRET] * KEYS_MAX, ONE.public()]), f"{KEYS_MAX + 1} keys, more than {KEYS_MAX}"),
        (b" " * (KEY_SET_BYTES_MAX + 1), f"more than {KEY_SET_BYTES_MAX} bytes"),
    ]
)
def test_a_set_of_keys_that_is_refused(text: bytes, reason: str) -> None:
    try:
        found: object = read_keys(text)
    except KeysRefused as refused:
        found = str(refused)
    assert found == reason


def test_keys_that_cannot_be_used_are_left_out() -> None:
    """RFC 7517, 5. The same holds for members of a token's header."""
    odd = [SECRET, {"kty": "new"}, {"kty": "EC"}, {}]
    keys = read_keys(set_of([*odd, ONE.public(use="sig", key_ops=["verify"], x5t="x", more=5)]))
    assert [json.loads(json.dumps(key.as_dict()))["kid"] for key in keys] == ["one"]
    assert read_token(ONE.sign(claims(), new="x"), keys, RULES, NOW).subject == "alice"
