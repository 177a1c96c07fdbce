"""Has the specification judge recorded traces, by Quint."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.specification.recorder import Trace
from tests.specification.translation import Refusal, module, refusals

ROOT = Path(__file__).parents[2]
SPECIFICATION = ROOT / "spec"
TRACES_AT_ONCE = 30
"""In a module; Quint's memory grows with its modules."""


class QuintFailed(Exception):
    """Quint did not get to a verdict; what it said."""


def quint(*arguments: str, folder: Path = SPECIFICATION) -> subprocess.CompletedProcess[str]:
    """Run Quint, which `tools/quint` has installed."""
    program = os.environ.get("MINIKAFKA_QUINT") or str(ROOT / "tools" / "quint")
    return subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def judged(traces: Sequence[Trace]) -> list[Refusal]:
    """What the specification says of each trace. Raises QuintFailed."""
    found: list[Refusal] = []
    for first in range(0, len(traces), TRACES_AT_ONCE):
        found += _judged(traces[first : first + TRACES_AT_ONCE])
    return found


def _judged(traces: Sequence[Trace]) -> list[Refusal]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in ("partition.qnt", "replay.qnt"):
            shutil.copy(SPECIFICATION / file, folder)
        (folder / "traces.qnt").write_text(module(traces), encoding="utf-8")
        run = quint(
            "run", "traces.qnt", "--main=traces", "--backend=typescript", "--max-samples=1", "--max-steps=1",
            "--out-itf=verdicts.itf.json", "--verbosity=1", folder=folder,
        )  # fmt: skip
        verdicts = folder / "verdicts.itf.json"
        if not verdicts.exists():
            raise QuintFailed(run.stdout + run.stderr)
        return refusals(traces, json.loads(verdicts.read_text(encoding="utf-8")))
