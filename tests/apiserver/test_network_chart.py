"""The chart of the network agents on a real API server: who may ask them what, and what they may look at.

There are no nodes: a request that is let through ends at a kubelet that is not there. What the agents do is in
tests/integration/test_network_rules.py, and on kind.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from minikafka_chaos.controller.main import parse
from minikafka_chaos.grounds.kubernetes_network import LABELS
from minikafka_chaos.network import command
from minikafka_chaos.network.agent import Ask, NetworkAgent
from minikafka_chaos.network.errors import BadRequest, NotNow
from minikafka_chaos.network.pods import ApiReader
from minikafka_chaos.network.rules import LinkDirection, LinkVerb

from tests.apiserver.charts import check_values, lint, refused, rendered
from tests.apiserver.conftest import make_namespace
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.operator_process import IMAGE, ROOT, apply, token_of
from tests.apiserver.test_chaos_controller import template as controller_template
from tests.apiserver.test_operator_permissions import Client, table
from tests.unit.chaos.network.kernel import Kernel
from tests.waiting import until_now

CHART = ROOT / "charts/minikafka-chaos-network"
PATIENCE = 180.0
NODE = "node-1"
NOBODY, VERBS_ONLY, OWN = "nobody but the chaos controllers", "only its own verbs", "about its own namespace only"
RUNNER = "minikafka-chaos-runner"


def template(namespace: str, *options: str) -> list[dict[str, Any]]:
    """The objects of the chart, as a release of the namespace's name."""
    return rendered(namespace, CHART, namespace, *options)


class Lab:
    """Agents in one namespace for brokers in another (`home`); a third has nothing to do with them."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.agents, self.home, self.elsewhere = (make_namespace(plane) for _ in range(3))
        self._names = itertools.count()
        self._folder = folder
        for namespace in (self.home, self.elsewhere):
            apply(plane, controller_template(namespace, "--set=crds.install=false", "--set=replicas=0", self._known))
        who = f"namespace={self.home},controllers[0].serviceAccountName={self.home}"
        apply(plane, template(self.agents, f"--set=namespaces={{{self.home}}}", f"--set=controllers[0].{who}"))
        self._pod(self.agents, "network-agent", "other")
        self._pod(self.home, "chaos-agent", "network-agent")

    def _pod(self, namespace: str, *containers: str) -> None:
        spec = {"nodeName": NODE, "containers": [{"name": name, "image": IMAGE} for name in containers]}
        account = self.agents if namespace == self.agents else RUNNER
        body = {"metadata": {"name": "agent"}, "spec": {**spec, "serviceAccountName": account}}
        self.plane.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)

    @property
    def _known(self) -> str:
        return f"--set=network.namespace={self.agents}"

    def client(self, namespace: str, account: str) -> Client:
        folder = self._folder / f"client-{next(self._names)}"
        folder.mkdir()
        return Client(self.plane, token_of(self.plane, namespace, account), folder)

    def exec(self, client: Client, *words: str, container: str = "network-agent") -> str:
        """What is said of running this in the agent."""
        return client.kubectl("-n", self.agents, "exec", "agent", "-c", container, "--", *words)

    def ask(self, verb: str, *words: str) -> list[str]:
        return [command.parser().prog, verb, *words]

    def cluster(self, allowed: bool) -> str:
        """A cluster with a StatefulSet and a pod, as the operator makes them; the pod's uid."""
        api = f"/apis/minikafka.dev/v1alpha1/namespaces/{self.home}/minikafkaclusters"
        body = {"apiVersion": "minikafka.dev/v1alpha1", "kind": "MiniKafkaCluster", "metadata": {"name": "shop"}}
        made = self.plane.request("POST", api, {**body, "spec": {"chaos": {"allowed": allowed}}})
        labels = {"app": "shop"}
        spec = {
            "serviceName": "x",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "broker", "image": IMAGE}]}},
        }
        metadata = {"name": "shop-broker", "ownerReferences": [_owner(made)]}
        sets = f"/apis/apps/v1/namespaces/{self.home}/statefulsets"
        stateful_set = self.plane.request("POST", sets, {"metadata": metadata, "spec": spec})
        ports = [{"name": "client", "containerPort": 9092}]
        pod_spec = {"nodeName": NODE, "containers": [{"name": "broker", "image": IMAGE, "ports": ports}]}
        metadata = {"name": "shop-broker-0", "labels": labels, "ownerReferences": [_owner(stateful_set)]}
        pods = f"/api/v1/namespaces/{self.home}/pods"
        pod = self.plane.request("POST", pods, {"metadata": metadata, "spec": pod_spec})
        status = {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}, {"ip": "fd00::3"}]}
        self.plane.request("PATCH", f"{pods}/shop-broker-0/status", {"status": status})
        return str(pod["metadata"]["uid"])


