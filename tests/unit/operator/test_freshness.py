"""No condition is True because of data whose age nobody has checked, whatever keeps the controller from renewing its Lease."""

from __future__ import annotations

import math

import pytest
from minikafka_kube.freshness import Signs
from minikafka_kube.kinds import LEASE
from minikafka_operator.reconciler import ClusterReconciler

from tests.unit.kube.fake_api_server import FakeApiServer

from .rolls import THREE
from .world import BEGIN, NAMES, World, settled

JUDGED = ("Available", "ReplicationHealthy", "Ready")
UNCHECKED = [Signs(None, 0.0), Signs(120.0, 1.0), Signs(12.0, 5.0)]
"""The first look of an operator; looks that are far from each other."""
LOST = [Signs(None, 30.0), Signs(5.0, 9.5), Signs(None, math.inf)]


def known() -> World:
    world = settled()
    world.topic("bank", THREE)
    world.settle()
    assert [world.condition(kind)[0] for kind in JUDGED] == ["True"] * 3
    assert world.status["controller"]
    return world


@pytest.mark.parametrize("signs", LOST)
def test_a_lease_that_nobody_renews(signs: Signs) -> None:
    world = known()
    world.controller_signs = signs
    made = world.step()
    assert made.retry_seconds is not None
    told = "Lease demo-controller was not renewed for 9 s, so what is known of the in-sync replicas may be old"
    assert world.condition("Ready") == ("False", "ControllerAway", told)
    assert world.condition("Available") == ("Unknown", "ControllerAway", told)
    assert world.condition("ReplicationHealthy") == ("Unknown", "ControllerAway", told)
    assert "controller" not in world.status
    assert "ControllerAway" in world.events
    world.controller_signs = Signs(8.0, 2.0)
    world.settle()
    assert [world.condition(kind)[0] for kind in JUDGED] == ["True"] * 3
    assert world.status["controller"]


def test_no_lease_and_one_of_a_stranger() -> None:
    world = known()
    lease = world.objects.pop(("Lease", NAMES.controller))
    world.step()
    assert world.condition("Ready")[1] == "ControllerAway"
    lease["spec"]["holderIdentity"] = "demo-broker-7"
    world.objects["Lease", NAMES.controller] = lease
    world.step()
    assert world.condition("Available")[:2] == ("Unknown", "ControllerAway")


@pytest.mark.parametrize("signs", UNCHECKED)
def test_what_was_true_stays_for_the_seconds_in_which_it_is_not_known(signs: Signs) -> None:
    world = known()
    world.controller_signs = signs
    made = world.plan()
    assert made.status is None, "and no event"
    assert made.retry_seconds is not None and made.retry_seconds <= 3.0


@pytest.mark.parametrize("signs", UNCHECKED)
def test_nothing_becomes_true_before_it_is_known(signs: Signs) -> None:
    world = known()
    world.stop("demo-broker-1")
    world.step()
    world.events.clear()
    world.start("demo-broker-1")
    world.controller_signs = signs
    world.step()
    assert world.condition("Ready")[:2] == ("Unknown", "ControllerUnconfirmed")
    assert world.events == [], "every start goes through it"


def test_bad_news_is_told_whatever_its_age() -> None:
    world = known()
    world.topic("bank", ([0, 1, 2], []))
    world.controller_signs = Signs(None, 30.0)
    world.step()
    assert world.condition("Available")[:2] == ("False", "PartitionsOffline")
    assert world.condition("ReplicationHealthy")[0] == "False"


def test_statuses_that_are_older_than_the_metadata() -> None:
    world = known()
    world.revisions["bank"] = 8
    world.step()
    assert world.condition("Ready")[:2] == ("False", "TopicStatusStale")
    assert world.condition("Available")[0] == "Unknown"
    assert world.status["controller"], "it lives"


def test_a_spec_that_is_not_understood() -> None:
    """What can be told without it is told all the same: it may be wrong for weeks."""
    world = known()
    world.cluster["spec"] = {"storage": "lots"}
    world.step()
    assert world.condition("Available")[0] == "True"
    world.controller_signs = Signs(None, 30.0)
    world.step()
    assert world.condition("Ready")[1] == "InvalidSpec"
    assert world.condition("Available")[:2] == ("Unknown", "ControllerAway")
    assert "controller" not in world.status


async def test_a_glance_tells_when_the_lease_is_not_renewed_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """No event does: nothing happens then."""
    now = [100.0]
    monkeypatch.setattr("minikafka_operator.reconciler.time.monotonic", lambda: now[0])
    spec = {"holderIdentity": "demo-broker-1", "leaseDurationSeconds": 9, "renewTime": "0"}
    server = FakeApiServer("ns", BEGIN)
    server.put(LEASE, NAMES.controller, {"spec": dict(spec)})
    reconciler = ClusterReconciler(server, None, None, None, "me", None)  # type: ignore[arg-type]
    world = known()
    world.objects["Lease", NAMES.controller]["spec"] = dict(spec)
    reconciler._renewals.look(("ns", "demo"), {"spec": {**spec, "renewTime": "-1"}}, now[0] - 5)
    world.controller_signs = reconciler._renewals.look(("ns", "demo"), {"spec": spec}, now[0])
    glance = reconciler._glance(world.observed())
    for renewed in range(1, 20):
        now[0] += 5.0
        server.put(LEASE, NAMES.controller, {"spec": {**spec, "renewTime": str(renewed)}})
        assert not await glance()
    now[0] += 5.0
    assert not await glance(), "it may still come"
    now[0] += 5.0
    assert await glance()
    server.put(LEASE, NAMES.controller, {"spec": {**spec, "renewTime": "99", "holderIdentity": "demo-broker-2"}})
    assert await glance()
