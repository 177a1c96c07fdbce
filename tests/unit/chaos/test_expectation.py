"""A story that loses data as it is told: exit code 0, and only when exactly that was found."""

from __future__ import annotations

import re

import pytest
from minikafka_chaos.errors import BadScenario
from minikafka_chaos.scenario.scenario import ExpectSpec
from minikafka_chaos.verdict.expectation import difference, exit_code
from minikafka_chaos.verdict.verdict import Finding, Outcome, Verdict

from .test_scenario import parse

MEANT = ExpectSpec.model_validate_json(
    '{"verdict": "Failed", "anomalies": [{"kind": "unseen", "count": 1}, {"kind": "phantom"}]}'
)
FINE = ExpectSpec.model_validate_json('{"verdict": "Passed"}')


GAP = ExpectSpec.model_validate_json('{"verdict": "Failed", "claims": ["short"]}')


def failed(**errors: int) -> Verdict:
    return Verdict(Outcome.FAILED, "", {"errors": errors})


def outage(verdict: Verdict, claim: str = "short") -> Verdict:
    """The same, with a claim about gaps broken as well."""
    verdict.findings.append(Finding(f"{claim}: no ack gap above 1 s", False, "longest gap 9.000 s", claim))
    return verdict


def unsure(verdict: Verdict) -> Verdict:
    verdict.problems.append("a step was not reached")
    return verdict


@pytest.mark.parametrize(
    ("expected", "verdict", "code", "told"),
    [
        (MEANT, failed(unseen=1, phantom=7), 0, None),
        (MEANT, failed(unseen=2, phantom=7), 1, "expected 1 unseen, found 2"),
        (MEANT, failed(phantom=7), 1, "expected 1 unseen, found none"),
        (MEANT, failed(unseen=1, phantom=1, duplicate=3), 1, "did not expect duplicate, found 3"),
        (MEANT, Verdict(Outcome.PASSED, ""), 1, "expected Failed, found Passed"),
        (MEANT, Verdict(Outcome.INCONCLUSIVE, ""), 3, "expected Failed, found Inconclusive"),
        (MEANT, Verdict(Outcome.ERROR, ""), 3, "expected Failed, found Error"),
        (FINE, Verdict(Outcome.PASSED, ""), 0, None),
        (FINE, failed(unseen=1), 1, "expected Passed, found Failed"),
        (MEANT, outage(failed(unseen=1, phantom=7)), 1, "did not expect that claim short is broken"),
        (GAP, outage(failed()), 0, None),
        (
            GAP,
            outage(failed(), "long"),
            1,
            "expected that claim short is broken, and it is not; did not expect that claim long is broken",
        ),
        (MEANT, unsure(failed(unseen=1, phantom=7)), 3, "not all could be told: a step was not reached"),
    ],
)
def test_exit_codes(expected: ExpectSpec, verdict: Verdict, code: int, told: str | None) -> None:
    assert difference(expected, verdict) == told
    assert exit_code(expected, verdict) == code


def test_without_an_expectation_the_code_is_the_verdicts() -> None:
    assert [exit_code(None, Verdict(outcome, "")) for outcome in Outcome] == [0, 1, 3, 3, 3]


def test_an_expectation_may_depend_on_the_brokers_settings() -> None:
    when = [{"name": "minikafka.truncation.mode", "value": "high_watermark"}]
    expect = [{"verdict": "Failed", "when": when}, {"verdict": "Passed"}]
    config = {"brokers": 3, "config": when}
    told = parse(expect=expect).spec.expected
    changed = parse(expect=expect, cluster=config).spec.expected
    assert told is not None and changed is not None
    assert (told.verdict.value, changed.verdict.value) == ("Passed", "Failed")
    assert parse(expect=expect[:1]).spec.expected is None
    assert parse().spec.expected is None


def test_anomalies_mean_failed() -> None:
    with pytest.raises(BadScenario, match="anomalies mean Failed"):
        parse(expect=[{"verdict": "Passed", "anomalies": [{"kind": "unseen"}]}])


def test_an_expected_claim_is_one_about_gaps() -> None:
    claims = [{"name": "kept", "type": "NoAcknowledgedRecordLost"}]
    with pytest.raises(BadScenario, match="kept is no claim AckGapAtMost"):
        parse(claims=claims, expect=[{"verdict": "Failed", "claims": ["kept"]}])
    with pytest.raises(BadScenario, match="broken claims mean Failed"):
        parse(claims=claims, expect=[{"verdict": "Passed", "claims": ["kept"]}])


# -- settings of the workload ----------------------------------------------------------------------------------------------


def acks(expected: list[dict[str, object]], value: str) -> str | None:
    scenario = parse(workload={"topic": "t", "acks": value}, expect=expected)
    return None if scenario.spec.expected is None else scenario.spec.expected.verdict.value


def test_an_expectation_may_depend_on_the_workload() -> None:
    expected: list[dict[str, object]] = [
        {"verdict": "Passed", "when": [{"name": "workload.acks", "value": "All"}]},
        {"verdict": "Failed", "when": [{"name": "workload.acks", "value": "Leader"}]},
    ]
    assert [acks(expected, value) for value in ("All", "Leader", "None")] == ["Passed", "Failed", None]
    in_flight: list[dict[str, object]] = [
        {"verdict": "Failed", "when": [{"name": "workload.maxInFlight", "value": "1"}]}
    ]
    assert acks(in_flight, "All") == "Failed"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("workload.ack", "All", "expect.when: workload.ack: no field; did you mean acks?"),
        ("workload.acks", "all", "expect.when: acks: 'all' is not allowed"),
        ("workload.maxInFlight", "many", "expect.when: maxInFlight: Input should be a valid integer"),
    ],
)
def test_a_field_or_value_that_never_fits_is_refused(name: str, value: str, told: str) -> None:
    with pytest.raises(BadScenario, match=re.escape(told)):
        parse(expect=[{"verdict": "Passed", "when": [{"name": name, "value": value}]}])


def test_kinds_that_may_come_are_no_difference_and_need_not_come() -> None:
    expected = ExpectSpec.model_validate_json(
        '{"verdict": "Failed", "anomalies": [{"kind": "unseen"}], "mayFind": ["duplicate"]}'
    )
    assert difference(expected, failed(unseen=2, duplicate=5)) is None
    assert difference(expected, failed(unseen=2)) is None
    assert difference(expected, failed(duplicate=5)) == "expected some unseen, found none"
    assert difference(expected, failed(unseen=2, phantom=1)) == "did not expect phantom, found 1"
