"""The verdict of a run: what was claimed, what was found, and how sure that is.

Exactly one of five words, and the difference matters: `Failed` accuses the cluster, and only evidence from the data
does that. Trouble of the tool is `Error`, a run that proves nothing is `Inconclusive`, a run that was stopped is
`Aborted`. The rules are in docs/reference/verdicts.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import duckdb

from minikafka_chaos.record.history import FILE_NAME, HistoryError, WorkloadSettings
from minikafka_chaos.verdict import claims as claim_types
from minikafka_chaos.verdict.anomalies import DIVERGENCE, GROUPS, LOSS, ORDER, Anomaly, AnomalyKind, Severity
from minikafka_chaos.verdict.claims import (
    ACK_GAP,
    NEVER,
    NO_DIVERGENCE,
    NO_DUPLICATES,
    NO_REORDERING,
    Claim,
    Terms,
    terms_of,
)
from minikafka_chaos.verdict.evidence import REPLICAS_FILE, Evidence
from minikafka_chaos.verdict.fates import deleted, join_fates, lost_since, undecided
from minikafka_chaos.verdict.figures import count
from minikafka_chaos.verdict.replica_checks import find_in_replicas, missing_evidence
from minikafka_chaos.verdict.verifier import AnomalySummary, find_in_history


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
    """One claim and what became of it: `held` is None when it was not judged, and `detail` says why."""

    claim: str
    held: bool | None
    detail: str
    apart: str | None = None
    """The name of a claim that no kind of anomaly tells of: what breaks it is in no count."""

    def as_json(self) -> dict[str, Any]:
        return {"claim": self.claim, "held": self.held, "detail": self.detail}


@dataclass(slots=True)
class Verdict:
    """The last word on a run."""

    outcome: Outcome
    summary: str
    counts: dict[str, Any] = field(default_factory=dict)
    anomalies: list[Anomaly] = field(default_factory=list)
    """The first few of each kind, errors first; `counts["anomalies"]` has how many there are."""
    findings: list[Finding] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Why the run could not tell everything."""

    @property
    def kinds(self) -> dict[str, int]:
        """Return how many anomalies of each kind, notes as well."""
        return dict(self.counts.get("anomalies", {}))

    @property
    def errors(self) -> dict[str, int]:
        """Like `kinds`, without notes."""
        return dict(self.counts.get("errors", {}))

    @property
    def broken_claims(self) -> list[str]:
        """The names of broken claims that no kind of anomaly tells of."""
        return [finding.apart for finding in self.findings if finding.held is False and finding.apart is not None]

    def as_json(self) -> dict[str, Any]:
        return {
            "verdict": self.outcome.value,
            "summary": self.summary,
            "counts": self.counts,
            "anomalies": [anomaly.as_json() for anomaly in self.anomalies],
            "claims": [finding.as_json() for finding in self.findings],
            "problems": self.problems,
        }

    @classmethod
    def without_judgement(cls, outcome: Outcome, why: str) -> Verdict:
        """A run that came to no judgement: `outcome` is ABORTED or ERROR."""
        return cls(outcome, why, problems=[why])


@dataclass(frozen=True, slots=True)
class _Guarantee:
    """What is judged wherever the evidence tells of it, and the anomalies that break it."""

    name: str
    kinds: frozenset[AnomalyKind]
    unknown_why: str = ""
    """Why brokers' acknowledgements alone say nothing of it."""


NOT_SENT = "brokers do not know what was sent"
NOT_IN_ORDER = "brokers do not know in which order it was sent"
NOT_READ = "brokers do not know what was read"
NOT_PROCESSED = "brokers do not know what was processed"
NOT_KNOWN_TO_BROKERS = frozenset((NOT_SENT, NOT_IN_ORDER, NOT_READ, NOT_PROCESSED))
NO_GROUP = "no consumer group took part"
UNKNOWN_TO_BROKERS = (
    "sent", "failed", "duplicated", "reordered", "phantoms", "longest_ack_gap_s", "longest_ack_gap_in",
)  # fmt: skip
"""Counts that are None where a history was made of brokers' acknowledgements."""

