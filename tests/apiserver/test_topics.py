"""Topics by kubectl and topics by Kafka clients are one and the same thing: real brokers, a real API server."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.apiserver.brokers import Brokers
from tests.apiserver.conftest import CLUSTER, MakeBrokers, brokers_of, make_namespace
from tests.apiserver.control_plane import ControlPlane
from tests.waiting import ANSWER_SECONDS_MAX, until_now

TOPICS = "/apis/minikafka.dev/v1alpha1/namespaces/{}/minikafkatopics"
QUIET_ATTEMPTS = 5
"""What other tests have changed last may still be on its way into the objects; at steady state there is no end of silence."""


class Lab:
    """Three brokers, and both ways to look at their topics."""

    def __init__(self, plane: ControlPlane, namespace: str, brokers: Brokers) -> None:
        self.plane, self.namespace, self.brokers = plane, namespace, brokers
        self.admin = AdminClient({"bootstrap.servers": brokers.bootstrap, "log_level": 0})

    # -- kubectl ------------------------------------------------------------------------------------------------------

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """What it prints; it must succeed."""
        done = self.plane.kubectl("-n", self.namespace, *arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, name: str, cluster: str = CLUSTER, **spec: Any) -> None:
        manifest = {
            "apiVersion": "minikafka.dev/v1alpha1",
            "kind": "MiniKafkaTopic",
            "metadata": {"name": name},
            "spec": {"clusterRef": {"name": cluster}, **spec},
        }
        self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def patch(self, name: str, spec: dict[str, Any]) -> None:
        self.kubectl("patch", "mkt", name, "--type=merge", "-p", json.dumps({"spec": spec}))

    def find(self, name: str) -> Any:
        return self.plane.find(f"{TOPICS.format(self.namespace)}/{name}")

    def of_topic(self, topic: str) -> Any:
        """The object of a topic, or None."""
        for value in self.plane.request("GET", TOPICS.format(self.namespace))["items"]:
            if (value["spec"].get("topicName") or value["metadata"]["name"]) == topic:
                return value
        return None

    def ready(self, name: str) -> tuple[str, str, str]:
        """(status, reason, message) of the condition Ready."""
        value = self.find(name) or {}
        for condition in (value.get("status") or {}).get("conditions") or ():
            if condition["type"] == "Ready" and condition["observedGeneration"] == value["metadata"]["generation"]:
                return condition["status"], condition["reason"], condition["message"]
        return "", "", ""

    # -- Kafka --------------------------------------------------------------------------------------------------------

    def partitions(self, topic: str) -> int:
        """0 when there is no such topic."""
        found = self.admin.list_topics(timeout=ANSWER_SECONDS_MAX).topics.get(topic)
        return 0 if found is None or found.error else len(found.partitions)

    def topic_id(self, topic: str) -> str:
        """As clients see it; "" while the broker that was asked does not know the topic."""
        try:
            found = (
                self.admin.describe_topics(TopicCollection([topic]))[topic].result(timeout=ANSWER_SECONDS_MAX).topic_id
            )
        except KafkaException:
            return ""
        return str(UUID(bytes=urlsafe_b64decode(f"{found}==")))

    def config(self, topic: str) -> dict[str, str]:
        """Overrides in force."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            entries = self.admin.describe_configs([resource])[resource].result(timeout=ANSWER_SECONDS_MAX)
        except KafkaException:
            return {}
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {name: entry.value for name, entry in entries.items() if entry.source == own}

    def alter(self, topic: str, **changes: str | None) -> None:
        entries = [
            ConfigEntry(
                key.replace("_", "."),
                value or "",
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for key, value in changes.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result(timeout=ANSWER_SECONDS_MAX)

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        new = NewTopic(topic, partitions, 3, config={k.replace("_", "."): v for k, v in config.items()})
        self.admin.create_topics([new])[topic].result(timeout=ANSWER_SECONDS_MAX)

    def exchange(self, topic: str, bootstrap: str | None = None) -> None:
        """A record goes in with acks=all and comes out."""
        servers = bootstrap or self.brokers.bootstrap
        producer = Producer({"bootstrap.servers": servers, "acks": "all"})
        producer.produce(topic, value=b"hello")
        assert producer.flush(90) == 0
        consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        try:
            deadline = time.monotonic() + 120
            while (message := consumer.poll(0.5)) is None or message.error():
                assert time.monotonic() < deadline, "nothing to read"
            assert message.value() == b"hello"
        finally:
            consumer.close()


@pytest.fixture(scope="module")
def lab(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    namespace = make_namespace(plane)
    with brokers_of(plane, tmp_path_factory.mktemp("brokers")) as make:
        yield Lab(plane, namespace, make(namespace, num_partitions=2))


class TestByKubectl:
    def test_apply_edit_delete(self, lab: Lab) -> None:
        """The life of a topic, by kubectl alone; Kafka clients see each step."""
        lab.apply("orders", partitions=3, config={"retention.ms": "100000"})
        lab.kubectl("wait", "--for=condition=Ready", "mkt/orders", "--timeout=90s")
        until_now(lambda: lab.partitions("orders"), lambda n: n == 3)
        until_now(lambda: lab.config("orders"), lambda c: c == {"retention.ms": "100000"})
        lab.exchange("orders")
        lab.patch("orders", {"config": {"retention.ms": "200000", "segment.bytes": "1000000"}})
        until_now(lambda: lab.config("orders"), lambda c: c == {"retention.ms": "200000", "segment.bytes": "1000000"})
        lab.patch("orders", {"partitions": 5, "config": {"segment.bytes": None}})
        until_now(lambda: lab.partitions("orders"), lambda n: n == 5)
        until_now(lambda: lab.config("orders"), lambda c: c == {"retention.ms": "200000"})
        status = until_now(lambda: lab.find("orders")["status"], lambda s: s["partitionCount"] == 5)
        assert [row["partition"] for row in status["partitions"]] == list(range(5))
        until_now(lambda: lab.ready("orders")[:2], lambda r: r == ("True", "InSync"))
        lab.kubectl("delete", "mkt", "orders", "--timeout=90s")
        until_now(lambda: lab.partitions("orders"), lambda n: n == 0)
        assert lab.find("orders") is None

    def test_left_out_counts_are_the_clusters(self, lab: Lab) -> None:
        """What is not wished for is filled in, as defaults are anywhere in Kubernetes."""
        lab.apply("defaults")
        spec = until_now(lambda: lab.find("defaults")["spec"], lambda s: "replicationFactor" in s)
        assert (spec["partitions"], spec["replicationFactor"]) == (2, 3)

    def test_a_name_that_kubernetes_does_not_take(self, lab: Lab) -> None:
        """spec.topicName is the topic's real name."""
        lab.apply("clicks", topicName="Web_Clicks.2026", partitions=1)
        until_now(lambda: lab.partitions("Web_Clicks.2026"), lambda n: n == 1)
        lab.exchange("Web_Clicks.2026")
        lab.kubectl("delete", "mkt", "clicks", "--timeout=90s")
        until_now(lambda: lab.partitions("Web_Clicks.2026"), lambda n: n == 0)

    def test_an_assignment(self, lab: Lab) -> None:
        """spec.replicaAssignment: who holds what, the preferred leader first."""
        lab.apply("placed", replicaAssignment=[[2, 0], [1, 2]])
        status = until_now(lambda: lab.find("placed").get("status") or {}, lambda s: s.get("isr") == "2/2")
        assert [row["replicas"] for row in status["partitions"]] == [[2, 0], [1, 2]]
        assert status["leaders"] == "2,1"

    def test_the_columns(self, lab: Lab) -> None:
        """kubectl get mkt shows partitions, factor, leaders, ISR and health at a glance."""
        lab.apply("glance", partitions=3)
        until_now(lambda: lab.ready("glance")[0], lambda s: s == "True")
        header, row = lab.kubectl("get", "mkt", "glance").splitlines()[:2]
        assert header.split() == [
            *("NAME", "TOPIC", "CLUSTER", "PARTITIONS", "RF", "LEADERS", "ISR", "READY", "REASON", "AGE")
        ]
        leaders = ",".join(str(p["leader"]) for p in lab.find("glance")["status"]["partitions"])
        assert row.split()[:-1] == ["glance", "glance", CLUSTER, "3", "3", leaders, "3/3", "True", "InSync"]


class TestByClients:
    def test_the_life_of_a_clients_topic(self, lab: Lab) -> None:
        """CreateTopics, CreatePartitions, IncrementalAlterConfigs, DeleteTopics: the object follows, spec and status."""
        lab.create("shipments", 2, retention_ms="100000")
        value = until_now(lambda: lab.find("shipments"), lambda v: v is not None and "status" in v)
        assert value["spec"] == {
            "clusterRef": {"name": CLUSTER},
            "partitions": 2,
            "replicationFactor": 3,
            "config": {"retention.ms": "100000"},
        }
        assert value["metadata"]["labels"]["minikafka.dev/cluster"] == CLUSTER
        lab.alter("shipments", retention_ms=None, segment_bytes="1000000")
        until_now(lambda: lab.find("shipments")["spec"]["config"], lambda c: c == {"segment.bytes": "1000000"})
        lab.admin.create_partitions([NewPartitions("shipments", 4)])["shipments"].result(timeout=ANSWER_SECONDS_MAX)
        until_now(lambda: lab.find("shipments")["spec"]["partitions"], lambda n: n == 4)
        time.sleep(1)
        assert lab.config("shipments") == {"segment.bytes": "1000000"}, "the object's old spec was no wish to go back"
        lab.admin.delete_topics(["shipments"])["shipments"].result(timeout=ANSWER_SECONDS_MAX)
        until_now(lambda: lab.find("shipments"), lambda v: v is None)
        until_now(lambda: lab.partitions("shipments"), lambda n: n == 0)

    def test_names(self, lab: Lab) -> None:
        """A topic whose name Kubernetes does not take gets an object with a readable name and a hash."""
        lab.create("My_Topic")
        lab.create("My-Topic2")
        value = until_now(lambda: lab.of_topic("My_Topic"))
        assert value["metadata"]["name"] == "my-topic-36e68ddf"
        assert until_now(lambda: lab.of_topic("My-Topic2"))["metadata"]["name"].startswith("my-topic2-")
        lab.exchange("My_Topic")
        assert until_now(lambda: lab.of_topic("__consumer_offsets"))["metadata"]["name"].startswith("consumer-offsets-")

    def test_deleted_and_made_anew(self, lab: Lab) -> None:
        """The same name, another topic: ids differ, and so does the data."""
        lab.create("again", retention_ms="100000")
        first = until_now(lambda: lab.find("again"), lambda v: v is not None and "status" in v)["status"]["topicId"]
        for _ in range(15):  # quicker than its object can follow
            lab.admin.delete_topics(["again"])["again"].result(timeout=ANSWER_SECONDS_MAX)
            lab.create("again", 3)

        def shows_the_last(value: Any) -> bool:
            """It may still be about to go: then it shows one of those between."""
            status = (value or {}).get("status") or {}
            return status.get("topicId") == lab.topic_id("again") and status["partitionCount"] == 3

        last = until_now(lambda: lab.find("again"), shows_the_last)
        assert last["status"]["topicId"] != first
        assert last["status"]["configs"] == {}
        until_now(lambda: lab.find("again")["spec"].get("config", {}), lambda c: c == {})
        until_now(lambda: lab.partitions("again"), lambda n: n == 3)
        until_now(lambda: lab.config("again"), lambda c: c == {})

    def test_both_at_once(self, lab: Lab) -> None:
        """A person sets one thing, a client another: both hold, in the topic and in the object."""
        lab.create("shared", retention_ms="100000")
        until_now(lambda: lab.find("shared"), lambda v: v is not None and "status" in v)
        for number in range(1, 6):
            lab.patch("shared", {"config": {"segment.bytes": str(1_000_000 + number)}})
            lab.alter("shared", retention_ms=str(200_000 + number))
        expected = {"segment.bytes": "1000005", "retention.ms": "200005"}
        until_now(lambda: lab.config("shared"), lambda c: c == expected)
        until_now(lambda: lab.find("shared")["spec"]["config"], lambda c: c == expected)
        until_now(lambda: lab.ready("shared")[0], lambda s: s == "True")

    def test_listeners(self, lab: Lab) -> None:
        """Who comes by one listener is told addresses of that listener, and can work with them."""
        lab.create("outside")
        external = AdminClient({"bootstrap.servers": lab.brokers.external}).list_topics(timeout=ANSWER_SECONDS_MAX)
        assert {b.port for b in external.brokers.values()} == {b.external for b in lab.brokers.all}
        internal = lab.admin.list_topics(timeout=ANSWER_SECONDS_MAX)
        assert {b.port for b in internal.brokers.values()} == {b.client for b in lab.brokers.all}
        lab.exchange("outside", lab.brokers.external)


class TestImpossibleWishes:
    @pytest.mark.parametrize(
        ("name", "spec", "reason", "message"),
        [
            ("too-many", {"replicationFactor": 9}, "InvalidReplicationFactor", "9"),
            ("bad-key", {"config": {"retention": "1"}}, "InvalidConfig", "did you mean"),
            ("bad-value", {"config": {"retention.ms": "soon"}}, "InvalidConfig", "retention.ms=soon"),
            ("nowhere", {"replicaAssignment": [[7, 8]]}, "InvalidReplicaAssignment", "7"),
        ],
    )
    def test_a_topic_that_cannot_be(self, lab: Lab, name: str, spec: dict[str, Any], reason: str, message: str) -> None:
        """A condition says why; nothing is made; kubectl delete works."""
        lab.apply(name, **spec)
        ready = until_now(lambda: lab.ready(name), lambda r: r[0] == "False")
        assert ready[1] == reason
        assert message in ready[2]
        assert lab.partitions(name) == 0
        lab.kubectl("delete", "mkt", name, "--timeout=90s")

    def test_put_right(self, lab: Lab) -> None:
        """An edit that makes the wish possible is acted on at once."""
        lab.apply("repaired", config={"retention.ms": "soon"})
        until_now(lambda: lab.ready("repaired")[1], lambda r: r == "InvalidConfig")
        lab.patch("repaired", {"config": {"retention.ms": "1000"}})
        until_now(lambda: lab.ready("repaired")[0], lambda s: s == "True")

    def test_nothing_is_half_done(self, lab: Lab) -> None:
        """More partitions and a bad setting in one edit: neither; the topic goes on, the condition says why."""
        lab.apply("whole", partitions=1)
        until_now(lambda: lab.ready("whole")[0], lambda s: s == "True")
        lab.patch("whole", {"partitions": 3, "config": {"min.insync.replicas": "many"}})
        ready = until_now(lambda: lab.ready("whole"), lambda r: r[0] == "False")
        assert ready[1] == "InvalidConfig"
        assert lab.partitions("whole") == 1
        lab.exchange("whole")
        lab.patch("whole", {"config": None})
        until_now(lambda: lab.partitions("whole"), lambda n: n == 3)
        until_now(lambda: lab.ready("whole")[0], lambda s: s == "True")

    def test_two_objects_for_one_topic(self, lab: Lab) -> None:
        """The first is the topic; the second says whose topic it is, and can go without harm."""
        lab.apply("first", partitions=1)
        until_now(lambda: lab.ready("first")[0], lambda s: s == "True")
        lab.apply("second", topicName="first", partitions=4)
        ready = until_now(lambda: lab.ready("second"), lambda r: r[0] == "False")
        assert ready[1:] == ("Duplicate", "MiniKafkaTopic first is topic first already")
        lab.kubectl("delete", "mkt", "second", "--timeout=90s")
        assert lab.partitions("first") == 1

    def test_the_server_refuses_what_it_can(self, lab: Lab) -> None:
        """Fewer partitions, another name: CEL rules of the CRD say no before any broker hears of it."""
        lab.apply("fixed", partitions=3)
        for patch, message in (({"partitions": 2}, "may only grow"), ({"topicName": "other"}, "cannot be")):
            done = lab.plane.kubectl(
                "-n", lab.namespace, "patch", "mkt", "fixed", "--type=merge", "-p", json.dumps({"spec": patch})
            )
            assert done.returncode != 0
            assert message in done.stderr


class TestTampering:
    def test_a_status_that_was_wiped(self, lab: Lab) -> None:
        """The status is where states are kept; whoever damages it finds it as it was."""
        lab.apply("wiped", partitions=2)

        def status() -> dict[str, Any]:
            """But for the times of its conditions: what was wiped became true anew."""
            found = lab.find("wiped").get("status") or {}
            for condition in found.get("conditions") or ():
                del condition["lastTransitionTime"]
            return found

        until_now(lambda: lab.ready("wiped")[0], lambda s: s == "True")
        before = status()
        path = f"{TOPICS.format(lab.namespace)}/wiped/status"
        value = lab.find("wiped")
        lab.plane.request("PUT", path, {**value, "status": {}})
        until_now(status, lambda s: s == before)

    def test_labels_and_finalizer(self, lab: Lab) -> None:
        """They come back: the label is what people select by, the finalizer what makes kubectl delete wait."""
        lab.apply("bare", partitions=1)
        until_now(lambda: lab.ready("bare")[0], lambda s: s == "True")
        lab.kubectl("label", "mkt", "bare", "minikafka.dev/cluster-", "app.kubernetes.io/name-")
        lab.kubectl("patch", "mkt", "bare", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        until_now(lambda: lab.find("bare")["metadata"].get("finalizers"), lambda f: f == ["minikafka.dev/topic"])
        until_now(lambda: lab.find("bare")["metadata"]["labels"].get("minikafka.dev/cluster"), lambda c: c == CLUSTER)

    def test_deleted_by_force(self, lab: Lab) -> None:
        """No finalizer, no object: that is a deletion, too."""
        lab.apply("forced", partitions=1)
        until_now(lambda: lab.ready("forced")[0], lambda s: s == "True")
        path = f"{TOPICS.format(lab.namespace)}/forced"
        lab.plane.request("DELETE", path)
        until_now(lambda: lab.partitions("forced"), lambda n: n == 0)
        until_now(lambda: lab.find("forced"), lambda v: v is None)
        lab.apply("forced", partitions=2)
        until_now(lambda: lab.partitions("forced"), lambda n: n == 2)


@pytest.mark.full
class TestAbsence:
    """Wishes and damage while no broker runs."""

    def test_wishes_wait(self, plane: ControlPlane, namespace: str, make_brokers: MakeBrokers) -> None:
        """What people wanted meanwhile is done when the brokers are back: created, changed, deleted."""
        brokers = make_brokers(namespace)
        lab = Lab(plane, namespace, brokers)
        for name in ("kept", "changed", "unwanted"):
            lab.apply(name, partitions=1)
        until_now(lambda: all(lab.ready(name)[0] == "True" for name in ("kept", "changed", "unwanted")))
        kept = lab.find("kept")["status"]["topicId"]
        brokers.stop()
        lab.apply("wanted", partitions=2)
        lab.patch("changed", {"partitions": 3, "config": {"retention.ms": "100000"}})
        lab.kubectl("delete", "mkt", "unwanted", "--wait=false")
        brokers.start()
        until_now(lambda: lab.find("unwanted"), lambda value: value is None, seconds=120)
        until_now(lambda: lab.partitions("wanted"), lambda n: n == 2)
        until_now(lambda: lab.partitions("changed"), lambda n: n == 3)
        until_now(lambda: lab.config("changed"), lambda c: c == {"retention.ms": "100000"})
        assert lab.find("kept")["status"]["topicId"] == kept

    @pytest.mark.parametrize("by_force", [True, False], ids=["by force", "after its cluster"])
    def test_a_deletion_that_nobody_saw(
        self, plane: ControlPlane, namespace: str, make_brokers: MakeBrokers, by_force: bool
    ) -> None:
        """Brokers that stop gently write their topics into the journal once more, and the object is gone when they are back. The
        operator takes the finalizer off when the cluster is deleted, so that both are the same to them."""
        brokers = make_brokers(namespace)
        lab = Lab(plane, namespace, brokers)
        for name in ("keep", "other"):
            lab.apply(name, partitions=1)
        until_now(lambda: lab.ready("keep")[0] == "True" == lab.ready("other")[0])
        brokers.stop()
        path = f"{TOPICS.format(namespace)}/keep"
        if by_force:
            plane.request("DELETE", path)
        plane.request("PATCH", path, {"metadata": {"finalizers": None}})
        if not by_force:
            plane.request("DELETE", path)
        until_now(lambda: lab.find("keep"), lambda value: value is None)
        brokers.start()
        until_now(lambda: lab.partitions("keep"), lambda n: n == 0)
        assert lab.find("keep") is None
        assert lab.partitions("other") == 1

    def test_a_state_that_was_lost(self, plane: ControlPlane, namespace: str, make_brokers: MakeBrokers) -> None:
        """A topic without its state is not taken for a new one, for that would throw its records away."""
        brokers = make_brokers(namespace, count=1, default_replication_factor=1, min_insync_replicas=1)
        lab = Lab(plane, namespace, brokers)
        lab.apply("precious", partitions=1)
        lab.apply("other", partitions=1)
        until_now(lambda: lab.ready("precious")[0] == "True" == lab.ready("other")[0])
        document = f"/api/v1/namespaces/{namespace}/configmaps/{CLUSTER}-metadata"
        until_now(
            lambda: json.loads(plane.request("GET", document)["data"]["metadata.json"])["journal"], lambda j: j == {}
        )
        brokers.all[0].kill()  # a broker that stops gently writes its topics into the journal once more
        path = f"{TOPICS.format(namespace)}/precious"
        value = lab.find("precious")
        plane.request("PUT", f"{path}/status", {**value, "status": {}})
        with pytest.raises(
            AssertionError, match=r"broker 0 ended: (?s:.*)MiniKafkaTopic of topic 'precious' has lost its state"
        ):
            brokers.start()
        brokers.stop()
        plane.request("PUT", f"{path}/status", {**lab.find("precious"), "status": value["status"]})
        brokers.start()
        until_now(lambda: lab.partitions("precious"), lambda n: n == 1)
        assert lab.find("precious")["status"]["topicId"] == value["status"]["topicId"]
        until_now(
            lambda: json.loads(plane.request("GET", document)["data"]["metadata.json"])["journal"], lambda j: j == {}
        )
        brokers.all[0].kill()
        plane.request("PATCH", path, {"metadata": {"finalizers": None}})
        plane.request("DELETE", path)
        brokers.start()
        until_now(lambda: lab.partitions("precious"), lambda n: n == 0)
        assert lab.partitions("other") == 1


@pytest.mark.full
class TestQuiet:
    def test_no_writes_at_steady_state(self, lab: Lab) -> None:
        """Nothing changes but the lease: resourceVersions of a cluster that has nothing to do stand still."""
        document = f"/api/v1/namespaces/{lab.namespace}/configmaps/{CLUSTER}-metadata"
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{lab.namespace}/leases/{CLUSTER}-controller"

        def versions() -> dict[str, str]:
            objects = lab.plane.request("GET", TOPICS.format(lab.namespace))["items"]
            found = {value["metadata"]["name"]: value["metadata"]["resourceVersion"] for value in objects}
            return {**found, "metadata": lab.plane.request("GET", document)["metadata"]["resourceVersion"]}

        def journal() -> Any:
            return json.loads(lab.plane.request("GET", document)["data"]["metadata.json"])["journal"]

        def renewed() -> str:
            return str(lab.plane.request("GET", lease)["spec"]["renewTime"])

        for number in range(5):
            lab.create(f"quiet-{number}")
        until_now(versions, lambda found: len(found) > 5)
        written: list[set[str]] = []
        for _ in range(QUIET_ATTEMPTS):
            until_now(journal, lambda j: j == {})
            before, held = versions(), renewed()
            time.sleep(7)
            after = versions()
            written.append({name for name, _ in before.items() ^ after.items()})
            if not written[-1]:
                break
        assert not written[-1], f"written while nothing changed: {written}"
        until_now(renewed, lambda when: when > held)


@pytest.mark.full
def test_two_clusters_in_one_namespace(plane: ControlPlane, namespace: str, make_brokers: MakeBrokers) -> None:
    """Each minds its own objects, also where topics have the same name."""
    one = Lab(plane, namespace, make_brokers(namespace, "one", 1, default_replication_factor=1, min_insync_replicas=1))
    two = Lab(plane, namespace, make_brokers(namespace, "two", 1, default_replication_factor=1, min_insync_replicas=1))
    for lab in (one, two):
        lab.admin.create_topics([NewTopic("same", 1, 1)])["same"].result(timeout=ANSWER_SECONDS_MAX)

    def owners() -> list[str]:
        items = plane.request("GET", TOPICS.format(namespace))["items"]
        return sorted(value["spec"]["clusterRef"]["name"] for value in items if value.get("status"))

    until_now(owners, lambda found: found == ["one", "two"])
    one.admin.delete_topics(["same"])["same"].result(timeout=ANSWER_SECONDS_MAX)
    until_now(owners, lambda found: found == ["two"])
    assert two.partitions("same") == 1
    one.apply("named", "one", partitions=1)
    until_now(lambda: one.partitions("named"), lambda n: n == 1)
    assert two.partitions("named") == 0
