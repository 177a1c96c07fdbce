"""A secured cluster by kubectl alone: who is let in and may do what, new passwords, and new CAs under load (31 Build 3)."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from minikafka.client.metrics_access import MetricsAccess
from minikafka.security.tls import TlsSettings
from minikafka_chaos.grounds.kubernetes_api import Namespace, connect

from tests.e2e.broker_cluster import SMALL, BrokerCluster
from tests.e2e.kubectl import Kubectl, KubectlError, condition, eventually
from tests.e2e.machine import image, say
from tests.e2e.manifest import manifest
from tests.e2e.objects import Object
from tests.e2e.prometheus import BROKERS_UP, ask, scraping

pytestmark = pytest.mark.full

EXAMPLES = Path(__file__).parents[2] / "docs/guide/examples"
GRACE_SECONDS = 150
"""Of each step of a renewal. A kubelet brings a changed Secret within some two minutes."""
RENEWED_SECONDS_MAX = 4 * GRACE_SECONDS + 600
OPERATOR_NAMESPACE = "minikafka-operator"
SOON_SECONDS = 360
WORKLOAD = {"brokers": {"replicas": 3, "resources": SMALL}, "storage": {"size": "1Gi", "deleteClaim": True}}
TERMS = {"graceSeconds": GRACE_SECONDS}


def secret(kubectl: Kubectl, name: str) -> dict[str, str]:
    """The data of a Secret."""
    found = kubectl.objects.there("secret", name)["data"]
    return {key: b64decode(value).decode() for key, value in found.items()}


@pytest.fixture
def secured(broker_cluster: Callable[[str], BrokerCluster]) -> Iterator[BrokerCluster]:
    """The cluster and the users of the example."""
    cluster, *users = yaml.safe_load_all((EXAMPLES / "secured.yaml").read_text())
    found = broker_cluster(cluster["metadata"]["name"])
    found.kubectl.apply(*users)  # they may well come first
    took = found.up({**cluster["spec"], **WORKLOAD, "clusterCa": TERMS, "clientsCa": TERMS})
    found.kubectl("wait", "--for=condition=Ready", "mku/alice", "mku/bob", f"--timeout={SOON_SECONDS}s", timeout=400)
    say(f"{took:6.1f} s  kubectl apply to Ready of a secured cluster\n{found.kubectl('get', 'mkc,mku')}")
    yield found
    found.kubectl.delete("mku", "alice", f"--timeout={SOON_SECONDS}s")  # brokers have forgotten it by then


class Inside:
    """A pod with the cluster's certificates in it, or with the token of a service account, and Kafka's properties for a user."""

    def __init__(self, kubectl: Kubectl, bootstrap: str, account: str = "") -> None:
        self.kubectl = kubectl
        self.bootstrap = bootstrap
        pod: Object = yaml.safe_load(manifest("client.yaml", image=image("chaos")))
        mounts = pod["spec"]["containers"][0]["volumeMounts"]
        if account:
            pod["spec"]["serviceAccountName"] = account
            token: Object = {"serviceAccountToken": {"path": "token", "audience": "demo", "expirationSeconds": 3600}}
            ca: Object = {"secret": {"name": "demo-cluster-ca-cert", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
            volumes: dict[str, Object] = {account: {"projected": {"sources": [token, ca]}}}
        else:
            names = {"ca": "demo-cluster-ca-cert", "metrics": "demo-metrics-access"}
            volumes = {name: {"secret": {"secretName": found}} for name, found in names.items()}
        for name, volume in volumes.items():
            pod["spec"]["volumes"].append({"name": name, **volume})
            mounts.append({"name": name, "mountPath": f"/{name}", "readOnly": True})
        kubectl.apply(pod)
        kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=240s")

    def log_in(self, user: str) -> None:
        """From now on as this user, with what its Secret has now."""
        lines = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": secret(self.kubectl, user)["sasl.jaas.config"],
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "/ca/ca.crt",
        }
        self.configure("".join(f"{key}={value}\n" for key, value in lines.items()))

    def configure(self, text: str) -> None:
        """From now on with these properties."""
        self.kubectl("exec", "--stdin", "client", "--", "sh", "-c", "cat >/tmp/client.properties", stdin=text)

    def run(self, *arguments: str, stdin: str | None = None, bootstrap: str = "", known: bool = True) -> str:
        """One of our commands. Raises KubectlError with what it says."""
        options = ["--command-config", "/tmp/client.properties"] if known else []
        how = ["exec", "--stdin", "client"] if stdin is not None else ["exec", "client"]
        command = ["minikafka", *arguments, "--bootstrap", bootstrap or self.bootstrap, *options]
        return self.kubectl(*how, "--", *command, stdin=stdin)

    def metrics_status(self, token: str) -> int:
        """What a broker answers who asks for its metrics with a token; nothing: without one."""
        self.kubectl("exec", "--stdin", "client", "--", "sh", "-c", "cat >/tmp/token", stdin=token)
        host = f"demo-broker-0.demo-brokers.{self.kubectl.namespace}.svc"
        words = (
            "from minikafka.client.metrics_access import MetricsAccess; "
            "from minikafka.security.tls import TlsSettings; "
            "access = MetricsAccess(TlsSettings(truststore_location='/metrics/ca.crt'), "
            f"{'/tmp/token' if token else ''!r}); "
            f"print(access.ask(access.url({host!r}, 9404), 30)[0])"
        )
        return int(self.kubectl("exec", "client", "--", "python3", "-c", words))

    def refused(self, *arguments: str, **how: Any) -> str:
        with pytest.raises(KubectlError) as said:
            self.run(*arguments, **how)
        return str(said.value)


def metrics_from_outside(kubectl: Kubectl, folder: Path) -> int:
    """What a broker answers `minikafka chaos run`, which reads its metrics through the API server's port-forward."""
    for name, text in secret(kubectl, "demo-metrics-access").items():
        (folder / name).write_text(text)
    access = MetricsAccess(TlsSettings(truststore_location=str(folder / "ca.crt")), str(folder / "token"))
    way = Namespace(connect(kubectl.kubeconfig).client, kubectl.namespace).forward("demo-broker-0", 9404)
    host = f"demo-broker-0.demo-brokers.{kubectl.namespace}.svc"
    return access.ask(access.url(host, 9404), 60, through=way)[0]


