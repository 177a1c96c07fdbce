"""What a row of a Metadata request may hold."""

from __future__ import annotations

from typing import Any

NULLABLE_NAME, BY_ID = 10, 12
"""Since these versions a topic's name may be null, and its id counts."""


def is_malformed(topic: Any, version: int) -> bool:
    """Versions 10 and 11 have a field for an id, and are not to use it (KAFKA-10774)."""
    return (topic.name is None and topic.topic_id is None) or (version < BY_ID and topic.topic_id is not None)