KNOWN_TO_BROKERS = frozenset((AnomalyKind.INCONSISTENT_OFFSETS,))
"""What acknowledgements tell of a guarantee for readers: two records were acknowledged at one offset, so one of them is gone."""

NO_LOSS = "no acknowledged record lost"
"""In claims' names; the claim's type is NoAcknowledgedRecordLost."""
GUARANTEES = (
    _Guarantee(
        "every offset holds one record, for every reader",
        frozenset((AnomalyKind.INCONSISTENT_OFFSETS, AnomalyKind.VANISHED_READ)),
        NOT_READ,
    ),
    _Guarantee("no failed record is read", frozenset((AnomalyKind.ABORTED_READ,)), NOT_SENT),
    _Guarantee("no record is read that nobody sent", frozenset((AnomalyKind.PHANTOM,)), NOT_SENT),
    _Guarantee(
        "order is kept",
        ORDER | {AnomalyKind.ACK_OFFSET, AnomalyKind.STALE_OFFSET, AnomalyKind.END_OFFSET_WENT_BACK},
        NOT_IN_ORDER,
    ),
    _Guarantee("duplicates only where retries may make them", frozenset((AnomalyKind.DUPLICATE,)), NOT_SENT),
    _Guarantee(
        "a group processes every record that it goes past, and does not go back",
        GROUPS - {AnomalyKind.DUPLICATE_DEAD_LETTER},
        NOT_PROCESSED,
    ),
    _Guarantee("no record is a dead letter twice", frozenset((AnomalyKind.DUPLICATE_DEAD_LETTER,)), NOT_PROCESSED),
)
REPLICAS = _Guarantee("in-sync replicas are whole and alike", DIVERGENCE)


def judge_run(folder: Path) -> Verdict:
    """Judge a run folder again, by the claims and problems that its journal tells.

    Raises HistoryError for evidence that contradicts itself or cannot be read.
    """
    replicas = folder / REPLICAS_FILE
    return judge(folder / FILE_NAME, replicas if replicas.exists() else None, terms_of(folder))


def judge(history: Path, replicas: Path | None = None, terms: Terms | None = None) -> Verdict:
    """Judge a history, and the replicas' logs where they could be read (`replicas.jsonl`).

    Raises HistoryError for evidence that contradicts itself or cannot be read.
    """
    try:
        return _judge(history, replicas, terms or Terms())
    except (duckdb.Error, OSError) as error:  # a full disk, no memory: trouble of the machine, and no word on the data
        raise HistoryError(f"{history}: could not be judged: {' '.join(str(error).split())}") from error


def _judge(history: Path, replicas: Path | None, terms: Terms) -> Verdict:
    with Evidence(history, replicas, terms.accept_before) as evidence:
        join_fates(evidence)
        stored = evidence.one("SELECT settings FROM figures")
        settings = WorkloadSettings.known(json.loads(stored)) if stored else WorkloadSettings()
        unjudged = _unjudged(evidence, terms)
        left_out = frozenset(kind for guarantee in unjudged for kind in guarantee.kinds) - KNOWN_TO_BROKERS
        found = find_in_history(evidence, settings, _strict(terms.claims), left_out)
        if terms.by_brokers:
            found = _without_repetition(found)
            unjudged = {each: why for each, why in unjudged.items() if not _against(each.kinds, found)}
        if evidence.has_replicas:
            found += find_in_replicas(evidence)
        counts = count(evidence, {each.kind: each.number for each in found})
        counts |= dict.fromkeys(UNKNOWN_TO_BROKERS) if terms.by_brokers else {}
        counts["errors"] = {each.kind.value: each.errors for each in found if each.errors}
        problems = _problems(evidence, terms, counts)
        findings = [
            *_loss_findings(evidence, terms, found, counts, problems),
            *(
                Finding(each.name, None, unjudged[each]) if each in unjudged else _guarantee_finding(each, found)
                for each in (*GUARANTEES, REPLICAS)
            ),
        ]
        for claim in terms.claims:
            finding = _claim_finding(claim, found, counts, evidence.has_replicas)
            findings += [finding] if finding is not None else []
            if claim.since == NEVER or (finding is not None and finding.held is None):
                problems.append(f"{claim.name}: {NEVER_BEGUN if finding is None else finding.detail}")
        outcome, summary = _outcome(evidence, findings, found, problems, counts)
    anomalies = [example for each in found for example in each.examples]
    for anomaly in anomalies if terms.by_brokers else ():
        anomaly.evidence.pop("producer", None)  # the history has one for all of them
    anomalies.sort(key=lambda anomaly: anomaly.severity is Severity.NOTE)
    return Verdict(outcome, summary, counts, anomalies, findings, problems)