def test_two_users_by_kubectl_alone(secured: BrokerCluster, tmp_path: Path) -> None:
    kubectl = secured.kubectl
    client = Inside(kubectl, secured.status["bootstrap"]["internal"])
    client.log_in("alice")
    client.run("topic", "create", "orders-1", "--partitions", "3")
    client.run("produce", "orders-1", stdin="one\ntwo\n")
    group = ("--group", "orders-readers", "--from-beginning")
    read = client.run("consume", "orders-1", *group, "--max-messages", "2", "--timeout", "60")
    assert "AUTHORIZATION" in client.refused("consume", "orders-1", "--group", "elsewhere", "--timeout", "20").upper()
    assert sorted(read.split()) == ["one", "two"]
    assert "AUTHORIZATION" in client.refused("topic", "create", "elsewhere").upper()
    assert client.refused("produce", "elsewhere", "--timeout", "20", stdin="x\n")

    # Who shows nothing, or the wrong thing, gets nowhere.
    assert client.refused("topic", "list", known=False)
    brokers = f"demo-broker-0.demo-brokers.{kubectl.namespace}.svc:9091"
    assert client.refused("topic", "list", bootstrap=brokers), "the port of brokers, with a password"
    assert client.refused("topic", "list", bootstrap=brokers, known=False)

    token = secret(kubectl, "demo-metrics-access")["token"]
    assert [client.metrics_status(each) for each in (token, "", f"{token}x")] == [200, 401, 401]
    assert metrics_from_outside(kubectl, tmp_path) == 200
    # The API server passes on no token: it would be its own.
    with pytest.raises(KubectlError, match=r"401|nauthorized|must be logged in"):
        kubectl("get", "--raw", f"/api/v1/namespaces/{kubectl.namespace}/pods/https:demo-broker-0:9404/proxy/metrics")

    before = secret(kubectl, "alice")["password"]
    kubectl("annotate", "mku", "alice", "minikafka.dev/renew=1")
    eventually(
        lambda: secret(kubectl, "alice")["password"],
        lambda now: now != before,
        seconds=SOON_SECONDS,
        what="alice has a new password",
    )

    def old_is_refused() -> bool:
        try:
            client.run("topic", "list")
        except KubectlError:
            return True
        return False

    eventually(old_is_refused, seconds=SOON_SECONDS, what="the old password counts no more")
    client.log_in("alice")
    assert "orders-1" in client.run("topic", "list")

    kubectl.patch("mku", "alice", {"spec": {"authorization": {"acls": []}}})
    eventually(
        lambda: "orders-1" in client.run("topic", "list"),
        lambda seen: not seen,
        seconds=SOON_SECONDS,
        what="without ACLs alice sees nothing",
    )
    operator = ("logs", "--selector", "app.kubernetes.io/name=minikafka-operator", "--tail", "-1")
    said = kubectl.within(OPERATOR_NAMESPACE)(*operator)
    assert token not in said
    told = said + json.dumps([secured.get(), *kubectl.objects.list("mku"), *kubectl.objects.list("event")])
    for password in (before, secret(kubectl, "alice")["password"]):
        assert password not in told
    assert "PRIVATE KEY" not in told


