"""`make bench`: MiniKafka and Apache Kafka side by side, turn by turn, in one run on this machine.

    python -m bench.run [--full] [--rounds N] [--check]

Start-up and idle cost first, then both clusters are up: Kafka's JVMs are warmed, and each round measures every test on
one and then on the other; last, the leader is killed. Prints a table of ratios and writes bench/results/. README.md
says how to read it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console

from bench import records
from bench.contenders import NAMES, Contender, contender, data_folder
from bench.failover import measure_failover
from bench.idle import measure_idle
from bench.measurements import FULL, FULL_TESTS, SHORT, SHORT_TESTS, Bench, Row
from bench.process_stats import Memory
from bench.startup import measure_startup
from bench.summary import as_json, compare, disturbed, show
from bench.warming import is_steady, warm_up
from tests.interop.kafka_jars import KafkaJarsMissing, kafka_classpath

TABLE_COLUMNS = 140
"""Width of the output where there is no terminal to fit it to."""
DISTURBED_SHARE_MAX = 0.25
SHORT_ROUNDS, FULL_ROUNDS = 3, 5
KILLS = {"minikafka": (5, 20), "kafka": (2, 6)}
"""(short, full). Apache Kafka needs 9 to 14 s for each, so it gets fewer."""


class Run:
    """One run: what was measured so far, and where it is told."""

    def __init__(self, full: bool, rounds: int, data: Path, console: Console) -> None:
        self.full = full
        self.rounds = rounds
        self.console = console
        self.rows: list[Row] = []
        self.warming: dict[str, list[float]] = {}
        """CPU seconds a GB of each look while a contender was warmed."""
        self.lost = 0
        self.subjects = {name: contender(name, data) for name in NAMES}

    def all(self) -> None:
        """Every measurement; both contenders are down and their data gone afterwards."""
        try:
            for subject in self.subjects.values():
                self._startup(subject)
            for subject in self.subjects.values():
                subject.up()
                self._idle(subject)
            self._loads()
            for name, subject in self.subjects.items():
                self._failover(name, subject)
        finally:
            for subject in self.subjects.values():
                subject.destroy()

    def _progress(self, subject: Contender, what: str) -> None:
        self.console.print(f"[dim]{datetime.now():%H:%M:%S}[/] {subject.name}: {what}", soft_wrap=True)

    def _record(self, row: Row) -> None:
        self.rows.append(row)
        shown = {name: value for name, value in row.figures.items() if name in ("mb_s", "req_s", "p50_ms", "p99_ms")}
        figures = ", ".join(f"{name} {value:,g}" for name, value in shown.items())
        self.console.print(
            f"[dim]{datetime.now():%H:%M:%S}[/] round {row.round} {row.contender}: {row.test}: {figures}, "
            f"brokers {row.broker_cpu_s:.1f} CPU s, {row.resident_mb:,.0f} MB; others {row.other_cpu_s:.1f} CPU s",
            soft_wrap=True,
        )

    def _note(self, subject: Contender, test: str, figures: dict[str, float], held: Memory) -> None:
        """A row of a measurement that is not a load."""
        self.rows.append(Row(subject.name, test, 0, figures, 0.0, 0.0, 0.0, 0.0, 0.0, held.resident, held.peak))

    def _startup(self, subject: Contender) -> None:
        for start in measure_startup(subject):
            figures = {"ready_s": start.ready_s, "first_ack_s": start.first_ack_s, "cpu_s": start.cpu_s}
            self._note(subject, f"start_{start.what}", figures, start.memory)
            self._progress(subject, f"{start.what} start, ready in {start.ready_s:.2f} s")

    def _idle(self, subject: Contender) -> None:
        idle = measure_idle(subject, seconds=20.0 if self.full else 8.0, settle_s=10.0 if self.full else 4.0)
        self._note(subject, "idle", {"cores": idle.cores}, idle.memory)
        self._progress(subject, f"idle: {idle.cores:.3f} cores, {idle.memory.resident:,.0f} MB")

    def _loads(self) -> None:
        benches = [Bench(subject, FULL if self.full else SHORT, self._record) for subject in self.subjects.values()]
        for bench in reversed(benches):
            self._progress(bench.subject, "warming up")
            looks = self.warming[bench.subject.name] = warm_up(bench)
            steady = "steady" if is_steady(looks) else "NOT steady, measured as it is"
            self._progress(bench.subject, f"{', '.join(f'{look:.1f}' for look in looks)} CPU s/GB: {steady}")
        for number in range(1, self.rounds + 1):
            for test in FULL_TESTS if self.full else SHORT_TESTS:
                for bench in benches if number % 2 else reversed(benches):  # neither is always first
                    bench.round = number
                    test(bench)

    def _failover(self, name: str, subject: Contender) -> None:
        self._progress(subject, "killing leaders")
        figures = measure_failover(subject, KILLS[name][self.full])
        self.lost += figures.verdict.lost
        for kill in figures.kills:
            values = {"gap_s": kill.gap_s, "worst_gap_s": figures.worst_gap_s, "of_controller": kill.was_controller}
            self._note(subject, "failover", values, Memory(0.0, 0.0, 0.0))
        self._progress(
            subject,
            f"median gap {figures.median_gap_s:.2f} s, worst {figures.worst_gap_s:.2f} s; "
            f"{figures.verdict.acknowledged} acknowledged, {figures.verdict.lost} lost",
        )


def write(run: Run, seconds: float) -> Path:
    """Write the results file and return its path."""
    content = {
        "rounds": run.rounds,
        "seconds": round(seconds),
        "disturbed_share": round(disturbed(run.rows), 2),
        "warming_cpu_s_per_gb": run.warming,
        "summary": as_json(compare(run.rows)),
        "rows": [row.as_json() for row in run.rows],
    }
    return records.write("full" if run.full else "short", content)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command of the module's docstring."""
    parser = argparse.ArgumentParser(description="MiniKafka beside Apache Kafka 4.3.1 on this machine")
    parser.add_argument("--full", action="store_true", help="all tests, more data, more kills: about an hour")
    parser.add_argument("--rounds", type=int, help=f"default {SHORT_ROUNDS}, with --full {FULL_ROUNDS}")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a goal is missed")
    args = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else TABLE_COLUMNS)
    try:
        kafka_classpath()
    except KafkaJarsMissing as missing:
        console.print(f"bench: {missing}")
        return 2
    began = time.monotonic()
    with data_folder() as folder:
        run = Run(args.full, args.rounds or (FULL_ROUNDS if args.full else SHORT_ROUNDS), folder, console)
        run.all()
    compared = compare(run.rows)
    show(compared, console)
    if (share := disturbed(run.rows)) > DISTURBED_SHARE_MAX:
        console.print(
            f"other work on this machine disturbed {share:.0%} of the loads: repeat it when the machine is quiet"
        )
    console.print(f"acknowledged records lost by kill -9: {run.lost}")
    console.print(f"written to {write(run, time.monotonic() - began).relative_to(records.RESULTS.parents[1])}")
    missed = [one.line.title for one in compared if one.reached is False]
    return 1 if run.lost or (args.check and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
