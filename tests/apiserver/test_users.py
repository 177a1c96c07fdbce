"""Users against a real API server: the operator with its permissions, and a broker with what the operator made for it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from minikafka.client.connection import BrokerConnection, NoAnswer
from minikafka.client.security import ClientSecurity
from minikafka.config.properties import parse_properties
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.security.sasl_client import AuthenticationError, Login
from minikafka.security.tls import TlsSettings
from minikafka_kube.names import CERTIFICATES_PATH, REPLICATION_PORT
from minikafka_operator.security.authorities import texts_in

from tests.apiserver.brokers import BrokerProcess
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.operator_process import ACTS_SECONDS_MAX, LOOKS_SECONDS_MAX, Cluster, Operator, token_of
from tests.tokens import Issuer
from tests.waiting import until_now

SECURED: dict[str, Any] = {
    "brokers": {"replicas": 1},
    "replication": {"defaultFactor": 1, "minInsyncReplicas": 1},
    "listeners": {"internal": {"tls": True, "authentication": {"type": "scram-sha-512"}}},
    "authorization": {"type": "simple"},
}
ALICE: dict[str, Any] = {
    "clusterRef": {"name": "c"},
    "authentication": {"type": "scram-sha-512"},
    "authorization": {
        "type": "simple",
        "acls": [
            {"resource": {"type": "topic", "name": "a-", "patternType": "prefix"}, "operations": ["Create", "Write"]}
        ],
    },
}
SETTINGS = ("listener.name.", "listener.security.", "super.users", "authorizer.class.name")
"""What the operator says of security in a broker's file."""


