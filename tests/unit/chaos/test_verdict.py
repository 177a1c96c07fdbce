"""One of five words: only evidence from the data is Failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.anomalies import STATEMENTS, Kind
from minikafka_chaos.history import WorkloadSettings
from minikafka_chaos.verdict import ANOMALIES_SHOWN_MAX, DATA_CLAIMS, Claim, Outcome, Verdict, judge

from .story import Story
from .test_replica_logs import batch, replica

TP = TopicPartition("t", 0)


def test_all_acknowledged_and_read_is_passed() -> None:
    verdict = judge(Story().acked("a", 0).final(["a"]).lines)
    assert verdict.outcome is Outcome.PASSED
    assert verdict.summary.startswith("no acknowledged record lost")
    assert verdict.outcome.exit_code == 0


def test_a_lost_record_is_failed_with_its_evidence() -> None:
    verdict = judge(Story().acked("a", 0).acked("b", 1).final(["a"]).lines)
    assert verdict.outcome is Outcome.FAILED
    assert "1 acknowledged record lost" in verdict.summary
    assert verdict.counts["lost"] == 1
    assert verdict.as_json()["anomalies"][0]["value"] == "b"
    assert verdict.outcome.exit_code == 1


def test_nothing_acknowledged_is_inconclusive() -> None:
    verdict = judge(Story().invoke("a").unknown("a").final([]).lines)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.outcome.exit_code == 3


def test_a_final_read_that_did_not_end_is_inconclusive() -> None:
    verdict = judge(Story().acked("a", 0).assign().read_stopped(0).lines)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "could not be judged" in verdict.summary


def test_a_state_that_was_not_reached_is_inconclusive_but_a_loss_is_still_a_loss() -> None:
    sound = Story().acked("a", 0).final(["a"]).lines
    lossy = Story().acked("a", 0).final([]).lines
    assert judge(sound, problems=["the leader did not change"]).outcome is Outcome.INCONCLUSIVE
    assert judge(lossy, problems=["the leader did not change"]).outcome is Outcome.FAILED


def test_divergent_logs_are_failed(tmp_path: Path) -> None:
    logs = [replica(tmp_path, 1, batch(0, "a")), replica(tmp_path, 2, batch(0, "b"))]
    verdict = judge(Story().acked("a", 0).final(["a"]).lines, {TP: logs})
    assert verdict.outcome is Outcome.FAILED
    assert "replicas do not diverge" in verdict.summary
    assert (verdict.counts["divergent"], verdict.counts["replicas_compared"]) == (1, 2)


def test_without_access_to_logs_divergence_is_left_open() -> None:
    verdict = judge(Story().acked("a", 0).final(["a"]).lines)
    assert [f.held for f in verdict.findings if "diverge" in f.claim] == [None]


def test_a_duplicate_is_noted_or_with_a_strict_claim_failed() -> None:
    history = Story().acked("a", 1).final(["a", "a"]).lines
    strict = Claim("no duplicates", frozenset((Kind.DUPLICATE,)), strict=True)
    assert judge(history).outcome is Outcome.PASSED
    assert judge(history).counts["duplicated"] == 1
    assert judge(history, claims=[strict]).outcome is Outcome.FAILED


@pytest.mark.parametrize(("limit", "outcome"), [(0.5, Outcome.FAILED), (5.0, Outcome.PASSED)])
def test_a_claim_on_the_ack_gap(limit: float, outcome: Outcome) -> None:
    history = Story().acked("a", 0).acked("b", 1).final(["a", "b"]).lines
    assert judge(history, claims=[Claim("short gaps", frozenset(), ack_gap_limit_s=limit)]).outcome is outcome


def test_accepted_loss_passes_and_is_told() -> None:
    story = Story().acked("m0", 0).acked("m1", 1)
    moment = story.now
    story.acked("m2", 1).final(["m0", "m2"])
    verdict = judge(story.lines, accept_loss_before=moment)
    assert verdict.outcome is Outcome.PASSED
    assert "1 given up as the scenario declares" in verdict.summary
    assert (verdict.counts["acknowledged"], verdict.counts["accepted_loss"], verdict.counts["unknown"]) == (3, 1, 0)


def test_counts_of_unknown_records() -> None:
    story = Story(WorkloadSettings()).acked("a", 0).invoke("b").unknown("b").invoke("c").unknown("c")
    counts = judge(story.invoke("d").fail("d").final(["a", "b"]).lines).counts
    assert {
        name: counts[name] for name in ("sent", "acknowledged", "failed", "unknown", "unknown_but_there", "read")
    } == {
        "sent": 4,
        "acknowledged": 1,
        "failed": 1,
        "unknown": 2,
        "unknown_but_there": 1,
        "read": 2,
    }


def test_a_verdict_shows_the_first_few_anomalies_of_a_kind() -> None:
    story = Story()
    for number in range(50):
        story.acked(f"v{number}", number)
    verdict = judge(story.final([]).lines)
    assert verdict.counts["lost"] == 50
    assert len(json.loads(json.dumps(verdict.as_json()))["anomalies"]) == ANOMALIES_SHOWN_MAX


def test_trouble_is_never_failed() -> None:
    assert Verdict.trouble(Outcome.ERROR, "no broker started").outcome.exit_code == 3
    assert Verdict.trouble(Outcome.ABORTED, "interrupted").outcome.exit_code == 3


def test_every_kind_has_a_statement_and_is_judged_by_a_claim() -> None:
    assert set(STATEMENTS) == set(Kind)
    assert {kind for claim in DATA_CLAIMS for kind in claim.kinds} == set(Kind)
