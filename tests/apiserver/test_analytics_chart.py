"""The chart of the analysis: well-formed, checked, taken by a real API server, and no more rights than Spark needs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from minikafka import __version__
from minikafka_analytics.sources import collect
from minikafka_analytics.spark.on_kubernetes import NONE, PREFERRED, REQUIRED, SPREAD, executor_pod
from minikafka_chaos.controller.jobs import SPREADS, JobSettings, ReportSettings
from minikafka_chaos.controller.jobs import labels as runner_labels
from minikafka_chaos.controller.main import parse
from minikafka_chaos.controller.reports import report_job

from tests.apiserver.charts import check_values, lint, refused, rendered
from tests.apiserver.conftest import make_namespace
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.operator_process import ROOT
from tests.apiserver.test_operator_permissions import table
from tests.waiting import until_now

CHART = ROOT / "charts/minikafka-analytics"
CHAOS = ROOT / "charts/minikafka-chaos"
EVERYTHING = (
    "--set=run.name=demo-1,run.prometheus=http://prometheus:9090,run.eventClaims={events-a,events-b}",
    "--set=run.podLogs.claim=minikafka-logs,run.podLogs.pods=lab/shop-broker-*",
    "--set=cron.schedule=*/30 * * * *,cron.timeZone=Europe/Berlin",
    "--set=desk.enabled=true",
)


def template(namespace: str, *options: str, chart: Any = CHART) -> list[dict[str, Any]]:
    """The objects of the chart, as a release called spark."""
    return rendered("spark", chart, namespace, *options)


def of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [document for document in documents if document["kind"] == kind]


def test_lint() -> None:
    for options in ([], [EVERYTHING[0]]):
        lint(CHART, *options)


def test_every_value_is_documented_and_in_the_schema() -> None:
    lines = (CHART / "values.yaml").read_text().splitlines()
    values = yaml.safe_load("\n".join(lines))
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    check_values(CHART)
    for name, value in values.items():
        if isinstance(value, dict) and "properties" in schema["properties"][name]:
            assert set(value) == set(schema["properties"][name]["properties"]), name
    for number, line in enumerate(lines):
        if line and (line[0].isalpha() or (line.startswith("  ") and line[2].isalpha())):
            above = lines[number - 1].strip()
            inner = above.endswith((":", "minikafka/analytics")) or above.startswith(("repository", "tag", "digest"))
            assert above.startswith("#") or inner or "resources:" in "\n".join(lines[number - 8 : number]), line


def test_versions_agree() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("run.name=../other", "run"),
        ("run.prometheus=prometheus:9090", "prometheus"),
        ("run.podLogs.pods=shop-broker-0", "pods"),
        ("run.podLogs.volume=x", "volume"),
        ("executors.instances=-1", "instances"),
        ("executors.memory=lots", "memory"),
        ("executors.spread=everywhere", "spread"),
        ("runs.accessMode=ReadOnlyMany", "accessMode"),
        ("runs.claim=", "claim"),
        ("networkPolicy=maybe", "networkPolicy"),
        ("deadlineSeconds=0", "deadlineSeconds"),
        ("runz.claim=x", "runz"),
    ],
)
def test_bad_values_are_named(value: str, says: str) -> None:
    assert says in refused("spark", CHART, value)


def test_another_run_is_another_job() -> None:
    """A Job cannot be changed: an upgrade that would is refused by the API server."""
    names = {
        job["metadata"]["name"]
        for run in ("a", "b")
        for job in of_kind(template("lab", f"--set=run.name={run}"), "Job")
    }
    assert len(names) == 2
    assert not of_kind(template("lab"), "Job") + of_kind(template("lab"), "CronJob")


def test_another_version_is_another_job(tmp_path: Path) -> None:
    """Its image is another, and so are its labels."""
    newer = tmp_path / "minikafka-analytics"
    shutil.copytree(CHART, newer)
    chart = newer / "Chart.yaml"
    chart.write_text(chart.read_text().replace(__version__, "9.9.9"))
    (ours,), (theirs,) = (of_kind(template("lab", "--set=run.name=a", chart=each), "Job") for each in (CHART, newer))
    assert ours["metadata"]["name"] != theirs["metadata"]["name"]


def test_settings_for_spark_are_as_they_were_given(tmp_path: Path) -> None:
    """Numbers of a file too, which are floats to helm."""
    given = {"a": 12345678, "b": 1.5, "c": True, "d": "1 2"}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({"sparkConf": given, "run": {"name": "a"}}))
    (job,) = of_kind(template("lab", f"--values={tmp_path / 'values.yaml'}"), "Job")
    args = job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [word for word in args if word[:9] in [f"--conf={name}=" for name in given]] == [
        "--conf=a=12345678",
        "--conf=b=1.5",
        "--conf=c=true",
        "--conf=d=1 2",
    ]


def _chosen(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """What Kubernetes' selectors do."""
    expressions = selector.get("matchExpressions", [])
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(each["key"]) in each["values"] for each in expressions
    )


