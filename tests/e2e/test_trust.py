"""Who may do what, asked of kind's API server as a person would; and a roll that trusts no status that nobody keeps (B9, B10).

The whole tables are asked of a bare API server in `tests/apiserver/test_operator_permissions.py`.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.broker_cluster import SMALL, BrokerCluster
from tests.e2e.kubectl import Kubectl, KubectlError, condition, eventually
from tests.e2e.machine import say
from tests.e2e.objects import Object

pytestmark = pytest.mark.full

FROZEN = "frozen by a test"
TOLD_SECONDS_MAX = 360
STANDS_SECONDS = 20
"""The audit saw the second broker replaced after 5 s, the third after 10."""
ROLL_SECONDS_MAX = 900

OPERATOR = {
    "get statefulsets.apps": True,
    "patch minikafkaclusters.minikafka.dev/status": True,
    "create pods/eviction": True,
    "get secrets": True,
    "deletecollection secrets": False,
    "create pods": False,
    "create pods/exec": False,
    "create deployments.apps": False,
    "delete minikafkaclusters.minikafka.dev": False,
    "bind roles.rbac.authorization.k8s.io": False,
    "impersonate serviceaccounts": False,
    "delete nodes": False,
    "delete namespaces": False,
}
BROKER = {
    "update configmaps/{name}-metadata": True,
    "update leases.coordination.k8s.io/{name}-controller": True,
    "delete minikafkatopics.minikafka.dev": True,
    "delete configmaps/{name}-metadata": False,
    "update configmaps/other-metadata": False,
    "update leases.coordination.k8s.io/other-controller": False,
    "get secrets": False,
    "get pods": False,
    "delete persistentvolumeclaims": False,
    "get minikafkaclusters.minikafka.dev": False,
}


def answers(kubectl: Kubectl, account: str, questions: Mapping[str, bool]) -> dict[str, bool]:
    """``kubectl auth can-i VERB WHAT --as ACCOUNT`` for each question."""
    told = {}
    for question in questions:
        verb, what = question.split()
        resource, _, sub = what.partition("/")
        # A slash is a name, a subresource is an option.
        arguments = [resource, f"--subresource={sub}"] if sub in ("status", "eviction", "exec") else [what]
        command = kubectl.command("auth", "can-i", verb, *arguments, "--as", account)
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOLD_SECONDS_MAX, check=False)
        answer = done.stdout.strip()
        assert answer in ("yes", "no"), f"{question}: {done.stderr}"
        told[question] = answer == "yes"
    return told


def test_tables_of_can_i(operator: Kubectl, namespace: Kubectl, broker_cluster: Callable[[str], BrokerCluster]) -> None:
    """And CoreDNS's settings are refused to the operator by admission, for all that RBAC lets it do in any namespace."""
    (deployment,) = operator.objects.list("deployment")
    its = f"system:serviceaccount:{operator.namespace}:{deployment['spec']['template']['spec']['serviceAccountName']}"
    assert answers(namespace, its, OPERATOR) == OPERATOR
    system = namespace.within("kube-system")
    before = system.objects.there("configmap", "coredns")["data"]
    with pytest.raises(KubectlError, match=r"may write only objects with its labels|forbidden"):
        system.patch("configmap", "coredns", {"data": {"Corefile": "."}}, "--as", its)
    assert system.objects.there("configmap", "coredns")["data"] == before

    cluster = broker_cluster("trusted")
    one = {"brokers": {"replicas": 1}, "replication": {"defaultFactor": 1, "minInsyncReplicas": 1}}
    namespace.apply(cluster.manifest({**one, "storage": {"deleteClaim": True}}))
    eventually(
        lambda: namespace.objects.get("role", "trusted-broker"),
        seconds=TOLD_SECONDS_MAX,
        what="the brokers have a Role",
    )
    expected = {question.format(name="trusted"): answer for question, answer in BROKER.items()}
    account = f"system:serviceaccount:{namespace.namespace}:trusted-broker"

    def bound() -> dict[str, bool]:
        return answers(namespace, account, expected)

    eventually(bound, lambda told: told == expected, seconds=TOLD_SECONDS_MAX, what="the table of the brokers' Role")


