"""What figures add up to, without Spark: verdicts, agreement, words."""

from __future__ import annotations

from typing import Any

import pytest
from minikafka_analytics import judgement, words
from minikafka_analytics.assemble import EMPTY_COUNTS
from minikafka_analytics.svg import Plot, short

READ = [{"topic": "bank", "partition": 0, "records": 10, "read_error": None}]


def counts(**given: int) -> dict[str, int]:
    return {**EMPTY_COUNTS, "sent": 10, "acked": 10, "read": 10, **given}


def verifier(verdict: str, **given: Any) -> dict[str, Any]:
    told = {"sent": 10, "acknowledged": 10, "failed": 0, "unknown": 0, "lost": 0, "accepted_loss": 0}
    return {"verdict": verdict, "summary": "as it was", "counts": told | given, "claims": [], "problems": []}


@pytest.mark.parametrize(
    ("found", "coverage", "rewritten", "word"),
    [
        (counts(), READ, [], "Passed"),
        (counts(lost=1), READ, [], "Failed"),
        (counts(), READ, [{}], "Failed"),
        (counts(duplicated=3), READ, [], "Passed"),
        (counts(acked=0), READ, [], "Inconclusive"),
        (counts(), [], [], "Inconclusive"),
        (counts(), [{**READ[0], "read_error": "deadline"}], [], "Inconclusive"),
        (counts(lost=2, accepted_loss=2), READ, [], "Passed"),
    ],
)
def test_the_verdict_of_a_history(found: dict[str, int], coverage: list[Any], rewritten: list[Any], word: str) -> None:
    assert judgement.verdict(None, found, coverage, rewritten)["verdict"] == word


def test_the_verifiers_word_stands_where_it_saw_more() -> None:
    claim = {"claim": "replicas do not diverge", "held": False, "detail": "bank-0 at offset 7"}
    found = judgement.verdict({**verifier("Failed"), "claims": [claim]}, counts(), READ, [])
    assert (found["verdict"], found["by"], found["agree"]) == ("Failed", "verifier", True)
    assert found["sentence"] == "A guarantee was broken, though no acknowledged record was lost."
    assert "replicas do not diverge" in found["detail"]


@pytest.mark.parametrize("word", ["Aborted", "Error", "Inconclusive"])
def test_trouble_is_never_a_fault_of_the_cluster(word: str) -> None:
    found = judgement.verdict(verifier(word), counts(), READ, [])
    assert found["verdict"] == word
    assert found["detail"] == "as it was"


def test_losses_that_the_scenario_accepts_are_counted_alike() -> None:
    told = verifier("Passed", accepted_loss=2)
    assert judgement.verdict(told, counts(lost=2, accepted_loss=2), READ, [])["agree"] is True


def test_different_counts_are_a_disagreement() -> None:
    found = judgement.verdict(verifier("Passed", acknowledged=9), counts(), READ, [])
    assert found["agree"] is False
    assert found["differences"] == [{"figure": "acknowledged", "verifier": 9, "analysis": 10}]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0002, "0.2 ms"), (0.004, "4 ms"), (0.62, "0.62 s"), (12.53, "12.5 s"), (185.0, "3 min 05 s")],
)
def test_durations_in_words(value: float | None, text: str) -> None:
    assert words.seconds(value) == text


def test_faults_have_one_name_whichever_way_they_were_made() -> None:
    assert words.fault_name(["kill", "wipe_unflushed"]) == words.fault_name(["power_loss"]) == "power loss"
    assert words.fault_name(["pause", "kill", "kill"]) == "pause, then kill -9"


def test_ticks_and_text_of_plots() -> None:
    assert [short(value) for value in (0.5, 250, 1500, 20_000, 3e6)] == ["0.5", "250", "1,500", "20k", "3M"]
    plot = Plot('a "plot" & more', 10, 100, 5)
    plot.line([(0, 1, False), (1, None, False), (2, 2, False), (3, 4, True)], "x", "<title>")
    svg = plot.svg()
    assert "&quot;plot&quot; &amp; more" in svg
    assert svg.count("M", svg.index('class="line')) == 3  # each unknown value and each silence begins a new piece
    assert "&lt;title&gt;" in svg
