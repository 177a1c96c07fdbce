"""What a failed test leaves behind: everything that a person would ask the cluster for, in one folder."""

from __future__ import annotations

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.e2e.kubectl import Kubectl
from tests.e2e.node import Node

SECONDS_MAX = 30
PARALLEL = 4
KINDS = (
    "minikafkaclusters,minikafkatopics,pods,statefulsets,deployments,jobs,services,endpointslices,configmaps,leases,"
    "persistentvolumeclaims,poddisruptionbudgets,serviceaccounts,roles,rolebindings"
)
OF_THE_CLUSTER = "nodes,persistentvolumes,storageclasses,crds"
NODE_LOGS = {
    "kubelet.log": "journalctl --unit kubelet --no-pager --lines 2000",
    "containerd.log": "journalctl --unit containerd --no-pager --lines 500",
    "audit.jsonl": "tail -n 5000 /var/log/kubernetes/audit.log",
    "processes.txt": "ps -eo pid,ppid,stat,etimes,rss,args || true",
}


def folder_for(test: str) -> Path:
    """A new folder for a test; below MINIKAFKA_E2E_DIAGNOSTICS, or `runs/e2e` of the project."""
    root = Path(os.environ.get("MINIKAFKA_E2E_DIAGNOSTICS") or Path(__file__).parents[2] / "runs" / "e2e")
    name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in test)
    folder = root / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def collect(folder: Path, kubectl: Kubectl, node: Node, namespaces: list[str]) -> None:
    """Write all of it; what cannot be had is a file that says why."""
    calls: dict[str, list[str]] = {"cluster-wide.yaml": kubectl.command("get", OF_THE_CLUSTER, "--output", "yaml")}
    for namespace in namespaces:
        within = kubectl.within(namespace)
        calls |= {
            f"{namespace}/objects.yaml": within.command("get", KINDS, "--output", "yaml"),
            f"{namespace}/overview.txt": within.command("get", KINDS, "--output", "wide"),
            f"{namespace}/events.txt": within.command("get", "events", "--sort-by", ".metadata.creationTimestamp"),
            f"{namespace}/describe-pods.txt": within.command("describe", "pods"),
        }
        for pod in _lines(within.command("get", "pods", "--output", "name")):
            name = pod.rpartition("/")[2]
            everything = ("logs", name, "--all-containers", "--prefix", "--timestamps")
            calls[f"{namespace}/logs/{name}.log"] = within.command(*everything)
            calls[f"{namespace}/logs/{name}.previous.log"] = within.command(*everything, "--previous")
        # Each line begins with its time, so that sorting puts what all brokers tell in order.
        of_brokers = f"sort /var/local-path-provisioner/*_{namespace}_events-*/broker-*.jsonl"
        calls[f"{namespace}/events.jsonl"] = ["docker", "exec", node.container, "bash", "-c", of_brokers]
    for name, script in NODE_LOGS.items():
        calls[f"node/{name}"] = ["docker", "exec", node.container, "bash", "-c", script]
    with ThreadPoolExecutor(PARALLEL) as pool:
        list(pool.map(lambda item: _save(folder / item[0], item[1]), calls.items()))


def _lines(command: list[str]) -> list[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        ).stdout.splitlines()
    except subprocess.TimeoutExpired:
        return []


def _save(path: Path, command: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS_MAX, check=False)
        said = done.stdout + (b"\n--- standard error\n" + done.stderr if done.stderr else b"")
    except subprocess.TimeoutExpired:
        said = f"no end after {SECONDS_MAX} s\n".encode()
    if b"previous terminated container" not in said:  # most containers have not been started twice
        path.write_bytes(said)
