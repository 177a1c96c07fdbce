"""A topic as a MiniKafkaTopic: names, who changed what, and what the status says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from minikafka.kubernetes import topics
from minikafka.kubernetes.api import Backoff
from minikafka.kubernetes.store import KubernetesStore
from minikafka.kubernetes.topic_reconciler import ActiveController, TopicReconciler
from minikafka.kubernetes.topics import Edit, TopicRefusal
from minikafka.metadata.image import PartitionState, TopicState

ID = UUID(int=7)
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def state(partitions: int = 2, topic_id: UUID = ID, **configs: str) -> TopicState:
    row = PartitionState((0, 1, 2), (0, 1, 2), 0)
    return TopicState("t", topic_id, (row,) * partitions, {k.replace("_", "."): v for k, v in configs.items()})


def value(spec: dict[str, Any] | None = None, agreed: TopicState | None = None, revision: int = 5) -> dict[str, Any]:
    """An object with this spec, whose status shows ``agreed``."""
    found: dict[str, Any] = {
        "metadata": {"name": "t", "uid": "u", "generation": 3},
        "spec": {"clusterRef": {"name": "c"}, **(spec or {})},
    }
    if agreed is not None:
        found["status"] = topics.status_of(found, agreed, revision, None, NOW)
    return found


class TestNames:
    @pytest.mark.parametrize(
        ("topic", "name"),
        [
            ("orders", "orders"),
            ("orders.eu-1", "orders.eu-1"),
            ("My_Topic", "my-topic-36e68ddf"),
            ("__consumer_offsets", "consumer-offsets-189fe61b"),
            ("a..b", "a-b-"),
            ("-", "topic-"),
            ("_", "topic-"),
            ("x" * 249, "x" * 249),
            ("X" * 249, "x" * 63 + "-"),
        ],
    )
    def test_of_objects(self, topic: str, name: str) -> None:
        found = topics.object_name(topic)
        assert found.startswith(name)
        assert topics._SUBDOMAIN.fullmatch(found)
        assert len(found) <= topics.OBJECT_NAME_MAX

    def test_different_topics_have_different_names(self) -> None:
        names = ["a_b", "A_b", "a..b", "a-.b", "_a_b", "a_b_"]
        assert len({topics.object_name(name) for name in names}) == len(names)
        assert topics.hashed_name("same", "one") != topics.hashed_name("same", "two")


class TestEdits:
    """A person's edit is the spec against the status, a client's change the state against the status."""

    def test_nobody_changed_anything(self) -> None:
        agreed = state(2, retention_ms="1")
        spec = {"partitions": 2, "replicationFactor": 3, "config": {"retention.ms": "1"}}
        assert not topics.edit_of(value(spec, agreed), agreed)
        assert topics.spec_patch(value(spec, agreed), agreed) == {}

    def test_a_person(self) -> None:
        agreed = state(2, retention_ms="1", segment_bytes="2")
        spec = {"partitions": 4, "replicationFactor": 3, "config": {"retention.ms": "9", "flush.ms": "3"}}
        changed = {"retention.ms": "9", "flush.ms": "3", "segment.bytes": None}
        assert topics.edit_of(value(spec, agreed), agreed) == Edit(4, None, changed)
        assert topics.spec_patch(value(spec, agreed), agreed) == {}, "what a person wants is not overwritten"

    def test_a_client(self) -> None:
        agreed, now = state(2, retention_ms="1"), state(4, segment_bytes="2")
        spec = {"partitions": 2, "replicationFactor": 3, "config": {"retention.ms": "1"}}
        assert not topics.edit_of(value(spec, agreed), now)
        patch = {"partitions": 4, "config": {"segment.bytes": "2", "retention.ms": None}}
        assert topics.spec_patch(value(spec, agreed), now) == patch

    def test_both(self) -> None:
        agreed, now = state(2, retention_ms="1"), state(2, retention_ms="7", flush_ms="3")
        spec = {"partitions": 2, "replicationFactor": 3, "config": {"retention.ms": "1", "segment.bytes": "2"}}
        assert topics.edit_of(value(spec, agreed), now) == Edit(None, None, {"segment.bytes": "2"})
        assert topics.spec_patch(value(spec, agreed), now) == {"config": {"retention.ms": "7", "flush.ms": "3"}}

    def test_both_the_same(self) -> None:
        agreed, now = state(2), state(4, retention_ms="1")
        spec = {"partitions": 4, "replicationFactor": 3, "config": {"retention.ms": "1"}}
        assert not topics.edit_of(value(spec, agreed), now)
        assert topics.spec_patch(value(spec, agreed), now) == {}

    def test_an_object_for_a_topic_that_is_there(self) -> None:
        """It adds, and takes nothing away."""
        now = state(2, retention_ms="1", flush_ms="3")
        spec = {"partitions": 4, "config": {"retention.ms": "9"}}
        assert topics.edit_of(value(spec), now) == Edit(4, None, {"retention.ms": "9"})
        assert topics.edit_of(value({"replicationFactor": 2}), now) == Edit(None, 2, {})
        assert topics.spec_patch(value({}), now) == {
            "partitions": 2,
            "replicationFactor": 3,
            "config": {"retention.ms": "1", "flush.ms": "3"},
        }

    def test_a_topic_that_was_made_anew(self) -> None:
        """The spec is of the old one, and no wish for the new."""
        old, new = state(4, retention_ms="1"), state(1, UUID(int=8))
        spec = {"partitions": 4, "replicationFactor": 3, "config": {"retention.ms": "1"}}
        assert not topics.edit_of(value(spec, old), new)
        patch = {"partitions": 1, "config": {"retention.ms": None}}
        assert topics.spec_patch(value(spec, old), new) == patch

    def test_before_its_status_an_object_of_brokers_says_whose_it_is(self) -> None:
        """Or its end would look like a wish to delete the next topic of this name, and its spec like a wish to change it."""
        old, new = state(2, retention_ms="1"), state(1, UUID(int=8))
        made = topics.new_object("t", "c", old)
        assert topics.topic_id(made) == str(ID)
        assert not topics.shows_another(made, old)
        assert topics.shows_another(made, new)
        assert not topics.edit_of(made, new)
        assert topics.spec_patch(made, new) == {"partitions": 1, "config": {"retention.ms": None}}
        adopted = {**made, "status": topics.status_of(made, new, 6, None, NOW)}
        assert not topics.shows_another(adopted, new), "the status has the last word"
        assert not topics.shows_another(value(), new), "a person's object is of whatever topic there is"

    def test_made_by_brokers(self) -> None:
        made = value()
        assert not topics.made_by_brokers(made)
        made["metadata"]["managedFields"] = [{"manager": "minikafka-broker", "fieldsV1": {}}]
        assert topics.made_by_brokers(topics.slim(made))
        made["metadata"]["managedFields"].append({"manager": "kubectl-edit"})
        assert not topics.made_by_brokers(topics.slim(made))


class TestStatus:
    def test_there_and_back(self) -> None:
        row = PartitionState((0, 1, 2), (0,), 0, 3, 9, (1,), (2,), 1, (2,), (1,))
        topic = TopicState("t", ID, (row, PartitionState((1, 2), (), -1)), {"retention.ms": "1"})
        found = topics.state_of({"status": topics.status_of(value(), topic, 5, None, NOW)})
        assert found is not None
        assert found[0] == 5
        assert TopicState.from_json("t", found[1]) == topic

    @pytest.mark.parametrize("status", [None, {}, {"conditions": []}, {"topicId": "x"}, {"revision": 3}])
    def test_none(self, status: dict[str, Any] | None) -> None:
        assert topics.state_of({"status": status}) is None

    def test_health(self) -> None:
        good, behind = PartitionState((0, 1, 2), (0, 1, 2), 0), PartitionState((0, 1, 2), (1, 2), 1)
        gone = PartitionState((0, 1, 2), (0,), -1)

        def shown(*rows: PartitionState) -> tuple[str, str, str, str]:
            status = topics.status_of(value(), TopicState("t", ID, rows), 1, None, NOW)
            ready = status["conditions"][0]
            return ready["status"], ready["reason"], status["isr"], status["leaders"]

        assert shown(good, good) == ("True", "InSync", "3/3", "0,0")
        assert shown(good, behind) == ("True", "UnderReplicated", "2/3", "0,1")
        assert shown(good, gone) == ("False", "PartitionsOffline", "1/3", "0,-")
        assert shown(*[good] * 20)[3] == "0," * 12 + "..."

    def test_the_time_of_a_transition(self) -> None:
        """lastTransitionTime moves when the status of the condition does, and else stands still."""
        before = value({}, state())
        same = topics.status_of(before, state(), 6, None, LATER)["conditions"][0]
        assert same["lastTransitionTime"] == NOW
        refused = topics.status_of(before, state(), 6, TopicRefusal("InvalidConfig", "no"), LATER)["conditions"][0]
        assert (refused["lastTransitionTime"], refused["reason"], refused["message"]) == (LATER, "InvalidConfig", "no")

    def test_other_peoples_conditions_stay(self) -> None:
        before = value({}, state())
        before["status"]["conditions"].append({"type": "Mine", "status": "True"})
        assert {"type": "Mine", "status": "True"} in topics.status_of(before, state(), 6, None, NOW)["conditions"]

    def test_reasons(self) -> None:
        assert topics.reason_of("INVALID_REPLICATION_FACTOR") == "InvalidReplicationFactor"


@pytest.mark.parametrize("made_again", [False, True])
async def test_an_object_that_goes_while_it_is_looked_up(made_again: bool) -> None:
    """Found by seed 72010922: the watch told first, and the controller's broker ended its term by a KeyError."""

    async def find(kind: object, name: str) -> None:
        reconciler._forget(first)
        if made_again:
            reconciler._note(another)

    api = SimpleNamespace(find=find, backoff=Backoff)
    store = SimpleNamespace(api=api, cluster="c")
    reconciler = TopicReconciler(cast("KubernetesStore", store), cast("ActiveController", None))
    first, another = value(), value()
    another["metadata"]["uid"] = "v"
    reconciler._note(first)
    await reconciler._look_again("t")
    assert [each["metadata"]["uid"] for each in reconciler._objects.values()] == (["v"] if made_again else [])
    for timer in reconciler._timers:
        timer.cancel()
