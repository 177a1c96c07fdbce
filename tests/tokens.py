"""Who issues access tokens in tests: good ones, and every other kind."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal

from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

ISSUER, AUDIENCE = "https://issuer.example", "kafka"
ALGORITHMS: dict[str, tuple[Literal["RSA", "EC", "OKP"], str]] = {
    "RS256": ("RSA", ""),
    "PS512": ("RSA", ""),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "Ed25519": ("OKP", "Ed25519"),
}
"""With the kind of key that each wants, and its curve."""


# With openssl genrsa 2048: making one takes longer than a test may. Not a secret: of these tests only.
_RSA = """-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDe3lWcdsXHuKdZdsh0G6QNJGTZjgfLBSSHkx3LXQg+2+6U8cg4
pz6xgSEbt3INm+DH91f5gSYX/zQaWUKkalAgVMAWexxmr0FkG8KnYmnYpvL5A9FeUx3h3dqW4ZKa4H4TRUOHrIN5n79bZnqE0+Cc
LQvL/e+SqpYmCbcekiBiYC4SNPdyLpNDeDmG6vDCrgoE5zT5Xs8f7ALxAAdPnNQ8BVCYKrs/0Gnoyf1lr/SlUHAsR7Cl0D/FVT/w
16QRPzx77Z8/DiTuOIAJuQ+Ncbd16A9j6ybBaukD3bmt0nbA+vHQ+LLKHU9pngr40i0Zb4T/ISzya4nuO5catYcZSt+XAgMBAAEC
ggEAWaqrWB2jOlUtI336bVh3mwADAVK3CPQjO9axXJIsEJpM9akHbN/BBgqVhwC6Bwapm9qEjzJqYKpBTL6P5PWPEkr207SpexjU
3tGacdzTCCM3S3/BO0mGksq/OQg9g0mB///UiSAb75GZnEzxS0KxsjQfdG3Q9znh2iD7h3W0SM936yp2lxeWzAM5AHWunxx74SEl
oBB44rPxrC7eGXB+SwxoGwiLPLu6bue9igVbfQkbJt2AmoU8c4NA9XI1uVwSIWNE87NY5z7zQSacmfWDJ9a194SKzVTm1ImmSTjj
60johZQtCzDfdbjFWFsEXab5y/zTGypuPoQ8Z1Ci7tqLKQKBgQD/FXEJjjovnDkfBQWLVMf2oY6Hf0TgbosqKqmMAa8i/pL6C0e7
46MCJBgOmHZNdwF9aCijakB4vtv0jvXh87QtqWOlB5+nIQhljE3xH+jzwiW8pWQ0Fw21HfdRqzdtJZnCpK5vBm+QJ3uQcf3vwsq8
9XBKwHObNyzHS2RYxZR2KQKBgQDfq0UR63K8xn6VzxcFx2x2PQUp8/d8UfD2Xcb2LXOEkt+diGjRW0PbCUW3vCcvxF0cnx0/ApTe
u2hD6gxAp+0r5+jG4YJ08PO/ej10kdC8T27n8uCnvjKKR2buCwf/18pLgPbsEKHml9aD7vLprM6aYwk/mFlFKLI1djVPIPHfvwKB
gD5Ef6lzfKSuoAsAcNAITB/aZC6TVL7sfTA35dd1eckzF7HOGx60fNBC+1Rkx0w1prl0Oadago53GL5kP4V+thcHaHmamNB1cdVI
IKahwX3vgMLCJOnKTuBNhlf7UbZlHVm0VZhom8c2vCUQjop+pHrn9xdoT1AucdHch4xb/texAoGAceCKZwhAP5q0ImPwrdGOCFkj
AuwiqhoyG809GmOjt/DrhxJHg6f60U9UPqq+LNTGL2dXhZgz4X77I/DK0jRtTXhijLeOKynugCOlnG8NHoM2zUNcXCs7IioeXr4h
EYJ1jaGYljIVrAjMgBmtdYm1GuencsiHUu3YZd3MYIA+hZMCgYEAuY9BHStDyhwj0gPAaZoFL295+AEOcJrMiCxgOZwHGUga0vll
3OdYycObWXjR7sqi5wIFceXZ1xHpscU8JepxkbVrGNns7nJa09T4ueXjPUnAhFU6EQu7+xrRJW2S4RYDSVt1D6pfuGQrOeMu1drB
uCJ+xOVJ3i7s5Wwh1ltjIiE=
-----END PRIVATE KEY-----
"""


@cache
def key_of(algorithm: str, name: str) -> RSAKey | ECKey | OKPKey:
    """Make a key pair, one for each name; of RSA there is one only."""
    kind, curve = ALGORITHMS[algorithm]
    parameters: Any = {"kid": name}
    if kind == "RSA":
        return RSAKey.import_key(_RSA, parameters)
    made: Any = ECKey if kind == "EC" else OKPKey
    return made.generate_key(curve, parameters)  # type: ignore[no-any-return]


def part(value: object) -> str:
    """Encode one of a token's parts."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """One with a key of its own."""

    def __init__(self, name: str = "one", algorithm: str = "ES256") -> None:
        self.name, self.algorithm = name, algorithm
        self.key = key_of(algorithm, name)

    def public(self, **more: Any) -> dict[str, Any]:
        """Return the key that everybody may know, with other members when they are given."""
        return {**self.key.as_dict(private=False), **more}

    def key_set(self, *others: Mapping[str, Any]) -> str:
        return json.dumps({"keys": [self.public(), *others]})

    def claims(
        self, subject: str = "alice", lasts: float = 3600, now: float | None = None, **more: Any
    ) -> dict[str, Any]:
        """Return good claims, or others by name; those that are None are left out."""
        issued = int(time.time() if now is None else now)
        usual = {
            "iss": ISSUER, "aud": AUDIENCE, "sub": subject, "scope": "read", "iat": issued, "exp": issued + int(lasts),
        }  # fmt: skip
        return {name: value for name, value in (usual | more).items() if value is not None}

    def sign(self, payload: object, **header: Any) -> str:
        """Sign whatever it is; members of the header that are None are left out."""
        named = {"alg": self.algorithm, "kid": self.name, **header}
        protected = {name: value for name, value in named.items() if value is not None}
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        registry = jws.JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
        registry.check_header = lambda _header: None  # type: ignore[method-assign]
        return jws.serialize_compact(protected, data, self.key, registry=registry)

    def token(self, subject: str = "alice", lasts: float = 3600, now: float | None = None, **more: Any) -> str:
        """Sign claims: see there."""
        return self.sign(self.claims(subject, lasts, now, **more))


def unsigned(claims: Mapping[str, Any], algorithm: str = "none", **header: Any) -> str:
    return f"{part({'alg': algorithm, **header})}.{part(claims)}."


def signed_by_secret(claims: Mapping[str, Any], secret: bytes, **header: Any) -> str:
    """Sign by HS256: with a public key for the secret, whoever takes the algorithm from the token believes it."""
    text = f"{part({'alg': 'HS256', **header})}.{part(claims)}"
    return f"{text}.{part(hmac.digest(secret, text.encode(), hashlib.sha256))}"


def other_payload(token: str, claims: Mapping[str, Any]) -> str:
    """Put other claims under the same signature."""
    header, _, signature = token.split(".")
    return ".".join((header, part(claims), signature))


def set_of(keys: Iterable[Mapping[str, Any]]) -> bytes:
    return json.dumps({"keys": list(keys)}).encode()
