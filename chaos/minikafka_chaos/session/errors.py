"""What cannot be done to a cluster."""

from __future__ import annotations


class VerbRefused(ValueError):
    """A verb, or an argument of one, that cannot be: one line, and nothing was changed."""