class Secured:
    """A cluster with TLS and logins, and its one broker."""

    def __init__(self, cluster: Cluster, folder: Path, spec: dict[str, Any] = SECURED) -> None:
        self.cluster = cluster
        cluster.create(**spec)
        (pod,) = cluster.make_pods()
        for name, text in self.secret("c-broker-certs").items():
            (folder / name).write_text(text)
        made = parse_properties(cluster.find("configmaps", "c-config")["data"][f"{pod}.properties"])
        more = {k: v.replace(CERTIFICATES_PATH, str(folder)) for k, v in made.items() if k.startswith(SETTINGS)}
        # The operator knows a pod's address, and the port is always the same: so the broker has an address of its own.
        address = f"127.91.{random.randrange(1, 255)}.{random.randrange(1, 255)}"
        names = cluster.names
        self.broker = BrokerProcess(
            0, folder / "broker", cluster.plane.folder / "kubeconfig", names.namespace, names.cluster, more
        )
        listeners = f"CLIENT://127.0.0.1:{self.broker.client},REPLICATION://{address}:{REPLICATION_PORT}"
        with self.broker.file.open("a") as file:
            file.write(f"listeners={listeners}\nadvertised.listeners={listeners}\ndefault.replication.factor=1\n")
            file.write("min.insync.replicas=1\noffsets.topic.replication.factor=1\n")
        self.broker.start()
        self.broker.wait_until_ready()
        cluster.start(pod)
        cluster.tell(pod, podIP=address, podIPs=[{"ip": address}])

    def secret(self, name: str) -> dict[str, str]:
        return texts_in(until_now(lambda: self.cluster.find("secrets", name), seconds=ACTS_SECONDS_MAX))

    def user(self, name: str) -> Any:
        return self.cluster.find("minikafkausers", name)

    def apply(self, name: str, spec: dict[str, Any]) -> None:
        body = {
            "apiVersion": "minikafka.dev/v1alpha1",
            "kind": "MiniKafkaUser",
            "metadata": {"name": name},
            "spec": spec,
        }
        self.cluster.plane.request("POST", self.cluster.url("minikafkausers"), body)

    def wait_for(self, name: str, *wanted: str) -> str:
        """Wait for status and reason of a user's Ready; its message."""

        def seen() -> tuple[str, str, str]:
            for one in (self.user(name).get("status") or {}).get("conditions") or ():
                return one["status"], one["reason"], one["message"]
            return "", "", ""

        return until_now(seen, lambda found: found[:2] == wanted, seconds=LOOKS_SECONDS_MAX)[2]

    def created(self, password: str, topic: str) -> ErrorCode:
        """What alice, with this password, is answered who makes a topic. Raises NoAnswer, AuthenticationError."""
        return self.created_by(Login("SCRAM-SHA-512", "alice", password), topic)

    def created_by(self, login: Login, topic: str) -> ErrorCode:
        """The same of anybody."""
        trusted = self.secret("c-cluster-ca-cert")["ca.crt"]
        tls = TlsSettings(truststore_certificates=trusted, endpoint_identification=False)
        security = ClientSecurity(tls, login)
        with BrokerConnection("127.0.0.1", self.broker.client, 60, security) as connection:
            row = {"name": topic, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
            answer = connection.request(ApiKey.CREATE_TOPICS, 7, {"topics": [row], "timeout": 30_000})
            return ErrorCode(int(answer.topics[0].error_code))

    def lets_in(self, password: str) -> bool:
        try:
            self.created(password, "elsewhere")
        except (NoAnswer, AuthenticationError):
            return False
        return True


def test_a_user_from_kubectl_apply_to_its_end(
    operator: Operator, cluster: Cluster, plane: ControlPlane, tmp_path: Path
) -> None:
    found = Secured(cluster, tmp_path)
    try:
        found.apply("alice", {**ALICE, "quotas": {"controllerMutationRate": 100, "producerByteRate": 1 << 40}})
        assert found.wait_for("alice", "True", "InForce") == "brokers know alice, and all of its ACLs and quotas"
        first = found.secret("alice")["password"]
        assert found.created(first, "a-1") is ErrorCode.NONE
        assert found.created(first, "b-1") is ErrorCode.TOPIC_AUTHORIZATION_FAILED

        namespace = cluster.names.namespace
        table = plane.kubectl("get", "mku", "-n", namespace).stdout.splitlines()
        assert table[0].split() == ["NAME", "CLUSTER", "AUTHENTICATION", "USER", "READY", "REASON", "AGE"]
        assert table[1].split()[:6] == ["alice", "c", "scram-sha-512", "alice", "True", "InForce"]

        plane.kubectl("annotate", "mku", "alice", "-n", namespace, "minikafka.dev/renew=1")
        second = until_now(
            lambda: found.secret("alice")["password"], lambda now: now != first, seconds=LOOKS_SECONDS_MAX
        )
        until_now(lambda: found.lets_in(second), seconds=LOOKS_SECONDS_MAX)
        assert not found.lets_in(first)

        plane.kubectl("delete", "secret", "alice", "-n", namespace)
        until_now(lambda: not found.lets_in(second), seconds=LOOKS_SECONDS_MAX)
        third = found.secret("alice")["password"]
        assert found.created(third, "a-2") is ErrorCode.NONE

        before = found.user("alice")["metadata"]["resourceVersion"]
        operator.look_at(cluster)
        assert found.user("alice")["metadata"]["resourceVersion"] == before, "a settled user is left alone"

        plane.kubectl("delete", "mku", "alice", "-n", namespace, "--wait=false")
        until_now(lambda: found.user("alice"), lambda user: user is None, seconds=LOOKS_SECONDS_MAX)
        assert not found.lets_in(third)
        said = operator.log.read_text()
        assert not [one for one in (first, second, third, "PRIVATE KEY") if one in said]
    finally:
        found.broker.stop()


def test_a_service_account_logs_in_by_its_token(
    operator: Operator, cluster: Cluster, plane: ControlPlane, tmp_path: Path
) -> None:
    """The issuer is Kubernetes itself, as in docs/guide/examples/tokens.yaml; other keys count while the broker runs."""
    namespace, file = cluster.names.namespace, tmp_path / "token"
    keys = {"metadata": {"name": "issuer"}, "data": {"keys.json": json.dumps(plane.request("GET", "/openid/v1/jwks"))}}
    plane.request("POST", cluster.url("configmaps"), keys)
    plane.request("POST", cluster.url("serviceaccounts"), {"metadata": {"name": "alice"}})
    believed = {"type": "oauthbearer", "expectedIssuer": "https://kubernetes.default.svc", "expectedAudience": ["c"]}
    believed["jwksConfigMap"] = {"name": "issuer", "key": "keys.json"}
    found = Secured(
        cluster, tmp_path, {**SECURED, "listeners": {"internal": {"tls": True, "authentication": believed}}}
    )
    try:
        subject = f"system:serviceaccount:{namespace}:alice"
        known = {"userName": subject, "authorization": ALICE["authorization"]}
        found.apply("alice", {"clusterRef": ALICE["clusterRef"], **known})
        assert found.wait_for("alice", "True", "InForce") == f"brokers know {subject}, and all of its ACLs and quotas"

        def created(token: str, topic: str) -> str:
            file.write_text(token)
            try:
                return found.created_by(Login("OAUTHBEARER", token_file=str(file)), topic).name
            except (NoAnswer, AuthenticationError):
                return "refused"

        token = token_of(plane, namespace, "alice", "c")
        assert [created(token, topic) for topic in ("a-1", "b-1")] == ["NONE", "TOPIC_AUTHORIZATION_FAILED"]
        assert created(token_of(plane, namespace, "alice", "another"), "a-2") == "refused"

        issuer = Issuer()
        plane.request("PATCH", cluster.url("configmaps", "issuer"), {"data": {"keys.json": issuer.key_set()}})
        operator.look_at(cluster)
        (tmp_path / "new").write_text(found.secret("c-broker-certs")["internal-jwks.json"])
        (tmp_path / "new").rename(tmp_path / "internal-jwks.json")
        assert created(token, "a-3") == "refused"
        assert created(issuer.token(subject, iss=believed["expectedIssuer"], aud="c"), "a-3") == "NONE"
    finally:
        found.broker.stop()


def test_what_is_refused_and_what_goes_with_its_cluster(cluster: Cluster, plane: ControlPlane) -> None:
    """No broker is there; so a user waits, and goes all the same once its cluster has gone."""
    namespace = cluster.names.namespace
    cluster.create(**SECURED)
    taken = {"metadata": {"name": "taken"}, "data": {"password": "dGhlaXJz"}}
    plane.request("POST", cluster.url("secrets"), taken)
    made = [("waits", ALICE), ("taken", ALICE), ("z-other", {**ALICE, "userName": "waits"})]
    made.append(("tls", {"clusterRef": {"name": "c"}, "authentication": {"type": "tls"}}))
    for name, spec in made:
        body = {
            "apiVersion": "minikafka.dev/v1alpha1",
            "kind": "MiniKafkaUser",
            "metadata": {"name": name},
            "spec": spec,
        }
        plane.request("POST", cluster.url("minikafkausers"), body)
    reasons = {
        "waits": "WaitingForBrokers",
        "taken": "ObjectConflict",
        "z-other": "Duplicate",
        "tls": "AuthenticationDisabled",
    }
    for name, reason in reasons.items():
        until_now(lambda: _reason(cluster, name), lambda found: found == reason, seconds=LOOKS_SECONDS_MAX)  # noqa: B023
    assert cluster.find("secrets", "taken")["data"] == taken["data"]
    assert cluster.find("secrets", "waits")["metadata"]["ownerReferences"][0]["kind"] == "MiniKafkaUser"
    plane.kubectl("delete", "mku", "waits", "-n", namespace, "--wait=false")
    plane.kubectl("delete", "mkc", "c", "-n", namespace, "--wait=false")
    until_now(lambda: cluster.find("minikafkausers", "waits"), lambda user: user is None, seconds=LOOKS_SECONDS_MAX)
    until_now(lambda: _reason(cluster, "tls"), lambda found: found == "ClusterNotFound", seconds=LOOKS_SECONDS_MAX)


def _reason(cluster: Cluster, name: str) -> str:
    status = cluster.find("minikafkausers", name).get("status") or {}
    return str(next(iter(status.get("conditions") or ()), {}).get("reason", ""))
