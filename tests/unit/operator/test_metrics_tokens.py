"""The brokers' metrics behind TLS and a token (31 item 3)."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from minikafka.security.bearer import is_token
from minikafka_kube.kinds import Object
from minikafka_kube.names import CERTIFICATES_PATH, RENEW_METRICS_TOKEN_ANNOTATION
from minikafka_operator.actions import ReplacePod
from minikafka_operator.security.authorities import encoded
from minikafka_operator.security.metrics_tokens import MetricsTokens, tokens_now

from .test_certificates import GRACE, TLS, broker_files, properties, secret, with_tls
from .world import BEGIN, NAMES, World, settled


def as_secret(tokens: MetricsTokens) -> Object:
    return {"metadata": {"annotations": tokens.annotations()}, "data": encoded(tokens.data())}


def test_a_new_token_is_accepted_before_it_is_shown_and_an_old_one_after() -> None:
    now = BEGIN
    first = tokens_now(None, "", GRACE, now)
    assert is_token(first.shown) and first.accepted == f"{first.shown}\n"
    assert tokens_now(as_secret(first), "", GRACE, now) == first
    steps = [first]
    for _ in range(3):
        steps.append(tokens_now(as_secret(steps[-1]), "1", GRACE, now))
        almost = now + timedelta(seconds=GRACE - 1)
        assert tokens_now(as_secret(steps[-1]), "1", GRACE, almost) == steps[-1], "each step takes as long"
        now += timedelta(seconds=GRACE)
    _, second, third, last = steps
    assert second.shown == first.shown != third.shown == last.shown == second.following
    for one, other in pairwise(steps):  # a volume is brought up to date some time after its Secret
        assert one.shown in other.accepted.split() and other.shown in one.accepted.split()
    assert first.shown not in last.accepted and not last.renewing
    assert tokens_now(as_secret(last), "1", GRACE, now) == last, "the annotation asks once"
    assert tokens_now(as_secret(last), "2", GRACE, now).following, "another value asks again"


@pytest.mark.parametrize(
    "spoilt", ["", "short", "two words of some length here", "a-token-0123456789\nb-token-0123456789"]
)
def test_what_is_no_token_is_made_anew(spoilt: str) -> None:
    """A broker would refuse the whole file for it."""
    made = tokens_now(as_secret(MetricsTokens(spoilt, asked="1")), "1", GRACE, BEGIN)
    assert is_token(made.shown) and not made.renewing


@pytest.mark.parametrize("since", [None, BEGIN + timedelta(days=36500)])
def test_a_renewal_without_a_time_or_in_the_future_begins_its_step_anew(since: datetime | None) -> None:
    found = MetricsTokens("a-token-0123456789", following="b-token-0123456789", since=since)
    assert tokens_now(as_secret(found), "", GRACE, BEGIN).since == BEGIN


class TestCluster:
    @staticmethod
    def look(world: World) -> list[str]:
        for _ in range(4):
            assert not [action for action in world.step().actions if isinstance(action, ReplacePod)]
        return broker_files(world)["metrics.tokens"].split()

    def test_brokers_and_readers_have_the_same(self) -> None:
        world = with_tls(metrics={"secured": True})
        access = secret(world, NAMES.metrics_access)
        assert [access["token"]] == self.look(world)
        assert access["ca.crt"] == broker_files(world)["cluster-ca.crt"]
        found = properties(world)
        assert found["minikafka.metrics.tokens.path"] == f"{CERTIFICATES_PATH}/metrics.tokens"
        assert found["minikafka.metrics.ssl.keystore.location"] == f"{CERTIFICATES_PATH}/broker-0.pem"
        (broker, *_) = world.objects["StatefulSet", NAMES.broker]["spec"]["template"]["spec"]["containers"]
        probes = [broker[f"{name}Probe"]["httpGet"]["scheme"] for name in ("startup", "readiness", "liveness")]
        assert probes == ["HTTPS"] * 3
        world.cluster["metadata"]["annotations"] = {RENEW_METRICS_TOKEN_ANNOTATION: "1"}
        assert self.look(world)[0] == access["token"] and len(self.look(world)) == 2
        world.now += timedelta(seconds=GRACE)
        assert self.look(world)[0] == secret(world, NAMES.metrics_access)["token"] != access["token"]

    def test_without_it_all_is_as_before(self) -> None:
        world = settled(**TLS)
        assert ("Secret", NAMES.metrics_access) not in world.objects
        assert "metrics.tokens" not in broker_files(world)
        assert not [
            key for key in properties(world) if key.startswith(("minikafka.metrics.ssl", "minikafka.metrics.tokens"))
        ]
