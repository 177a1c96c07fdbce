"""``python -m tests.bill [FILE OR FOLDER...]``: run tests, also those marked full, and put on record what each file cost.

``--add FILE`` takes what ``pytest --bill FILE`` has measured. The page, docs/internals/tests.md, is written anew.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.bill import page
from tools.wrap import wrapped


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bill", description="Measure what each test file costs.")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files or folders of tests (default: all)")
    parser.add_argument("--add", type=Path, metavar="FILE", help="take what was measured into FILE, and end")
    options = parser.parse_args(arguments)
    code = 0
    with tempfile.TemporaryDirectory() as folder:
        measured = options.add
        if measured is None:
            measured = Path(folder) / "bill.jsonl"
            code = measure(measured, options.paths)
        found = page.by_file(map(json.loads, measured.read_text().splitlines()))
        bill = page.load()
        page.save({**bill, **{file: {**bill.get(file, {}), **forms} for file, forms in found.items()}})
    page.PAGE.write_text(wrapped(page.page(page.load())), encoding="utf-8")
    return code


def measure(into: Path, paths: Sequence[str]) -> int:
    """Run the tests in as many processes as there are cores, so that none waits for another's; pytest's exit code."""
    beside = ("-n", str(os.cpu_count() or 1), "--dist", "loadgroup", "--no-loadscope-reorder", "--full")
    command = [sys.executable, "-m", "pytest", "-q", *beside, "-p", "tests.bill.plugin", "--bill", str(into), *paths]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
