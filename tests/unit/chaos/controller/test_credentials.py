"""Experiments on secured clusters: as whom their clients log in, what those may do, and who sees the secrets (31 item 3)."""

from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from minikafka.client.metrics_access import MetricsAccess
from minikafka.security.tls import TlsSettings
from minikafka_chaos.controller.credentials import CREDENTIALS_PATH, group_of, mounted, secured_listener
from minikafka_chaos.controller.mounted_credentials import mounted_security
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.experiment.kinds import ABORT_ANNOTATION, EXPERIMENT, JOB
from minikafka_kube.api_server import ApiError
from minikafka_kube.kinds import CLUSTER, USER, Object

from tests.certificates import PemFiles
from tests.unit.chaos.controller.happenings import edit
from tests.unit.chaos.controller.world import SCENARIO, World

SCRAM = {"tls": True, "authentication": {"type": "scram-sha-512"}}
MTLS = {"tls": True, "authentication": {"type": "tls"}}
AUTHORIZED = {"authorization": {"type": "simple"}}
JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="try-run" password="s3cret";'


def world_with(internal: dict[str, Any], more: dict[str, Any] | None = None, spec: dict[str, Any] = SCENARIO) -> World:
    world = World(spec)
    world.server.objects[CLUSTER.name, "shop"]["spec"] |= {"listeners": {"internal": internal}, **(more or {})}
    return world


def user(world: World, name: str = "try-run") -> Object | None:
    return world.server.objects.get((USER.name, name))


def sources(world: World) -> list[Object]:
    """What the runner's pod has mounted of Secrets."""
    pod = world.server.objects[JOB.name, "try-run"]["spec"]["template"]["spec"]
    volumes = [one["projected"]["sources"] for one in pod["volumes"] if "projected" in one]
    mounts = [one for one in pod["containers"][0]["volumeMounts"] if one["mountPath"] == CREDENTIALS_PATH]
    assert len(volumes) == len(mounts) and all(one["readOnly"] for one in mounts)
    assert "secret" not in json.dumps([one for one in pod["volumes"] if "projected" not in one])
    return [source["secret"] for source in volumes[0]] if volumes else []


async def looks(world: World, count: int = 12) -> None:
    for _ in range(count):
        await world.look()
        world.kubernetes()
        world.pass_time(1.0)


CA = {"name": "shop-cluster-ca-cert", "items": [{"key": "ca.crt", "path": "ca.crt"}]}


