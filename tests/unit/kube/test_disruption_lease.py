"""Who holds the disruption Lease of a cluster, whatever stands in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from minikafka_kube.disruption_lease import hold_of
from minikafka_kube.names import MANAGER

BEGIN = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("spec", "held"),
    [
        ({}, False),
        ({"holderIdentity": "x", "leaseDurationSeconds": 60}, False),
        ({"holderIdentity": "x", "leaseDurationSeconds": 60, "renewTime": "2026-11-21T12:00:00Z"}, True),
        ({"holderIdentity": "x", "leaseDurationSeconds": 60, "renewTime": "2026-11-21T11:58:59Z"}, False),
        ({"holderIdentity": MANAGER, "leaseDurationSeconds": 60, "renewTime": "2026-11-21T12:00:00Z"}, False),
    ],
)
def test_who_holds_it(spec: dict[str, object], held: bool) -> None:
    assert hold_of({"spec": spec}).by_other(MANAGER, BEGIN) is held
    assert not hold_of({"spec": spec}).by_other(MANAGER, BEGIN + timedelta(seconds=61))


@pytest.mark.parametrize("when", ["9999-12-31T23:59:59.999999Z", "0000-01-01T00:00:00.000000Z"])
def test_a_lease_whose_time_somebody_made_up(when: str) -> None:
    """The API server takes it; operator and chaos controller could then do nothing more for its cluster. Seen on kind."""
    spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 60, "renewTime": when}
    assert hold_of({"spec": spec}).by_other(MANAGER, BEGIN) is when.startswith("9")
