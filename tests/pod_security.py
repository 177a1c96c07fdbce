"""What every pod that MiniKafka makes must be: "restricted" of the Pod Security Standards, and with a root that is read-only.

Held against what operator, chaos controller and Spark's driver make (tests/unit/test_pod_security.py), and against what the
charts make (tests/apiserver/test_charts.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

Object = dict[str, Any]

VOLUMES = {"configMap", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
SHELLS = {"sh", "/bin/sh", "bash", "/bin/bash"}


def pods(objects: Collection[Object]) -> Iterator[tuple[str, Object]]:
    """Yield the spec of each pod that the objects make, and a name for it."""
    for made in objects:
        kind, holder = made["kind"], made
        if kind == "CronJob":
            holder = holder["spec"]["jobTemplate"]
        if kind in ("CronJob", "DaemonSet", "Deployment", "Job", "StatefulSet"):
            holder = holder["spec"]["template"]
        if "containers" in (holder.get("spec") or {}):
            yield f"{kind} {made['metadata'].get('name', '')}", holder["spec"]


def faults(pod: Object) -> list[str]:
    """Name what of a pod is not restricted."""
    security = pod.get("securityContext", {})
    found = [field for field in ("hostNetwork", "hostPID", "hostIPC") if pod.get(field)]
    found += [
        f"volume of {kind}"
        for volume in pod.get("volumes", ())
        for kind in volume
        if kind != "name" and kind not in VOLUMES
    ]
    for container in [*pod["containers"], *pod.get("initContainers", ())]:
        own = container.get("securityContext", {})
        both = {**security, **own}
        demanded = {
            "runs as root": both.get("runAsNonRoot") is True and both.get("runAsUser") != 0,
            "no seccomp profile": both.get("seccompProfile") == {"type": "RuntimeDefault"},
            "may gain privileges": own.get("allowPrivilegeEscalation") is False and not own.get("privileged"),
            "root can be written": own.get("readOnlyRootFilesystem") is True,
            "has capabilities": own.get("capabilities") == {"drop": ["ALL"]},
            "a shell": not SHELLS & set(container.get("command", ())),
        }
        found += [f"{container['name']}: {fault}" for fault, absent in demanded.items() if not absent]
    return found
