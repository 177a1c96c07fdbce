"""Access tokens that are JSON Web Tokens (RFC 7519), and the keys that sign them (JWKS, RFC 7517).

joserfc checks signatures, keys and claims: it takes the time as a value, and asks nobody. What it leaves open is here: which
algorithms count (none that shares a secret, never ``none``), which key is asked, and what Kafka wants of the claims.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from typing import Any

from joserfc import jws
from joserfc.errors import ExpiredTokenError, InvalidClaimError, JoseError, MissingClaimError, SecurityWarning
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey
from joserfc.jwt import ClaimsOption, JWTClaimsRegistry

from minikafka.security.oauthbearer import TOKEN_BYTES_MAX, AccessToken, TokenRefused, TokenRules
from minikafka.security.principal import ANONYMOUS

ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519",
)  # fmt: skip
"""Those with a private and a public key."""

KEY_SET_BYTES_MAX = 1 << 20
KEYS_MAX = 1000
"""Of a set, whatever they are good for: each is read on the event loop. Issuers have a few."""

RSA_BITS_MIN = 2048
"""RFC 7518, 3.3."""

SUBJECT_BYTES_MAX = 1024
EXPIRES_MAX = float(2**32)
"""The year 2106: nobody's session is longer."""

_HEADER_BYTES_MAX, _SIGNATURE_BYTES_MAX = 16 << 10, 4 << 10
_UNREADABLE = "the token cannot be read"
_NOBODY = ANONYMOUS.removeprefix("User:")
_OF_CERTIFICATE = "CN="
"""So principals of certificates begin, those of brokers on Kubernetes too; at many an issuer people choose their names."""

Key = RSAKey | ECKey | OKPKey


class KeysRefused(ValueError):
    """A set of keys cannot be used; one line."""


def read_keys(text: bytes) -> tuple[Key, ...]:
    """Read a set of keys. Those that verify no signature, or that this library does not know, are left out.

    Raises KeysRefused.
    """
    if len(text) > KEY_SET_BYTES_MAX:
        raise KeysRefused(f"more than {KEY_SET_BYTES_MAX} bytes")
    try:
        entries = json.loads(text)["keys"]
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise TypeError
    except (LookupError, RecursionError, TypeError, ValueError):
        raise KeysRefused("no JSON Web Key Set (RFC 7517)") from None
    if len(entries) > KEYS_MAX:
        raise KeysRefused(f"{len(entries)} keys, more than {KEYS_MAX}")
    if any("d" in entry for entry in entries):
        raise KeysRefused("there is a private key in it, which must stay with whoever signs")
    found = tuple(key for entry in entries if (key := _key(entry)) is not None)
    if not found:
        raise KeysRefused(f"no key in it that verifies signatures: RSA of at least {RSA_BITS_MIN} bits, EC or OKP")
    return found


def _key(entry: dict[str, Any]) -> Key | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # of short keys, which are left out below
            key = JWKRegistry.import_key(entry)
        key.check_use("sig")
        key.check_key_op("verify")
    except (AssertionError, JoseError, LookupError, TypeError, ValueError):
        return None
    if not isinstance(key, Key) or (isinstance(key, RSAKey) and key.public_key.key_size < RSA_BITS_MIN):
        return None
    return key


class UnknownKey(TokenRefused):
    """The token names a key that is not in the set: it may be a new one."""


