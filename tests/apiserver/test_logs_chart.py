"""The chart of the log collector: well-formed, checked, taken by a real API server, with no more rights than it needs."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from minikafka import __version__
from minikafka_kube.names import CONTAINER

from tests.apiserver.charts import check_values, lint, refused, rendered
from tests.apiserver.conftest import make_namespace
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.operator_process import ROOT

CHART = ROOT / "charts/minikafka-logs"


def template(namespace: str = "lab", *options: str) -> list[dict[str, Any]]:
    """The objects of the chart, as a release called logs."""
    return rendered("logs", CHART, namespace, *options)


def of_kind(documents: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [document for document in documents if document["kind"] == kind]
    return found


def agent_configuration(*options: str) -> str:
    (found,) = [
        document["data"]["rsyslog.conf"]
        for document in template("lab", *options)
        if document["kind"] == "ConfigMap" and document["metadata"]["name"] == "logs-agents"
    ]
    return str(found)


def test_lint() -> None:
    lint(CHART)


def test_every_value_is_documented_and_in_the_schema() -> None:
    check_values(CHART)
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    for name in ("image", "agents", "store"):
        assert set(values[name]) == set(schema["properties"][name]["properties"]), name


def test_versions_agree() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("namespaces={Lab_1}", "namespaces"),
        ("containers=null", "containers"),
        ("containers={}", "containers"),
        ("containers={a/../b}", "containers"),
        ("agents.logs=var/log", "logs"),
        ('agents.logs=/var/log"', "logs"),
        ("agents.namespace=*", "namespace"),
        ("store.claim=", "claim"),
        ("store.size=lots", "size"),
        ("store.accessMode=ReadOnlyMany", "accessMode"),
        ("networkPolicy=maybe", "networkPolicy"),
        ("agent.logs=/x", "agent"),
    ],
)
def test_bad_values_are_named(value: str, says: str) -> None:
    assert says in refused("logs", CHART, value)


def test_what_is_read() -> None:
    """The containers that the operator calls brokers, in the release's namespace; or what is chosen."""
    assert f'file="/var/log/pods/lab_*/{CONTAINER}/*.log"' in agent_configuration()
    chosen = agent_configuration("--set=namespaces={a,b},containers={broker,chaos-agent}")
    for folder in ("a_*/broker", "a_*/chaos-agent", "b_*/broker", "b_*/chaos-agent"):
        assert f'file="/var/log/pods/{folder}/*.log"' in chosen
    assert chosen.count("input(") == 4 and "lab_" not in chosen


def test_agents_see_logs_and_nothing_else_of_their_node() -> None:
    """As root, for the logs are root's; without any capability, and unable to change what they see."""
    spec = of_kind(template(), "DaemonSet")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    of_node = [volume["name"] for volume in spec["volumes"] if "hostPath" in volume]
    assert of_node == ["logs"]
    (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "logs"]
    assert mount["readOnly"] is True
    assert spec["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)


def test_changed_settings_reach_the_pods() -> None:
    """A ConfigMap alone would be read by the next process only."""

    def checksums(*options: str) -> list[str]:
        found = [document for document in template("lab", *options) if document["kind"] in ("DaemonSet", "Deployment")]
        return [each["spec"]["template"]["metadata"]["annotations"]["checksum/config"] for each in found]

    before, after = checksums(), checksums("--set=namespaces={a}")
    assert [old == new for old, new in zip(before, after, strict=True)].count(False) == 1


def test_the_claim_outlives_the_release() -> None:
    claim = of_kind(template(), "PersistentVolumeClaim")
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert not [each for each in template("lab", "--set=store.create=false") if each["kind"] == "PersistentVolumeClaim"]


def test_only_agents_reach_the_store() -> None:
    documents = template("lab", "--set=agents.namespace=lab-agents")
    policy = of_kind(documents, "NetworkPolicy")["spec"]
    agents = of_kind(documents, "DaemonSet")
    ((rule,),) = (policy["ingress"],)
    ((peer,),) = (rule["from"],)
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "lab-agents"}
    assert agents["metadata"]["namespace"] == "lab-agents"
    assert peer["podSelector"]["matchLabels"].items() <= agents["spec"]["template"]["metadata"]["labels"].items()
    store = of_kind(documents, "Deployment")["spec"]["template"]
    assert policy["podSelector"]["matchLabels"].items() <= store["metadata"]["labels"].items()
    assert not policy["podSelector"]["matchLabels"].items() <= agents["spec"]["template"]["metadata"]["labels"].items()


def test_a_real_api_server_takes_it(plane: ControlPlane) -> None:
    """The store satisfies the restricted Pod Security Standard; the agents need a namespace that is privileged, and say so."""
    home, agents = make_namespace(plane), make_namespace(plane)
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    for namespace in (home, agents):
        plane.request("PATCH", f"/api/v1/namespaces/{namespace}", label)
    text = yaml.safe_dump_all(template(home, f"--set=agents.namespace={agents}"))
    done = plane.kubectl("apply", "--server-side", "--filename", "-", stdin=text)
    assert done.returncode == 0, done.stderr
    violations = [line for line in done.stderr.splitlines() if "would violate" in line]
    assert len(violations) == 1 and "hostPath" in violations[0] and "runAsUser=0" in violations[0]
    for unwanted in ("privileged", "capabilities", "allowPrivilegeEscalation", "seccompProfile"):
        assert unwanted not in violations[0]
