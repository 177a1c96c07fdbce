"""What the operator and the brokers may do, asked of a real API server: RBAC as tables, and what admission adds (B10)."""

from __future__ import annotations

import json
import urllib.error
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.charts import rendered
from tests.apiserver.conftest import CLUSTER, make_namespace
from tests.apiserver.control_plane import ADMIN_TOKEN, ControlPlane
from tests.apiserver.operator_process import ROOT, apply, token_of
from tests.apiserver.test_permissions import broker_token
from tests.waiting import until_now

CHART = ROOT / "charts/minikafka-operator"
OURS = {"app.kubernetes.io/managed-by": "minikafka-operator", "minikafka.dev/cluster": "c"}
WRITTEN = [
    "configmaps",
    "secrets",
    "services",
    "serviceaccounts",
    "pods",
    "persistentvolumeclaims",
    "statefulsets.apps",
    "poddisruptionbudgets.policy",
    "networkpolicies.networking.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "leases.coordination.k8s.io",
    "minikafkatopics.minikafka.dev",
]
NEVER = [
    ("deletecollection", "secrets"),
    ("create", "minikafkausers.minikafka.dev"),
    ("delete", "minikafkausers.minikafka.dev"),
    ("create", "pods"),
    ("create", "pods:exec"),
    ("create", "persistentvolumeclaims"),
    ("delete", "minikafkaclusters.minikafka.dev"),
    ("create", "deployments.apps"),
    ("impersonate", "serviceaccounts"),
    ("escalate", "roles.rbac.authorization.k8s.io"),
    ("bind", "roles.rbac.authorization.k8s.io"),
    ("deletecollection", "pods"),
]
ONLY_CLUSTER_WIDE = [
    ("delete", "namespaces"),
    ("create", "clusterroles.rbac.authorization.k8s.io"),
    ("delete", "nodes"),
    ("patch", "nodes"),
    ("delete", "persistentvolumes"),
    ("patch", "customresourcedefinitions.apiextensions.k8s.io"),
    ("patch", "validatingadmissionpolicies.admissionregistration.k8s.io"),
]


def install(plane: ControlPlane, namespace: str, *options: str) -> str:
    """The chart without its CRDs, as a release of its own; the operator's account."""
    name = f"op-{namespace}"
    apply(plane, rendered(name, CHART, namespace, "--set=crds.install=false", *options))
    return name


def may(plane: ControlPlane, account: str, namespace: str, verb: str, what: str) -> bool:
    """The question that ``kubectl auth can-i VERB WHAT -n NAMESPACE --as=ACCOUNT`` asks.

    ``what`` is RESOURCE[.GROUP][:SUBRESOURCE][/NAME], the account NAMESPACE:NAME.
    """
    kind, _, name = what.partition("/")
    kind, _, subresource = kind.partition(":")
    resource, _, group = kind.partition(".")
    asked = {"namespace": namespace, "verb": verb, "group": group, "resource": resource}
    asked |= {"name": name, "subresource": subresource}
    owner, _, _ = account.partition(":")
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{owner}", "system:authenticated"]
    spec = {"user": f"system:serviceaccount:{account}", "groups": groups, "resourceAttributes": asked}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = plane.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def table(plane: ControlPlane, account: str, namespace: str, questions: list[tuple[str, str]]) -> dict[str, bool]:
    """Each question with its answer."""
    return {f"{verb} {what}": may(plane, account, namespace, verb, what) for verb, what in questions}


@pytest.fixture(scope="module")
def where(plane: ControlPlane) -> tuple[str, str]:
    """The namespace of a release with default values, and the operator's account."""
    namespace = make_namespace(plane)
    return namespace, f"{namespace}:{install(plane, namespace)}"


@pytest.fixture(scope="module")
def everywhere(plane: ControlPlane) -> tuple[str, str]:
    """The same, with ``watch.allNamespaces``."""
    namespace = make_namespace(plane)
    return namespace, f"{namespace}:{install(plane, namespace, '--set=watch.allNamespaces=true')}"


