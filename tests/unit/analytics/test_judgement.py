"""What figures add up to, without Spark: verdicts, agreement, words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from minikafka_analytics import formatting
from minikafka_analytics.judge import judgement
from minikafka_analytics.report.journal import words
from minikafka_analytics.report.svg import Plot, short
from minikafka_analytics.report.timeline import Timeline

COUNTS = {"sent": 10, "acknowledged": 10, "failed": 0, "unknown": 0, "unknown_but_there": 0, "read": 10}
TERMS = '{"time": 1.0, "kind": "claims", "claims": [], "problems": []}'
NOTHING = {"lost": 0, "accepted_loss": 0, "deleted": 0, "undecided": 0, "contradictions": 0}


def found(kinds: dict[str, int] | None = None, **given: Any) -> dict[str, Any]:
    """Spark's answers on a run; `given` are counts, or the fields of its base."""
    base = {"claims": [], "problems": [], "missing_lines": 0, "misnumbered": False, "has_logs": True, "terms": TERMS}
    base |= {name: given.pop(name) for name in list(given) if name in base}
    whole = {"topic": None, "partition": None, **COUNTS, **NOTHING, **given}
    return {
        "bases": [base],
        "counts": [whole, {**whole, "topic": "bank", "partition": 0}],
        "kinds": [{"kind": kind, "note": kind == "duplicate", "count": n} for kind, n in (kinds or {}).items()],
        "losses": [],
        "torn": [],
        "gaps": [{"seconds": 0.25}],
    }


def judged(kinds: dict[str, int] | None = None, **given: Any) -> dict[str, Any]:
    return judgement.judged(found(kinds, **given), 0)


def verifier(verdict: str, kinds: dict[str, int] | None = None, **given: Any) -> dict[str, Any]:
    errors = {kind: number for kind, number in (kinds or {}).items() if kind != "duplicate"}
    told = {**COUNTS, **NOTHING, "longest_ack_gap_s": 0.25, "anomalies": kinds or {}, "errors": errors, **given}
    return {"verdict": verdict, "summary": "as it was", "counts": told, "claims": [], "problems": []}


@pytest.mark.parametrize(
    ("own", "word"),
    [
        (judged(), "Passed"),
        (judged({"unseen": 1}, lost=1), "Failed"),
        (judged({"phantom": 3}), "Failed"),
        (judged({"duplicate": 3}), "Passed"),
        (judged(acknowledged=0), "Inconclusive"),
        (judged(undecided=2), "Inconclusive"),
        (judged(missing_lines=1), "Inconclusive"),
        (judged(problems=["t was not in full ISR"]), "Inconclusive"),
        (judged({"unseen": 1}, lost=1, undecided=2), "Failed"),
        (judged({"unseen": 1}, lost=1, contradictions=1), "Error"),
        (judgement.judged(found(), 1), "Error"),
    ],
)
def test_the_verdict_of_the_evidence(own: dict[str, Any], word: str) -> None:
    assert judgement.verdict(None, own)["verdict"] == word


def claim(type_: str, since: float = float("-inf"), limit_millis: float | None = None) -> dict[str, Any]:
    return {"name": "c", "type": type_, "since": since, "limit_millis": limit_millis}


def test_each_claim_is_judged_by_its_own_since() -> None:
    lost = found(
        {"unseen": 1}, lost=1, claims=[claim("NoAcknowledgedRecordLost"), claim("NoAcknowledgedRecordLost", 9.0)]
    )
    lost["losses"] = [{"at": 0, "broken_by": 1}]
    assert judgement.judged(lost, 0)["reasons"] == ["1 x unseen", "c: 1 acknowledged record lost"]
    never = judged(claims=[claim("NoAcknowledgedRecordLost", float("inf"))])
    assert never["verdict"] == "Inconclusive"


@pytest.mark.parametrize(("limit_millis", "word"), [(250, "Passed"), (249, "Failed")])
def test_the_longest_gap_is_held_against_its_claim(limit_millis: float, word: str) -> None:
    assert judged(claims=[claim("AckGapAtMost", limit_millis=limit_millis)])["verdict"] == word


def test_agreement_is_the_same_verdict_kinds_and_counts() -> None:
    same = judgement.verdict(verifier("Failed", {"unseen": 1}, lost=1), judged({"unseen": 1}, lost=1))
    assert (same["verdict"], same["by"], same["agree"]) == ("Failed", "both", True)


@pytest.mark.parametrize(
    ("told", "own", "differences"),
    [
        (verifier("Passed"), judged(undecided=1), ["verdict", "undecided"]),
        (verifier("Passed"), judged({"unseen": 1}, lost=1), ["verdict", "lost", "unseen", "unseen that is no note"]),
        (verifier("Failed", {"phantom": 1}), judged(), ["verdict", "phantom", "phantom that is no note"]),
        (
            verifier("Passed", {"duplicate": 1}, errors={"duplicate": 1}),
            judged({"duplicate": 1}),
            ["duplicate that is no note"],
        ),
        (
            verifier("Failed", {"phantom": 1}),
            judged({"ack-offset": 1}),
            ["ack-offset", "phantom", "ack-offset that is no note", "phantom that is no note"],
        ),
        (verifier("Passed", acknowledged=9), judged(), ["acknowledged"]),
        (verifier("Passed", longest_ack_gap_s=None), judged(), ["longest_ack_gap_s"]),
    ],
)
def test_any_difference_is_said_and_nobody_is_believed(told: Any, own: Any, differences: list[str]) -> None:
    found = judgement.verdict(told, own)
    assert (found["verdict"], found["agree"]) == ("Inconclusive", False)
    assert [row["figure"] for row in found["differences"]] == differences
    assert "differ" in found["sentence"]


