"""`minikafka analyze RUN_DIR...`: the Spark report of one run, of several side by side, or of all runs in a folder, compared."""

from __future__ import annotations

import argparse
import errno
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeVar

from minikafka_analytics.storage.stores import Place, StoreFailed, absolute, place

if TYPE_CHECKING:
    from minikafka_analytics.analyze import ReportedRun, ReportPaths
    from minikafka_analytics.landing.manifest import Manifest

HELP = "Spark analysis of runs: report.html, report.json, Parquet"

T = TypeVar("T")

PACKAGES = "spark.jars.packages"

OK, NO, BAD_INPUT, COULD_NOT_TELL = 0, 1, 2, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `minikafka analyze`."""
    parser.add_argument(
        "run_dirs",
        metavar="RUN_DIR",
        nargs="+",
        type=place,
        help="a folder of `minikafka demo` or `chaos run`, here or in a store (s3a://bucket/runs/one); or one folder of many of "
        "them: each that has no report of what is in it now gets one, and all are compared (comparison.json)",
    )
    parser.add_argument(
        "--master",
        default="local[*]",
        metavar="URL",
        help="where Spark runs: local[*] (default), local[N], or in a pod k8s:// (executors like that pod)",
    )
    parser.add_argument(
        "--out",
        type=place,
        metavar="DIR",
        help="where the report goes, here or in a store (default: the run's folder; of several, `comparison` beside the first; "
        "of a folder of runs, comparison.json goes into its `comparison`)",
    )
    parser.add_argument(
        "--missing",
        action="store_true",
        help="RUN_DIR is a folder of runs: make the reports of those that have ended and have none",
    )
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting for Spark, repeatable"
    )
    parser.add_argument(
        "--packages",
        metavar="GROUP:ID:VERSION",
        help="jars for Spark with all that they need, from Maven Central, comma-separated: such as "
        "org.apache.hadoop:hadoop-aws:VERSION to reach s3a:// (docs/guide/analysis.md)",
    )
    parser.add_argument("--json", action="store_true", help="print where the report is, and its verdicts, as JSON")


def run(args: argparse.Namespace) -> int:
    """Run `minikafka analyze`: 0 every run passed, 1 a run failed, 2 bad input, 3 could not tell.

    Could not tell: no Java, Spark failed, the disk is full, a run is Inconclusive, or the verifier says something else of a run:
    that comes first, whatever the other runs are.
    """
    settings = dict(pair.split("=", 1) for pair in args.conf if "=" in pair)
    if len(settings) < len(args.conf):
        return _fail("--conf must be KEY=VALUE", BAD_INPUT)
    if args.packages and settings.setdefault(PACKAGES, args.packages) != args.packages:
        return _fail(f"--packages: not beside --conf {PACKAGES}, which is the same", BAD_INPUT)
    try:
        import minikafka_analytics.analyze  # noqa: F401
    except ModuleNotFoundError as error:
        return _fail(f"{error.name} is not installed: pip install 'minikafka[analytics]'", COULD_NOT_TELL)
    try:
        with _ended_in_order():
            return _tried(partial(_reached, args, settings), args.run_dirs[0])
    except _Refused as refused:
        return _fail(str(refused), refused.code)


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """SIGTERM ends the block as an exception, so that folders of scratch files go, too: a Job's deadline or a deleted pod."""

    def end(number: int, frame: object) -> NoReturn:
        del frame
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # others may not say what a signal does
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _reached(args: argparse.Namespace, settings: Mapping[str, str]) -> int:
    """The work itself, with one JVM for all of it where something is in a store."""
    from minikafka_analytics.spark.session import reached

    with reached([*args.run_dirs, *([args.out] if args.out else [])], args.master, settings):
        return _missing(args, settings) if args.missing else _ran(args, settings)


def _ran(args: argparse.Namespace, settings: Mapping[str, str]) -> int:
    from minikafka_analytics.landing.pending import is_parent

    if parents := [each for each in args.run_dirs if is_parent(each)]:
        if len(args.run_dirs) > 1:
            return _fail(
                f"{parents[0]}: a folder of runs is compared alone; or name runs, and no such folder", BAD_INPUT
            )
        return _compare(parents[0], args, settings)
    beside = args.run_dirs[0] if len(args.run_dirs) == 1 else absolute(args.run_dirs[0]).parent / "comparison"
    return _report(args.run_dirs, args.out or beside, args, settings)


def _missing(args: argparse.Namespace, settings: Mapping[str, str]) -> int:
    """Each missing report in its run's folder; the worst of their exit codes."""
    from minikafka_analytics.landing.pending import without_report
    from minikafka_analytics.landing.run_folder import NoRun

    if args.out is not None:
        return _fail("--out: not beside --missing; each report goes into its run's folder", BAD_INPUT)
    try:
        runs = [run for parent in args.run_dirs for run in without_report(parent)]
    except NoRun as error:
        return _fail(str(error), BAD_INPUT)
    if not runs:
        print("every run that has ended has its report")
    codes = {_report([run], run, args, settings) for run in runs}
    return next((code for code in (COULD_NOT_TELL, BAD_INPUT, NO) if code in codes), OK)