NOTHING_ACKNOWLEDGED = "nothing was acknowledged, so nothing could be lost"
NO_LOGS = "no access to the replicas' logs"
NEVER_BEGUN = "the step that it is made from was never begun"


def _without_repetition(found: Sequence[AnomalySummary]) -> list[AnomalySummary]:
    """Leave out what says again that a record was lost; what says so alone is of one that others have been deleted with."""
    lost = bool(_against(LOSS, found))
    return [each for each in found if not (lost and each.kind in KNOWN_TO_BROKERS)]


def _unjudged(evidence: Evidence, terms: Terms) -> dict[_Guarantee, str]:
    """The guarantees of which the evidence tells nothing, and why: they are not judged."""
    unjudged = {} if evidence.has_replicas else {REPLICAS: NO_LOGS}
    if terms.by_brokers:
        return unjudged | {each: each.unknown_why for each in GUARANTEES}
    if evidence.one("SELECT 1 FROM members LIMIT 1") is None:
        unjudged |= {each: NO_GROUP for each in GUARANTEES if each.kinds <= GROUPS}
    return unjudged


def _strict(claims: Sequence[Claim]) -> frozenset[AnomalyKind]:
    """The kinds of which claims make errors where they would be notes."""
    types = {claim.type for claim in claims}
    kinds = frozenset((AnomalyKind.DUPLICATE,)) if NO_DUPLICATES in types else frozenset()
    return kinds | (ORDER if NO_REORDERING in types else frozenset())


def _problems(evidence: Evidence, terms: Terms, counts: Mapping[str, Any]) -> list[str]:
    """Return why the run cannot tell everything, before any claim is looked at."""
    found = list(terms.problems)
    for row in undecided(evidence):
        where = row["topic"] if row["part"] < 0 else f"{row['topic']}-{row['part']}"
        below = row["below_start"]
        if below:
            found.append(
                f"{below:,} acknowledged records of {where} lie below its log start, and nothing tells who moved it"
            )
        if rest := row["number"] - below:
            found.append(
                f"{rest:,} acknowledged records of {where} could not be judged: no reader tells of them to the end"
            )
    if counts["acknowledged"] == 0:
        found.append(NOTHING_ACKNOWLEDGED)
    if evidence.missing_lines:
        found.append(f"{evidence.missing_lines:,} lines of the history are missing")
    if evidence.early_outcomes:
        found.append(f"{evidence.early_outcomes:,} outcomes were told before their send, by the clock: it was set back")
    if evidence.has_replicas:
        found += missing_evidence(evidence)
    return found


def _against(kinds: frozenset[AnomalyKind], found: Sequence[AnomalySummary]) -> list[AnomalySummary]:
    return [each for each in found if each.kind in kinds and each.errors]


def _guarantee_finding(guarantee: _Guarantee, found: Sequence[AnomalySummary]) -> Finding:
    against = _against(guarantee.kinds, found)
    if against:
        return Finding(guarantee.name, False, _first_of(against))
    notes = sum(each.number for each in found if each.kind in guarantee.kinds)
    return Finding(guarantee.name, True, f"{notes:,} noted" if notes else "")


def _first_of(against: Sequence[AnomalySummary]) -> str:
    more = sum(each.errors for each in against) - 1
    first = next(example for example in against[0].examples if example.severity is Severity.ERROR)
    return first.message + (f" (and {more:,} more)" if more else "")


