"""`minikafka demo`: the whole mission in one command.

Three brokers, a real client's load, a killed leader, a power loss, the verdict found from what clients were told and
what the replicas' logs hold, metrics and events on record, and a Spark report of it. Leaves nothing running.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from minikafka_chaos.commands.chaos import add_run_arguments, keep_or_drop_data
from minikafka_chaos.errors import BadScenario, ToolTrouble
from minikafka_chaos.record.journal import CLUSTER_FOLDER

if TYPE_CHECKING:
    from minikafka_analytics.commands.prewarm import PrewarmedAnalysis
    from rich.console import Console

    from minikafka_chaos.run.interrupts import Interrupts

HELP = "three brokers, real clients, a killed leader, a power loss, a verdict, a Spark report"

SCENARIO = "demo"
COULD_NOT_TELL = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `minikafka demo`."""
    parser.add_argument("--seconds", type=int, metavar="N", help="least time that the load lasts (default 20)")
    add_run_arguments(parser)
    parser.add_argument("--no-report", action="store_true", help="leave the Spark analysis out")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")


def run(args: argparse.Namespace) -> int:
    """Run `minikafka demo`; the exit code is the verdict's: 0 Passed, 1 Failed, 2 bad input, 3 could not tell.

    Where the analysis comes to another verdict than the verifier, or to other counts, that is said first, and the code is 3.
    """
    from minikafka_analytics.commands.prewarm import PrewarmedAnalysis

    from minikafka_chaos.grounds.processes import ProcessesGround
    from minikafka_chaos.run.interrupts import Interrupts
    from minikafka_chaos.run.progress import ConsoleReporter, new_console
    from minikafka_chaos.run.runner import new_run_directory, run_scenario
    from minikafka_chaos.scenario import library
    from minikafka_chaos.verdict.report_table import print_verdict

    console = new_console(stderr=args.json)
    interrupts = Interrupts()
    try:
        scenario = library.find(SCENARIO)
        if args.seconds is not None:
            scenario = scenario.lasting(args.seconds)
        directory = new_run_directory(args.out, SCENARIO)
        console.print(f"[bold]minikafka demo[/]: {scenario.spec.description}")
        with (
            interrupts.watched(),
            ConsoleReporter(console) as reporter,
            interrupts.held(),
            PrewarmedAnalysis() as analysis,
        ):
            seconds = scenario.spec.workload.duration_seconds
            reports = not args.no_report and _spark_is_installed()
            begin = None if not reports else partial(_begin, analysis, directory, time.monotonic(), seconds)
            ground = ProcessesGround(directory / CLUSTER_FOLDER)
            result = run_scenario(scenario, ground, directory, seed=args.seed, reporter=reporter, after_story=begin)
            rows, differ = [("run directory", str(directory))], None
            if not args.no_report and not reports:
                rows.append(("report", "none: needs the extra 'analytics': pip install 'minikafka[analytics]'"))
            if reports and result.verdict.counts:
                reporter.status("analysing with Spark")
                found, differ = _analyse(directory, analysis, interrupts, console)
                rows += found
    except BadScenario as error:
        print(f"minikafka demo: {error}", file=sys.stderr)
        return 2
    except ToolTrouble as error:
        print(f"minikafka demo: {error}", file=sys.stderr)
        return 3
    code = result.verdict.outcome.exit_code
    rows += keep_or_drop_data(directory, args.keep_data, code if differ is None else COULD_NOT_TELL)
    if args.json:
        print(json.dumps({**result.verdict.as_json(), "run": str(directory), "judges_differ": differ}, indent=2))
    else:
        if differ is not None:
            console.print(f"[bold red]{escape(differ)}[/]")
        print_verdict(console, result.verdict, rows)
    return code if differ is None else COULD_NOT_TELL


def _spark_is_installed() -> bool:
    return all(find_spec(module) is not None for module in ("pyspark", "jinja2"))


def _begin(analysis: PrewarmedAnalysis, directory: Path, began: float, seconds: float) -> None:
    """Have Spark start and warm up while the load comes to its end and the run is judged, for about as much as its analysis will
    read: what the load and the scrapes have written by then, and as much again of the final read and the replicas' logs.

    `began` of the monotonic clock; the load lasts `seconds` at least.
    """
    written = 0
    with suppress(OSError):  # of a file that has gone meanwhile; a size that is wrong costs time only
        for path in directory.rglob("*.jsonl"):
            written += path.stat().st_size
    analysis.begin(int(2 * written * max(1.0, seconds / (time.monotonic() - began))))


def _analyse(
    directory: Path, analysis: PrewarmedAnalysis, interrupts: Interrupts, console: Console
) -> tuple[list[tuple[str, str]], str | None]:
    """The Spark report's rows for the verdict table, and how the two judges differ, if they do.

    What goes wrong here is one line: the verdict stands without. So it does where a signal comes.
    """
    from minikafka_analytics.commands.prewarm import AnalysisFailed

    began = time.monotonic()
    try:
        with interrupts.let_through():
            found = analysis.analyze(directory, directory)
    except AnalysisFailed as error:
        return [("report", f"none: {error}")], None
    except KeyboardInterrupt:
        return [("report", "none: interrupted")], None
    console.print(f"[dim]analysed with Spark in {time.monotonic() - began:.1f} s[/]")
    return [("report", str(found.html)), ("report as data", str(found.json))], found.differ
