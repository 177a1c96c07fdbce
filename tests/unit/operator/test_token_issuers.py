"""Listeners that believe access tokens: what brokers get of the spec and of the objects that it names, and when they get none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from minikafka.config import BrokerConfig
from minikafka.config.listener_security import ListenerSecurity
from minikafka.config.properties import parse_properties
from minikafka.security.oauthbearer import TokenRefused, TokenRules
from minikafka.transport.token_keys import KeysInFile
from minikafka_kube.names import CERTIFICATES_PATH
from minikafka_operator.api.cluster import ClusterSpec
from minikafka_operator.security.authorities import encoded, texts_in
from pydantic import ValidationError

from tests.tokens import AUDIENCE, ISSUER, Issuer

from .test_certificates import HALF, authority
from .world import NAMES, World, settled

ONE, OTHER = Issuer(), Issuer("other")
KEYS = {"jwksConfigMap": {"name": "issuer", "key": "keys.json"}}
URL = {"jwksEndpointUrl": "https://issuer.example:8443/keys?x=1"}
CA = {"trustedCertificatesSecret": {"name": "issuer-ca"}}


def believing(**more: Any) -> dict[str, Any]:
    """The spec of a cluster with such a listener inside."""
    given = {"type": "oauthbearer", "expectedIssuer": ISSUER, **more}
    return {"listeners": {"internal": {"tls": True, "authentication": given}}}


def with_keys(text: str = ONE.key_set(), **more: Any) -> World:
    world = World(**believing(**KEYS, **more))
    world.stranger("ConfigMap", "issuer", data={"keys.json": text})
    world.settle()
    return world


def files(world: World) -> dict[str, str]:
    return texts_in(world.objects["Secret", NAMES.broker_certificates])


def listener(world: World, name: str = "CLIENT", mounted: str = CERTIFICATES_PATH) -> ListenerSecurity:
    """As a broker reads its file, where its certificates are mounted."""
    text = world.objects["ConfigMap", NAMES.config]["data"][NAMES.properties_file(0)]
    found = {key: value.replace(CERTIFICATES_PATH, mounted) for key, value in parse_properties(text).items()}
    return BrokerConfig.from_properties(
        {key: value.replace("${env:POD_IP}", "10.0.0.1").replace("${env:HOST_IP}", "10.0.0.2") for key, value in found.items()}
    ).security(name)  # fmt: skip


class TestSettings:
    def test_keys_of_a_config_map(self) -> None:
        world = with_keys(expectedAudience=["kafka", "other"], subClaimName="name", scopeClaimName="scp")
        found = listener(world)
        assert (found.protocol, list(found.mechanisms or ())) == ("SASL_SSL", ["OAUTHBEARER"])
        assert found.oauth is not None
        assert found.oauth.keys_url == f"file://{CERTIFICATES_PATH}/internal-jwks.json"
        assert found.oauth.rules == TokenRules(("kafka", "other"), ISSUER, "name", "scp")
        assert files(world)["internal-jwks.json"] == ONE.key_set()
        assert world.plan().steady

    def test_keys_of_a_secret_outside_and_passwords_inside(self) -> None:
        given = {"type": "oauthbearer", "expectedIssuer": ISSUER, "jwksSecret": {"name": "issuer", "key": "k"}}
        external = {"type": "NodePort", "tls": True, "authentication": given}
        scram = {"tls": True, "authentication": {"type": "scram-sha-512"}}
        world = World(listeners={"internal": scram, "external": external})
        world.stranger("Secret", "issuer", data=encoded({"k": ONE.key_set()}))
        world.settle()
        inside, outside = listener(world), listener(world, "EXTERNAL")
        assert (list(inside.mechanisms or ()), inside.oauth) == (["SCRAM-SHA-512"], None)
        assert outside.oauth is not None and outside.oauth.rules == TokenRules(expected_issuer=ISSUER)
        assert outside.oauth.keys_url.endswith("/external-jwks.json") and "external-jwks.json" in files(world)

    @pytest.mark.parametrize("trusted", [False, True])
    def test_keys_at_an_address(self, trusted: bool) -> None:
        world, certificate = World(**believing(**URL, **(CA if trusted else {}))), authority().certificate
        world.stranger("Secret", "issuer-ca", data=encoded({"ca.crt": certificate}))
        world.settle()
        oauth = listener(world).oauth
        assert oauth is not None and oauth.keys_url == URL["jwksEndpointUrl"]
        assert oauth.trust.truststore_location == (f"{CERTIFICATES_PATH}/internal-jwks-ca.crt" if trusted else "")
        assert files(world).get("internal-jwks-ca.crt") == (certificate if trusted else None)

    def test_how_often_an_address_is_asked_is_left_to_the_settings(self) -> None:
        seldom = {"sasl.oauthbearer.jwks.endpoint.refresh.ms": "60000"}
        oauth = listener(settled(**believing(**URL), config=seldom)).oauth
        assert oauth is not None and oauth.refresh_seconds == 60
        world = World(**believing(**URL), config={"sasl.oauthbearer.expected.audience": "x"})
        world.step()
        assert world.condition("Accepted")[1:] == (
            "InvalidConfig",
            "spec.config: sasl.oauthbearer.expected.audience is made by the operator from spec.listeners and spec.authorization",
        )

    def test_it_needs_an_issuer(self) -> None:
        """Also where the CRD of another version does not say so."""
        with pytest.raises(ValidationError, match="expectedIssuer"):
            ClusterSpec.model_validate(
                {"listeners": {"internal": {"tls": True, "authentication": {"type": "oauthbearer"}}}}
            )


class TestUnusable:
    @pytest.mark.parametrize(
        ("data", "says"),
        [
            (None, "is not there"),
            ({}, "has no keys.json"),
            ({"keys.json": "{}"}, "cannot be used: keys.json: no JSON Web Key Set (RFC 7517)"),
            (
                {"keys.json": '{"keys": [{"kty": "OKP", "d": "SECRET"}]}'},
                "cannot be used: keys.json: there is a private key in it, which must stay with whoever signs",
            ),
        ],
    )
    def test_keys(self, data: dict[str, str] | None, says: str) -> None:
        world = World(**believing(**KEYS))
        if data is not None:
            world.stranger("ConfigMap", "issuer", data=data)
        for _ in range(4):
            world.step()
        assert world.condition("Accepted") == (
            "False",
            "TokenKeysUnusable",
            f"spec.listeners.internal.authentication.jwksConfigMap: ConfigMap issuer {says}; allowed: one with a JSON Web Key "
            "Set (RFC 7517) under that key",
        )
        assert ("StatefulSet", NAMES.broker) not in world.objects

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            (None, "is not there"),
            ("x", "ca.crt: no certificates in PEM"),
            (HALF, "ca.crt: no certificates in PEM"),
            ("\n", "ca.crt: nothing in it"),
        ],
    )
    def test_trusted_certificates(self, text: str | None, says: str) -> None:
        world = World(**believing(**URL, **CA))
        if text is not None:
            world.stranger("Secret", "issuer-ca", data=encoded({"ca.crt": text}))
        world.step()
        status, reason, message = world.condition("Accepted")
        assert (status, reason) == ("False", "CertificateUnusable")
        assert message.startswith("spec.listeners.internal.authentication.trustedCertificatesSecret: Secret issuer-ca ")
        assert message.endswith(f"{says}; allowed: one with CA certificates in PEM under that key")

    def test_brokers_keep_what_they_have(self) -> None:
        world = with_keys()
        for data in ({"keys.json": "x"}, None):
            if data is None:
                del world.objects["ConfigMap", "issuer"]
            else:
                world.objects["ConfigMap", "issuer"]["data"] = data
            for _ in range(3):
                world.step()
            assert world.condition("Accepted")[1] == "TokenKeysUnusable"
            assert files(world)["internal-jwks.json"] == ONE.key_set() and len(world.ready()) == 3


def test_other_keys_count_without_a_roll(tmp_path: Path) -> None:
    """Brokers look at the file with each token, and the kubelet exchanges the folder that its link leads to."""
    world = with_keys(expectedAudience=[AUDIENCE])
    pods = {name: pod["metadata"]["uid"] for name, pod in world.pods.items()}

    def mount(version: str) -> None:
        (tmp_path / version).mkdir()
        for name, text in files(world).items():
            (tmp_path / version / name).write_text(text)
        (tmp_path / "new").symlink_to(version)
        os.rename(tmp_path / "new", tmp_path / "..data")

    mount("1")
    (tmp_path / "internal-jwks.json").symlink_to("..data/internal-jwks.json")
    oauth = listener(world, mounted=str(tmp_path)).oauth
    assert oauth is not None
    told: list[str | None] = []
    keys = KeysInFile(str(tmp_path / "internal-jwks.json"), oauth, told.append)
    now = 1_700_000_000.0
    assert keys.believe(ONE.token(now=now), now).subject == "alice"

    world.objects["ConfigMap", "issuer"]["data"] = {"keys.json": OTHER.key_set()}
    world.settle()
    assert {name: pod["metadata"]["uid"] for name, pod in world.pods.items()} == pods
    mount("2")
    assert keys.believe(OTHER.token(now=now), now).subject == "alice" and told == [None]
    with pytest.raises(TokenRefused, match="key is not known"):
        keys.believe(ONE.token(now=now), now)
