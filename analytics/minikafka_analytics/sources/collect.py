"""The metrics and events of a run from where a cluster has them: a Prometheus, volumes with brokers' event logs, logs of pods.

``python -m minikafka_analytics.sources RUN_DIR --prometheus URL --events FOLDER --pod-logs FOLDER`` puts them into the run's
folder, in the form in which a runner writes them, for the time that the run's journal tells of. Prometheus is asked for raw
samples (`prometheus.py`); what it does not answer is written beside them, and the report tells it. What a run has of its own is
never replaced; logs of pods add the events that it does not have. Exit codes: 0 done, 2 bad input, 3 could not be had.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from minikafka_analytics.landing.run_folder import UNANSWERED, unanswered
from minikafka_analytics.sources import pod_logs
from minikafka_analytics.sources.prometheus import Missing, Prometheus, PrometheusError

JOURNAL: Final = "journal.jsonl"
METRICS: Final = Path("metrics/prometheus.jsonl")
EVENTS: Final = "events"
AS_THEY_ARE: Final = "surrogateescape"
"""Bytes that are no UTF-8 are copied, for the landing to find them, and not made something else."""
PREFIX: Final = "volume-"
FROM_PODS: Final = "pods-"
"""Of events that came from volumes, and from logs of pods: whatever else is in the folder was the run's own."""

TARGET_LABELS: Final = ("job", "instance", "namespace", "pod", "cluster", "broker", "container", "kubernetes_pod_name")
STRIMZI_LABELS: Final = ("strimzi_io_cluster", "strimzi_io_name", "strimzi_io_kind")
OWN_LABELS: Final = frozenset(("__name__", *TARGET_LABELS, *STRIMZI_LABELS))
"""What Prometheus knows of a target (charts/minikafka-monitoring), and a broker does not say."""
ORDINAL: Final = re.compile(r"-(\d{1,9})$")
BEFORE_SECONDS: Final = 60.0
AFTER_SECONDS: Final = 10.0
"""Around the journal: what the cluster was like before the first fault, and the last scrapes."""
LONGEST_DAYS: Final = 31
"""Of a run: what a journal tells beyond that is a clock that was wrong, or another program's line."""
LATEST: Final = 1e11
"""A time in Unix seconds; what is later is in milliseconds."""


class NoSource(RuntimeError):
    """Where metrics or events should be there are none to be had; one line."""


class BadRun(ValueError):
    """A folder whose journal tells no time; one line."""


@dataclass(frozen=True, slots=True)
class Window:
    """From when to when, in Unix seconds."""

    began: float
    ended: float

    def has(self, moment: float) -> bool:
        """Return whether it is within."""
        return self.began <= moment <= self.ended


def window_of(run: Path) -> Window:
    """The time of a run, by its journal. Raises BadRun."""
    try:
        with (run / JOURNAL).open(encoding="utf-8", errors="replace") as lines:
            times = [time for line in lines if (time := _time(line)) is not None]
    except OSError as error:
        raise BadRun(f"{run / JOURNAL}: {error.strerror}") from error
    if not times:
        raise BadRun(f"{run / JOURNAL}: no line of it has a time")
    if (days := (max(times) - min(times)) / 86400) > LONGEST_DAYS:
        raise BadRun(
            f"{run / JOURNAL}: its lines are of {days:,.0f} days, from {_date(min(times))} to {_date(max(times))}: "
            f"a run takes {LONGEST_DAYS} at most, so some are not its own"
        )
    return Window(min(times) - BEFORE_SECONDS, max(times) + AFTER_SECONDS)


# --- metrics ----------------------------------------------------------------------------------------------------------