class TestOneNamespace:
    """The chart with its default values."""

    def test_what_it_may_where_its_clusters_are(self, plane: ControlPlane, where: tuple[str, str]) -> None:
        namespace, account = where
        questions = [(verb, what) for what in WRITTEN for verb in ("get", "delete")]
        questions += [("create", "statefulsets.apps"), ("patch", "minikafkaclusters.minikafka.dev:status")]
        questions += [("create", "pods:eviction"), ("create", "leases.coordination.k8s.io")]
        assert set(table(plane, account, namespace, questions).values()) == {True}

    def test_what_it_may_nowhere(self, plane: ControlPlane, where: tuple[str, str]) -> None:
        namespace, account = where
        told = table(plane, account, namespace, [*NEVER, *ONLY_CLUSTER_WIDE])
        assert not [question for question, answer in told.items() if answer]

    @pytest.mark.parametrize("elsewhere", ["kube-system", "default"])
    def test_elsewhere_it_may_nothing(self, plane: ControlPlane, where: tuple[str, str], elsewhere: str) -> None:
        """CoreDNS's settings, for one, are out of its reach."""
        questions = [(verb, what) for what in WRITTEN for verb in ("get", "patch", "delete")]
        told = table(plane, where[1], elsewhere, questions)
        assert not [question for question, answer in told.items() if answer]


class TestAllNamespaces:
    """``watch.allNamespaces``: RBAC lets it do everywhere what it may do where clusters are, and no more than that."""

    def test_everywhere(self, plane: ControlPlane, everywhere: tuple[str, str]) -> None:
        told = table(plane, everywhere[1], "kube-system", [("delete", what) for what in WRITTEN])
        assert set(told.values()) == {True}

    def test_what_it_may_nowhere(self, plane: ControlPlane, everywhere: tuple[str, str]) -> None:
        told = table(plane, everywhere[1], "kube-system", [*NEVER, *ONLY_CLUSTER_WIDE])
        assert not [question for question, answer in told.items() if answer]


class Client:
    """Requests with somebody's token."""

    def __init__(self, plane: ControlPlane, token: str, folder: Path) -> None:
        self.plane = plane
        self.file = folder / "kubeconfig"
        self.file.write_text(json.dumps(plane.kubeconfig(token)))

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """What it says on standard error; empty: done."""
        done = self.plane.kubectl("--kubeconfig", str(self.file), *arguments, stdin=stdin)
        return "" if done.returncode == 0 else done.stderr

    def create(self, namespace: str, document: dict[str, Any]) -> str:
        return self.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(document))


REFUSED = "may write only objects with its labels"


@pytest.fixture(scope="module")
def operator(plane: ControlPlane, everywhere: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Client:
    """The operator for all namespaces; admission knows its policy by now."""
    namespace, _, name = everywhere[1].partition(":")
    client = Client(plane, token_of(plane, namespace, name), tmp_path_factory.mktemp("operator"))
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}}
    until_now(lambda: client.create(namespace, body), lambda said: REFUSED in said)
    return client


