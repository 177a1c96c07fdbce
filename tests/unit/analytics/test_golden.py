"""Recorded runs and what may happen to their files: exactly these tables, and what a person knows of them."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from golden_runs import DAMAGES, analysed, expected, tables

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

WHOLE = "data-loss whole"
NAMES = [*(f"data-loss {damage.__name__}" for damage in DAMAGES), "no-loss whole"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runs are, and in `out` their report."""
    return tmp_path_factory.mktemp("golden")


@pytest.fixture(scope="module")
def found(spark: object, folder: Path) -> dict[str, dict[str, Any]]:
    """The report of each run; `spark` is lent to the analysis."""
    return analysed(folder)


def test_every_run_is_expected() -> None:
    assert list(expected()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_tables_of_a_recorded_run(found: dict[str, dict[str, Any]], name: str) -> None:
    given, wanted = tables(found[name]), expected()[name]
    assert {table for table in wanted if given.get(table) != wanted[table]} == set()
    assert given.keys() == wanted.keys()


def test_the_story_of_kip_101(found: dict[str, dict[str, Any]]) -> None:
    """The leader had acknowledged m1; the follower cut it when it came back, led, and had the old leader cut it, too."""
    lost, kept = found[WHOLE], found["no-loss whole"]
    assert (lost["verdict"]["verdict"], lost["verdict"]["agree"], lost["kinds"]) == ("Failed", True, {"unseen": 1})
    assert [(row["value"], row["offset"], row["cuts"]) for row in lost["anomalies"]] == [("m1", 1, [1, 2])]
    assert [(row["broker"], row["low"], row["high"], row["acked_lost"]) for row in lost["truncations"]] == [
        (1, 1, 2, 1),
        (0, 1, 2, 1),
    ]
    assert (kept["verdict"]["verdict"], kept["verdict"]["agree"], kept["counts"]["lost"]) == ("Passed", True, 0)
    assert kept["truncations"] == []


@pytest.mark.parametrize(
    ("damage", "verdict", "said"),
    [
        ("torn", "Inconclusive", "truncated (line 158"),
        ("foreign", "Error", "foreign (the first is line 80"),
        ("unscraped", "Failed", "No broker was scraped"),
        ("unanswered", "Failed", "The Prometheus did not answer for minikafka_isr_size from "),
        ("without_events", "Failed", "No event log tells of an election"),
        ("without_events", "Failed", "Scrapes saw 1 leader epoch of which no event tells"),
        ("skewed", "Failed", "Scrapes saw 1 leader epoch of which no event tells"),
        ("whole", "Failed", "No scrape of brokers 0 and 1 tells process_start_time_seconds, process_cpu_seconds_total"),
        ("unscraped", "Failed", "Whether scrapes saw 1 ISR shrink is not known"),
        (
            "empty",
            "Inconclusive",
            "The run has no history.jsonl, events/broker-N.jsonl, metrics/samples.jsonl and replicas.jsonl",
        ),
    ],
)
def test_what_is_missing_is_said(found: dict[str, dict[str, Any]], damage: str, verdict: str, said: str) -> None:
    run = found[f"data-loss {damage}"]
    assert run["verdict"]["recomputed"] == verdict
    assert any(said in line for line in run["unknowns"]), run["unknowns"]


def test_a_follower_that_is_stuck_and_an_isr_that_flaps_between_two_scrapes(found: dict[str, dict[str, Any]]) -> None:
    """Nothing moved at the scrapes from 9.06 s to 10.06 s after the start of the second in which the run began; at 10.1 s the ISR
    shrank for the first time, at 10.4 s for the third, and at 10.5 s and 10.56 s (the next scrape) it was full."""
    run = found["data-loss flapping"]
    assert {(row["what"], row["broker"], row["leader"], row["scrapes"], row["behind"]) for row in run["stalls"]} == {
        ("follower", 0, 1, 3, 4),
        ("high watermark", 1, 1, 3, 4),
    }
    assert {round(row["seconds"], 2) for row in run["stalls"]} == {1.0}
    (isr,) = run["isr"]
    assert (isr["shrinks"], isr["expansions"], isr["shrinks_within"], isr["least"]) == (4, 4, 4, 1)
    (shrinks,) = [row for row in run["blindness"]["events"] if row["what"] == "ISR shrink"]
    assert (shrinks["events"], shrinks["unseen"], len(shrinks["examples"])) == (4, 3, 3)
    assert any("No scrape saw 3 of 4 ISR shrinks" in line for line in run["unknowns"])


def test_the_page_tells_of_stalls_of_flapping_and_of_use(found: dict[str, dict[str, Any]], folder: Path) -> None:
    rows = (folder / "out" / "report.html").read_text(encoding="utf-8").split("<tr>")
    told = {" ".join(html.unescape(re.sub("<[^>]*>", " ", row.split("</table>")[0])).split()) for row in rows}
    for wanted in (
        "follower, broker 0 story-0 broker 1 8.47 s 1.00 s 3 4 F2 8.31 s after kill -9 of broker 1",
        "high watermark story-0 broker 1 8.47 s 1.00 s 3 4 F2 8.31 s after kill -9 of broker 1",
        "story-0 4 4 4 5.08 s 1 of 2 1.40 s 1.10 s 1.40 s",
        "ISR shrink 4 3 0.39 s a leader that tells an ISR of the new size story-0 at 9.52 s, for 100 ms",
        "broker 0 23 13 6.97 s 6.97 s",
        "broker 0 20 % ± 0.0 % 5.00 ms ± 0.00 ms 4.0 % ± 0.0 % 3.00 ms ± 0.00 ms",
    ):
        assert wanted in told, sorted(row for row in told if row[:8] == wanted[:8])


def test_what_brokers_used_by_counters_that_are_known(found: dict[str, dict[str, Any]]) -> None:
    """0.1 s of processor time and 4 flushes of 5 ms every half second; broker 1 began anew once, and says so by its counters."""
    run = found["data-loss counted"]
    assert {row["measure"]: round(row["median"], 3) for row in run["resources"] if row["broker"] == 0} == {
        "cpu": 0.2,
        "fsync": 0.005,
        "fsync share": 0.04,
        "Produce": 0.003,
    }
    assert [row["anew"] for row in run["blindness"]["brokers"]] == [0, 1]
    missing = [line for line in run["unknowns"] if "No scrape of broker 1 tells process_start_time_seconds" in line]
    assert len(missing) == 1


@pytest.mark.parametrize(
    "damage", ["skewed", "counters_reset", "counted", "without_faults", "unscraped", "without_events"]
)
def test_the_verdict_is_of_the_histories_and_the_logs_alone(found: dict[str, dict[str, Any]], damage: str) -> None:
    run = found[f"data-loss {damage}"]
    for name in ("verdict", "counts", "kinds"):
        assert run[name] == found[WHOLE][name], name