def read_token(token: str, keys: Sequence[Key], rules: TokenRules, now: float) -> AccessToken:
    """Read a token, and say what is believed of it. Raises TokenRefused.

    Args:
        token: as a client has sent it.
        keys: of those who may sign.
        rules: what it has to say.
        now: the time in seconds of Unix time.
    """
    if len(token) > TOKEN_BYTES_MAX:
        raise TokenRefused(f"the token has more than {TOKEN_BYTES_MAX} bytes")
    claims = _verified_claims(token, keys)
    _check_claims(claims, rules, now)
    subject = claims.get(rules.sub_claim_name)
    if not isinstance(subject, str) or not subject or subject != subject.strip():
        raise TokenRefused("the token names no subject")
    if len(subject.encode(errors="replace")) > SUBJECT_BYTES_MAX or not _is_text(subject):
        raise TokenRefused("the subject is too long, or no text")
    if subject.startswith(_OF_CERTIFICATE):
        raise TokenRefused("the subject is the name of a certificate")
    if subject == _NOBODY:
        raise TokenRefused("the subject is the name of who has not logged in")
    scope = claims.get(rules.scope_claim_name, "")
    if not isinstance(scope, str) and not (isinstance(scope, list) and all(isinstance(each, str) for each in scope)):
        raise TokenRefused("the token's scope is no text")
    return AccessToken(subject, float(min(claims["exp"], EXPIRES_MAX)))


def _is_text(subject: str) -> bool:
    """Whether it can be written as UTF-8: JSON may hold half a character."""
    try:
        subject.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Registry(jws.JWSRegistry):
    max_header_length = _HEADER_BYTES_MAX
    max_payload_length = TOKEN_BYTES_MAX
    max_signature_length = _SIGNATURE_BYTES_MAX


_REGISTRY = _Registry(algorithms=ALGORITHMS, strict_check_header=False)


def _verified_claims(token: str, keys: Sequence[Key]) -> dict[str, Any]:
    try:
        signed = jws.extract_compact(token.encode(), registry=_REGISTRY)
        header = signed.headers()
        if not isinstance(header, dict):  # joserfc lets any JSON pass that has an "alg" in it, a text too
            raise TokenRefused(_UNREADABLE)
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS:
            raise TokenRefused("the token is not signed by an algorithm that counts")
        if "crit" in header:
            raise TokenRefused("the token wants something understood that is not (crit)")
        key = _chosen(keys, header.get("kid"), algorithm)
        if not jws.validate_compact(signed, key, registry=_REGISTRY):
            raise TokenRefused("the token's signature is wrong")
        claims = json.loads(signed.payload or b"")
    except (JoseError, LookupError, RecursionError, TypeError, ValueError):
        raise TokenRefused(_UNREADABLE) from None
    if not isinstance(claims, dict):
        raise TokenRefused(_UNREADABLE)
    return claims


def _chosen(keys: Sequence[Key], key_id: object, algorithm: str) -> Key:
    """Return the key that a token names; one without a name is the only one that fits the algorithm."""
    named = [key for key in keys if key_id is None or key.kid == key_id]
    if not named:
        raise UnknownKey("the token's key is not known")
    fitting = [key for key in named if _fits(key, algorithm)]
    if not fitting:
        raise TokenRefused("the token's key is of another algorithm")
    if len(fitting) > 1:
        raise TokenRefused("the token does not say which key has signed it")
    return fitting[0]


def _fits(key: Key, algorithm: str) -> bool:
    try:
        _REGISTRY.get_alg(algorithm).check_key(key)
    except JoseError:
        return False
    return True


def _check_claims(claims: dict[str, Any], rules: TokenRules, now: float) -> None:
    options: dict[str, ClaimsOption] = {"exp": {"essential": True}, "iat": {"essential": True}}
    if rules.expected_issuer is not None:
        options["iss"] = {"essential": True, "value": rules.expected_issuer}
    if rules.expected_audience:
        options["aud"] = {"essential": True, "values": list(rules.expected_audience)}
    try:
        JWTClaimsRegistry(int(now), rules.clock_skew_seconds, **options).validate(claims)
    except ExpiredTokenError:
        raise TokenRefused("the token has expired") from None
    except InvalidClaimError as error:
        raise TokenRefused(f"the token's claim {error.claim} is not what is expected") from None
    except MissingClaimError:
        raise TokenRefused("a claim is missing in the token") from None