def _compare(parent: Place, args: argparse.Namespace, settings: Mapping[str, str]) -> int:
    """The missing reports, each of its run alone, and the comparison of all; the worst exit code of the runs that are in it.

    A run that cannot be analysed is left out, and said to be; then the whole could not tell.
    """
    from minikafka_analytics.analyze import reported_runs_in
    from minikafka_analytics.comparison.compare import compare, text
    from minikafka_analytics.landing.pending import REPORT, runs_in

    runs, where = runs_in(parent), args.out or parent / "comparison"
    out = sys.stderr if args.json else sys.stdout
    left_out, failed = dict(runs.left_out), 0
    for number, run in enumerate(runs.missing, 1):
        print(f"{run.name}: is analysed ({number} of {len(runs.missing)})", file=out, flush=True)
        try:
            landed = _tried(partial(_analyse, [run], run, args, settings), run)
        except _Refused as refused:
            print(f"minikafka analyze: {run.name}: {refused}", file=sys.stderr)
            left_out[run] = f"it could not be analysed: {refused}"
            failed += 1
            continue
        print(landed_line(landed.landed, landed.kept), file=out, flush=True)
    if not runs.missing:
        print(f"landed: 0 bytes; every run in {parent} has its report", file=out)
    kept = [run for run in runs.ended if run not in left_out]
    if not kept:
        return _fail(f"{parent}: no run that could be compared", COULD_NOT_TELL)
    try:
        found = _tried(partial(compare, kept, where, left_out, args.master, settings), where)
    except _Refused as refused:
        return _fail(str(refused), refused.code)
    if args.json:
        print(json.dumps({**found.document, "json": str(found.path)}))
    else:
        print("\n".join(text(found.document)))
        print(f"comparison: {found.path}")
    code = exit_code([each for run in kept for each in reported_runs_in(run / REPORT)])
    return COULD_NOT_TELL if failed else code


class _Refused(Exception):
    """What an analysis cannot do, in one line, with the exit code that says whose fault it is."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def _tried(make: Callable[[], T], out: Place) -> T:
    """Return what `make` gives, which writes into `out`; raises _Refused for all that an analysis may raise."""
    from minikafka_analytics.landing.run_folder import NoRun
    from minikafka_analytics.spark.failures import SparkFailed
    from minikafka_analytics.spark.java import JavaMissing
    from minikafka_analytics.spark.jvm import SparkDidNotStart
    from minikafka_analytics.spark.on_kubernetes import BadMaster

    try:
        return make()
    except (NoRun, BadMaster) as error:
        raise _Refused(str(error), BAD_INPUT) from error
    except (JavaMissing, SparkDidNotStart, SparkFailed, StoreFailed) as error:
        raise _Refused(str(error), COULD_NOT_TELL) from error
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise _Refused(
            f"{error.filename or out}: {error.strerror or error}", COULD_NOT_TELL if full else BAD_INPUT
        ) from error


def _analyse(
    run_dirs: Sequence[Place], out: Place, args: argparse.Namespace, settings: Mapping[str, str]
) -> ReportPaths:
    from minikafka_analytics.analyze import analyze

    return analyze(run_dirs, out, args.master, settings)


def _report(run_dirs: Sequence[Place], out: Place, args: argparse.Namespace, settings: Mapping[str, str]) -> int:
    from minikafka_analytics.analyze import reported_runs

    try:
        paths = _tried(partial(_analyse, run_dirs, out, args, settings), out)
    except _Refused as refused:
        return _fail(str(refused), refused.code)
    found = reported_runs(paths)
    if args.json:
        files = {"html": str(paths.html), "json": str(paths.json), "parquet": str(paths.parquet)}
        runs = [each._asdict() for each in found]
        landed = {"files": len(paths.landed), "bytes": sum(one.bytes for one in paths.landed), "kept": paths.kept}
        print(json.dumps({**files, "landed": landed, "verdicts": [each.verdict for each in found], "runs": runs}))
    else:
        for each in sorted(found, key=lambda each: each.agree is not False):
            print(f"{each.id}: {each.sentence if each.agree is False else each.verdict}")
        print(landed_line(paths.landed, paths.kept))
        print(f"report: {paths.html}")
    return exit_code(found)


def landed_line(landed: Sequence[Manifest], kept: int) -> str:
    """Return what was landed for a report, and what had been before."""
    said = f"landed: {sum(one.bytes for one in landed):,} bytes of {_files(len(landed))}"
    bad = sum(one.bad for one in landed)
    said += f", {bad:,} bad lines in quarantine" if bad else ""
    return said + (f"; {_files(kept)} had been before" if kept else "")


def _files(number: int) -> str:
    return f"{number} file{'' if number == 1 else 's'}"


def exit_code(found: Sequence[ReportedRun]) -> int:
    """The worst of them: judges that differ outweigh a failed run, and that one that could not tell."""
    if any(each.agree is False for each in found):
        return COULD_NOT_TELL
    verdicts = {each.verdict for each in found}
    if "Failed" in verdicts:
        return NO
    return OK if verdicts == {"Passed"} else COULD_NOT_TELL


def _fail(message: str, code: int) -> int:
    print(f"minikafka analyze: {message}", file=sys.stderr)
    return code