class TestItsUser:
    async def test_it_is_there_before_the_run_and_gone_after_it(self) -> None:
        group = {"workload": {"topic": "bank", "groupMembers": 2}}
        world = world_with(SCRAM, AUTHORIZED, {**SCENARIO, **group})
        await world.settle()
        assert world.phase == "Running"
        made = user(world)
        assert made is not None and made["spec"] == {
            "clusterRef": {"name": "shop"},
            "authentication": {"type": "scram-sha-512"},
            "authorization": {
                "type": "simple",
                "acls": [
                    {
                        "resource": {"type": "topic", "name": "bank", "patternType": "literal"},
                        "operations": ["Create", "Read", "Write"],
                    },
                    {
                        "resource": {"type": "group", "name": group_of(world.experiment), "patternType": "literal"},
                        "operations": ["Read"],
                    },
                ],
            },
        }
        (owner,) = made["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == (EXPERIMENT.name, "try", True)
        password = {"name": "try-run", "items": [{"key": "sasl.jaas.config", "path": "sasl.jaas.config"}]}
        assert sources(world) == [password, CA]
        world.ledger().take()
        world.ledger().set_fields(verdict="Passed", summary="")
        world.job_ends()
        await world.settle()
        assert (world.phase, user(world)) == ("Completed", None)
        log = world.server.log
        assert log.index("create MiniKafkaUser") < log.index("create Lease") < log.index("create Job")
        assert log.index("delete MiniKafkaUser") < log.index("replace Lease", log.index("status Healing"))

    @pytest.mark.slow
    async def test_it_is_waited_for(self) -> None:
        world = world_with(SCRAM, AUTHORIZED)
        world.operator_away = True
        await looks(world, 30)
        status, reason, says = world.condition("Accepted")
        assert (world.phase, status, reason) == ("Pending", "Unknown", "WaitingForUser")
        assert says == "MiniKafkaUser try-run, as which its clients log in: the operator has said nothing of it"
        assert not world.lease_holder(), "others may have the cluster meanwhile"
        made = user(world)
        assert made is not None
        made["status"] = {
            "conditions": [{"type": "Ready", "status": "False", "reason": "Refused", "message": "a quota"}]
        }
        await looks(world, 2)
        assert world.condition("Accepted")[2].endswith("log in: a quota")
        world.annotate(ABORT_ANNOTATION)
        await world.settle()
        assert (world.phase, user(world)) == ("Aborted", None)

    @pytest.mark.parametrize(
        ("internal", "mounted"),
        [
            (MTLS, [{"name": "try-run", "items": [{"key": "user.pem", "path": "user.pem"}]}, CA]),
            ({"authentication": {"type": "scram-sha-512"}}, ["sasl.jaas.config"]),
            ({"tls": True}, [CA]),
            ({**SCRAM, "certificateSecret": {"name": "web"}}, ["sasl.jaas.config", "web"]),
        ],
        ids=["mtls", "password-without-tls", "tls-without-login", "certificate-of-its-own"],
    )
    async def test_its_pod_has_what_the_listener_asks_for_and_no_more(self, internal: Any, mounted: list[Any]) -> None:
        world = world_with(internal)
        await world.settle()
        found = sources(world)
        for one, wanted in zip(found, mounted, strict=True):
            if isinstance(wanted, str):
                assert wanted in (one["name"], one["items"][0]["key"])
                assert bool(one.get("optional")) == (wanted == "web"), "a CA that everybody knows is in no Secret"
            else:
                assert one == wanted
        made = user(world)
        assert (made is not None) == ("authentication" in internal)
        assert made is None or "authorization" not in made["spec"], "a cluster without authorization refuses ACLs"

    async def test_a_cluster_that_is_not_secured_has_none(self) -> None:
        world = World()
        await world.settle()
        assert (world.phase, user(world), sources(world)) == ("Running", None, [])

    async def test_one_of_somebody_else_is_left_alone(self) -> None:
        world = world_with(SCRAM, AUTHORIZED)
        world.server.put(USER, "try-run", {"spec": {"clusterRef": {"name": "shop"}}, "metadata": {}})
        await world.settle()
        assert (world.phase, world.condition("Accepted")[1]) == ("Refused", "UserNotOurs")
        assert user(world) is not None and "delete MiniKafkaUser" not in world.server.log

    async def test_one_of_an_earlier_experiment_goes_first(self) -> None:
        world = world_with(SCRAM, AUTHORIZED)
        owner = [{"kind": EXPERIMENT.name, "name": "try", "uid": "earlier"}]
        world.server.put(
            USER, "try-run", {"spec": {"clusterRef": {"name": "shop"}}, "metadata": {"ownerReferences": owner}}
        )
        await looks(world, 3)
        assert "one of an earlier experiment has to go first" in world.condition("Accepted")[2]
        world.server.objects.pop((USER.name, "try-run"))
        await world.settle()
        assert world.phase == "Running"

    async def test_what_it_may_do_follows_an_edit(self) -> None:
        world = world_with(SCRAM, AUTHORIZED)
        world.operator_away = True
        await looks(world, 3)
        before = copy.deepcopy(user(world))
        edit(world, topics=[{"name": "bank"}, {"name": "audit"}])
        world.operator_away = False
        await world.settle()
        made = user(world)
        assert before is not None and made is not None and made["metadata"]["uid"] != before["metadata"]["uid"]
        assert [acl["resource"]["name"] for acl in made["spec"]["authorization"]["acls"]][:2] == ["bank", "audit"]

    async def test_they_have_no_token(self) -> None:
        world = world_with(
            {"tls": True, "authentication": {"type": "oauthbearer", "jwksEndpointUrl": "https://h/keys"}}
        )
        await world.settle()
        assert (world.phase, user(world)) == ("Refused", None)
        assert world.condition("Accepted")[1:] == (
            "NotSupported",
            "MiniKafkaCluster shop: spec.listeners.internal.authentication.type oauthbearer: the clients of experiments log in "
            "there, and have no token; allowed: scram-sha-512, tls",
        )

    async def test_refused_by_a_policy(self) -> None:
        world = world_with(SCRAM, AUTHORIZED)
        world.server.refuses[USER.name] = ApiError(403, "Forbidden", "no users here")
        await world.settle()
        status, reason, says = world.condition("Accepted")
        assert (world.phase, status, reason) == ("Refused", "False", "CreationRefused") and "no users here" in says

    @pytest.mark.slow
    async def test_no_webhook_answers(self) -> None:
        world = world_with(SCRAM, AUTHORIZED)
        world.server.refuses[USER.name] = ApiError(500, "InternalError", "no webhook")
        for _ in range(40):
            with contextlib.suppress(ApiError):
                await looks(world, 1)
            world.pass_time(1.0)
        status, reason, says = world.condition("Accepted")
        assert (world.phase, status, reason) == ("Pending", "Unknown", "WaitingForUser")
        assert "MiniKafkaUser try-run cannot be made now: no webhook" in says


class TestMounted:
    """What clients are told of it."""

    @staticmethod
    def listener(internal: dict[str, Any]) -> Any:
        return secured_listener({"spec": {"listeners": {"internal": internal}, **AUTHORIZED}})

    def test_nothing_of_a_cluster_that_is_not_secured(self, tmp_path: Path) -> None:
        assert mounted_security(secured_listener({"spec": {}}), tmp_path).librdkafka() == {}

    def test_a_password_and_whom_to_trust(self, tmp_path: Path) -> None:
        (tmp_path / "sasl.jaas.config").write_text(JAAS)
        (tmp_path / "ca.crt").write_bytes(PemFiles.write(tmp_path).truststore.read_bytes())
        found = mounted_security(self.listener(SCRAM), tmp_path)
        assert "s3cret" not in repr(found)
        assert found.librdkafka() == {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "try-run",
            "sasl.password": "s3cret",
            "ssl.ca.location": str(tmp_path / "ca.crt"),
            "ssl.endpoint.identification.algorithm": "https",
        }
        (tmp_path / "sasl.jaas.config").write_text(JAAS.replace("s3cret", "n3w"))
        assert mounted_security(self.listener(SCRAM), tmp_path).librdkafka()["sasl.password"] == "n3w"

    def test_a_certificate(self, tmp_path: Path) -> None:
        files = PemFiles.write(tmp_path)
        (tmp_path / "user.pem").write_bytes(files.client.read_bytes())
        (tmp_path / "ca.crt").write_bytes(files.truststore.read_bytes())
        found = mounted_security(self.listener(MTLS), tmp_path).librdkafka()
        assert (found["security.protocol"], found["ssl.key.location"]) == ("SSL", str(tmp_path / "user.pem"))

    @pytest.mark.slow
    def test_a_certificate_of_a_ca_that_everybody_knows(self, tmp_path: Path) -> None:
        (tmp_path / "sasl.jaas.config").write_text(JAAS)
        known = {**SCRAM, "certificateSecret": {"name": "web"}}
        assert "ssl.ca.location" not in mounted_security(self.listener(known), tmp_path).librdkafka()

    @pytest.mark.parametrize(
        ("jaas", "says"), [(None, "cannot be read: .*sasl.jaas.config"), (f"{JAAS}{JAAS}", "are of no use: sasl.jaas")]
    )
    def test_what_is_wrong_is_told_without_the_secret(self, tmp_path: Path, jaas: str | None, says: str) -> None:
        (tmp_path / "ca.crt").write_bytes(PemFiles.write(tmp_path).truststore.read_bytes())
        if jaas is not None:
            (tmp_path / "sasl.jaas.config").write_text(jaas)
        with pytest.raises(ToolTrouble, match=says) as said:
            mounted_security(self.listener(SCRAM), tmp_path)
        assert "s3cret" not in str(said.value)

    def test_what_metrics_are_read_with(self, tmp_path: Path) -> None:
        """The token is read anew with each page; the rest of the Secret is not for the runner."""
        spec = {"listeners": {"internal": {"tls": True}}, "metrics": {"secured": True}}
        (tmp_path / "ca.crt").write_bytes(PemFiles.write(tmp_path).truststore.read_bytes())
        trust = TlsSettings(truststore_location=f"{tmp_path}/metrics/ca.crt")
        found = mounted_security(secured_listener({"spec": spec}), tmp_path)
        assert found.metrics == MetricsAccess(trust, f"{tmp_path}/metrics/token")
        experiment = {"metadata": {"name": "try", "namespace": "lab"}}
        made = mounted(experiment, {"metadata": {"name": "shop"}, "spec": spec})
        assert made is not None
        assert made[0]["projected"]["sources"][-1]["secret"] == {
            "name": "shop-metrics-access",
            "items": [{"key": "token", "path": "metrics/token"}, {"key": "ca.crt", "path": "metrics/ca.crt"}],
        }

    def test_a_ca_that_is_missing(self, tmp_path: Path) -> None:
        (tmp_path / "sasl.jaas.config").write_text(JAAS)
        with pytest.raises(ToolTrouble, match=r"ca\.crt"):
            mounted_security(self.listener(SCRAM), tmp_path)