def test_a_service_account_logs_in_by_its_token(broker_cluster: Callable[[str], BrokerCluster]) -> None:
    """What the guide says, with the kubelet's token and the keys of this Kubernetes."""
    cluster, account, user = yaml.safe_load_all((EXAMPLES / "tokens.yaml").read_text())
    found = broker_cluster(cluster["metadata"]["name"])
    kubectl = found.kubectl
    name = account["metadata"]["name"]
    user["spec"]["userName"] = f"system:serviceaccount:{kubectl.namespace}:{name}"
    keys = kubectl.objects.raw("/openid/v1/jwks")
    issuer = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "issuer"}, "data": {"jwks.json": keys}}
    stranger = {**account, "metadata": {"name": "stranger"}}
    kubectl.apply(issuer, account, stranger, user)
    found.up({**cluster["spec"], **WORKLOAD})
    kubectl("wait", "--for=condition=Ready", f"mku/{name}", f"--timeout={SOON_SECONDS}s", timeout=400)
    properties = _block_with((EXAMPLES.parent / "security-on-kubernetes.md").read_text(), "sasl.mechanism=OAUTHBEARER")
    bootstrap = found.status["bootstrap"]["internal"]
    client = Inside(kubectl, bootstrap, account=name)
    client.configure(properties)
    client.run("topic", "create", "orders-1")
    client.run("produce", "orders-1", stdin="one\n")
    group = ("--group", "orders-readers", "--from-beginning")
    read = client.run("consume", "orders-1", *group, "--max-messages", "1", "--timeout", "60")
    assert read.split() == ["one"]
    assert "AUTHORIZATION" in client.refused("topic", "create", "elsewhere").upper()
    assert client.refused("topic", "list", known=False)

    kubectl.delete("pod", "client")
    other = Inside(kubectl, bootstrap, account="stranger")
    other.configure(properties.replace(f"/{name}/", "/stranger/"))
    assert other.run("topic", "list").split() == [], "who is let in and is no user sees nothing"
    assert "AUTHORIZATION" in other.refused("topic", "create", "orders-2").upper()


def _block_with(page: str, line: str) -> str:
    """The block of a page that has this line."""
    (found,) = [each.partition("\n")[2] for each in page.split("```") if f"\n{line}\n" in each]
    return found


NOT_COUNTED = "-1"


