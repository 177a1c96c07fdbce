"""`make suites`: run other people's test suites against brokers (docs/reference/suites.md).

Exit codes: 0 what fails is what is declared, 1 something else fails or what is declared passes, 2 bad input.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.suites import go_tests, python_tests, results
from tests.suites.catalogue import SUITES, TOXIPROXY, Suite

FOLDER = Path("build/suites").absolute()
"""Gets the suites and their compiled tests, which stay, and what the last run has logged."""
IN_A_NETWORK_OF_ITS_OWN = ("unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
STARTING_SECONDS = 600
"""What a suite may take beyond its own time."""


def run(suite: Suite) -> results.Result:
    """Fetch a suite and run it; what brokers and tests say is kept in `FOLDER`."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    fetched = (python_tests if suite.plugin else go_tests).fetch(suite, FOLDER)
    folder = FOLDER / "runs" / suite.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    inside = [sys.executable, "-m", "tests.suites.inside", suite.name, *map(str, (*fetched, folder))]
    if suite.proxied:
        inside.append(str(go_tests.install(TOXIPROXY, FOLDER / "bin")))
    up = 'ip link set lo up && exec "$@"'
    subprocess.run(
        [*IN_A_NETWORK_OF_ITS_OWN, "sh", "-c", up, "sh", *inside],
        check=True,
        timeout=60 * suite.minutes + STARTING_SECONDS,
    )
    return results.summed(json.loads((folder / "outcomes.json").read_text()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suites that are named, or all."""
    names = [suite.name for suite in SUITES]
    parser = argparse.ArgumentParser(prog="python -m tests.suites", description="Other people's test suites.")
    parser.add_argument("suite", nargs="*", help=f"which to run: {', '.join(names)} (all)")
    options = parser.parse_args(arguments)
    if strange := set(options.suite) - set(names):
        parser.error(f"suite: {', '.join(sorted(strange))} is not one of {', '.join(names)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended, too
    wrong = []
    for suite in SUITES:
        if options.suite and suite.name not in options.suite:
            continue
        print(f"{suite.name}: {suite.module} {suite.version}, {suite.listener}", flush=True)
        result = run(suite)
        results.save(results.load() | {suite.name: result})
        failed = sum(result["failed"].values())
        print(f"  {result['passed']} passed, {failed} failed, {result['skipped']} skipped", flush=True)
        wrong += results.surprises(suite, result)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
