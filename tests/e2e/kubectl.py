"""kubectl, as the tests use it: each call is what a person would type."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.e2e.objects import NotInTime, Object, Objects, ObjectsError

Seen = TypeVar("Seen")

CALL_SECONDS_MAX = 300
POLL_SECONDS = 0.1


class KubectlError(Exception):
    """A call failed; the message is what kubectl said."""


@dataclass(frozen=True)
class Kubectl:
    """One Kubernetes cluster, and the namespace that calls are about."""

    program: Path
    kubeconfig: Path
    namespace: str = "default"

    def within(self, namespace: str) -> Kubectl:
        """The same cluster, another namespace."""
        return replace(self, namespace=namespace)

    def command(self, *arguments: str) -> list[str]:
        """The whole command line of a call."""
        options = ["--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace]
        return [str(self.program), *options, *arguments]

    def __call__(self, *arguments: str, stdin: str | None = None, timeout: float = CALL_SECONDS_MAX) -> str:
        """Run one command; what it printed. Raises KubectlError."""
        command = self.command(*arguments)
        try:
            done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired as error:
            raise KubectlError(f"kubectl {' '.join(arguments)}: no end after {timeout:g} s") from error
        if done.returncode:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command that goes on by itself, such as `proxy`."""
        return subprocess.Popen(
            self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
        )

    def apply(self, *objects: Object | str, arguments: Sequence[str] = ()) -> str:
        """`kubectl apply` of objects, or of YAML text."""
        documents = [each if isinstance(each, str) else yaml.safe_dump(each) for each in objects]
        return self("apply", "--filename", "-", *arguments, stdin="\n---\n".join(documents))

    @property
    def objects(self) -> Objects:
        """The objects of the namespace, for what no person would type."""
        return Objects(self.kubeconfig, self.namespace)

    def delete(self, kind: str, name: str, *arguments: str, wait: bool = True) -> None:
        """Delete an object; nothing happens when it is not there."""
        self("delete", kind, name, "--ignore-not-found", f"--wait={str(wait).lower()}", *arguments)

    def patch(self, kind: str, name: str, patch: Mapping[str, Any], *arguments: str) -> None:
        """A merge patch."""
        self("patch", kind, name, "--type", "merge", "--patch", json.dumps(patch), *arguments)


def condition(found: Object | None, kind: str) -> Object:
    """A condition of an object's status; empty while it is not there."""
    conditions = ((found or {}).get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})


def eventually(
    look: Callable[[], Seen],
    satisfied: Callable[[Seen], object] = bool,
    *,
    seconds: float,
    what: str,
) -> Seen:
    """Look again and again until satisfied, or fail with what was seen last. An API server that is away is no answer."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            seen: Any = look()
            if satisfied(seen):
                return seen
        except (KubectlError, ObjectsError) as error:
            seen = error
        if time.monotonic() >= deadline:
            raise NotInTime(f"{what}: not in {seconds:g} s; seen last: {_short(seen)}")
        time.sleep(POLL_SECONDS)


def _short(seen: object) -> str:
    text = str(seen)
    return text if len(text) <= 2000 else f"{text[:2000]} ..."