class CarefulClient:
    """A producer outside that reads its certificates anew when they change, as a service with mounted Secrets would.

    It sends on meanwhile: the next one takes over once it has sent something to each partition, so that a pause is the cluster's
    and not its own. librdkafka waits for half a second before it asks again for a producer id.
    """

    def __init__(self, cluster: BrokerCluster, user: str, topic: str, folder: Path) -> None:
        self.cluster, self.user, self.topic, self.folder = cluster, user, topic, folder
        self.acknowledged: dict[int, float] = {}
        self.refused: list[str] = []
        self.renewals = 0
        self._sent = 0
        self._seen: list[str] = []
        self._stop = threading.Event()
        self._producer: Producer | None = None
        self._threads = [threading.Thread(target=each) for each in (self._send_all, self._renew)]

    def settings(self) -> dict[str, Any]:
        """librdkafka's, of the Secrets as they are now."""
        texts = {"ca.pem": secret(self.cluster.kubectl, "demo-cluster-ca-cert")["ca.crt"]}
        texts["user.pem"] = secret(self.cluster.kubectl, self.user)["user.pem"]
        for name, text in texts.items():
            (self.folder / name).write_text(text)
        return {
            "bootstrap.servers": self.cluster.bootstrap,
            "broker.address.family": "v4",
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.folder / "ca.pem"),
            "ssl.certificate.location": str(self.folder / "user.pem"),
            "ssl.key.location": str(self.folder / "user.pem"),
            "reconnect.backoff.max.ms": 200,
        }

    def versions(self) -> list[str]:
        names = ("demo-cluster-ca-cert", self.user)
        found = [self.cluster.kubectl.objects.there("secret", name) for name in names]
        return [each["metadata"]["resourceVersion"] for each in found]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self._seen = self.versions()
        self._producer = self._connected()
        for thread in self._threads:
            thread.start()
        try:
            eventually(lambda: len(self.acknowledged) > 100, seconds=SOON_SECONDS, what="the load has begun")
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()
            assert self._producer.flush(SOON_SECONDS) == 0

    def _connected(self) -> Producer:
        producer = Producer({**self.settings(), "acks": "all", "enable.idempotence": True, "linger.ms": 5})
        for partition in range(3):
            producer.produce(self.topic, NOT_COUNTED, partition=partition)
        assert producer.flush(SOON_SECONDS) == 0
        return producer

    def _send_all(self) -> None:
        while not self._stop.is_set():
            assert self._producer is not None
            self._send(self._producer)

    def _renew(self) -> None:
        while not self._stop.wait(5.0):
            versions = self.versions()
            if versions != self._seen:
                before, self._producer, self._seen = self._producer, self._connected(), versions
                assert before is not None
                assert before.flush(SOON_SECONDS) == 0
                self.renewals += 1

    def _send(self, producer: Producer) -> None:
        number = self._sent
        self._sent += 1

        def told(error: object, _message: Message) -> None:
            if error is None:
                self.acknowledged[number] = time.monotonic()
            else:
                self.refused.append(str(error))

        producer.produce(self.topic, str(number), partition=number % 3, on_delivery=told)
        producer.poll(0.02)

    def read_back(self) -> set[int]:
        """All that is in the topic."""
        consumer = Consumer({**self.settings(), "group.id": "carol", "enable.partition.eof": True})
        consumer.assign([TopicPartition(self.topic, each, 0) for each in range(3)])
        found: set[int] = set()
        ended: set[int | None] = set()
        deadline = time.monotonic() + SOON_SECONDS
        while len(ended) < 3:
            assert time.monotonic() < deadline, f"read {len(found)} records, ends of {ended}"
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                ended.add(message.partition())
            else:
                found.add(int(message.value() or b""))
        consumer.close()
        return found

    def longest_pause(self, until: float) -> float:
        """Between two acknowledgements, of those until a moment, in seconds."""
        moments = sorted(moment for moment in self.acknowledged.values() if moment <= until)
        return max(after - before for before, after in pairwise(moments))


