"""One of five words: only evidence from the data is Failed. What becomes a verdict is in the table of cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from minikafka_chaos.verdict.anomalies import DECLARATIONS, LOSS, AnomalyKind
from minikafka_chaos.verdict.verdict import GUARANTEES, REPLICAS, Outcome, Verdict, judge, judge_run
from minikafka_chaos.verdict.verifier import EXAMPLES_MAX

from tests.unit.verdict_cases.builder import Run
from tests.unit.verdict_cases.lost import CASES


def judged(run: Run, folder: Path) -> Verdict:
    return judge_run(run.write(folder))


@pytest.mark.parametrize(("outcome", "code"), [(Outcome.PASSED, 0), (Outcome.FAILED, 1)])
def test_exit_codes(outcome: Outcome, code: int) -> None:
    assert outcome.exit_code == code
    assert {Outcome.INCONCLUSIVE.exit_code, Outcome.ABORTED.exit_code, Outcome.ERROR.exit_code} == {3}


@pytest.mark.slow
def test_a_lost_record_is_told_with_its_evidence(tmp_path: Path) -> None:
    verdict = judged(Run().acked("a", 0).acked("b", 1).final(["a"]), tmp_path)
    assert verdict.summary.startswith("1 acknowledged record lost: 'b' was acknowledged at offset 1")
    (anomaly,) = verdict.as_json()["anomalies"]
    assert (anomaly["value"], anomaly["evidence"]["producer"], anomaly["evidence"]["end_offset"]) == ("b", 1, 1)


@pytest.mark.slow
def test_what_was_deleted_is_always_in_the_summary(tmp_path: Path) -> None:
    """The audit's second run: 1,114 of 2,423 records deleted, and the summary said that all were read back."""
    case = next(case for case in CASES if case.name == "deleted-by-request")
    summary = judged(case.make(), tmp_path).summary
    assert summary == "no acknowledged record lost: 10 acknowledged, 6 read back, 4 deleted by request"


@pytest.mark.slow
def test_a_state_that_was_not_reached_is_inconclusive_but_a_loss_is_still_a_loss(tmp_path: Path) -> None:
    sound = Run().acked("a", 0).final(["a"]).problem("the leader did not change")
    lossy = Run().acked("a", 0).final([]).problem("the leader did not change")
    assert judged(sound, tmp_path / "sound").summary == "the leader did not change"
    assert judged(lossy, tmp_path / "lossy").outcome is Outcome.FAILED


@pytest.mark.slow
def test_without_replicas_their_logs_are_left_open(tmp_path: Path) -> None:
    """Nor is anything said of groups where there was none."""
    verdict = judged(Run().acked("a", 0).final(["a"]), tmp_path)
    *_, groups, dead_letters = GUARANTEES
    not_judged = [finding.claim for finding in verdict.findings if finding.held is None]
    assert not_judged == [groups.name, dead_letters.name, REPLICAS.name]
    assert verdict.outcome is Outcome.PASSED


@pytest.mark.slow
def test_a_history_alone_is_judged_without_claims(tmp_path: Path) -> None:
    folder = Run().acked("a", 0).acked("b", 1).final(["a", "b"]).claim("AckGapAtMost", None, 1).write(tmp_path)
    assert judge_run(folder).outcome is Outcome.FAILED
    assert judge(folder / "history.jsonl").outcome is Outcome.PASSED


@pytest.mark.slow
def test_each_claim_of_no_loss_is_told_by_its_own_since(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "late-since-beside-the-strict-claim")
    findings = {finding.claim.split(":")[0]: finding.held for finding in judged(case.make(), tmp_path).findings}
    assert (findings["claim-1"], findings["claim-2"]) == (False, True)


@pytest.mark.slow
def test_accepted_loss_is_told(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "given-up-beforehand")
    assert "2 read back, 1 given up as the scenario declares" in judged(case.make(), tmp_path).summary


@pytest.mark.slow
def test_a_verdict_shows_the_first_few_anomalies_of_a_kind(tmp_path: Path) -> None:
    verdict = judged(Run().acked_many(50).final([]), tmp_path)
    assert verdict.counts["lost"] == 50
    assert [each["offset"] for each in json.loads(json.dumps(verdict.as_json()))["anomalies"]] == list(
        range(EXAMPLES_MAX)
    )


def test_trouble_is_never_failed() -> None:
    assert Verdict.without_judgement(Outcome.ERROR, "no broker started").outcome.exit_code == 3
    assert Verdict.without_judgement(Outcome.ABORTED, "interrupted").outcome.exit_code == 3


def test_every_kind_is_declared_and_judged_by_a_guarantee() -> None:
    assert set(DECLARATIONS) == set(AnomalyKind)
    judged_by = [kind for guarantee in (*GUARANTEES, REPLICAS) for kind in guarantee.kinds]
    assert sorted([*judged_by, *LOSS], key=str) == sorted(AnomalyKind, key=str)
