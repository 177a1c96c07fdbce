"""Charts as helm renders them, and what holds for the values of every one of them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.apiserver.control_plane import find_program, program_folder

KUBERNETES = "--kube-version=1.31.0"
"""helm does not know the version of a cluster that it is not told."""


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = find_program("helm", program_folder())
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=240, check=False)


def rendered(release: str, chart: Path, namespace: str, *options: str) -> list[dict[str, Any]]:
    """The objects of a release of the chart."""
    done = helm("template", release, str(chart), f"--namespace={namespace}", KUBERNETES, *options)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def lint(chart: Path, *options: str) -> None:
    """That helm finds nothing to complain of."""
    done = helm("lint", "--strict", str(chart), *options)
    assert done.returncode == 0, done.stdout


def refused(release: str, chart: Path, value: str) -> str:
    """What helm says of a value that it does not take."""
    done = helm("template", release, str(chart), KUBERNETES, "--set", value)
    assert done.returncode != 0
    return done.stderr


def check_values(chart: Path) -> None:
    """That every value is in the schema, and has a comment above it."""
    lines = (chart / "values.yaml").read_text().splitlines()
    values = yaml.safe_load("\n".join(lines))
    schema = yaml.safe_load((chart / "values.schema.json").read_text())
    assert set(values) == set(schema["properties"]) - {"global"}
    for number, line in enumerate(lines):
        if line and line[0].isalpha():
            assert lines[number - 1].startswith("#"), f"nothing is said about {line.partition(':')[0]}"
