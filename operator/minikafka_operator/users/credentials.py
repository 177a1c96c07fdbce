"""What a user's Secret has: a password, or a certificate. What is there and still serves stays."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Final

from minikafka.security.certificates import KeyPair, Subject, issued, serves
from minikafka.security.jaas import SCRAM_MODULE
from minikafka_kube.kinds import SECRET, USER, Object
from minikafka_kube.names import RENEW_ANNOTATION, RENEWED_ANNOTATION, Names
from minikafka_kube.observed import annotations_of

from minikafka_operator.api.security import AuthenticationType, CertificateAuthority
from minikafka_operator.manifests.objects import owner_reference
from minikafka_operator.security.authorities import CA_CERTIFICATE, Authority, encoded, texts_in

PASSWORD: Final = "password"
JAAS: Final = "sasl.jaas.config"
CERTIFICATE, KEY, BUNDLE = "user.crt", "user.key", "user.pem"

_ESCAPED: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})
"""In quotation marks, as JAAS has them: Java ends a text at a line break, and a password from a file may have one."""

PASSWORD_BYTES: Final = 24
"""Of chance in a password that is made here: 32 characters."""


def user_secret(
    names: Names, user: Object, name: str, kind: AuthenticationType, found: Object | None, clients: Authority,
    terms: CertificateAuthority, now: datetime,
) -> Object:  # fmt: skip
    """The Secret as it has to be. ``found``: the user's own, as it is."""
    metadata = user["metadata"]
    asked = annotations_of(user).get(RENEW_ANNOTATION, "")
    renewed = annotations_of(found).get(RENEWED_ANNOTATION, "") if found else ""
    there = {} if asked and asked != renewed else texts_in(found)
    if kind is AuthenticationType.TLS:
        texts = _certificate(name, there, clients, terms, now)
    else:
        texts = _password(name, there)
    annotations = {RENEWED_ANNOTATION: asked or renewed} if asked or renewed else {}
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.name,
        "metadata": {
            "name": metadata["name"],
            "namespace": names.namespace,
            "labels": names.labels("user"),
            "annotations": annotations,
            "ownerReferences": [owner_reference(metadata["name"], metadata["uid"], USER)],
        },
        "type": "Opaque",
        "data": encoded(texts),
    }


def password_in(secret: Object) -> str:
    """The password in a Secret; empty where there is none."""
    return texts_in(secret).get(PASSWORD, "")


def version_of(secret: Object) -> str:
    """What tells one state of a Secret from another, and nothing of what is in it."""
    return f"{secret['metadata']['uid']}/{secret['metadata']['resourceVersion']}"


def _password(name: str, there: dict[str, str]) -> dict[str, str]:
    password = there.get(PASSWORD) or secrets.token_urlsafe(PASSWORD_BYTES)
    quoted = password.translate(_ESCAPED)
    return {PASSWORD: password, JAAS: f'{SCRAM_MODULE} required username="{name}" password="{quoted}";'}


def _certificate(
    name: str, there: dict[str, str], clients: Authority, terms: CertificateAuthority, now: datetime
) -> dict[str, str]:
    pair, subject = KeyPair(there.get(CERTIFICATE, ""), there.get(KEY, "")), Subject(name)
    if not serves(pair, clients.signing, subject, now, terms.validity_days, terms.renewal_days):
        pair = issued(clients.signing, subject, now, terms.validity_days)
    return {
        CA_CERTIFICATE: clients.trusted(now),
        CERTIFICATE: pair.certificate,
        KEY: pair.key,
        BUNDLE: pair.bundle,
    }
