"""The document whose replacement is a commit, and what a reader makes of it (R10, R15)."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import replace
from typing import Any

import pytest
from minikafka.kubernetes.document import PACKED, PLAIN, Document
from minikafka.kubernetes.records import Records
from minikafka.metadata.store import StoreError

DAMAGED = base64.b64encode(gzip.compress(b"")[:10] + b"\xff" * 20).decode()
"""A header of gzip, and what no compressor writes behind it."""
EMPTY = {
    "version": 1,
    "clusterId": "id",
    "controllerEpoch": 0,
    "revision": 0,
    "topics": {},
    "journal": {},
    "counters": {},
}


def topic(number: int) -> dict[str, Any]:
    return {"topicId": f"00000000-0000-0000-0000-{number:012}", "partitions": [], "configs": {}}


def stored(document: Document, version: int = 1) -> Document:
    """As the API server gives it back."""
    value = document.to_config_map("c-metadata", {"app": "minikafka"})
    value["metadata"] |= {"resourceVersion": str(version), "uid": "u"}
    return Document.from_config_map(json.loads(json.dumps(value)))


class TestDocument:
    def test_topics_go_through_the_journal(self) -> None:
        document = Document("id").after({"topic/a": topic(1), "broker/1": {"x": 1}})
        assert (document.revision, document.topics, document.journal) == (1, {"a": 1}, {"a": topic(1)})
        assert document.records == {"broker/1": (1, {"x": 1})}
        document = document.after({"topic/a": topic(2), "topic/b": topic(3), "broker/1": None})
        assert (document.topics, document.records) == ({"a": 2, "b": 2}, {})
        trimmed = document.trimmed({"a": 1, "b": 2})
        assert trimmed.journal == {"a": topic(2)}, "an older revision in the object is not enough"
        assert trimmed.revision == 2
        assert trimmed.trimmed({"a": 1, "b": 2}) is trimmed, "nothing to write"
        assert trimmed.after({"topic/a": None}).topics == {"b": 2}

    def test_what_an_object_has_shown(self) -> None:
        """In the journal again it needs no object to be made: one that is not there was deleted."""
        document = Document("id").after({"topic/a": topic(1), "topic/b": topic(2)})
        assert document.shown == frozenset()
        document = document.after({"topic/a": topic(1)})
        assert document.shown == frozenset(), "its object has yet to be made"
        document = document.trimmed({"a": 2, "b": 1}).after({"topic/a": topic(1), "topic/b": topic(2)})
        assert document.shown == {"a", "b"}
        assert document.after({"topic/a": topic(1)}).shown == {"a", "b"}
        assert document.after({"topic/a": None}).shown == {"b"}
        assert document.after({"topic/a": None}).after({"topic/a": topic(3)}).shown == {"b"}
        assert document.after({"topic/a": topic(3)}, made_anew={"a"}).shown == {"b"}
        assert document.trimmed({"a": 3}).shown == {"b"}
        assert stored(document).shown == {"a", "b"}

    def test_there_and_back(self) -> None:
        document = replace(
            Document("id", 3).after({"topic/a": topic(1), "broker/1": {"é": [1, None]}}), counters={"producer.id": 7}
        )
        assert replace(stored(document), resource_version="", uid="") == document

    @pytest.mark.parametrize(
        ("revision", "version", "uid", "back"),
        [
            (4, "11", "u", True),  # edited in place
            (4, "2", "other", True),  # deleted, and made anew from a backup
            (4, "9", "u", False),  # a late reading of the same object
            (5, "11", "u", False),  # its journal was trimmed
            (6, "11", "other", False),
        ],
    )
    def test_an_earlier_state_in_its_place(self, revision: int, version: str, uid: str, back: bool) -> None:
        known = Document("id", revision=5, resource_version="10", uid="u")
        found = Document("id", revision=revision, resource_version=version, uid=uid)
        assert found.goes_back_behind(known) is back

    def test_a_large_one_is_compressed(self) -> None:
        document = Document("id").after({f"topic/{n}": topic(n) for n in range(3000)})
        value = document.to_config_map("c-metadata", {})
        assert list(value["binaryData"]) == [PACKED]
        assert len(value["binaryData"][PACKED]) < 100_000
        assert stored(document).journal == document.journal

    @pytest.mark.slow
    def test_one_that_is_too_large_is_refused(self) -> None:
        noise = {f"topic/{n}": {"noise": [hash((n, i)) for i in range(20)]} for n in range(8000)}
        with pytest.raises(StoreError, match=r"ConfigMap c-metadata: .* Kubernetes allows 1048576"):
            Document("id").after(noise).to_config_map("c-metadata", {})

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            ({}, "not the metadata of a cluster"),
            ({"data": {PLAIN: "{"}}, "not the metadata of a cluster"),
            ({"data": {PLAIN: "[]"}}, "not the metadata of a cluster"),
            ({"binaryData": {PACKED: "AAAA"}}, "not the metadata of a cluster"),
            ({"binaryData": {PACKED: DAMAGED}}, "not the metadata of a cluster"),
            ({"data": {PLAIN: json.dumps({**EMPTY, "records": []})}}, "not the metadata of a cluster"),
            ({"data": {PLAIN: '{"version":2}'}}, "version 2 of the format; this program knows version 1"),
        ],
    )
    def test_damage_is_named(self, content: dict[str, Any], problem: str) -> None:
        with pytest.raises(StoreError, match=f"ConfigMap c-metadata: {problem}"):
            Document.from_config_map(
                {"metadata": {"name": "c-metadata", "resourceVersion": "1", "uid": "u"}, **content}
            )

    def test_which_is_newer(self) -> None:
        one = stored(Document("id").after({"a": 1}), 9)
        assert replace(one, resource_version="10").newer_than(one)
        assert not one.newer_than(replace(one, resource_version="10"))
        assert replace(one, revision=2, resource_version="8").newer_than(one)
        assert not one.newer_than(one)


class TestRecords:
    def test_which_topics_are_other_ones(self) -> None:
        records = Records()
        records.apply(Document("id").after({"topic/a": topic(1), "topic/b": topic(2)}))
        changes = {"topic/a": topic(1), "topic/b": topic(3), "topic/c": topic(4), "topic/d": None, "broker/1": {}}
        assert records.made_anew(changes) == {"b", "c"}

    def test_changes_and_snapshot(self) -> None:
        records, document = Records(), Document("id")
        records.apply(document)
        document = document.after({"topic/a": topic(1), "broker/1": 1})
        records.apply(document)
        document = document.after({"broker/2": 2})
        records.apply(document)
        assert records.changes(1).records == {"broker/2": 2}
        assert records.changes(0).records == {"topic/a": topic(1), "broker/1": 1, "broker/2": 2}
        records.apply(document.after({"topic/a": None, "broker/1": None}))
        assert records.changes(2).records == {"topic/a": None, "broker/1": None}
        assert records.snapshot().records == {"broker/2": 2}
        records.apply(document)
        assert records.revision == 3, "an older one is ignored"

    def test_a_trimmed_journal_costs_nothing_to_who_saw_it(self) -> None:
        records, document = Records(), Document("id").after({"topic/a": topic(1)})
        records.apply(document)
        trimmed = document.trimmed({"a": 1})
        assert records.missing(trimmed) == set()
        records.apply(trimmed)
        assert records.snapshot().records == {"topic/a": topic(1)}

    def test_who_was_away_lacks_what_was_trimmed(self) -> None:
        records, document = Records(), Document("id").after({"topic/a": topic(1), "topic/b": topic(2)})
        records.apply(document)
        later = document.after({"topic/a": topic(3)}).after({"topic/b": topic(4)}).trimmed({"a": 2})
        assert records.missing(later) == {"a"}
        records.apply(later, {"a": (2, topic(3)), "b": (1, topic(2))})
        assert records.snapshot().records == {"topic/a": topic(3), "topic/b": topic(4)}
        assert records.changes(1).records == {"topic/a": topic(3), "topic/b": topic(4)}

    def test_a_topic_without_an_object_is_gone(self) -> None:
        records = Records()
        document = Document("id").after({"topic/a": topic(1), "topic/b": topic(2)}).trimmed({"a": 1, "b": 1})
        assert records.missing(document) == {"a", "b"}
        records.apply(document, {"b": (1, topic(2))})
        assert records.snapshot().records == {"topic/b": topic(2)}
        assert records.vanished == {"a": 1}
        assert records.missing(document) == set(), "not to be asked for again and again"
        assert records.missing(document.after({"topic/a": topic(3)}).trimmed({"a": 2})) == {"a"}

    def test_removals_are_forgotten_in_the_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("minikafka.kubernetes.records.REMOVED_MAX", 10)
        records, document = Records(), Document("id")
        for number in range(100):
            document = document.after({f"topic/{number}": topic(number), f"topic/{number - 1}": None})
            records.apply(document)
        assert len(records.values) <= 12
        assert records.snapshot().records == {"topic/99": topic(99)}
        assert records.changes(99).records == {"topic/98": None, "topic/99": topic(99)}
