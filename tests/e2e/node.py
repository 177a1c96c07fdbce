"""The kind node as its kernel sees it: processes of pods, and the files of volumes.

This is where faults come from that Kubernetes has no verb for: a SIGKILL out of nowhere, a process that stands still, an
API server that is away. Everything goes through `docker exec`, so it also works where the tests do not run as root.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.objects import Object

EXEC_SECONDS_MAX = 240
POLL_SECONDS = 0.05
MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"
ASIDE = "/etc/kubernetes/kube-apiserver.yaml.aside"
STAYS_GONE_SECONDS = 3.0
"""The kubelet looks every second at what runs: an API server that is gone for this long is not started again."""

# Prints "PID PARENT STATE" of the first process of a container: the one whose parent is not in the container's cgroup.
_FIND = """
for file in $(grep -ls "$1" /proc/[0-9]*/cgroup); do
  read -r pid name state parent rest < "${file%cgroup}stat" || continue
  grep -qs "$1" "/proc/$parent/cgroup" || { echo "$pid $parent $state"; exit; }
done
"""


class NodeError(Exception):
    """A command in the node failed, or a process is not there."""


@dataclass(frozen=True, slots=True)
class Process:
    """The first process of a container, and the shim that watches over it; ids are those in the node."""

    pid: int
    shim: int
    state: str
    """As in /proc: S sleeps, R runs, T is stopped, Z is dead and not waited for yet."""


@dataclass(frozen=True)
class Node:
    """A node of a kind cluster: a container of the engine."""

    container: str

    def run(self, *command: str, timeout: float = EXEC_SECONDS_MAX) -> str:
        """Run a command in the node; what it printed. Raises NodeError."""
        done = subprocess.run(
            ["docker", "exec", self.container, *command], capture_output=True, text=True, timeout=timeout, check=False
        )
        if done.returncode:
            raise NodeError(f"{self.container}: {' '.join(command)}: {done.stderr.strip() or done.returncode}")
        return done.stdout

    @property
    def address(self) -> str:
        """Where the node is reached from this machine."""
        template = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        done = subprocess.run(
            ["docker", "inspect", "--format", template, self.container], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    # -- processes -----------------------------------------------------------------------------------------------------

    def process(self, container_id: str) -> Process | None:
        """The first process of a container, or None when it has none. `container_id` as a pod's status tells it."""
        found = self.run("bash", "-c", _FIND, "find", container_id.rpartition("/")[2]).split()
        return Process(int(found[0]), int(found[1]), found[2]) if found else None

    def signal(self, name: str, pids: Sequence[int]) -> None:
        """Send one signal to processes, all within one call."""
        self.run("bash", "-c", f"kill -{name} {' '.join(map(str, pids))}")

    def kill_and_hold(self, processes: Sequence[Process], signal: str = "KILL", *, frozen_first: bool = True) -> None:
        """End processes at one moment, and keep the kubelet from noticing until `release`.

        A shim that stands still reports nothing, so the container is not started again; what the process held (sockets,
        memory) is gone all the same, for the kernel sees to that. The processes are frozen first, so that none of them
        can act on the death of another.
        """
        shims = " ".join(str(process.shim) for process in processes)
        pids = " ".join(str(process.pid) for process in processes)
        freeze = f"kill -STOP {pids}; " if frozen_first and len(processes) > 1 else ""
        self.run("bash", "-c", f"kill -STOP {shims} && {freeze}kill -{signal} {pids}")

    def release(self, process: Process) -> None:
        """Let a held container's end be noticed: the kubelet starts it again, or takes it away with its pod."""
        self.signal("CONT", [process.shim])

    # -- files ---------------------------------------------------------------------------------------------------------

    def read(self, path: str) -> str | None:
        """A text file, or None when it is not there."""
        return self.run("bash", "-c", 'if [ -e "$1" ]; then cat "$1"; fi; echo .', "read", path)[:-2] or None

    def copy_folder(self, path: str, destination: Path) -> bool:
        """Copy the contents of a folder of the node to one of this machine; whether it was there."""
        command = ["docker", "cp", "--quiet", f"{self.container}:{path}/.", str(destination)]
        destination.mkdir(parents=True, exist_ok=True)
        return subprocess.run(command, capture_output=True, timeout=EXEC_SECONDS_MAX, check=False).returncode == 0

    # -- the API server ------------------------------------------------------------------------------------------------

    def stop_api_server(self, seconds_max: float = 180) -> None:
        """Take the API server's static pod away and kill what runs of it: at once, with no word to its clients."""
        self.run("mv", MANIFEST, ASIDE)
        deadline = time.monotonic() + seconds_max
        gone_since = time.monotonic()
        while time.monotonic() - gone_since < STAYS_GONE_SECONDS:
            if time.monotonic() >= deadline:
                raise NodeError(f"the API server of {self.container} is started again and again")
            if self.run("bash", "-c", "pkill -KILL -x kube-apiserver && echo killed || true").strip():
                gone_since = time.monotonic()  # the kubelet may not have seen yet that the manifest is gone
            time.sleep(POLL_SECONDS)

    def start_api_server(self) -> None:
        """Put it back; see `kubectl get --raw /readyz`. Nothing happens when it was not away."""
        self.run("bash", "-c", f"if [ -e {ASIDE} ]; then mv {ASIDE} {MANIFEST}; fi")

    def restart_controllers(self) -> None:
        """Start Kubernetes' own controllers, scheduler and kubelet anew. Containers of pods go on.

        Each of them waits longer and longer, up to half a minute, before it looks for an API server that was away; one
        that has just started looks at once.
        """
        self.run("bash", "-c", "pkill -KILL -x 'kube-controller|kube-scheduler' || true; systemctl restart kubelet")


def container_id(pod: Object | None, name: str) -> str | None:
    """The id of a pod's running container."""
    statuses = ((pod or {}).get("status") or {}).get("containerStatuses") or []
    return next((each.get("containerID") for each in statuses if each["name"] == name), None)
