"""The two CAs of a cluster, and how they are renewed: what is new is trusted before it is used (docs/decisions/026).

A renewal has three steps, each after ``graceSeconds``: a new CA is trusted beside the one that signs; it signs, and the one
before it is still trusted; that one is forgotten. At which step a CA is, its Secret says.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from minikafka.security.certificates import KeyPair, expiry, new_authority, replaced_by, signs, together
from minikafka_kube.instants import instant, time_text
from minikafka_kube.kinds import Object
from minikafka_kube.names import CA_FILE, RENEWED_ANNOTATION, SINCE_ANNOTATION
from minikafka_kube.observed import annotations_of

from minikafka_operator.api.security import CertificateAuthority

CA_CERTIFICATE = CA_FILE
"""In the Secret of certificates: all that are trusted."""


@dataclass(frozen=True)
class Authority:
    """A CA at some step of its renewal.

    ``following`` is trusted and signs nothing yet; ``before`` are certificates that are trusted and sign nothing any more.
    ``since``: when this step began. ``asked``: the last value of the annotation that was acted upon.
    """

    signing: KeyPair
    following: KeyPair | None = None
    before: str = ""
    since: datetime | None = None
    asked: str = ""

    def trusted(self, now: datetime) -> str:
        """All certificates that are to be trusted."""
        following = self.following.certificate if self.following else ""
        return together([self.signing.certificate, following, self.before], now)

    @property
    def renewing(self) -> bool:
        """Return whether a renewal is under way."""
        return self.following is not None or bool(self.before)

    # -- as a Secret ------------------------------------------------------------------------------------------------

    def data(self) -> dict[str, str]:
        """The data of the Secret with its keys. All names, for what somebody else has applied, such as a backup, stays else."""
        following = self.following or KeyPair("", "")
        return {
            "ca.crt": self.signing.certificate,
            "ca.key": self.signing.key,
            "following.crt": following.certificate,
            "following.key": following.key,
            "before.crt": self.before,
        }

    def annotations(self) -> dict[str, str]:
        """Its annotations."""
        made = {RENEWED_ANNOTATION: self.asked} if self.asked else {}
        return made | ({SINCE_ANNOTATION: time_text(self.since)} if self.since else {})


def authority_in(keys: Object | None) -> Authority | None:
    """The CA in a Secret; None where there is none, or what it has is of no use."""
    data = texts_in(keys)
    signing = KeyPair(data.get("ca.crt", ""), data.get("ca.key", ""))
    if keys is None or not signs(signing):
        return None
    following = KeyPair(data.get("following.crt", ""), data.get("following.key", ""))
    annotations = annotations_of(keys)
    return Authority(
        signing,
        following if signs(following) else None,
        data.get("before.crt", ""),
        instant(annotations.get(SINCE_ANNOTATION)),
        annotations.get(RENEWED_ANNOTATION, ""),
    )


@dataclass(frozen=True)
class Renewal:
    """What is wanted of a CA: its names, how long it is valid, and the value of the annotation that asks for another one.

    ``waits``: an experiment goes on, whose clients trust what was trusted when they began. So what is new does not sign yet.
    """

    cluster: str
    name: str
    terms: CertificateAuthority
    asked: str = ""
    waits: bool = False

    def new(self, now: datetime) -> KeyPair:
        """One more generation."""
        return new_authority(self.cluster, self.name, now, self.terms.validity_days)


def authority_now(keys: Object | None, trusted: str, wanted: Renewal, now: datetime) -> Authority:
    """The CA as it has to be now, from the Secret with its keys, and from what brokers trust so far."""
    found, terms, asked = authority_in(keys), wanted.terms, wanted.asked
    # Where somebody has deleted the keys, or put others there (older ones, from a backup), what they had signed by then goes
    # on being trusted for a while.
    if found is None:
        kept = together([trusted], now)
        return Authority(wanted.new(now), before=kept, since=now if kept else None, asked=asked)
    if replaced := together(replaced_by(found.signing.certificate, trusted, found.trusted(now)), now):
        return replace(found, following=None, before=together([found.before, replaced], now), since=now)
    left = (expiry(found.signing.certificate) or now) - now
    if found.renewing:
        if found.since is None or found.since > now:  # somebody has spoilt it: better twice as long than not at all
            return replace(found, since=now)
        over = now - found.since >= timedelta(seconds=terms.grace_seconds)
        if found.following is not None and ((over and not wanted.waits) or left <= timedelta(0)):
            before = found.signing.certificate
            return replace(found, signing=found.following, following=None, before=before, since=now)
        if found.following is None and over:
            return replace(found, before="", since=None)
        return found
    if left <= timedelta(days=terms.renewal_days) or (asked and asked != found.asked):
        return replace(found, following=wanted.new(now), since=now, asked=asked)
    return found


def texts_in(secret: Object | None) -> dict[str, str]:
    """The data of a Secret as text, apart from what is none."""
    made = {}
    for name, value in ((secret or {}).get("data") or {}).items():
        try:
            made[name] = b64decode(value, validate=True).decode()
        except (Base64Error, UnicodeDecodeError, TypeError, ValueError):
            continue
    return made


def encoded(texts: Mapping[str, str]) -> dict[str, str]:
    """Texts as a Secret's data."""
    return {name: b64encode(text.encode()).decode() for name, text in texts.items()}