def _loss_findings(
    evidence: Evidence,
    terms: Terms,
    found: Sequence[AnomalySummary],
    counts: Mapping[str, Any],
    problems: Sequence[str],
) -> list[Finding]:
    """One for each claim of no loss, each with its own `since`; without such a claim the one that is always made."""
    findings = []
    for claim in terms.loss or [Claim("", claim_types.NO_LOSS)]:
        name = f"{claim.name}: {NO_LOSS}" if claim.name else NO_LOSS
        since = claim.since
        number = lost_since(evidence, since if since is not None else float("-inf"))
        accepted = counts["accepted_loss"]
        if since == NEVER:
            findings.append(Finding(name, None, NEVER_BEGUN))
        elif number:
            first = (
                next(
                    example
                    for each in _against(LOSS, found)
                    for example in each.examples
                    if since is None or example.evidence["acknowledged_at"] >= since
                )
                if number == counts["lost"]
                else None
            )
            detail = first.message if first else f"{number:,} that were acknowledged since then"
            more = f" (and {number - 1:,} more)" if first and number > 1 else ""
            findings.append(Finding(name, False, detail + more))
        elif problems:
            findings.append(Finding(name, None, problems[0]))
        else:
            findings.append(
                Finding(name, True, f"{accepted:,} gone that the scenario gives up beforehand" if accepted else "")
            )
    return findings


def _claim_finding(
    claim: Claim, found: Sequence[AnomalySummary], counts: Mapping[str, Any], has_replicas: bool
) -> Finding | None:
    """Return what became of a claim beyond the guarantees; None for one that is judged with them."""
    if claim.type == NO_DIVERGENCE and not has_replicas:
        return Finding(f"{claim.name}: {REPLICAS.name}", None, NO_LOGS)
    if claim.type == NO_DUPLICATES:
        return _guarantee_finding(
            _Guarantee(f"{claim.name}: no duplicates", frozenset((AnomalyKind.DUPLICATE,))), found
        )
    if claim.type == NO_REORDERING:
        return _guarantee_finding(_Guarantee(f"{claim.name}: no reordering", ORDER), found)
    if claim.type == ACK_GAP:
        limit_s = (claim.limit_millis or 0) / 1000
        name, gap = f"{claim.name}: no ack gap above {limit_s:g} s", counts["longest_ack_gap_s"]
        if gap is None:
            return Finding(name, None, "no send whose partition is known")
        return Finding(name, gap <= limit_s, f"longest gap {gap:.3f} s", claim.name)
    return None


def _outcome(
    evidence: Evidence,
    findings: Sequence[Finding],
    found: Sequence[AnomalySummary],
    problems: Sequence[str],
    counts: Mapping[str, Any],
) -> tuple[Outcome, str]:
    broken = [finding for finding in findings if finding.held is False]
    if broken or any(each.errors for each in found):
        others = f"; also not held: {', '.join(finding.claim for finding in broken[1:])}" if broken[1:] else ""
        return Outcome.FAILED, _broken(broken[0], counts) + others
    if problems:
        return Outcome.INCONCLUSIVE, "; ".join(problems)
    return Outcome.PASSED, _passed(evidence, counts)


def _broken(finding: Finding, counts: Mapping[str, Any]) -> str:
    if finding.claim.endswith(NO_LOSS):
        number = counts["lost"]
        return f"{number:,} acknowledged record{'s' if number != 1 else ''} lost: {finding.detail}"
    return f"not held: {finding.claim}: {finding.detail}"


def _passed(evidence: Evidence, counts: Mapping[str, Any]) -> str:
    acked, accepted = counts["acknowledged"], counts["accepted_loss"]
    parts = [f"{number:,} deleted {how}" for how, number in deleted(evidence)]
    kept = acked - accepted - counts["deleted"]
    if accepted:
        parts.append(f"{accepted:,} given up as the scenario declares")
    what = "no acknowledged record lost" + (" that was to be kept" if accepted else "")
    if not parts:
        return f"{what}: {acked:,} acknowledged, all read back"
    return f"{what}: {acked:,} acknowledged, {kept:,} read back, {', '.join(parts)}"
