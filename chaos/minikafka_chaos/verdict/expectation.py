"""What a scenario is meant to show: the verdict and the anomalies that it says beforehand, against what was found."""

from __future__ import annotations

from minikafka_chaos.scenario.scenario import ExpectSpec
from minikafka_chaos.verdict.verdict import Outcome, Verdict

AS_EXPECTED = "as expected"


def difference(expected: ExpectSpec, verdict: Verdict) -> str | None:
    """Return what differs from the expectation, in one line; None when exactly that was found. Notes are left aside.

    A run that could not tell everything has not shown what it was meant to show, whatever it found.
    """
    if verdict.outcome.value != expected.verdict:
        return f"expected {expected.verdict}, found {verdict.outcome.value}"
    found = verdict.errors
    unmet = []
    for anomaly in expected.anomalies:
        number = found.pop(anomaly.kind, 0)
        if not number or anomaly.count not in (None, number):
            unmet.append(f"expected {anomaly.count or 'some'} {anomaly.kind}, found {number or 'none'}")
    unmet += [
        f"did not expect {kind}, found {number}" for kind, number in found.items() if kind not in expected.may_find
    ]
    broken = verdict.broken_claims
    unmet += [f"expected that claim {name} is broken, and it is not" for name in expected.claims if name not in broken]
    unmet += [f"did not expect that claim {name} is broken" for name in broken if name not in expected.claims]
    if verdict.outcome is not Outcome.INCONCLUSIVE:
        unmet += [f"not all could be told: {problem}" for problem in verdict.problems]
    return "; ".join(unmet) or None


def exit_code(expected: ExpectSpec | None, verdict: Verdict) -> int:
    """0 when what was found is what was expected, 1 when it is not, 3 when it could not be told; the verdict's own code
    where nothing is expected."""
    if expected is None:
        return verdict.outcome.exit_code
    if difference(expected, verdict) is None:
        return 0
    return 1 if verdict.outcome in (Outcome.PASSED, Outcome.FAILED) and not verdict.problems else 3
