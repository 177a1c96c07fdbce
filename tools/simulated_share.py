"""How much of a broker the simulator runs: the share of lines of each package that schedules execute.

``make simulated`` runs seeds 1 to 300; ``ARGS='--seeds 1..50 --files'`` fewer, with a line for each file. A claim of so many
schedules without a violation is worth as much as the share of the broker that runs in them. Definitions count as run when they
are imported, as everywhere where lines are counted; what is only declared for the type checker does not count at all.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import coverage

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "broker-image" / "minikafka"
APART = {
    "log/filesystem.py": "files",
    "log/injection.py": "faults of a test on real files",
    "log/inspection.py": "reading files for dump-log",
    "metadata/sqlite.py": "SQLite's file; its transactions are in database.py",
    "metadata/memory.py": "for tests",
    "kubernetes/connection.py": "sockets",
    "kubernetes/credentials.py": "files of a kubeconfig and of a pod",
    "transport/http.py": "sockets",
    "server/machine.py": "what is this machine's",
}
"""What no simulation runs, and why. The last line leaves it out."""

PACKAGES = (
    "replication",
    "controller",
    "membership",
    "log",
    "metadata",
    "kubernetes",
    "groups",
    "transport",
    "authorization",
    "server",
)


class Share(NamedTuple):
    """Lines of a package or file."""

    name: str
    run: int
    lines: int

    def __str__(self) -> str:
        return f"{self.name:<34} {self.run:>6} of {self.lines:>6}  {100 * self.run / max(self.lines, 1):5.1f} %"


def measure(seeds: range) -> list[Share]:
    """Run these schedules of production's code; a share for each file, in the order of their paths."""
    counter = coverage.Coverage(data_file=None, config_file=False, source=[str(SOURCE / name) for name in PACKAGES])
    counter.exclude("if TYPE_CHECKING:")
    counter.exclude(r"^\s*\.\.\.$")
    counter.start()
    try:
        from minikafka_simulator.schedules.world import simulate

        for seed in seeds:
            result = simulate(seed)
            if result.violation is not None:
                print(f"seed {seed}: {result.violation}", file=sys.stderr)
    finally:
        counter.stop()
    found = []
    for path in sorted(path for name in PACKAGES for path in (SOURCE / name).rglob("*.py")):
        _, lines, _, missing, _ = counter.analysis2(str(path))
        if lines:
            found.append(Share(str(path.relative_to(SOURCE)), len(lines) - len(missing), len(lines)))
    return found


def by_package(files: Sequence[Share]) -> list[Share]:
    """Sums of each package, and of all."""
    sums = []
    for package in PACKAGES:
        inside = [share for share in files if share.name.startswith(f"{package}/")]
        sums.append(Share(f"{package}/", sum(s.run for s in inside), sum(s.lines for s in inside)))
    rest = [share for share in files if share.name not in APART]
    return [
        *sums,
        Share("all", sum(s.run for s in sums), sum(s.lines for s in sums)),
        Share("sockets and files apart", sum(s.run for s in rest), sum(s.lines for s in rest)),
    ]


def _seeds(text: str) -> range:
    first, dots, last = text.partition("..")
    if not (dots and first.isdigit() and last.isdigit() and int(first) <= int(last)):
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: A..B")
    return range(int(first), int(last) + 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 printed, 2 bad input."""
    parser = argparse.ArgumentParser(prog="make simulated", description="Share of a broker's lines that schedules run.")
    parser.add_argument("--seeds", type=_seeds, default=range(1, 301), metavar="A..B", help="default 1..300")
    parser.add_argument("--files", action="store_true", help="a line for each file, too")
    options = parser.parse_args(arguments)
    files = measure(options.seeds)
    for share in (*(files if options.files else ()), *by_package(files)):
        print(share)
    return 0


if __name__ == "__main__":
    sys.exit(main())