class TestAdmissionOfTheOperator:
    """With the widest permissions it still cannot touch what is not labelled as a MiniKafka cluster's."""

    @pytest.fixture
    def theirs(self, plane: ControlPlane, namespace: str) -> str:
        """A ConfigMap and a claim of somebody else; its namespace."""
        config_map = {"metadata": {"name": "coredns"}, "data": {"Corefile": "."}}
        plane.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", config_map)
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"metadata": {"name": "theirs"}, "spec": spec}
        plane.request("POST", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", claim)
        return namespace

    @pytest.mark.parametrize(
        "command",
        [
            ("delete", "configmap", "coredns"),
            ("patch", "configmap", "coredns", "--type=merge", '-p={"data":{"Corefile":"broken"}}'),
            (
                "label",
                "configmap",
                "coredns",
                "minikafka.dev/cluster=c",
                "app.kubernetes.io/managed-by=minikafka-operator",
            ),
            ("delete", "pvc", "theirs", "--wait=false"),
        ],
        ids=" ".join,
    )
    def test_what_is_somebody_elses(self, operator: Client, theirs: str, command: tuple[str, ...]) -> None:
        assert REFUSED in operator.kubectl("-n", theirs, *command)

    def test_what_is_a_clusters(self, operator: Client, namespace: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c-config", "labels": OURS}}
        assert operator.create(namespace, body) == ""
        assert (
            operator.kubectl("-n", namespace, "patch", "configmap", "c-config", "--type=merge", '-p={"data":{"a":"b"}}')
            == ""
        )
        assert operator.kubectl("-n", namespace, "delete", "configmap", "c-config") == ""

    def test_others_are_not_asked(self, plane: ControlPlane, operator: Client, theirs: str) -> None:
        del operator
        assert plane.kubectl("-n", theirs, "delete", "configmap", "coredns").returncode == 0


class TestAdmissionOfBrokers:
    """Brokers of two clusters in one namespace: each has its own topics, and no Role could say so."""

    @pytest.fixture
    def broker(self, plane: ControlPlane, where: tuple[str, str], namespace: str, tmp_path: Path) -> Client:
        """A broker of cluster c; the policy came with the operator, wherever that is."""
        del where
        client = Client(plane, broker_token(plane, namespace), tmp_path)
        probe = self.topic("probe", "other")
        until_now(lambda: client.create(namespace, probe), lambda said: "own cluster" in said)
        return client

    @staticmethod
    def topic(name: str, cluster: str) -> dict[str, Any]:
        spec = {"clusterRef": {"name": cluster}}
        return {
            "apiVersion": "minikafka.dev/v1alpha1",
            "kind": "MiniKafkaTopic",
            "metadata": {"name": name},
            "spec": spec,
        }

    def test_another_clusters_topics(self, plane: ControlPlane, namespace: str, broker: Client) -> None:
        path = f"/apis/minikafka.dev/v1alpha1/namespaces/{namespace}/minikafkatopics"
        plane.request("POST", path, self.topic("theirs", "other"))
        before = plane.find(f"{path}/theirs")
        says = "brokers may write only topics of their own cluster, and this one is of other"
        assert says in broker.create(namespace, self.topic("new", "other"))
        assert says in broker.kubectl("-n", namespace, "delete", "mkt", "theirs")
        assert says in broker.kubectl("-n", namespace, "label", "mkt", "theirs", "a=b")
        status = '-p={"status":{"topicId":"x"}}'
        patched = broker.kubectl(
            "-n", namespace, "patch", "mkt", "theirs", "--subresource=status", "--type=merge", status
        )
        assert says in patched or "cannot patch resource" in patched
        put = json.dumps({**before, "status": {"topicId": "x"}})
        replaced = broker.kubectl("-n", namespace, "replace", "--subresource=status", "-f", "-", stdin=put)
        assert says in replaced
        assert plane.find(f"{path}/theirs") == before

    def test_its_own_topics(self, namespace: str, broker: Client) -> None:
        assert broker.create(namespace, self.topic("mine", CLUSTER)) == ""
        assert broker.kubectl("-n", namespace, "label", "mkt", "mine", "a=b") == ""
        assert broker.kubectl("-n", namespace, "delete", "mkt", "mine") == ""

    def test_in_another_namespace(self, plane: ControlPlane, broker: Client) -> None:
        """RBAC refuses already."""
        assert "forbidden" in broker.create(make_namespace(plane), self.topic("mine", CLUSTER))

    def test_the_table_of_its_role(self, plane: ControlPlane, namespace: str, broker: Client) -> None:
        del broker
        account = f"{namespace}:{CLUSTER}-broker"
        allowed = [
            ("create", "configmaps"),
            ("update", f"configmaps/{CLUSTER}-metadata"),
            ("update", f"leases.coordination.k8s.io/{CLUSTER}-controller"),
            ("delete", "minikafkatopics.minikafka.dev"),
        ]
        refused = [
            ("delete", f"configmaps/{CLUSTER}-metadata"),
            ("update", "configmaps/other-metadata"),
            ("update", f"configmaps/{CLUSTER}-config"),
            ("update", "leases.coordination.k8s.io/other-controller"),
            ("get", "secrets"),
            ("get", "pods"),
            ("delete", "persistentvolumeclaims"),
            ("get", "minikafkaclusters.minikafka.dev"),
        ]
        told = table(plane, account, namespace, [*allowed, *refused])
        assert [question for question, answer in told.items() if answer] == [f"{verb} {what}" for verb, what in allowed]


def test_the_administrator_of_these_tests_may_all(plane: ControlPlane, namespace: str) -> None:
    """Or the answers above would prove nothing."""
    assert ADMIN_TOKEN
    with pytest.raises(urllib.error.HTTPError, match="404"):
        plane.request("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/nobody")
    assert plane.kubectl("auth", "can-i", "*", "*", "-n", namespace).stdout.strip() == "yes"
