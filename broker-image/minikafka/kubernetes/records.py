"""What one reader knows: every record with the revision of its last change, complete up to a revision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minikafka.kubernetes.document import Document
from minikafka.metadata.image import TOPIC, TopicState
from minikafka.metadata.store import Changes, Snapshot

REMOVED_MAX = 10_000
"""Removals remembered for readers of this process, which look every few seconds; the oldest are forgotten first."""


class Records:
    """Follows documents, in any order: older ones are ignored."""

    def __init__(self) -> None:
        self.revision = -1
        self.values: dict[str, tuple[int, Any]] = {}
        self.vanished: dict[str, int] = {}
        """Topics that a document names, and whose object is no more: the revision in the document."""
        self._removed = 0

    def missing(self, document: Document) -> set[str]:
        """Topics whose value is neither in the document nor known here."""
        return {
            name
            for name, revision in document.topics.items()
            if name not in document.journal
            and self.topic_revision(name) != revision
            and self.vanished.get(name) != revision
        }

    def topic_revision(self, name: str) -> int | None:
        """The revision of a topic's last change as known here; None when there is no such topic."""
        found = self.values.get(TOPIC + name)
        return None if found is None or found[1] is None else found[0]

    def apply(self, document: Document, objects: Mapping[str, tuple[int, Any]] | None = None) -> None:
        """Go on to ``document``; ``objects`` (topic -> revision, value) holds what was missing.

        A missing topic that is not among them has no object any more: it was deleted by force, and so it is gone.
        """
        if document.revision < self.revision:
            return
        present = dict(document.records)
        vanished: dict[str, int] = {}
        for name, revision in document.topics.items():
            key = TOPIC + name
            if name in document.journal:
                present[key] = (revision, document.journal[name])
            elif self.topic_revision(name) == revision:
                present[key] = self.values[key]
            elif objects is not None and name in objects:
                present[key] = objects[name]
            else:
                vanished[name] = revision
        for key, (_, value) in self.values.items():
            if key not in present and value is not None:
                present[key] = (document.revision, None)
                self._removed += 1
            elif key not in present:
                present[key] = self.values[key]
        self.values, self.vanished = present, vanished
        self.revision = document.revision
        self._forget_removals()

    def _forget_removals(self) -> None:
        if self._removed <= REMOVED_MAX:
            return
        removed = sorted(r for r, v in self.values.values() if v is None)
        floor = removed[-REMOVED_MAX // 2] if removed else 0
        self.values = {k: (r, v) for k, (r, v) in self.values.items() if v is not None or r >= floor}
        self._removed = sum(1 for _, v in self.values.values() if v is None)

    def made_anew(self, changes: Mapping[str, Any]) -> set[str]:
        """Topics that are not there, or are other ones than those of the same name here."""
        found = set()
        for key, value in changes.items():
            if key.startswith(TOPIC) and value is not None:
                _, known = self.values.get(key, (0, None))
                if known is None or known["topicId"] != value["topicId"]:
                    found.add(key.removeprefix(TOPIC))
        return found

    def changes(self, since: int) -> Changes:
        return Changes(self.revision, {k: v for k, (r, v) in self.values.items() if r > since})

    def snapshot(self) -> Snapshot:
        return Snapshot(self.revision, {k: v for k, (_, v) in self.values.items() if v is not None})

    def topic(self, name: str) -> tuple[int, TopicState] | None:
        """Revision of its last change, and the topic; None when there is no such topic."""
        revision, value = self.values.get(TOPIC + name, (0, None))
        return None if value is None else (revision, TopicState.from_json(name, value))
