"""The chart minikafka-monitoring: its two forms, its values, and that the names it gives are the brokers' own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from minikafka_kube.names import CA_FILE, CLUSTER_LABEL, METRICS_TOKEN_FILE, Names

from tests.apiserver.charts import check_values, lint, refused, rendered

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts/minikafka-monitoring"
ONE_CLUSTER = ("--set=clusters[0].name=shop", "--set=clusters[0].namespace=lab")


def template(*options: str) -> list[dict[str, Any]]:
    return rendered("watch", CHART, "mon", *options)


def scraping(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    (config,) = [d for d in documents if d["kind"] == "ConfigMap" and "prometheus.yml" in d["data"]]
    return list(yaml.safe_load(config["data"]["prometheus.yml"])["scrape_configs"])


def test_lint() -> None:
    lint(CHART, *ONE_CLUSTER)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("mode=both", "mode"),
        ("scrapeInterval=often", "scrapeInterval"),
        ("scrapeInterval=0s", "scrapeInterval"),
        (
            "scrapeInterval=1m",
            "scrapeInterval",
        ),  # a rate over a minute would have no data, and no alert of it would fire
        ("operator.namespace=No_Such", "namespace"),
        ("prometheus.retention=0d", "retention"),
        ("prometheus.storageSize=much", "storageSize"),
        ("clusters[0].name=No_Such", "clusters"),
        ("prometheus.discovery=consul", "discovery"),
        ("dashboardz.create=true", "dashboardz"),
        ("mode=plain", "clusters: name at least one"),
    ],
)
def test_bad_values_are_named(value: str, says: str) -> None:
    assert says in refused("watch", CHART, value)


@pytest.mark.parametrize("mode", ["plain", "operator"])
def test_of_an_operator_that_is_not_scraped_nothing_alerts(mode: str) -> None:
    """An alert that it is not there would fire for ever."""

    def alerts(namespace: str) -> str:
        options = (*ONE_CLUSTER, f"--set=mode={mode},operator.namespace={namespace}")
        made = template(*options)
        rules = [text for each in made if each["kind"] == "ConfigMap" for text in each["data"].values()]
        return "\n".join([*rules, *(yaml.safe_dump(each["spec"]) for each in made if each["kind"] == "PrometheusRule")])

    assert "alert: MinikafkaOperatorDown" in alerts("there")
    assert "alert: MinikafkaOperatorDown" not in alerts("")
    assert "alert: MinikafkaClusterNotReady" in alerts("")


def test_every_value_is_in_the_schema_and_documented() -> None:
    check_values(CHART)


def test_where_the_prometheus_operator_is_it_scrapes() -> None:
    """By the CustomResourceDefinitions that the cluster has, unless the mode is given."""
    there = template("--api-versions=monitoring.coreos.com/v1/PodMonitor")
    kinds = {document["kind"] for document in there}
    assert kinds == {"PodMonitor", "PrometheusRule", "ConfigMap"}
    assert kinds == {document["kind"] for document in template("--set=mode=operator")}
    assert {document["kind"] for document in template(*ONE_CLUSTER)} == {
        "ServiceAccount",
        "ConfigMap",
        "Service",
        "Deployment",
    }
    (brokers,) = [d for d in there if d["metadata"]["name"] == "watch-brokers"]
    assert brokers["spec"]["selector"]["matchExpressions"] == [{"key": CLUSTER_LABEL, "operator": "Exists"}]
    rules = [group for d in there if d["kind"] == "PrometheusRule" for group in d["spec"]["groups"]]
    assert sum(len(group["rules"]) for group in rules) > 100
    assert any("{{ $labels.pod }}" in str(rule) for group in rules for rule in group["rules"])


def test_rules_that_are_not_wanted_are_left_out() -> None:
    off = ("--set=rules.kafkaNames=false", "--set=rules.containerNames=false", "--set=dashboards.create=false")
    (config,) = [d for d in template(*ONE_CLUSTER, *off) if d["kind"] == "ConfigMap"]
    assert set(config["data"]) == {"prometheus.yml", "rules-minikafka.yaml", "rules-operator.yaml"}


@pytest.mark.parametrize("discovery", ["dns", "kubernetes"])
def test_targets_are_called_as_their_brokers_are(discovery: str) -> None:
    """What relabelling makes of a target, by the rules of the chart, against the operator's own names."""
    documents = template(*ONE_CLUSTER, f"--set=prometheus.discovery={discovery}")
    brokers = next(job for job in scraping(documents) if job["job_name"] == "minikafka-brokers")
    names = Names("lab", "shop-a")
    labels = {
        "__address__": f"{names.pod(2)}.{names.brokers}.lab.svc.cluster.local.:9404",
        "__meta_kubernetes_namespace": "lab",
        "__meta_kubernetes_pod_name": names.pod(2),
        "__meta_kubernetes_pod_container_port_name": "metrics",
    }
    for rule in brokers["relabel_configs"]:
        value = rule.get("separator", ";").join(labels.get(name, "") for name in rule["source_labels"])
        match = re.fullmatch(str(rule.get("regex", "(.*)")), value)
        assert match is not None, rule
        if "target_label" in rule:
            labels[rule["target_label"]] = match.expand(re.sub(r"\$(\d)", r"\\\1", rule.get("replacement", "$1")))
    assert {name: value for name, value in labels.items() if not name.startswith("__")} == {
        "namespace": "lab",
        "pod": "shop-a-broker-2",
        "cluster": "shop-a",
        "broker": "2",
        "container": "kafka",
        "kubernetes_pod_name": "shop-a-kafka-2",
        "strimzi_io_cluster": "shop-a",
        "strimzi_io_name": "shop-a-kafka",
        "strimzi_io_kind": "Kafka",
    }
    roles = [document for document in documents if document["kind"] == "Role"]
    assert len(roles) == (1 if discovery == "kubernetes" else 0)