def shows(address: str, trusted: str) -> bool:
    """Whether a broker shows a certificate that one of these has signed."""
    context = ssl.create_default_context(cadata=trusted)
    host, _, port = address.rpartition(":")
    try:
        with (
            socket.create_connection((host, int(port)), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True  # that no certificate is shown here is told after the handshake
    except ssl.SSLError:
        return False


CAROL: Object = {
    "apiVersion": "minikafka.dev/v1alpha1",
    "kind": "MiniKafkaUser",
    "metadata": {"name": "carol"},
    "spec": {
        "clusterRef": {"name": "demo"},
        "authentication": {"type": "tls"},
        "authorization": {
            "type": "simple",
            "acls": [
                {
                    "resource": {"type": "topic", "name": "load-", "patternType": "prefix"},
                    "operations": ["Read", "Write"],
                },
                {"resource": {"type": "group", "name": "carol"}, "operations": ["Read"]},
            ],
        },
    },
}
LOAD: Object = {
    "apiVersion": "minikafka.dev/v1alpha1",
    "kind": "MiniKafkaTopic",
    "metadata": {"name": "load-1"},
    "spec": {"clusterRef": {"name": "demo"}, "partitions": 3, "replicationFactor": 3},
}


@pytest.fixture
def prometheus(secured: BrokerCluster, programs: Path) -> Iterator[None]:
    """One that scrapes the secured cluster's metrics."""
    with scraping(programs, secured.kubectl, secured.name, secured=True):
        yield


@pytest.mark.usefixtures("prometheus")
def test_both_authorities_are_renewed_under_load(secured: BrokerCluster, tmp_path: Path) -> None:
    """With the token of metrics. Nothing acknowledged is lost, nothing is refused, no pod is replaced, and Prometheus scrapes on.
    The longest pause is printed."""
    kubectl = secured.kubectl
    kubectl.apply(CAROL, LOAD)
    kubectl("wait", "--for=condition=Ready", "mku/carol", "mkt/load-1", f"--timeout={SOON_SECONDS}s", timeout=400)
    before = {name: secret(kubectl, f"demo-{name}-ca-cert")["ca.crt"] for name in ("cluster", "clients")}
    reader, token = Inside(kubectl, ""), secret(kubectl, "demo-metrics-access")["token"]
    pods = {pod["metadata"]["uid"] for pod in kubectl.objects.list("pod", secured.selector)}
    client = CarefulClient(secured, "carol", "load-1", tmp_path)
    with client.at_work():
        began = time.monotonic()
        for name in before:
            kubectl("annotate", "mkc", "demo", f"minikafka.dev/renew-{name}-ca=1")
        kubectl("annotate", "mkc", "demo", "minikafka.dev/renew-metrics-token=1")

        def now() -> dict[str, str]:
            return {name: secret(kubectl, f"demo-{name}-ca-cert")["ca.crt"] for name in before}

        def is_over(found: dict[str, str]) -> bool:
            return all(text.count("BEGIN CERT") == 1 and text != before[name] for name, text in found.items())

        after = eventually(now, is_over, seconds=RENEWED_SECONDS_MAX, what="both CAs are renewed")
        for address in secured.external().values():
            trusted = after["cluster"]
            what = f"{address} shows a certificate of the new CA"
            eventually(lambda: shows(address, trusted), seconds=SOON_SECONDS, what=what)  # noqa: B023
        renewed = time.monotonic()
        what = "the old token of metrics counts no more"
        eventually(lambda: reader.metrics_status(token), lambda now: now == 401, seconds=SOON_SECONDS, what=what)
        assert reader.metrics_status(secret(kubectl, "demo-metrics-access")["token"]) == 200
        what = "Prometheus scrapes three brokers, with the new token and CA"
        eventually(lambda: ask(kubectl, BROKERS_UP), lambda up: len(up) == 3, seconds=SOON_SECONDS, what=what)
        # Brokers that connect to each other anew do so with what they have now.
        restarts = secured.restarts(0)
        secured.kill_container(0)
        secured.wait_restarted(0, restarts)
        secured.wait_broker_ready(0)
        eventually(
            secured.get,
            lambda found: condition(found, "ReplicationHealthy").get("status") == "True",
            seconds=SOON_SECONDS,
            what="all replicas are in sync again",
        )
        more = len(client.acknowledged) + 100
        eventually(lambda: len(client.acknowledged) > more, seconds=SOON_SECONDS, what="the load goes on")
    assert not client.refused, client.refused[:3]
    assert client.renewals >= 2, "the client had to read its certificates anew"
    assert set(client.acknowledged) <= client.read_back(), "what was acknowledged is there"
    assert {pod["metadata"]["uid"] for pod in kubectl.objects.list("pod", secured.selector)} == pods, "no roll"
    say(
        f"{renewed - began:6.1f} s  both CAs renewed in steps of {GRACE_SECONDS} s; {len(client.acknowledged)} records "
        f"acknowledged, none lost; the longest pause meanwhile: {client.longest_pause(renewed):.2f} s"
    )
