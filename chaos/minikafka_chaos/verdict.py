"""The verdict of a run: what was claimed, what was found, and how sure that is.

Exactly one of five words, and the difference matters: `Failed` accuses the cluster, and only evidence from the data
does that. Trouble of the tool is `Error`, a run that proves nothing is `Inconclusive`, a run that was stopped is
`Aborted`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from minikafka.protocol.types import TopicPartition

from minikafka_chaos.anomalies import DIVERGENCE, LOSS, ORDER, Anomaly, Kind, Severity
from minikafka_chaos.evidence import Evidence, collect
from minikafka_chaos.gaps import longest_gaps
from minikafka_chaos.history import FAIL, INFO, OK, POLL, Op
from minikafka_chaos.replica_logs import ReplicaLog, check_logs
from minikafka_chaos.verifier import find_anomalies, undecided

ANOMALIES_SHOWN_MAX = 20
"""Of each kind, in a journal or on a terminal: the count tells the size, the first few tell the story."""


class Outcome(Enum):
    PASSED = "Passed"
    FAILED = "Failed"
    INCONCLUSIVE = "Inconclusive"
    ABORTED = "Aborted"
    ERROR = "Error"

    @property
    def exit_code(self) -> int:
        """0 the data is well, 1 it is not, 3 could not tell."""
        return {Outcome.PASSED: 0, Outcome.FAILED: 1}.get(self, 3)


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim and what became of it: `held` is None when the run could not tell."""

    claim: str
    held: bool | None
    detail: str

    def as_json(self) -> dict[str, Any]:
        return {"claim": self.claim, "held": self.held, "detail": self.detail}


