"""``make simulated`` counts what schedules run, and not what they do not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.full
def test_what_one_schedule_runs_is_counted() -> None:
    """In a process of its own: lines that ran before the count began are not in it."""
    tool = [sys.executable, "tools/simulated_share.py", "--seeds", "1..1", "--files"]
    out = subprocess.run(tool, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    shares = {
        m[1]: (int(m[2]), int(m[3])) for m in re.finditer(r"^(\S+) +(\d+) of +(\d+) +[\d.]+ %$", out, re.MULTILINE)
    }
    run, lines = shares["replication/replicas.py"]
    assert lines / 2 < run < lines
    run, lines = shares["server/connection.py"]
    assert lines / 2 < run <= lines
    files = [share for name, share in shares.items() if name.endswith(".py")]
    assert shares["all"] == (sum(run for run, _ in files), sum(lines for _, lines in files))


def test_what_is_left_out_is_there() -> None:
    """A file that moves would count again, and nobody would see why."""
    text = (ROOT / "tools" / "simulated_share.py").read_text(encoding="utf-8")
    apart = re.findall(r'^    "(\S+\.py)": "', text, re.MULTILINE)
    assert apart and all((ROOT / "broker-image" / "minikafka" / name).is_file() for name in apart)


def test_bad_input() -> None:
    tool = [sys.executable, "tools/simulated_share.py", "--seeds", "9..1"]
    refused = subprocess.run(tool, cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "allowed: A..B" in refused.stderr
