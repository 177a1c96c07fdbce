"""Points in time as objects have them, also those that somebody else wrote: by hand, or with another clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""Nothing is later: so something can be added to it."""


def instant(text: str | None) -> datetime | None:
    """A point in time as Kubernetes writes it.

    What is no time is none, although the API server lets it pass (a year 0, in an annotation one without a zone), and what is
    later than `LATEST` is `LATEST`.
    """
    try:
        found = datetime.fromisoformat(text.upper()) if text else None
    except ValueError:
        return None
    return None if found is None or found.tzinfo is None else min(found, LATEST)


def time_text(when: datetime | float) -> str:
    """A point in time as Kubernetes writes it (``metav1.Time``); also from unix seconds."""
    return _utc(when).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time_text(when: datetime) -> str:
    """The same with microseconds (``metav1.MicroTime``), as Leases and Events have it."""
    return _utc(when).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _utc(when: datetime | float) -> datetime:
    made = when if isinstance(when, datetime) else datetime.fromtimestamp(when, UTC)
    return made.astimezone(UTC)