def test_only_sparks_own_pods_reach_drivers_and_executors() -> None:
    """The drivers of Job, CronJob and of an experiment's report, and an executor of each; not the desk, a broker, a runner."""
    made = template("lab", *EVERYTHING)
    (job,), (cron,), (desk,) = (of_kind(made, kind) for kind in ("Job", "CronJob", "Deployment"))
    experiment = {"metadata": {"name": "x", "namespace": "lab", "uid": "12345678-0"}, "spec": {}}
    report = report_job(experiment, JobSettings("c:1", runs_claim="r"), ReportSettings("minikafka/analytics:1"))
    driver = {"metadata": {"name": "d", "namespace": "lab"}, "spec": report["spec"]["template"]["spec"]}
    labels = {
        "job": job["spec"]["template"]["metadata"]["labels"],
        "cron": cron["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"],
        "report": report["spec"]["template"]["metadata"]["labels"],
        "executor": executor_pod(driver, one_node=True, spread="none")["metadata"]["labels"],
        "spread": executor_pod(driver, one_node=True, spread="required")["metadata"]["labels"],
        "desk": desk["spec"]["template"]["metadata"]["labels"],
        "runner": runner_labels(experiment),
        "broker": {"app.kubernetes.io/part-of": "minikafka", "app.kubernetes.io/component": "broker"},
        "stranger": {},
    }

    def reached(pod: str) -> set[str] | None:
        """By whom; None: by everybody."""
        rules = [
            each["spec"] for each in of_kind(made, "NetworkPolicy") if _chosen(each["spec"]["podSelector"], labels[pod])
        ]
        if not rules:
            return None
        assert all(each["policyTypes"] == ["Ingress"] for each in rules)
        peers = [peer["podSelector"] for each in rules for rule in each["ingress"] for peer in rule["from"]]
        return {name for name, each in labels.items() if any(_chosen(peer, each) for peer in peers)}

    sparks = {"job", "cron", "report", "executor", "spread"}
    for pod in sparks - {"report"}:
        assert reached(pod) == sparks
    assert reached("report") == sparks - {"report"}
    assert all(reached(pod) is None for pod in labels.keys() - sparks)
    assert not of_kind(template("lab", *EVERYTHING, "--set=networkPolicy=false"), "NetworkPolicy")


def test_sources_are_what_the_command_takes() -> None:
    """A claim of logs alone is reason enough to look for sources; without any there is no such container."""
    options = ("--set=run.name=a,run.podLogs.claim=minikafka-logs", "--set=run.podLogs.pods=lab/shop-broker-*")
    (job,) = of_kind(template("lab", *options), "Job")
    spec = job["spec"]["template"]["spec"]
    (container,) = spec["initContainers"]
    assert container["args"] == ["/runs/a", "--pod-logs=/logs", "--pods=lab/shop-broker-*"]
    given = collect.parser().parse_args(container["args"])
    assert (given.pod_logs, given.pods) == ([Path("/logs")], "lab/shop-broker-*")
    (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "logs"]
    assert mount == {"name": "logs", "mountPath": "/logs", "readOnly": True}
    (volume,) = [volume for volume in spec["volumes"] if volume["name"] == "logs"]
    assert volume["persistentVolumeClaim"] == {"claimName": "minikafka-logs", "readOnly": True}
    (job,) = of_kind(template("lab", "--set=run.name=a"), "Job")
    assert "initContainers" not in job["spec"]["template"]["spec"]


def test_the_claims_of_both_charts_fit() -> None:
    logs = yaml.safe_load((ROOT / "charts/minikafka-logs/values.yaml").read_text())
    assert f"run.podLogs.claim={logs['store']['claim']}" in EVERYTHING[1]


def test_the_claim_outlives_the_release() -> None:
    (claim,) = of_kind(template("lab"), "PersistentVolumeClaim")
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert not of_kind(template("lab", "--set=runs.create=false"), "PersistentVolumeClaim")


def test_without_executors_spark_stays_in_the_jobs_pod() -> None:
    (job,) = of_kind(template("lab", "--set=run.name=a,executors.instances=0"), "Job")
    args = job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--master=local[*]" in args and not [word for word in args if "k8s" in word]


@pytest.fixture(scope="module")
def strict(plane: ControlPlane) -> str:
    """A namespace with the restricted Pod Security Standard, and everything of the chart in it."""
    name = make_namespace(plane)
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    plane.request("PATCH", f"/api/v1/namespaces/{name}", {"metadata": {"labels": label}})
    text = yaml.safe_dump_all(template(name, *EVERYTHING))
    done = plane.kubectl("apply", "--server-side", "--filename", "-", stdin=text)
    assert done.returncode == 0, done.stderr
    assert "would violate" not in done.stderr
    return name


