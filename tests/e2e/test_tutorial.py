"""The tutorial on Kubernetes: what it has its reader type, on this cluster, until what it says is there."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import machine
from tests.e2e.kubectl import Kubectl, eventually
from tests.e2e.node import Node
from tests.printed import ROOT, commands

pytestmark = pytest.mark.full

PAGE = ROOT / "docs/guide/tutorials/13-on-kubernetes.md"
CLUSTER, LAB, RELEASE, EXPERIMENT = "demo", "lab", "minikafka-chaos", "kip-101-data-loss.high-watermark"
TYPED_SECONDS_MAX = 600
VERDICT_SECONDS_MAX = 900


@pytest.fixture
def chaos_image_of_the_chart(node: Node) -> None:
    """Give the chaos controller's image the name that its chart asks for, as `make kind` does."""
    version = re.search(r"^appVersion: *(\S+)", (ROOT / "charts/minikafka-chaos/Chart.yaml").read_text(), re.MULTILINE)
    assert version is not None
    made = machine.image("chaos")
    wanted = f"docker.io/minikafka/chaos:{version[1]}"
    node.run("ctr", "--namespace", "k8s.io", "images", "tag", "--force", f"docker.io/{made}", wanted)


@pytest.fixture
def cleared(operator: Kubectl, kubectl: Kubectl) -> Iterator[Kubectl]:
    """kubectl on the namespace `default`; what the page makes is gone afterwards.

    CRDs that another test's chart has made are given to the page's, which Helm would refuse to take over.
    """
    lab = kubectl.within(LAB)
    for crd in kubectl("get", "crd", "--output", "name").split():
        if "/chaos" in crd:
            kubectl("label", crd, "--overwrite", "app.kubernetes.io/managed-by=Helm")
            kubectl(
                "annotate",
                crd,
                "--overwrite",
                f"meta.helm.sh/release-name={RELEASE}",
                f"meta.helm.sh/release-namespace={LAB}",
            )
    yield kubectl
    lab("delete", "minikafkaclusters,chaosexperiments", "--all", "--ignore-not-found", "--timeout=200s")
    lab.delete("namespace", LAB)
    kubectl("delete", "minikafkaclusters,minikafkatopics", "--all", "--timeout=200s")


class Shell:
    """Somebody who types the lines of the page, in order."""

    def __init__(self, kubeconfig: Path, programs: Path) -> None:
        self._lines = list(commands(PAGE.read_text(encoding="utf-8")))
        self._setup = f"export KUBECONFIG={kubeconfig} PATH={programs}:$PATH; "

    def types(self, beginning: str) -> str:
        """Type the next line, which begins so. What is watched is looked at once, for it would not end."""
        line = self._lines.pop(0)
        assert line.startswith(beginning), f"the page goes on with: {line}"
        line = line.removesuffix(" --watch")
        done = subprocess.run(
            ["bash", "-c", self._setup + line], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=TYPED_SECONDS_MAX, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"$ {line}\n{done.stdout}"
        machine.say(f"$ {line}\n{done.stdout}")
        return done.stdout

    def passes_over(self, *lines: str) -> None:
        """Leave out lines which are what this cluster was made by, or output."""
        for line in lines:
            assert self._lines.pop(0).startswith(line)

    @property
    def at_the_end(self) -> bool:
        """Whether nothing is left to be typed."""
        return not self._lines


def test_the_page_does_what_it_says(
    cleared: Kubectl, programs: Path, chaos_image_of_the_chart: None, request: pytest.FixtureRequest
) -> None:
    shell = Shell(cleared.kubeconfig, programs)
    shell.passes_over("make kind")
    shell.types("kubectl apply")
    shell.types("kubectl wait")
    assert re.search(rf"{CLUSTER}\b.*\bTrue\b", shell.types("kubectl get mkc,mkt"))

    shell.types("kubectl delete pod")
    shell.types("kubectl get mkc,mkt")
    ready = "jsonpath={.metadata.name}{.status.conditions[?(@.type=='Ready')].status}"
    eventually(
        lambda: cleared("get", "mkc", CLUSTER, "--output", ready),
        lambda told: told == f"{CLUSTER}True",
        seconds=TYPED_SECONDS_MAX,
        what="the cluster is whole again",
    )

    shell.types("helm upgrade --install")
    shell.types("kubectl --namespace lab apply")
    began = time.monotonic()
    shell.types("kubectl --namespace lab get mkx")
    lab = cleared.within(LAB)
    row = eventually(
        lambda: lab("get", "mkx", EXPERIMENT),
        lambda told: "Completed" in told or "Error" in told,
        seconds=VERDICT_SECONDS_MAX,
        what="there is a verdict",
    )
    machine.say(f"{time.monotonic() - began:6.1f} s  from the experiment to its verdict")
    assert re.search(rf"{re.escape(EXPERIMENT)} +Completed +Failed +1 ", row), row
    shell.passes_over("NAME", EXPERIMENT)
    assert "lost" in lab("describe", "mkx")
    shell.passes_over("make kind-down")
    assert shell.at_the_end