SECURED = (
    *ONE_CLUSTER,
    "--set=clusters[1].name=vault,clusters[1].namespace=mon,clusters[1].securedMetrics=true",
)


@pytest.mark.parametrize("discovery", ["dns", "kubernetes"])
def test_a_cluster_with_secured_metrics_is_scraped_with_its_token(discovery: str) -> None:
    documents = template(*SECURED, f"--set=prometheus.discovery={discovery}")
    jobs = {job["job_name"]: job for job in scraping(documents)}
    job, open_job = jobs["minikafka-brokers-mon-vault"], jobs["minikafka-brokers"]
    names, folder = Names("mon", "vault"), "/etc/prometheus-access/vault"
    assert (job["scheme"], job["authorization"]) == ("https", {"credentials_file": f"{folder}/{METRICS_TOKEN_FILE}"})
    assert job["tls_config"] == {"ca_file": f"{folder}/{CA_FILE}", "server_name": names.bootstrap_host}
    assert {"source_labels": [], "target_label": "job", "replacement": "minikafka-brokers"} in job["relabel_configs"]
    assert "authorization" not in open_job and "vault" not in str(open_job.get("dns_sd_configs"))
    for each, action in ((job, "keep"), (open_job, "drop")):
        (rule,) = [
            one
            for one in each["relabel_configs"]
            if one.get("action") == action and one["source_labels"] == ["__tmp_pod"]
        ]
        assert re.fullmatch(rule["regex"], f"mon/{names.pod(1)}")
        assert not re.fullmatch(rule["regex"], f"lab/{names.pod(1)}")
    (pod,) = [document["spec"]["template"]["spec"] for document in documents if document["kind"] == "Deployment"]
    (volume,) = [one["secret"] for one in pod["volumes"] if "secret" in one]
    assert volume["secretName"] == names.metrics_access
    assert folder in [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]]


def test_a_pod_monitor_names_the_secret_beside_it() -> None:
    found = {d["metadata"]["name"]: d for d in template(*SECURED, "--set=mode=operator") if d["kind"] == "PodMonitor"}
    secured, names = found["watch-brokers-vault"], Names("mon", "vault")
    assert secured["metadata"]["namespace"] == "mon"
    assert secured["spec"]["selector"]["matchLabels"][CLUSTER_LABEL] == "vault"
    (endpoint,) = secured["spec"]["podMetricsEndpoints"]
    assert endpoint["authorization"] == {"credentials": {"name": names.metrics_access, "key": METRICS_TOKEN_FILE}}
    assert endpoint["tlsConfig"]["ca"] == {"secret": {"name": names.metrics_access, "key": CA_FILE}}
    assert (endpoint["scheme"], endpoint["tlsConfig"]["serverName"]) == ("https", names.bootstrap_host)
    assert "mon/vault-broker-[0-9]+" in str(found["watch-brokers"]["spec"])


def test_a_token_in_another_namespace_is_refused() -> None:
    says = refused("watch", CHART, "clusters[0].name=vault,clusters[0].namespace=lab,clusters[0].securedMetrics=true")
    assert "vault has securedMetrics in the namespace lab" in says


def test_dashboards_are_there_for_grafana() -> None:
    found = [d for d in template("--set=mode=operator") if d["kind"] == "ConfigMap"]
    assert len(found) == 4
    for document in found:
        assert document["metadata"]["labels"]["grafana_dashboard"] == "1"
        ((name, text),) = document["data"].items()
        assert name.startswith("minikafka-")
        assert yaml.safe_load(text)["title"].startswith("MiniKafka / ")