def scrapes(series: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The samples of one scrape together, in the order of time. A scrape that failed is a line with an error.

    A sample that comes twice (two jobs scrape one broker, or a window's edge) is kept once.
    """
    found: dict[tuple[float, int], dict[str, list[Any]]] = defaultdict(dict)
    failed: set[tuple[float, int]] = set()
    for each in series:
        labels = each["metric"]
        ordinal = ORDINAL.search(labels.get("pod", ""))
        if ordinal is None:
            continue
        name = labels["__name__"]
        kept = {key: value for key, value in labels.items() if key not in OWN_LABELS}
        for moment, value in each["values"]:
            where = (float(moment), int(ordinal[1]))
            if name != "up":
                found[where].setdefault(f"{name}{sorted(kept.items())}", [name, kept, float(value)])
            elif value == "0":
                failed.add(where)
    lines = [{"time": t, "broker": broker, "samples": list(kept.values())} for (t, broker), kept in found.items()]
    lines += [{"time": t, "broker": broker, "error": "the scrape failed"} for t, broker in failed - found.keys()]
    return sorted(lines, key=lambda line: (line["time"], line["broker"]))


def put_metrics(run: Path, prometheus: str, selector: str, window: Window) -> str:
    """Write the run's metrics, and what is missing of them; what was done, in a sentence. Raises NoSource.

    What lacks more than what is there already does not replace it.
    """
    target = run / METRICS
    if others := _others(target.parent, lambda path: path == target):
        return f"metrics: the run has its own ({others[0].name}); Prometheus was not asked"
    source = Prometheus(prometheus, selector)
    lines: list[dict[str, Any]] = []
    seen: set[tuple[float, int]] = set()
    clusters: set[str] = set()
    unfit = 0
    try:
        for series in source.windows(window.began, window.ended):
            unfit += _take_out_unfit(series, window)
            clusters |= {cluster for each in series if (cluster := _cluster(each["metric"]))}
            new = [line for line in scrapes(series) if (line["time"], line["broker"]) not in seen]
            seen |= {(line["time"], line["broker"]) for line in new}
            lines += new
    except PrometheusError as error:
        raise NoSource(str(error)) from error
    if not lines:
        raise NoSource(
            f"{prometheus}: no metric of a broker in the time of the run; is it scraped, with the label pod (POD-0, POD-1 ...)?"
        )
    if len(clusters) > 1:
        raise NoSource(
            f"{prometheus}: the brokers of several clusters ({', '.join(sorted(clusters))}); "
            'say with the selector which are those of the run, such as namespace="lab",cluster="shop"'
        )
    if target.is_file() and len(source.missing) > len(unanswered(run)):
        return f"metrics: {_what_is_missing(source.missing)}: what is there already lacks less, and stays"
    if source.missing:
        _write(run / UNANSWERED, [json.dumps([each._asdict() for each in source.missing], indent=1) + "\n"])
    else:
        (run / UNANSWERED).unlink(missing_ok=True)
    _write(target, (json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    said = f"metrics: {len(lines)} scrapes from {prometheus}"
    if unfit:
        said += (
            f"; {unfit} samples were left out, which are no numbers (NaN, Inf) or of another time than was asked for"
        )
    return f"{said}; {_what_is_missing(source.missing)}" if source.missing else said


def _take_out_unfit(series: Iterable[dict[str, Any]], window: Window) -> int:
    """Takes samples out that are of another time, or no numbers, for which JSON has no word; how many."""
    unfit = 0
    for each in series:
        fit = [
            (moment, value)
            for moment, value in each["values"]
            if window.has(float(moment)) and math.isfinite(float(value))
        ]
        unfit += len(each["values"]) - len(fit)
        each["values"] = fit
    return unfit


def _cluster(labels: Mapping[str, str]) -> str:
    """Return the cluster of a broker's series, NAMESPACE/POD without the pod's number; empty when it is no broker's."""
    pod = labels.get("pod", "")
    number = ORDINAL.search(pod)
    return f"{labels.get('namespace', '')}/{pod[: number.start()]}" if number else ""


def _what_is_missing(missing: Sequence[Missing]) -> str:
    first = missing[0]
    return f"{len(missing)} parts are missing, the first {first.metric or 'names of metrics'} ({first.reason})"


# --- events -----------------------------------------------------------------------------------------------------------


def put_events(run: Path, volumes: Path, window: Window) -> str:
    """Copy the lines of the run's time from the brokers' event logs; what was done, in a sentence. Raises NoSource."""
    folder = run / EVENTS
    if others := _others(folder, lambda path: path.name.startswith((PREFIX, FROM_PODS))):
        return f"events: the run has its own ({others[0].name}); the volumes were not read"
    logs = sorted(volumes.glob("*/*.jsonl"))
    if not logs:
        raise NoSource(f"{volumes}: no event log (VOLUME/broker-N.jsonl) in it")
    left = 0
    found: dict[str, dict[str, None]] = defaultdict(dict)  # by name of the log, of one broker maybe on two volumes
    for log in logs:
        lines = found[log.name]
        with log.open(encoding="utf-8", errors=AS_THEY_ARE, newline="\n") as source:
            for line in source:
                moment = _time(line)
                if moment is None:
                    left += bool(line.strip())
                elif window.has(moment):
                    lines[line if line.endswith("\n") else f"{line}\n"] = None
    for name, lines in found.items():
        _write(folder / f"{PREFIX}{name}", lines)
    for stale in {path.name for path in folder.glob(f"{PREFIX}*.jsonl")} - {f"{PREFIX}{name}" for name in found}:
        (folder / stale).unlink()
    kept = sum(map(len, found.values()))
    more = f"; {left} lines were left out, for they are no events" if left else ""
    return f"events: {kept} from {len(logs)} logs{more}"


def put_pod_logs(run: Path, folders: Sequence[Path], pods: str, window: Window) -> str:
    """Add the events of the run's time that the run does not have yet; what was done, in sentences. Raises NoSource."""
    folder = run / EVENTS
    already = {
        pod_logs.identity(event)
        for path in _others(folder, lambda path: path.name.startswith(FROM_PODS))
        for line in path.read_text(encoding="utf-8", errors=AS_THEY_ARE).split("\n")
        if (event := pod_logs.event_of(line)) is not None
    }
    found = pod_logs.read(folders, pods)
    where = ", ".join(map(str, folders))
    if not found.logs:
        raise NoSource(f"{where}: no log of a pod (NAMESPACE_POD_UID/CONTAINER/N.log) in it that fits {pods}")
    there = {key: event for key, event in found.events.items() if window.has(event.time)}
    if not there:
        raise NoSource(
            f"{where}: {found.logs} logs of pods, and no event in the time of the run; "
            f"have the brokers minikafka.events.stdout=true? {found.summary()}"
        )
    new: dict[int, list[pod_logs.BrokerEvent]] = defaultdict(list)
    for key, kept in there.items():
        if key not in already:
            new[kept.broker].append(kept)
    for stale in folder.glob(f"{FROM_PODS}*.jsonl"):
        stale.unlink()
    for broker, events in new.items():
        events.sort(key=lambda event: event.time)
        _write(folder / f"{FROM_PODS}broker-{broker}.jsonl", (f"{event.line}\n" for event in events))
    added = sum(map(len, new.values()))
    outside = len(found.events) - len(there)
    taken = (
        f"events: {added} from {found.logs} logs of pods, which had {len(there) - added} more that the run has already"
    )
    return ". ".join(
        part for part in (taken, f"{outside} were of another time" if outside else "", found.summary()) if part
    )


def _others(folder: Path, ours: Any) -> list[Path]:
    return [path for path in sorted(folder.glob("*.jsonl")) if not ours(path) and path.stat().st_size]


def _write(path: Path, lines: Iterable[str]) -> None:
    """All of it, or nothing: who dies on the way leaves what was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    with new.open("w", encoding="utf-8", errors=AS_THEY_ARE) as file:
        file.writelines(lines)
    os.replace(new, path)


def _time(line: str) -> float | None:
    try:
        found = json.loads(line)["time"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return float(found) if type(found) in (int, float) and 0 <= found <= LATEST else None


def _date(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d}"


# --- the command ------------------------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """Declares the options."""
    made = argparse.ArgumentParser(prog="python -m minikafka_analytics.sources", description="Metrics and events.")
    made.add_argument("run", metavar="RUN_DIR", type=Path, help="the run's folder")
    made.add_argument("--prometheus", metavar="URL", default="", help="where a Prometheus answers")
    made.add_argument(
        "--selector", metavar="LABELS", default='job="minikafka-brokers"', help="the series of the run's brokers"
    )
    made.add_argument("--events", metavar="DIR", type=Path, help="folder of volumes with event logs, one a broker")
    made.add_argument(
        "--pod-logs",
        metavar="DIR",
        type=Path,
        action="append",
        default=[],
        help="folder with logs of pods, of the kubelet (/var/log/pods) or of the chart minikafka-logs (repeatable)",
    )
    made.add_argument(
        "--pods",
        metavar="NAMESPACE/POD",
        default="*/*",
        help="of which pods, with wildcards: of one cluster, as events do not say of which they are (lab/shop-broker-*)",
    )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 2 bad input, 3 could not be had."""
    given = parser().parse_args(arguments)
    try:
        window = window_of(given.run)
        if given.prometheus:
            print(put_metrics(given.run, given.prometheus, given.selector, window), flush=True)
        if given.events is not None:
            print(put_events(given.run, given.events, window), flush=True)
        if given.pod_logs:
            print(put_pod_logs(given.run, given.pod_logs, given.pods, window), flush=True)
    except (BadRun, NoSource, OSError) as error:
        print(f"sources: {error}", file=sys.stderr)
        return 2 if isinstance(error, BadRun) else 3
    return 0