def test_who_did_not_tell_all_counts_is_not_agreed_with() -> None:
    """A word without the counts behind it, as older journals have it, is no agreement; a difference in it still is one."""
    short = verifier("Passed")
    del short["counts"]["longest_ack_gap_s"]
    found = judgement.verdict(short, judged())
    assert (found["verdict"], found["agree"], found["by"]) == ("Passed", None, "verifier")
    bare = {"verdict": "Passed", "summary": "as it was", "counts": {}}
    assert judgement.verdict(bare, judged())["agree"] is None
    assert judgement.verdict(bare, judged({"unseen": 1}, lost=1))["agree"] is False


def test_what_the_journal_claims_has_to_be_understood() -> None:
    odd = '{"kind": "claims", "claims": [{"name": "c", "type": "AckGapAtMost", "limit_millis": "5"}], "problems": []}'
    assert judged(terms=odd)["verdict"] == "Error"
    assert judged(terms=None)["verdict"] == "Inconclusive"
    assert judged(misnumbered=True)["verdict"] == "Error"


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ({"kind": "verdict", "verdict": "Passed", "claims": 5}, {"kind": "verdict", "verdict": "Passed", "claims": []}),
        (
            {
                "kind": "verdict",
                "verdict": "Passed",
                "claims": ["x", {"claim": 1, "detail": ""}, {"claim": "a", "detail": ""}],
            },
            {"kind": "verdict", "verdict": "Passed", "claims": [{"claim": "a", "detail": ""}]},
        ),
        (
            {"kind": "verdict", "verdict": "Passed", "counts": {"lost": 0, "anomalies": 5, "errors": {}}},
            {"kind": "verdict", "verdict": "Passed", "counts": {"lost": 0, "errors": {}}},
        ),
        ({"kind": "verdict", "verdict": ["Passed"]}, None),
        ({"kind": "scenario", "scenario": "demo", "seed": 1}, {"kind": "scenario", "seed": 1}),
        ({"kind": "scenario", "scenario": {"spec": 5}}, {"kind": "scenario", "scenario": {}}),
    ],
)
def test_words_that_nobody_writes_count_as_not_told(line: dict[str, Any], kept: dict[str, Any] | None) -> None:
    """A journal that was forged or damaged stops no report."""
    assert words([{"seq": 0, "body": json.dumps(line)}]) == ([] if kept is None else [kept])


def test_a_line_that_is_too_deep_has_no_words() -> None:
    assert words([{"seq": 0, "body": '{"kind": "note", "x": ' + "[" * 990 + "]" * 990 + "}"}]) in (
        [{}],
        [],
    )


def test_what_a_prometheus_did_not_scrape_after_the_run_is_none_of_it() -> None:
    """Seen on a cluster: brokers are stopped at the end, for their logs to be read."""
    silence = {"broker": 2, "ended": 41.7, "open": False, "faults": []}
    assert judgement._unscraped([{**silence, "began": 22.7}], until_scrape=9.6) == []
    assert judgement._unscraped([{**silence, "began": 9.5}], until_scrape=9.6) == [
        "Broker 2 was not scraped from 9.5 s on for 32.2 s, though no fault had hit it."
    ]
    assert judgement._unscraped([{**silence, "began": 9.5, "faults": [1]}], until_scrape=9.6) == []


def test_files_that_are_not_there_prove_nothing() -> None:
    def judged_with(*files: str, **given: Any) -> str:
        word: str = judgement.judged(found(**given), 0, files.__contains__)["verdict"]
        return word

    assert judged_with("history.jsonl", terms=None, has_logs=False) == "Passed"
    assert judged_with("journal.jsonl") == "Error"
    assert judged_with("history.jsonl", "replicas.jsonl", "journal.jsonl", has_logs=False) == "Inconclusive"
    told = '{"kind": "claims", "claims": [], "problems": [], "files": ["history.jsonl", "replicas.jsonl"]}'
    assert judged_with("history.jsonl", "journal.jsonl", terms=told) == "Inconclusive"
    assert judged_with("history.jsonl", "journal.jsonl", claims=[claim("NoDivergence")]) == "Inconclusive"


@pytest.mark.parametrize("word", ["Aborted", "Error"])
def test_trouble_is_never_a_fault_of_the_cluster(word: str) -> None:
    found = judgement.verdict({"verdict": word, "summary": "as it was", "counts": {}}, judged())
    assert (found["verdict"], found["agree"], found["detail"]) == (word, None, "as it was")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0002, "0.2 ms"), (0.004, "4 ms"), (0.62, "0.62 s"), (12.53, "12.5 s"), (185.0, "3 min 05 s")],
)
def test_durations_in_words(value: float | None, text: str) -> None:
    assert formatting.seconds(value) == text


def test_faults_have_one_name_whichever_way_they_were_made() -> None:
    assert formatting.fault_name(["kill", "wipe_unflushed"]) == formatting.fault_name(["power_loss"]) == "power loss"
    assert formatting.fault_name(["pause", "kill", "kill"]) == "pause, then kill -9"


def test_ticks_and_text_of_plots() -> None:
    assert [short(value) for value in (0.5, 250, 1500, 20_000, 3e6)] == ["0.5", "250", "1,500", "20k", "3M"]
    plot = Plot('a "plot" & more', Timeline("A", 10, []), 100, 5)
    plot.line([(0, 1, False), (1, None, False), (2, 2, False), (3, 4, True)], "x", "<title>")
    svg = plot.svg()
    assert "&quot;plot&quot; &amp; more" in svg
    assert svg.count("M", svg.index('class="line')) == 3  # each unknown value and each silence begins a new piece
    assert "&lt;title&gt;" in svg
