"""A topic whose object is not there has yet to get one, or it was deleted. Only what was noted before tells the two apart."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from minikafka.controller.controller import Controller
from minikafka.kubernetes import topics
from minikafka.kubernetes.api import WatchEvent
from minikafka.kubernetes.document import Document
from minikafka.kubernetes.records import Records
from minikafka.kubernetes.topic_reconciler import TopicReconciler
from minikafka.metadata.image import PartitionState, TopicState

KEEP = TopicState("keep", UUID(int=1), (PartitionState((0,), (0,), 0, 0, 0),), {})
RECORD = {"topic/keep": KEEP.to_json()}


class Api:
    """What was created."""

    def __init__(self) -> None:
        self.created: list[dict[str, Any]] = []

    async def create(self, _kind: Any, value: dict[str, Any]) -> dict[str, Any]:
        metadata = {
            **value["metadata"],
            "uid": "u",
            "resourceVersion": "1",
            "creationTimestamp": "2026-11-21T12:00:00Z",
        }
        self.created.append({**value, "metadata": metadata})
        return self.created[-1]


class Desk:
    """A reconciler of a controller that has just begun, and what it asks for."""

    def __init__(self, document: Document) -> None:
        self.api = Api()
        records = Records()
        records.apply(document)
        store = SimpleNamespace(api=self.api, cluster="c", document=document, records=records)
        self.deleted: list[str] = []
        controller = SimpleNamespace(submit=self._submit)
        self.reconciler = TopicReconciler(store, controller)  # type: ignore[arg-type]

    async def _submit(self, decide: Callable[[Controller], Any]) -> None:
        image = SimpleNamespace(topics={"keep": KEEP})
        decide(SimpleNamespace(image=image, topics=SimpleNamespace(delete=self.deleted.append)))  # type: ignore[arg-type]

    async def step(self) -> None:
        await self.reconciler._step("keep")


NEW = Document("id").after(RECORD)
STOPPED = NEW.trimmed({"keep": 1}).after(RECORD)
"""Brokers that stop write their last state of all topics into the journal."""


async def test_a_clients_new_topic_gets_an_object() -> None:
    desk = Desk(NEW)
    await desk.step()
    assert [value["metadata"]["name"] for value in desk.api.created] == ["keep"]
    assert desk.deleted == []


@pytest.mark.parametrize("document", [STOPPED, STOPPED.after(RECORD), NEW.trimmed({"keep": 1})])
async def test_one_that_was_deleted_while_no_broker_ran_goes(document: Document) -> None:
    """It came back, with its records (kubectl delete mkc, kubectl delete mkt, kubectl apply of the cluster)."""
    desk = Desk(document)
    if not document.journal:
        desk.reconciler.store.records.values["topic/keep"] = (1, KEEP.to_json())
    await desk.step()
    assert desk.deleted == ["keep"]
    assert desk.api.created == []


async def test_one_whose_object_is_deleted_by_force_at_once_goes() -> None:
    """Before anything was noted: its deletion was seen."""
    desk = Desk(NEW)
    await desk.step()
    await desk.reconciler._took_event(WatchEvent("DELETED", desk.api.created[0]))
    await desk.step()
    assert desk.deleted == ["keep"]


async def test_another_topic_of_that_name_does_not_go_with_it() -> None:
    """A client has deleted it and made another one meanwhile: only the old one's object has gone."""
    other = TopicState("keep", UUID(int=2), KEEP.partitions, {}).to_json()
    records = Records()
    records.apply(STOPPED)
    desk = Desk(STOPPED.after({"topic/keep": other}, records.made_anew({"topic/keep": other})))
    await desk.reconciler._took_event(WatchEvent("DELETED", topics.new_object("keep", "c", KEEP) | {"metadata": META}))
    await desk.step()
    assert desk.deleted == []
    assert len(desk.api.created) == 1


META = {"name": "keep", "uid": "old", "annotations": {topics.TOPIC_ID: str(KEEP.topic_id)}}
