"""Whether a MiniKafkaCluster asks for TLS, authentication or authorization, as its spec says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

LISTENERS: Final = ("internal", "external")
"""Fields of ``spec.listeners``."""


def is_secured(spec: Mapping[str, Any] | None) -> bool:
    """Return whether anything of it is asked for. Then brokers know each other by certificates, and there are CAs and users."""
    found = spec or {}
    listeners = found.get("listeners") or {}
    given = [listeners.get(name) or {} for name in LISTENERS]
    return bool(found.get("authorization")) or any(one.get("tls") or one.get("authentication") for one in given)
