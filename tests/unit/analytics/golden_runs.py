"""Two recorded runs, what may happen to their files, and the tables that an analysis must give of each: `golden/`.

`minikafka chaos run` of kip-101-data-loss.high-watermark (an acknowledged record is lost) and .leader-epoch (none is), with real
brokers; of their events and samples those are kept that a question is about. After a change that is meant:

    python tests/unit/analytics/golden_runs.py --write

analyses them all and writes `golden/expected.json`; read the difference. What a person knows of the two is in test_golden.py.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "golden"
EXPECTED = GOLDEN / "expected.json"
Tables = dict[str, Any]


def _files(run: Path) -> list[Path]:
    return sorted(run.rglob("*.jsonl"))


def whole(run: Path) -> None:
    """Nothing happened."""


def torn(run: Path) -> None:
    """Every writer died in the middle of its last line."""
    for path in _files(run):
        path.write_bytes(path.read_bytes()[:-25])


def foreign(run: Path) -> None:
    """Two lines of another program, and one with a time that is none, in the middle of every file."""
    for path in _files(run):
        lines = path.read_bytes().splitlines(keepends=True)
        middle = len(lines) // 2
        lines[middle:middle] = [b"Traceback (most recent call last):\n", b"[1, 2]\n", b'{"time": "soon"}\n']
        path.write_bytes(b"".join(lines))


def unscraped(run: Path) -> None:
    """No broker was scraped."""
    shutil.rmtree(run / "metrics")


def unanswered(run: Path) -> None:
    """Of a Prometheus that had the metrics a part did not answer."""
    missing = {
        "metric": "minikafka_isr_size",
        "began": 1795417323.5,
        "ended": 1795417333.5,
        "reason": "no answer within 60 s",
    }
    (run / "metrics" / "unanswered.json").write_text(json.dumps([missing]))


def without_events(run: Path) -> None:
    """The brokers' event logs are lost."""
    shutil.rmtree(run / "events")


def skewed(run: Path) -> None:
    """A broker's clock goes ten minutes ahead of the others."""
    path = run / "events" / "broker-1.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**line, "time": line["time"] + 600}) + "\n" for line in lines))


def counters_reset(run: Path) -> None:
    """From the middle on every offset that is exported begins at 0 again."""
    path = run / "metrics" / "samples.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines[len(lines) // 2 :]:
        line["samples"] = [[name, labels, 0.0] for name, labels, _ in line.get("samples", [])]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def counted(run: Path) -> None:
    """Brokers export counters, which the recorded runs have none of: by each scrape since the process answered first 0.1 s of
    processor time, 4 flushes of 5 ms and, on broker 0, 2 produce requests of 3 ms. Broker 1 does not tell when it was started, so
    that another process is known by counters that fell."""
    path = run / "metrics" / "samples.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    counters: dict[int, list[float]] = {}
    for line in lines:
        if "error" in line:
            counters.pop(line["broker"], None)
            continue
        own = counters.setdefault(line["broker"], [line["time"], 0.0, 0.0, 0.0])
        own[1:] = [own[1] + 0.1, own[2] + 4, own[3] + 0.02]
        started, cpu, flushes, seconds = own
        line["samples"] += [
            ["process_cpu_seconds_total", {}, cpu],
            ["minikafka_log_flush_duration_seconds_count", {}, flushes],
            ["minikafka_log_flush_duration_seconds_sum", {}, seconds],
        ]
        if line["broker"] == 0:
            line["samples"] += [
                ["process_start_time_seconds", {}, started],
                ["minikafka_request_duration_seconds_count", {"api": "Produce"}, flushes / 2],
                ["minikafka_request_duration_seconds_sum", {"api": "Produce"}, flushes / 2 * 0.003],
            ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def flapping(run: Path) -> None:
    """Once the old leader is back, it takes in nothing for a second of scrapes, and the ISR flaps between two of them: it leaves
    for 0.1 s three times."""
    path = run / "metrics" / "samples.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["broker"] == 1 and 1795417332 < line["time"] < 1795417333.5:
            stuck = {"minikafka_log_end_offset": 5.0, "minikafka_follower_lag": 4.0}
            line["samples"] = [[name, labels, stuck.get(name, value)] for name, labels, value in line["samples"]]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with (run / "events" / "broker-1.jsonl").open("a", encoding="utf-8") as log:
        for number in range(3):
            for after, name, moved, isr in (
                (0.0, "isr_shrunk", "removed", [1]),
                (0.1, "isr_expanded", "added", [1, 0]),
            ):
                fields = {moved: [0], "isr": isr, "leader_epoch": 1}
                time = 1795417333.1 + 0.15 * number + after
                event = {"time": time, "broker": 1, "event": name, "topic": "story", "partition": 0, "fields": fields}
                log.write(json.dumps(event) + "\n")


def without_faults(run: Path) -> None:
    """Nothing was done to the cluster, as far as the journal tells."""
    path = run / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if json.loads(line)["kind"] != "action"))


