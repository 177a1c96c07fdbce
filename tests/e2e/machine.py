"""What the tests run on: programs, a kind cluster and images, made by the scripts in cluster/ and images/."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
CLUSTER = os.environ.get("MINIKAFKA_E2E_CLUSTER", "mk-e2e")
STEP_SECONDS_MAX = 45 * 60
"""Building Kubernetes from its sources takes ten minutes of two cores, and those may be busy."""


def say(text: str) -> None:
    """Tell whoever watches (pytest needs `-s` for it): on standard error, for the output of pytest-xdist's workers is lost."""
    print(text, file=sys.stderr, flush=True)


class StepFailed(Exception):
    """A script failed; it has said why on standard error."""


def step(script: str, *arguments: str) -> list[str]:
    """Run one script; the lines it printed. What it says meanwhile goes to the terminal, with the time it took.

    Raises StepFailed.
    """
    began = time.monotonic()
    done = subprocess.run(
        [str(HERE / script), *arguments], stdout=subprocess.PIPE, text=True, timeout=STEP_SECONDS_MAX, check=False
    )
    if done.returncode:
        raise StepFailed(f"{HERE.name}/{script} {' '.join(arguments)} failed (see above)")
    say(f"{time.monotonic() - began:6.1f} s  {script} {' '.join(arguments)}")
    return done.stdout.split()


def made(what: str) -> str | None:
    """What `tools/e2e` has made already, so that it is not looked for by each process."""
    path = os.environ.get("MINIKAFKA_E2E_MADE")
    lines = Path(path).read_text(encoding="utf-8").splitlines() if path else []
    return dict(line.split(" ", 1) for line in lines).get(what)


def kubeconfig() -> Path:
    """The kubeconfig of a running cluster."""
    return Path(made("kubeconfig") or step("cluster/up", CLUSTER)[0])


def programs() -> Path:
    """The folder with kubectl, helm and the like."""
    return Path(made("programs") or step("cluster/binaries")[0])


def operator() -> str:
    """The operator of this checkout, installed by its Helm chart and ready; its namespace."""
    return made("operator") or step("cluster/operator", CLUSTER)[0]


@cache
def image(name: str) -> str:
    """An image by its short name: made where it is not there, and in the cluster's node."""
    if found := made(f"image:{name}"):
        return found
    (found,) = step("images/make", name)
    step("images/load", CLUSTER, found)
    return found