@dataclass(slots=True)
class Verdict:
    """The last word on a run."""

    outcome: Outcome
    summary: str
    counts: dict[str, Any] = field(default_factory=dict)
    anomalies: list[Anomaly] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Why the run could not tell everything."""

    def as_json(self) -> dict[str, Any]:
        return {
            "verdict": self.outcome.value,
            "summary": self.summary,
            "counts": self.counts,
            "anomalies": [anomaly.as_json() for anomaly in shown(self.anomalies)],
            "claims": [finding.as_json() for finding in self.findings],
            "problems": self.problems,
        }

    @classmethod
    def trouble(cls, outcome: Outcome, why: str) -> Verdict:
        """A run that came to no judgement: `outcome` is ABORTED or ERROR."""
        return cls(outcome, why, problems=[why])


def shown(anomalies: Sequence[Anomaly], limit: int = ANOMALIES_SHOWN_MAX) -> list[Anomaly]:
    """The first few of each kind, errors first."""
    seen: Counter[Kind] = Counter()
    kept = []
    for anomaly in anomalies:
        seen[anomaly.kind] += 1
        if seen[anomaly.kind] <= limit:
            kept.append(anomaly)
    return kept


@dataclass(frozen=True, slots=True)
class Claim:
    """What a scenario claims. `kinds` are the anomalies that break it; `strict` turns notes of these into errors."""

    name: str
    kinds: frozenset[Kind]
    strict: bool = False
    needs_logs: bool = False
    ack_gap_limit_s: float | None = None


NO_LOSS = Claim("no acknowledged record lost", LOSS)
DATA_CLAIMS: tuple[Claim, ...] = (
    NO_LOSS,
    Claim(
        "every offset holds one record, for every reader", frozenset((Kind.INCONSISTENT_OFFSETS, Kind.VANISHED_READ))
    ),
    Claim("no failed record is read", frozenset((Kind.ABORTED_READ,))),
    Claim(
        "order is kept",
        ORDER | {Kind.ACK_OFFSET, Kind.STALE_OFFSET, Kind.END_OFFSET_WENT_BACK},
    ),
    Claim("duplicates only where retries may make them", frozenset((Kind.DUPLICATE,))),
    Claim("replicas do not diverge", DIVERGENCE, needs_logs=True),
)
"""What is always judged, whatever a scenario claims: the verdict is about the data."""


def judge(
    history: Sequence[Op],
    replicas: Mapping[TopicPartition, Sequence[ReplicaLog]] | None = None,
    claims: Iterable[Claim] = (),
    problems: Iterable[str] = (),
    accept_loss_before: float | None = None,
) -> Verdict:
    """Judge a run.

    Args:
        replicas: the replicas' logs, where they could be read; None when there is no access to them (any cluster).
        claims: what is claimed beyond DATA_CLAIMS.
        problems: what kept the run from showing what it was to show (a state not reached, a broker that stayed away).
        accept_loss_before: see `minikafka_chaos.evidence.collect`.

    Raises HistoryError for a history that contradicts itself.
    """
    evidence = collect(history, accept_loss_before=accept_loss_before)
    extra = list(claims)
    anomalies = _made_strict(find_anomalies(evidence), extra)
    for logs in (replicas or {}).values():
        anomalies.extend(check_logs(logs))
    anomalies.sort(key=lambda anomaly: anomaly.severity is Severity.NOTE)
    counts = count(history, evidence, anomalies, replicas)
    blind = list(problems)
    blind += [
        f"{number} acknowledged records of {topic_partition} could not be judged: no reader came to its end"
        for topic_partition, number in sorted(undecided(evidence).items())
    ]
    if counts["acknowledged"] == 0:
        blind.append("nothing was acknowledged, so nothing could be lost")
    findings = [_finding(claim, anomalies, counts, replicas, blind) for claim in (*DATA_CLAIMS, *extra)]
    outcome, summary = _outcome(findings, blind, counts)
    return Verdict(outcome, summary, counts, anomalies, findings, blind)


def _made_strict(anomalies: list[Anomaly], claims: Sequence[Claim]) -> list[Anomaly]:
    strict = frozenset(kind for claim in claims if claim.strict for kind in claim.kinds)
    return [
        Anomaly(a.kind, Severity.ERROR, a.topic, a.partition, a.offset, a.value, a.message, a.evidence)
        if a.kind in strict
        else a
        for a in anomalies
    ]


def count(
    history: Sequence[Op],
    evidence: Evidence,
    anomalies: Iterable[Anomaly],
    replicas: Mapping[TopicPartition, Sequence[ReplicaLog]] | None,
) -> dict[str, Any]:
    """The numbers of a run. Records of one kind are counted once, however many readers saw them."""
    sends = evidence.sends.values()
    read = {(tp, s.value) for tp, view in evidence.partitions.items() for sit in view.sittings for s in sit.records}
    read_values = {value for _, value in read}
    kinds = Counter(anomaly.kind for anomaly in anomalies)
    unknown = [send for send in sends if send.outcome == INFO]
    gap = next(iter(longest_gaps(history)), None)
    return {
        "sent": len(evidence.sends),
        "acknowledged": sum(1 for send in sends if send.outcome == OK) + len(evidence.accepted),
        "failed": sum(1 for send in sends if send.outcome == FAIL),
        "unknown": len(unknown) - len(evidence.accepted),
        "unknown_but_there": sum(1 for send in unknown if send.value in read_values),
        "read": len(read_values),
        "read_failures": sum(1 for op in history if op.op == POLL and op.type == FAIL),
        "lost": kinds[Kind.LOST_WRITE] + kinds[Kind.UNSEEN],
        "accepted_loss": len(evidence.accepted),
        "duplicated": kinds[Kind.DUPLICATE],
        "reordered": sum(kinds[kind] for kind in ORDER),
        "divergent": kinds[Kind.DIVERGENT_REPLICAS],
        "replicas_compared": sum(len(logs) for logs in replicas.values()) if replicas is not None else None,
        "longest_ack_gap_s": round(gap.seconds, 3) if gap else None,
        "longest_ack_gap_in": str(gap.topic_partition) if gap else None,
        "anomalies": {kind.value: number for kind, number in kinds.items()},
    }


def _finding(
    claim: Claim,
    anomalies: Sequence[Anomaly],
    counts: Mapping[str, Any],
    replicas: Mapping[TopicPartition, Sequence[ReplicaLog]] | None,
    blind: Sequence[str],
) -> Finding:
    if claim.ack_gap_limit_s is not None:
        gap = counts["longest_ack_gap_s"]
        if gap is None:
            return Finding(claim.name, None, "no two acknowledgements to measure between")
        return Finding(claim.name, gap <= claim.ack_gap_limit_s, f"longest gap {gap:.3f} s")
    against = [a for a in anomalies if a.kind in claim.kinds and a.severity is Severity.ERROR]
    if against:
        more = f" (and {len(against) - 1} more)" if len(against) > 1 else ""
        return Finding(claim.name, False, against[0].message + more)
    if claim.needs_logs and replicas is None:
        return Finding(claim.name, None, "no access to the replicas' logs")
    if claim.kinds & LOSS and blind:
        return Finding(claim.name, None, blind[0])
    if claim.kinds & LOSS and counts["accepted_loss"]:
        return Finding(claim.name, True, f"{counts['accepted_loss']:,} gone that the scenario gives up beforehand")
    notes = sum(1 for a in anomalies if a.kind in claim.kinds)
    return Finding(claim.name, True, f"{notes} noted" if notes else "")


def _outcome(findings: Sequence[Finding], blind: Sequence[str], counts: Mapping[str, Any]) -> tuple[Outcome, str]:
    broken = [finding for finding in findings if finding.held is False]
    if broken:
        others = f"; also not held: {', '.join(finding.claim for finding in broken[1:])}" if broken[1:] else ""
        return Outcome.FAILED, _broken(broken[0], counts) + others
    if blind:
        return Outcome.INCONCLUSIVE, "; ".join(blind)
    acked, accepted = counts["acknowledged"], counts["accepted_loss"]
    if accepted:
        kept = f"{acked - accepted:,} read back, {accepted:,} given up as the scenario declares"
        return Outcome.PASSED, f"no acknowledged record lost that was to be kept: {acked:,} acknowledged, {kept}"
    return Outcome.PASSED, f"no acknowledged record lost: {acked:,} acknowledged, all read back"


def _broken(finding: Finding, counts: Mapping[str, Any]) -> str:
    if finding.claim == NO_LOSS.name:
        number = counts["lost"]
        return f"{number} acknowledged record{'s' if number != 1 else ''} lost: {finding.detail}"
    return f"not held: {finding.claim}: {finding.detail}"
