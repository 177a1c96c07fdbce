"""The token by which a cluster's metrics are read, and how it is replaced: a new one is accepted before it is shown.

As with the CAs a renewal has three steps, each after ``clusterCa.graceSeconds``: brokers accept a new token, which nobody
shows yet; readers have it, and the one before is still accepted; that one is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from secrets import token_urlsafe
from typing import Final

from minikafka.security.bearer import is_token
from minikafka_kube.instants import instant, time_text
from minikafka_kube.kinds import Object
from minikafka_kube.names import METRICS_TOKEN_FILE, RENEWED_ANNOTATION, SINCE_ANNOTATION
from minikafka_kube.observed import annotations_of

from minikafka_operator.security.authorities import texts_in

TOKEN_BYTES: Final = 32


@dataclass(frozen=True)
class MetricsTokens:
    """What readers show, and what brokers accept beside it. ``asked``: the annotation's value that was acted upon last."""

    shown: str
    following: str = ""
    before: str = ""
    since: datetime | None = None
    asked: str = ""

    @property
    def accepted(self) -> str:
        """The file that brokers have."""
        return "".join(f"{token}\n" for token in (self.shown, self.following, self.before) if token)

    @property
    def renewing(self) -> bool:
        """Return whether a renewal is under way."""
        return bool(self.following or self.before)

    def data(self) -> dict[str, str]:
        """In the Secret. All names, for what somebody else has applied stays else."""
        return {METRICS_TOKEN_FILE: self.shown, "following": self.following, "before": self.before}

    def annotations(self) -> dict[str, str]:
        """Of the Secret."""
        made = {RENEWED_ANNOTATION: self.asked} if self.asked else {}
        return made | ({SINCE_ANNOTATION: time_text(self.since)} if self.since else {})


def tokens_now(secret: Object | None, asked: str, grace_seconds: int, now: datetime) -> MetricsTokens:
    """The tokens as they have to be now, from the Secret that is there."""
    data, annotations = texts_in(secret), annotations_of(secret) if secret else {}
    tokens = [data.get(name, "") for name in (METRICS_TOKEN_FILE, "following", "before")]
    shown, following, before = [token if is_token(token) else "" for token in tokens]
    if not shown:  # none yet, or somebody has taken it away: then the Secret is made anew
        return MetricsTokens(token_urlsafe(TOKEN_BYTES), asked=asked)
    found = MetricsTokens(
        shown, following, before, instant(annotations.get(SINCE_ANNOTATION)), annotations.get(RENEWED_ANNOTATION, "")
    )
    if not found.renewing:
        if asked and asked != found.asked:
            return replace(found, following=token_urlsafe(TOKEN_BYTES), since=now, asked=asked)
        return found
    if found.since is None or found.since > now:  # spoilt by somebody, or by a clock: nothing would ever be over
        return replace(found, since=now)
    if now - found.since < timedelta(seconds=grace_seconds):
        return found
    if following:
        return replace(found, shown=following, following="", before=shown, since=now)
    return replace(found, before="", since=None)
