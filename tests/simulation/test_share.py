"""``make simulated`` counts what schedules run, and not what they do not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_what_one_schedule_runs_is_counted() -> None:
    """In a process of its own: lines that ran before the count began are not in it."""
    tool = [sys.executable, "tools/simulated_share.py", "--seeds", "1..1", "--files"]
    out = subprocess.run(tool, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    shares = {
        m[1]: (int(m[2]), int(m[3])) for m in re.finditer(r"^(\S+) +(\d+) of +(\d+) +[\d.]+ %$", out, re.MULTILINE)
    }
    run, lines = shares["replication/replicas.py"]
    assert lines / 2 < run < lines
    assert shares["server/connection.py"][0] == 0 < shares["server/connection.py"][1]
    files = [share for name, share in shares.items() if name.endswith(".py")]
    assert shares["all"] == (sum(run for run, _ in files), sum(lines for _, lines in files))


def test_bad_input() -> None:
    tool = [sys.executable, "tools/simulated_share.py", "--seeds", "9..1"]
    refused = subprocess.run(tool, cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "allowed: A..B" in refused.stderr