def empty(run: Path) -> None:
    """It ended before it began: there is its scenario, and an empty file of everything else."""
    for path in _files(run):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text(lines[0] if path.name == "journal.jsonl" else "")


DAMAGES: tuple[Callable[[Path], None], ...] = (
    whole,
    torn,
    foreign,
    unscraped,
    unanswered,
    without_events,
    skewed,
    counters_reset,
    counted,
    flapping,
    without_faults,
    empty,
)


def write_runs(parent: Path) -> list[Path]:
    """The recorded runs, and damaged copies of the one with a loss."""
    runs = []
    for recorded, damages in (("data-loss", DAMAGES), ("no-loss", (whole,))):
        for damage in damages:
            run = parent / f"{recorded} {damage.__name__}"
            shutil.copytree(GOLDEN / recorded, run)
            damage(run)
            runs.append(run)
    return runs


def tables(run: dict[str, Any]) -> Tables:
    """What of a run's report has to be as expected, to the microsecond."""
    verdict = {name: run["verdict"][name] for name in ("verdict", "verifier", "recomputed", "agree", "reasons")}
    files = {name: run["files"][name] for name in ("missing", "lines", "quarantined", "unanswered")}
    lists = (
        "anomalies",
        "faults",
        "elections",
        "isr_changes",
        "truncations",
        "returns",
        "gaps",
        "silences",
        "at_risk",
        "stalls",
        "isr",
        "resources",
    )
    named = {
        name: run[name] for name in ("scenario", "counts", "kinds", "figures", "exposure", "left_out", "blindness")
    }
    rounded: Tables = _rounded(named | {"verdict": verdict, **files, **{name: run[name] for name in lists}})
    return rounded


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list) else value


def analysed(parent: Path) -> dict[str, dict[str, Any]]:
    """The report of each of these runs, by name."""
    from minikafka_analytics.analyze import analyze

    paths = analyze(write_runs(parent / "runs"), parent / "out")
    return {run["id"]: run for run in json.loads(paths.json.read_text(encoding="utf-8"))["runs"]}


def expected() -> dict[str, Tables]:
    """What is committed."""
    found: dict[str, Tables] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    return found


def _text(found: dict[str, Tables]) -> str:
    """A line for each row of a table, so that a difference is read."""
    runs = []
    for name, each in found.items():
        shown = []
        for table, rows in each.items():
            if isinstance(rows, list) and rows:
                body = ",\n".join(f"   {json.dumps(row, ensure_ascii=False)}" for row in rows)
                shown.append(f"  {json.dumps(table)}: [\n{body}\n  ]")
            else:
                shown.append(f"  {json.dumps(table)}: {json.dumps(rows, ensure_ascii=False)}")
        runs.append(f" {json.dumps(name)}: {{\n" + ",\n".join(shown) + "\n }")
    return "{\n" + ",\n".join(runs) + "\n}\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python tests/unit/analytics/golden_runs.py --write")
    with tempfile.TemporaryDirectory() as folder:
        EXPECTED.write_text(
            _text({name: tables(run) for name, run in analysed(Path(folder)).items()}), encoding="utf-8"
        )