def test_every_pod_satisfies_the_restricted_standard(plane: ControlPlane, strict: str) -> None:
    """Those of Job, CronJob and desk, the report's of an experiment, and an executor made like the driver."""
    made = template(strict, *EVERYTHING)
    (cron,) = of_kind(made, "CronJob")
    pods = [one["spec"]["template"]["spec"] for one in (*of_kind(made, "Job"), *of_kind(made, "Deployment"))]
    pods.append(cron["spec"]["jobTemplate"]["spec"]["template"]["spec"])
    metadata = {"name": "x", "namespace": strict, "uid": "12345678-0"}
    settings = JobSettings("c:1", runs_claim="minikafka-runs")
    job = report_job({"metadata": metadata, "spec": {}}, settings, ReportSettings("minikafka/analytics:1"))
    driver = {"metadata": {"name": "d", "namespace": strict}, "spec": job["spec"]["template"]["spec"]}
    pods.append(driver["spec"])
    for spread in ("none", "preferred", "required"):
        executor = executor_pod(driver, one_node=True, spread=spread)["spec"]
        executor["containers"][0]["image"] = "minikafka/analytics:1"  # Spark fills it in
        pods.append(executor)

    def create(number: int, spec: dict[str, Any]) -> None:
        body = {"metadata": {"name": f"p{number}"}, "spec": {**spec, "serviceAccountName": "default"}}
        path = f"/api/v1/namespaces/{strict}/pods"
        plane.request("POST", path, body)

    until_now(lambda: plane.find(f"/api/v1/namespaces/{strict}/serviceaccounts/minikafka-analytics"), seconds=60)
    for number, spec in enumerate(pods):
        create(number, spec)
    assert len(pods) == 7


def test_rights(plane: ControlPlane, strict: str) -> None:
    """Executors in its own namespace, and nothing else."""
    account = f"{strict}:minikafka-analytics"
    may = [("create", "pods"), ("get", "pods"), ("delete", "pods"), ("create", "configmaps")]
    may += [("get", "persistentvolumeclaims")]
    assert set(table(plane, account, strict, may).values()) == {True}
    never = [
        ("get", "secrets"),
        ("create", "pods:exec"),
        ("delete", "persistentvolumeclaims"),
        ("create", "persistentvolumeclaims"),
        ("create", "jobs.batch"),
        ("patch", "statefulsets.apps"),
        ("update", "chaosexperiments.minikafka.dev:status"),
        ("create", "rolebindings.rbac.authorization.k8s.io"),
    ]
    assert not [question for question, answer in table(plane, account, strict, never).items() if answer]
    assert not [question for question, answer in table(plane, account, "default", may).items() if answer]


class TestReportsOfExperiments:
    """The chart of chaos names what this one has."""

    def arguments(self, *options: str) -> list[str]:
        (deployment,) = of_kind(template("lab", *options, chart=CHAOS), "Deployment")
        found: list[str] = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        return [word for word in found if not word.startswith("--lease-namespace")]

    def test_none_by_default(self) -> None:
        assert parse(["--runner-image=c:1", *self.arguments()]).jobs.report is None

    def test_the_controller_takes_what_the_chart_gives(self) -> None:
        options = [
            "--set=report.enabled=true,report.executors=2,report.spread=required",
            "--set=report.desk=spark-desk,runs.claim=minikafka-runs",
        ]
        jobs = parse(["--runner-image=c:1", *self.arguments(*options)]).jobs
        assert jobs.report is not None and jobs.runs_claim == "minikafka-runs"
        assert (jobs.report.image, jobs.report.executors) == (f"minikafka/analytics:{__version__}", 2)
        assert jobs.report.spread == "required"
        assert (jobs.report.desk, jobs.report.pull_policy) == ("spark-desk", "IfNotPresent")
        assert json.loads(json.dumps(jobs.report.resources))["limits"] == {"memory": "2Gi"}

    def test_the_defaults_of_both_charts_fit(self) -> None:
        ours, theirs = (yaml.safe_load((chart / "values.yaml").read_text()) for chart in (CHART, CHAOS))
        assert ours["serviceAccount"]["name"] == theirs["report"]["serviceAccountName"]
        assert ours["image"] == theirs["report"]["image"]

    def test_both_know_the_same_spreads(self) -> None:
        values = [json.loads((chart / "values.schema.json").read_text())["properties"] for chart in (CHART, CHAOS)]
        ours, theirs = (values[0]["executors"], values[1]["report"])
        both = [each["properties"]["spread"]["enum"] for each in (ours, theirs)]
        assert both == [list(SPREADS)] * 2 == [[NONE, PREFERRED, REQUIRED]] * 2

    def test_spark_is_told_the_spread_by_the_name_it_knows(self) -> None:
        (job,) = of_kind(template("lab", "--set=run.name=a,executors.spread=required"), "Job")
        experiment = {"metadata": {"name": "x", "namespace": "lab", "uid": "12345678-0"}, "spec": {}}
        report = ReportSettings("minikafka/analytics:1", spread=REQUIRED)
        theirs = report_job(experiment, JobSettings("c:1", runs_claim="minikafka-runs"), report)
        for each in (job, theirs):
            assert f"--conf={SPREAD}={REQUIRED}" in each["spec"]["template"]["spec"]["containers"][0]["args"]
