"""Story A and story B of KIP-101 on pods: the scenario files that run on processes, unchanged, with the faults of the agents.

What is claimed of each is the same as there (tests/integration/test_stories.py): epochs keep what was acknowledged, high
watermarks lose it or let replicas diverge. Story A by high watermark is applied as an object: test_reports.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from minikafka_chaos.grounds.kubernetes import KubernetesGround, cluster_name
from minikafka_chaos.grounds.kubernetes_api import Namespace, connect
from minikafka_chaos.run.runner import run_scenario
from minikafka_chaos.scenario import library
from minikafka_chaos.verdict.anomalies import AnomalyKind, Severity
from minikafka_chaos.verdict.verdict import Outcome, Verdict

from tests.e2e.broker_cluster import SMALL
from tests.e2e.kubectl import Kubectl, eventually
from tests.e2e.machine import say

Tell = Callable[[str], Verdict]

RUN_SECONDS_MAX = 1200
CLAIMS_SECONDS_MAX = 360


@pytest.fixture
def tell(operator: Kubectl, namespace: Kubectl, tmp_path: Path) -> Tell:
    """``tell("kip-101-...")``: run a scenario on a cluster of its own; its verdict, printed."""
    access = connect(namespace.kubeconfig)

    def run(name: str) -> Verdict:
        scenario = library.find(name)
        ground = KubernetesGround(
            Namespace(access.client, namespace.namespace),
            cluster_name(scenario),
            tmp_path / "volumes",
            template={"brokers": {"resources": SMALL}, "storage": {"size": "100Mi"}},
        )
        verdict = run_scenario(scenario, ground, tmp_path).verdict
        say(f"{name} on Kubernetes: {verdict.outcome.value}: {verdict.summary}")
        assert verdict.outcome in (Outcome.PASSED, Outcome.FAILED), verdict.summary
        return verdict

    return run


def _errors(verdict: Verdict) -> set[AnomalyKind]:
    return {anomaly.kind for anomaly in verdict.anomalies if anomaly.severity is Severity.ERROR}


def test_story_a_leader_epochs_keep_it(operator: Kubectl, namespace: Kubectl, tmp_path: Path) -> None:
    """Told by the command, as from a laptop: all that it has is a kubeconfig."""
    where = ["--kubeconfig", str(namespace.kubeconfig), "--namespace", namespace.namespace]
    command = [sys.executable, "-m", "minikafka.cli", "chaos", "run", "kip-101-data-loss.leader-epoch"]
    done = subprocess.run(
        [*command, "--ground", "kubernetes", *where, "--out", str(tmp_path), "--json"],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    say(done.stderr)
    assert done.returncode == 0, (done.stdout, done.stderr)
    verdict = json.loads(done.stdout)
    assert verdict["verdict"] == "Passed"
    assert (verdict["counts"]["acknowledged"], verdict["counts"]["read"]) == (2, 2)
    assert namespace.objects.list("mkc") == [], "it has taken away what it has made"
    eventually(
        lambda: namespace.objects.list("pvc"),
        lambda found: not found,
        seconds=CLAIMS_SECONDS_MAX,
        what="no claim is left",
    )


@pytest.mark.full
def test_story_b_high_watermark_truncation_lets_the_replicas_diverge(tell: Tell) -> None:
    verdict = tell("kip-101-divergence.high-watermark")
    assert verdict.outcome is Outcome.FAILED
    assert _errors(verdict) == {AnomalyKind.DIVERGENT_REPLICAS}


@pytest.mark.full
def test_story_b_leader_epochs_make_them_agree(tell: Tell) -> None:
    verdict = tell("kip-101-divergence.leader-epoch")
    assert verdict.outcome is Outcome.PASSED
    assert verdict.counts["accepted_loss"] == 1  # m1: every replica that had it died, and the one without came first
