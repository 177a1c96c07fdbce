"""What was measured, as a file in results/: when, on which commit and on which machine."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.process_stats import machine_facts

RESULTS = Path(__file__).with_name("results")


def commit() -> str:
    """The short hash of the checkout, ``-dirty`` when it was changed; ``uncommitted`` outside a repository."""
    command = ["git", "-C", str(RESULTS.parent), "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "uncommitted"


def write(form: str, content: Mapping[str, Any]) -> Path:
    """Write `results/<date>-<commit>-<form>.json` and return its path."""
    RESULTS.mkdir(exist_ok=True)
    now = datetime.now(UTC)
    path = RESULTS / f"{now:%Y-%m-%d}-{commit()}-{form}.json"
    about = {"time": now.isoformat(timespec="seconds"), "form": form, "commit": commit()}
    machine = {"machine": machine_facts() | {"python": platform.python_version()}}
    path.write_text(json.dumps(about | machine | dict(content), indent=1) + "\n", encoding="utf-8")
    return path
