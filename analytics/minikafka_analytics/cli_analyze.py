"""`minikafka analyze RUN_DIR...`: the Spark report of one run, or of several side by side."""

from __future__ import annotations

import argparse
import errno
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minikafka_analytics.analyze import Told
    from minikafka_analytics.manifest import Manifest

HELP = "Spark analysis of runs: report.html, report.json, Parquet"

OK, NO, BAD_INPUT, COULD_NOT_TELL = 0, 1, 2, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `minikafka analyze`."""
    parser.add_argument(
        "run_dirs", metavar="RUN_DIR", nargs="+", type=Path, help="a folder of `minikafka demo` or `chaos run`"
    )
    parser.add_argument(
        "--master",
        default="local[*]",
        metavar="URL",
        help="where Spark runs: local[*] (default), local[N], or in a pod k8s:// (executors like that pod)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where the report goes (default: the run's folder; of several, `comparison` beside the first)",
    )
    parser.add_argument(
        "--missing",
        action="store_true",
        help="RUN_DIR is a folder of runs: make the reports of those that have ended and have none",
    )
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting for Spark, repeatable"
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
    try:
        import minikafka_analytics.analyze  # noqa: F401
    except ModuleNotFoundError as error:
        return _fail(f"{error.name} is not installed: pip install 'minikafka[analytics]'", COULD_NOT_TELL)
    if args.missing:
        return _missing(args, settings)
    beside = args.run_dirs[0] if len(args.run_dirs) == 1 else args.run_dirs[0].resolve().parent / "comparison"
    return _report(args.run_dirs, args.out or beside, args, settings)


def _missing(args: argparse.Namespace, settings: Mapping[str, str]) -> int:
    """Each missing report in its run's folder; the worst of their exit codes."""
    from minikafka_analytics.pending import without_report
    from minikafka_analytics.run_folder import NoRun

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


def _report(run_dirs: Sequence[Path], out: Path, args: argparse.Namespace, settings: Mapping[str, str]) -> int:
    from minikafka_analytics.analyze import analyze, told
    from minikafka_analytics.java import JavaMissing
    from minikafka_analytics.on_kubernetes import BadMaster
    from minikafka_analytics.run_folder import NoRun
    from minikafka_analytics.session import SparkDidNotStart
    from minikafka_analytics.trouble import SparkFailed

    try:
        paths = analyze(run_dirs, out, args.master, settings)
    except (NoRun, BadMaster) as error:
        return _fail(str(error), BAD_INPUT)
    except (JavaMissing, SparkDidNotStart, SparkFailed) as error:
        return _fail(str(error), COULD_NOT_TELL)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return _fail(f"{out}: {error.strerror or error}", COULD_NOT_TELL if full else BAD_INPUT)
    found = told(paths)
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
    """What was landed for a report, and what had been before."""
    said = f"landed: {sum(one.bytes for one in landed):,} bytes of {_files(len(landed))}"
    bad = sum(one.bad for one in landed)
    said += f", {bad:,} bad lines in quarantine" if bad else ""
    return said + (f"; {_files(kept)} had been before" if kept else "")


def _files(number: int) -> str:
    return f"{number} file{'' if number == 1 else 's'}"


def exit_code(found: Sequence[Told]) -> int:
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
