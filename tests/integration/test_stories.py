"""The stories of KIP-101, and what no protocol survives, on real brokers, sockets and files.

The scenario files say what happens; nothing here says what is lost. The verdict is found by the verifier, from what the
client was told and from the replicas' own log files.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from minikafka_chaos.grounds.processes import ProcessesGround
from minikafka_chaos.record.journal import read_journal
from minikafka_chaos.run.runner import run_scenario
from minikafka_chaos.scenario import library
from minikafka_chaos.verdict.anomalies import AnomalyKind, Severity
from minikafka_chaos.verdict.verdict import Outcome, Verdict


def verdict_of(name: str, directory: Path) -> Verdict:
    ground = ProcessesGround(directory / "cluster")
    result = run_scenario(library.find(name), ground, directory)
    assert result.verdict.outcome in (Outcome.PASSED, Outcome.FAILED), result.verdict.summary
    assert read_journal(directory / "journal.jsonl")[-1]["verdict"] == result.verdict.outcome.value
    assert [ground.cluster.state(broker) for broker in ground.brokers] == ["down"] * len(ground.brokers)
    return result.verdict


def errors(verdict: Verdict) -> set[AnomalyKind]:
    return {anomaly.kind for anomaly in verdict.anomalies if anomaly.severity is Severity.ERROR}


def lost(verdict: Verdict) -> list[str | None]:
    return [a.value for a in verdict.anomalies if a.kind in (AnomalyKind.LOST_WRITE, AnomalyKind.UNSEEN)]


def test_story_a_high_watermark_truncation_loses_the_acknowledged_record(tmp_path: Path) -> None:
    verdict = verdict_of("kip-101-data-loss.high-watermark", tmp_path)
    assert verdict.outcome is Outcome.FAILED
    assert lost(verdict) == ["m1"]
    assert AnomalyKind.DIVERGENT_REPLICAS not in errors(verdict)


@pytest.mark.full
def test_story_a_leader_epochs_keep_it(tmp_path: Path) -> None:
    verdict = verdict_of("kip-101-data-loss.leader-epoch", tmp_path)
    assert verdict.outcome is Outcome.PASSED
    assert (verdict.counts["acknowledged"], verdict.counts["read"]) == (2, 2)


@pytest.mark.full
def test_story_b_high_watermark_truncation_lets_the_replicas_diverge(tmp_path: Path) -> None:
    verdict = verdict_of("kip-101-divergence.high-watermark", tmp_path)
    assert verdict.outcome is Outcome.FAILED
    assert errors(verdict) == {AnomalyKind.DIVERGENT_REPLICAS}
    (divergence,) = (a for a in verdict.anomalies if a.kind is AnomalyKind.DIVERGENT_REPLICAS)
    assert divergence.offset == 1
    assert [batch["values"] for batch in divergence.evidence["batches"]] == [["m1"], ["m2"]]


@pytest.mark.full
def test_story_b_leader_epochs_make_them_agree(tmp_path: Path) -> None:
    verdict = verdict_of("kip-101-divergence.leader-epoch", tmp_path)
    assert verdict.outcome is Outcome.PASSED
    assert verdict.counts["accepted_loss"] == 1  # m1: every replica that had it died, and the one without came first


@pytest.mark.full
def test_caveat_unclean_election_loses_records_even_with_leader_epochs(tmp_path: Path) -> None:
    verdict = verdict_of("caveat-unclean-election", tmp_path)
    assert verdict.outcome is Outcome.FAILED
    assert lost(verdict) == ["m1"]
    assert AnomalyKind.DIVERGENT_REPLICAS not in errors(verdict)


@pytest.mark.full
def test_last_replica_standing_is_not_trusted_by_default(tmp_path: Path) -> None:
    verdict = verdict_of("last-replica-standing.fence", tmp_path)
    assert verdict.outcome is Outcome.PASSED
    assert verdict.counts["read"] == 6


@pytest.mark.full
def test_last_replica_standing_when_trusted_takes_the_records_of_all_three(tmp_path: Path) -> None:
    verdict = verdict_of("last-replica-standing.trust-isr", tmp_path)
    assert verdict.outcome is Outcome.FAILED
    assert lost(verdict) == ["r0", "r1", "r2", "r3", "r4"]
