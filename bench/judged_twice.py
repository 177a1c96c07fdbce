"""Both judges on the same runs: `python -m bench.judged_twice DIR`, where DIR holds run folders.

`python -m bench.judged_runs --runs 1000 --keep DIR` makes simulated ones, `minikafka chaos run` and `minikafka demo` those
of processes. The verifier's word is the one in each run's journal, Spark judges again from the raw evidence, many runs at a
time, and every difference in a verdict, a kind or a count is printed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from minikafka_analytics.analyze import judge

AT_ONCE = 250
"""Runs in one Spark session."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 both judges agree on all runs, 1 they differ on some, 3 there is nothing that both have judged."""
    parser = argparse.ArgumentParser(prog="python -m bench.judged_twice", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the run folders are")
    options = parser.parse_args(arguments)
    runs = sorted(path.parent for path in options.folder.glob("*/history.jsonl"))
    words: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    compared = differing = 0
    for first in range(0, len(runs), AT_ONCE):
        with tempfile.TemporaryDirectory() as scratch:
            found = judge(runs[first : first + AT_ONCE], Path(scratch))
        for run in found:
            verdict = run["verdict"]
            words[f"{verdict['verifier'] or 'no word'} / {verdict['recomputed']}"] += 1
            kinds.update(run["kinds"])
            compared += verdict["agree"] is not None
            if verdict["agree"] is False:
                differing += 1
                differences = ", ".join(
                    f"{d['figure']} {d['verifier']} / {d['analysis']}" for d in verdict["differences"]
                )
                print(f"{run['id']}: {differences}", flush=True)
    print(f"{len(runs)} runs, {compared} judged by both, {differing} differ (verifier / Spark)")
    print(", ".join(f"{word}: {number}" for word, number in words.most_common()))
    print(", ".join(f"{kind}: {number}" for kind, number in kinds.most_common()))
    if not compared:
        return 3
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
