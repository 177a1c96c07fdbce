"""Where the progress of a run goes."""

from __future__ import annotations

from typing import Protocol

JUDGING = "judging"
"""The status of a run whose story is told: what was found is being judged."""


class ProgressReporter(Protocol):
    """Takes progress; texts may have rich's markup."""

    def say(self, text: str) -> None:
        """Something happened: a line that stays."""
        ...

    def status(self, text: str) -> None:
        """How it stands now: replaces the status before."""
        ...


class Silent:
    """No progress."""

    def say(self, text: str) -> None:
        """Drop it."""

    def status(self, text: str) -> None:
        """Drop it."""
