"""`make fuzz`: search for inputs that break what reads bytes of others, target by target (docs/internals/fuzzing.md)."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

FOLDER = Path("build/fuzz")
"""Gets a corpus for each target, with which the next search goes on, and what was found."""
SLOWED_DOWN = 10
"""By how much others on the machine may delay a search."""
ENDING_SECONDS = 120
"""What a search may take beyond its time: to load everything, and to be in the middle of something."""
LINES_SHOWN = 40
UNCAUGHT = "Uncaught Python exception"
COLUMNS = "{:<17} {:>10} {:>8} {:>9} {:>9}  {}"


class Search(NamedTuple):
    """What a search of one target came to."""

    executions: int
    seconds: float
    """Of processor time, with what it took to load everything."""
    edges: int
    inputs: int
    """Of the corpus: each reaches something that no other does."""
    finding: Path | None
    said: str


def search(target: Target, seconds: int) -> Search:
    """Run the engine for a target; what it leaves behind is under `FOLDER`."""
    folder = FOLDER / target.name
    found = folder / "found"
    for each in (folder / "corpus", found):
        each.mkdir(parents=True, exist_ok=True)
    before = {path: path.stat().st_mtime_ns for path in found.iterdir()}
    engine = [sys.executable, "-m", "tests.fuzz.engine", target.name, str(folder), str(seconds)]
    began = _children_seconds()
    try:
        done = subprocess.run(
            [*engine, f"-artifact_prefix={found}/"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SLOWED_DOWN * seconds + ENDING_SECONDS,
        )
        said, code = done.stdout.decode(errors="replace"), done.returncode
    except subprocess.TimeoutExpired as error:
        said, code = (error.stdout or b"").decode(errors="replace") + "\nthe search did not end in time", -1
    new = [path for path in found.iterdir() if before.get(path) != path.stat().st_mtime_ns]
    finding = max(new, key=lambda path: path.stat().st_mtime_ns, default=folder if code else None)
    return Search(
        int(_last(r"stat::number_of_executed_units: (\d+)", said) or _last(r"^#(\d+)\t", said) or 0),
        _children_seconds() - began,
        int(_last(r"\bcov: (\d+)", said) or 0),
        int(_last(r"\bcorp: (\d+)", said) or 0),
        finding,
        "\n".join(line for line in said.splitlines() if not line.startswith("INFO: Instrumenting")),
    )


def _children_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _last(pattern: str, text: str) -> str | None:
    found = re.findall(pattern, text, re.MULTILINE)
    return found[-1] if found else None


def _shown(name: str, found: Search) -> str:
    finding = "" if found.finding is None else f"FINDING {found.finding}"
    return COLUMNS.format(name, found.executions, f"{found.seconds:.0f}", found.edges, found.inputs, finding)


def _telling(said: str) -> list[str]:
    """The lines that tell of a finding: the traceback, or the last ones of a process that has died."""
    lines = said.splitlines()
    at = next((n for n, line in enumerate(lines) if UNCAUGHT in line), max(0, len(lines) - LINES_SHOWN))
    return lines[at : at + LINES_SHOWN]


def replay(target: Target, paths: Sequence[Path]) -> int:
    """Run inputs through a target without the engine; returns how many are findings."""
    findings = 0
    for path in paths:
        try:
            target.check(path.read_bytes())
        except Exception:
            findings += 1
            print(f"{path}: a finding\n{traceback.format_exc()}")
        else:
            print(f"{path}: nothing wrong")
    return findings


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 nothing was found, 1 something was, 2 bad input."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--target", action="append", choices=TARGETS, help="may be given several times; all by default")
    parser.add_argument("--seconds", type=int, default=60, help="of processor time, for each target (%(default)s)")
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE", help="run these inputs of --target instead")
    options = parser.parse_args(arguments)
    if options.seconds < 1:
        parser.error(f"--seconds: {options.seconds}; allowed: 1 or more")
    if options.replay:
        if not options.target or len(options.target) > 1:
            parser.error("--replay: needs one --target")
        if missing := [str(path) for path in options.replay if not path.is_file()]:
            parser.error(f"--replay: {missing[0]}; allowed: a file")
        return 1 if replay(TARGETS[options.target[0]], options.replay) else 0
    print(COLUMNS.format("target", "executions", "CPU s", "edges", "inputs", ""), flush=True)
    findings = 0
    for name in options.target or TARGETS:
        found = search(TARGETS[name], options.seconds)
        print(_shown(name, found), flush=True)
        if found.finding is not None:
            findings += 1
            print("\n".join(f"    {line}" for line in _telling(found.said)), flush=True)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