def _owner(thing: dict[str, Any]) -> dict[str, Any]:
    metadata = thing["metadata"]
    return {
        "apiVersion": thing["apiVersion"],
        "kind": thing["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


@pytest.fixture(scope="module")
def lab(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    made = Lab(plane, tmp_path_factory.mktemp("network"))
    client = made.client(made.home, RUNNER)
    until_now(lambda: made.exec(client, "true"), lambda said: VERBS_ONLY in said, seconds=PATIENCE)
    return made


class TestWhoMayAsk:
    """Whoever may run any command in an agent is root on its node."""

    def let_through(self, said: str) -> bool:
        """To a kubelet that is not there."""
        return bool(said) and not any(reason in said for reason in ("denied", "forbidden", "Forbidden"))

    def test_the_runner_about_its_own_namespace(self, lab: Lab) -> None:
        client = lab.client(lab.home, RUNNER)
        assert self.let_through(lab.exec(client, *lab.ask("cut", lab.home, "--pod", "p")))
        assert OWN in lab.exec(client, *lab.ask("cut", lab.elsewhere, "--pod", "p"))
        assert OWN in lab.exec(client, *lab.ask("cut", "--pod", lab.home))

    def test_the_controller_about_all(self, lab: Lab) -> None:
        client = lab.client(lab.home, lab.home)
        assert self.let_through(lab.exec(client, *lab.ask("recover", lab.home)))
        assert self.let_through(lab.exec(client, *lab.ask("recover", "any")))

    @pytest.mark.parametrize("account", ["controller", "runner"])
    @pytest.mark.parametrize(
        "words",
        [
            ["sh", "-c", "id"],
            ["minikafka-network", "serve", "x"],
            ["minikafka-network", "recover"],
            ["sh", "recover", "x"],
            ["minikafka-networks", "recover", "x"],
        ],
        ids=" ".join,
    )
    def test_nothing_else(self, lab: Lab, account: str, words: list[str]) -> None:
        client = lab.client(lab.home, lab.home if account == "controller" else RUNNER)
        assert VERBS_ONLY in lab.exec(client, *words)

    def test_no_other_container_and_no_attaching(self, lab: Lab) -> None:
        client = lab.client(lab.home, lab.home)
        said = lab.exec(client, *lab.ask("recover", lab.home), container="other")
        assert "denied" in said
        said = client.kubectl("-n", lab.agents, "attach", "agent", "-c", "network-agent")
        assert "forbidden" in said or VERBS_ONLY in said

    @pytest.mark.parametrize("account", ["controller", "runner"])
    def test_not_those_of_another_namespace(self, lab: Lab, account: str) -> None:
        client = lab.client(lab.elsewhere, lab.elsewhere if account == "controller" else RUNNER)
        said = lab.exec(client, *lab.ask("recover", lab.home))
        assert "forbidden" in said, "no role at all"

    def test_not_a_stranger_whose_role_is_wide(self, lab: Lab) -> None:
        """RBAC would let them in."""
        name = f"stranger-{lab.agents}"
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": lab.elsewhere}
        made = [
            {**account, "metadata": {"name": name, "namespace": lab.elsewhere}},
            {**binding, "metadata": {"name": name}, "roleRef": role, "subjects": [subject]},
        ]
        apply(lab.plane, made)
        client = lab.client(lab.elsewhere, name)
        assert NOBODY in lab.exec(client, *lab.ask("recover", lab.home))
        assert NOBODY in lab.exec(client, "sh")
        assert NOBODY in client.kubectl("-n", lab.agents, "attach", "agent", "-c", "network-agent")
        patch = {"spec": {"ephemeralContainers": [{"name": "mine", "image": IMAGE}]}}
        words = ["--subresource=ephemeralcontainers", "--type=strategic", "-p", json.dumps(patch)]
        assert NOBODY in client.kubectl("-n", lab.agents, "patch", "pod", "agent", *words)

    def test_other_namespaces_are_not_its_business(self, lab: Lab) -> None:
        client = lab.client(lab.home, RUNNER)
        assert self.let_through(
            client.kubectl("-n", lab.home, "exec", "agent", "-c", "chaos-agent", "--", "minikafka", "agent", "state")
        )

    def test_the_controllers_policy_knows_of_it(self, lab: Lab) -> None:
        """It allows the container network-agent there and nowhere else."""
        client = lab.client(lab.home, RUNNER)
        said = client.kubectl("-n", lab.home, "exec", "agent", "-c", "network-agent", "--", "true")
        assert "containers chaos-agent and network-agent only" in said


class TestWhatItMayLookAt:
    @pytest.fixture
    def agent(self, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NetworkAgent:
        """With the rights of the chart, at the real API server; the kernel is played."""
        monkeypatch.setenv("KUBECONFIG", str(lab.client(lab.agents, lab.agents).file))
        kernel = Kernel([])
        return NetworkAgent(NODE, tmp_path, kernel, kernel.entered, ApiReader())

    def test_all_that_it_needs_and_no_more(self, lab: Lab) -> None:
        user = f"{lab.agents}:{lab.agents}"
        may = [("get", "pods"), ("get", "statefulsets.apps"), ("get", "minikafkaclusters.minikafka.dev")]
        assert set(table(lab.plane, user, lab.home, may).values()) == {True}
        never = [("list", "pods"), ("create", "pods:exec"), ("get", "secrets"), ("patch", "pods"), ("delete", "pods")]
        assert not any(table(lab.plane, user, lab.home, never).values())
        for namespace in (lab.elsewhere, lab.agents):
            assert not any(table(lab.plane, user, namespace, [*may, *never]).values())

    def test_a_cluster_that_forbids_chaos_and_one_that_allows_it(self, lab: Lab, agent: NetworkAgent) -> None:
        uid = lab.cluster(allowed=False)
        kernel = agent.nft
        assert isinstance(kernel, Kernel)
        kernel.uids, kernel.pods = [uid], {uid: {}}
        ask = Ask(lab.home, "shop-broker-0", uid)

        def cut() -> dict[str, Any]:
            return agent.make(ask, "f", LinkVerb.CUT, 60, peers=[], clients=True, direction=LinkDirection.BOTH)

        with pytest.raises(BadRequest, match="MiniKafkaCluster shop does not allow chaos"):
            cut()
        path = f"/apis/minikafka.dev/v1alpha1/namespaces/{lab.home}/minikafkaclusters/shop"
        lab.plane.request("PATCH", path, {"spec": {"chaos": {"allowed": True}}})
        assert cut()["peers"] == ["clients"]
        assert agent.recover(ask)["recovered"] == ["f"]

    def test_a_namespace_that_was_not_named(self, lab: Lab, agent: NetworkAgent) -> None:
        with pytest.raises(NotNow, match="the API server: 403"):
            agent.state(Ask(lab.elsewhere, "shop-broker-0", "u"))


class TestChart:
    OPTIONS = ("--set=namespaces={a,b}", "--set=controllers[0].namespace=ops,controllers[0].serviceAccountName=chaos")

    def test_lint(self) -> None:
        lint(CHART, "--set=namespaces={a}")

    def test_every_value_is_documented_and_in_the_schema(self) -> None:
        check_values(CHART)

    @pytest.mark.parametrize(
        ("value", "says"),
        [
            ("image.tag=", "namespaces: needed"),
            ("namespaces={A}", "namespaces"),
            ("namespaces={default}", "is the release's own"),
            ("controllers[0].namespace=x", "serviceAccountName"),
            ("users[0]=", "users"),
        ],
    )
    def test_what_is_refused(self, value: str, says: str) -> None:
        assert says in refused("net", CHART, value)

    def test_no_more_privileges_than_it_needs(self) -> None:
        (daemons,) = (one for one in template("net", *self.OPTIONS) if one["kind"] == "DaemonSet")
        pod = daemons["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        security = container["securityContext"]
        assert security["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN", "SYS_ADMIN", "SYS_PTRACE"]}
        assert (security["privileged"], security["readOnlyRootFilesystem"]) == (False, True)
        assert pod["hostPID"] is True
        assert not {"hostNetwork", "hostIPC"} & set(pod)
        assert [set(volume) - {"name"} for volume in pod["volumes"]] == [{"emptyDir"}], "nothing of the node's"

    def test_roles_where_the_brokers_are_and_nothing_for_the_whole_cluster(self) -> None:
        made = template("net", *self.OPTIONS)
        roles = sorted((one["metadata"]["namespace"], one["metadata"]["name"]) for one in made if one["kind"] == "Role")
        assert roles == [("a", "net"), ("b", "net"), ("net", "net-callers")]
        assert not [one for one in made if one["kind"].startswith("ClusterRole")]

    def test_the_controller_is_told_where_they_are(self) -> None:
        (deployment,) = (
            one for one in controller_template("op", "--set=network.namespace=net") if one["kind"] == "Deployment"
        )
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert parse([*container["args"], "--runner-image=x"]).jobs.network == "net"

    def test_it_is_found_by_what_the_controller_looks_for(self) -> None:
        (daemons,) = (one for one in template("net", *self.OPTIONS) if one["kind"] == "DaemonSet")
        pod = daemons["spec"]["template"]
        name, _, value = LABELS.partition("=")
        assert pod["metadata"]["labels"][name] == value
        assert pod["spec"]["containers"][0]["name"] == "network-agent"
        assert {each["name"] for each in pod["spec"]["containers"][0]["env"]} == {command.NODE_VARIABLE}
