"""Rates and throttle times, as Kafka's Rate, QuotaUtils and TokenBucket have them, in seconds of no clock at all."""

from __future__ import annotations

import math

import pytest
from minikafka.quotas.rates import Rate, TokenBucket, milliseconds

LIMIT = 1000.0


def rate() -> Rate:
    """Kafka's defaults: ten whole samples of a second, and one that is not over."""
    return Rate(11, 1.0)


def test_up_to_the_limit_nobody_waits() -> None:
    """The first ten seconds count as if they had passed."""
    measured = rate()
    measured.record(10 * LIMIT, 0.0)
    assert measured.excess(LIMIT, 0.0) == 0.0
    measured.record(1, 0.0)
    assert measured.excess(LIMIT, 0.0) == pytest.approx(0.001)


def test_the_time_to_wait_is_what_is_too_much_by_the_limit() -> None:
    """KIP-13: (rate - limit) / limit * window."""
    measured = rate()
    measured.record(15 * LIMIT, 0.0)
    assert measured.excess(LIMIT, 0.0) == pytest.approx((1500 - LIMIT) / LIMIT * 10)
    measured.record(LIMIT, 5.5)
    assert measured.excess(LIMIT, 5.5) == pytest.approx(16 - 10.5)


def test_who_waits_so_long_is_at_the_limit() -> None:
    measured = rate()
    measured.record(10.5 * LIMIT, 0.0)
    wait = measured.excess(LIMIT, 0.0)
    assert measured.excess(LIMIT, wait) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("size", [10.0, 100.0, 500.0, 1000.0, 2000.0])
def test_whoever_waits_each_time_has_the_rate_over_a_long_time(size: float) -> None:
    """Within 5 %, for requests of a hundredth of a second's worth to two seconds'."""
    measured, now, sent, began = rate(), 0.0, 0.0, 0.0
    while now < 1000:
        measured.record(size, now)
        sent += size
        now += max(measured.excess(LIMIT, now), 0.001)
        if began == 0.0 and now > 30:
            began, sent = now, 0.0
    assert sent / (now - began) == pytest.approx(LIMIT, rel=0.05)


def test_what_is_taken_back_does_not_count() -> None:
    measured = rate()
    measured.record(20 * LIMIT, 0.0)
    measured.record(-20 * LIMIT, 0.1)
    assert measured.total(0.1) == 0.0
    assert measured.excess(LIMIT, 0.1) == 0.0


def test_samples_go_when_they_are_old() -> None:
    measured = rate()
    measured.record(20 * LIMIT, 0.0)
    assert measured.total(10.9) == 20 * LIMIT
    assert measured.total(11.0) == 0.0
    measured.record(1.0, 40.0)
    assert measured.excess(LIMIT, 40.0) == 0.0


def test_no_more_samples_are_kept_than_count() -> None:
    measured = rate()
    for now in range(100):
        measured.record(1.0, float(now))
    assert measured.total(99.0) == 11


@pytest.mark.parametrize(
    ("seconds", "ms"),
    [(0.0, 0), (0.0004, 0), (0.0005, 1), (1.5, 1500), (1e9, 2**31 - 1), (1e308, 2**31 - 1), (math.inf, 2**31 - 1)],
)
def test_milliseconds(seconds: float, ms: int) -> None:
    assert milliseconds(seconds) == ms


def test_by_the_smallest_quota_one_waits_for_ever() -> None:
    """Kafka takes any quota above 0. What is to be waited is then infinite, which is a number to no answer."""
    measured, bucket = rate(), TokenBucket(11.0)
    measured.record(1.0, 0.0)
    bucket.spend(1, 5e-324, 0.0)
    assert milliseconds(measured.excess(5e-324, 0.0)) == milliseconds(bucket.wait(5e-324, 0.0)) == 2**31 - 1


class TestTokens:
    """KIP-599: a burst of as many as come in all samples, then a debt that has to be paid."""

    def test_a_burst_is_free(self) -> None:
        bucket = TokenBucket(11.0)
        bucket.spend(55, 5.0, 100.0)
        assert bucket.wait(5.0, 100.0) == 0.0
        bucket.spend(10, 5.0, 100.0)
        assert bucket.wait(5.0, 100.0) == pytest.approx(2.0)
        assert bucket.wait(5.0, 101.5) == pytest.approx(0.5)
        assert bucket.wait(5.0, 103.0) == 0.0

    def test_no_more_gather_than_that(self) -> None:
        bucket = TokenBucket(11.0)
        bucket.spend(0, 5.0, 0.0)
        bucket.spend(60, 5.0, 1e6)
        assert bucket.wait(5.0, 1e6) == pytest.approx(1.0)