@contextmanager
def silenced(kubectl: Kubectl, cluster: BrokerCluster) -> Iterator[None]:
    """No broker may write anything: no Lease is renewed, and every status stays what it is."""
    name = f"frozen-{kubectl.namespace}"
    account = f"system:serviceaccount:{kubectl.namespace}:{cluster.name}-broker"
    policy: Object = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": kubectl.namespace}},
                "resourceRules": [
                    {
                        "apiGroups": ["", "coordination.k8s.io", "minikafka.dev"],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE", "DELETE"],
                        "resources": ["configmaps", "leases", "minikafkatopics", "minikafkatopics/status"],
                    }
                ],
            },
            "validations": [{"expression": f"request.userInfo.username != '{account}'", "message": FROZEN}],
        },
    }
    binding: dict[str, Any] = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }

    def says() -> str:
        lease = kubectl.objects.there("lease", f"{cluster.name}-controller")
        try:
            kubectl("replace", "--dry-run=server", "--filename", "-", "--as", account, stdin=json.dumps(lease))
        except KubectlError as error:
            return str(error)
        return ""

    try:
        kubectl.apply(policy, binding)
        eventually(says, lambda said: FROZEN in said, seconds=TOLD_SECONDS_MAX, what="brokers are refused")
        _wait_for_silence(kubectl, f"{cluster.name}-controller")
        yield
    finally:
        kubectl.delete("validatingadmissionpolicybinding", name)
        kubectl.delete("validatingadmissionpolicy", name)


def _wait_for_silence(kubectl: Kubectl, lease: str) -> None:
    """Until the Lease has not been renewed for as long as it is valid: before that it counts as alive, and rightly so."""
    seen, since = "", time.monotonic()

    def silent() -> bool:
        nonlocal seen, since
        spec = kubectl.objects.there("lease", lease)["spec"]
        if spec["renewTime"] != seen:
            seen, since = spec["renewTime"], time.monotonic()
        return time.monotonic() - since > spec["leaseDurationSeconds"] + 1

    eventually(silent, seconds=TOLD_SECONDS_MAX, what=f"nobody renews {lease}")


def test_frozen_statuses_stop_a_roll(broker_cluster: Callable[[str], BrokerCluster], namespace: Kubectl) -> None:
    """Every status shows a full ISR, but nobody has kept them up to date since the controller fell silent."""
    cluster = broker_cluster("frozen")
    cluster.up(
        {
            "brokers": {"replicas": 3, "resources": SMALL},
            "replication": {"defaultFactor": 3, "minInsyncReplicas": 2},
            "storage": {"size": "100Mi", "deleteClaim": True},
        }
    )

    def uids() -> dict[str, str]:
        found = namespace.objects.list("pod", cluster.selector)
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}

    before = uids()
    with silenced(namespace, cluster):
        namespace.patch("mkc", "frozen", {"spec": {"config": {"num.partitions": "7"}}})
        found = eventually(
            cluster.get,
            lambda seen: condition(seen, "RolloutBlocked").get("reason") == "ControllerAway",
            seconds=TOLD_SECONDS_MAX,
            what="the roll is blocked",
        )
        began = time.monotonic()
        while time.monotonic() - began < STANDS_SECONDS:
            assert uids() == before, "no broker is replaced by what statuses said before"
            time.sleep(1)
        say(f"frozen statuses: {condition(found, 'RolloutBlocked')['message']}; no pod replaced in {STANDS_SECONDS} s")
    eventually(
        uids,
        lambda seen: set(seen.values()).isdisjoint(before.values()) and len(seen) == 3,
        seconds=ROLL_SECONDS_MAX,
        what="with a controller again the roll goes on to its end",
    )
