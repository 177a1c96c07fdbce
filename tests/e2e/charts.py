"""The charts that a user installs, with the images of this checkout."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.kubectl import Kubectl

ROOT = Path(__file__).parents[2]
HELM_SECONDS_MAX = 300


class HelmError(Exception):
    """helm said no; the message is what it said."""


def install(programs: Path, kubectl: Kubectl, release: str, chart: str, values: dict[str, Any]) -> None:
    """`helm upgrade --install` of one of charts/, in kubectl's namespace. CRDs are applied beside it, as they are shared."""
    for crds in (ROOT / "charts" / chart / "files/crds",):
        if crds.is_dir():
            kubectl("apply", "--server-side", "--filename", str(crds))
            values = {"crds": {"install": False}, **values}
    where = str(ROOT / "charts" / chart)
    _helm(programs, kubectl, "upgrade", "--install", release, where, "--values", "-", stdin=json.dumps(values))


def uninstall(programs: Path, kubectl: Kubectl, release: str) -> None:
    """`helm uninstall`."""
    _helm(programs, kubectl, "uninstall", release, "--ignore-not-found")


@contextmanager
def privileged(namespace: Kubectl) -> Iterator[Kubectl]:
    """A namespace beside another, for pods that may look at their nodes; kubectl on it. It goes in the end."""
    within = namespace.within(f"{namespace.namespace}-agents")
    labels = {"pod-security.kubernetes.io/enforce": "privileged", "minikafka.dev/e2e": "true"}
    within.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": within.namespace, "labels": labels}})
    try:
        yield within
    finally:
        within.delete("namespace", within.namespace, wait=False)


def image(name: str) -> dict[str, str]:
    """A chart's value `image` for an image of this checkout."""
    repository, _, tag = name.rpartition(":")
    return {"repository": repository, "tag": tag, "pullPolicy": "Never"}


def _helm(programs: Path, kubectl: Kubectl, *arguments: str, stdin: str = "") -> None:
    command = [str(programs / "helm"), "--kubeconfig", str(kubectl.kubeconfig), "--namespace", kubectl.namespace]
    done = subprocess.run(
        [*command, *arguments], input=stdin, capture_output=True, text=True, timeout=HELM_SECONDS_MAX, check=False
    )
    if done.returncode:
        raise HelmError(done.stderr.strip())
