"""Brokers with real sockets, and the settings, keys and certificates that the operator makes for them: who gets where."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from minikafka.client.connection import BrokerConnection, NoAnswer
from minikafka.client.security import ClientSecurity
from minikafka.protocol.api_keys import ApiKey
from minikafka.security.acls import Acl, Entry, Operation, Pattern, PatternType, Permission, ResourceType
from minikafka.security.certificates import KeyPair, Subject, issued, new_authority
from minikafka.security.sasl_client import AuthenticationError, Login
from minikafka.security.tls import TlsSettings
from minikafka.server.broker import Broker
from minikafka_kube.names import CERTIFICATES_PATH
from minikafka_operator.api.cluster import ClusterSpec
from minikafka_operator.security.broker_security import (
    CLIENTS_CA_FILE,
    CLUSTER_CA_FILE,
    broker_file,
    broker_subject,
    operator_subject,
    security_properties,
)
from minikafka_operator.users.access import MECHANISM, AccessChange, KnownAccess, QuotaChange
from minikafka_operator.users.cluster_admin import AdminError, ClusterAdmin

from tests.unit.server.in_process import Cluster, running

from .world import NAMES

SPEC = ClusterSpec.model_validate(
    {
        "listeners": {"internal": {"tls": True, "authentication": {"type": "scram-sha-512"}}},
        "authorization": {"type": "simple"},
    }
)
READS = Acl(
    Pattern(ResourceType.TOPIC, PatternType.PREFIXED, "a-"), Entry("User:alice", "*", Operation.READ, Permission.ALLOW)
)
ALICE = ("alice", "a password")


@dataclass(frozen=True)
class Place:
    """A cluster as the operator would make it, on loopback."""

    cluster: Cluster
    brokers_ca: KeyPair
    users_ca: KeyPair

    def security(self, subject: Subject | None, signer: KeyPair | None = None) -> ClientSecurity:
        """Of a client that shows a certificate for a subject, or none."""
        tls = TlsSettings(truststore_certificates=self.brokers_ca.certificate, endpoint_identification=False)
        if subject is not None:
            pair = issued(signer or self.brokers_ca, subject, datetime.now(UTC), 1)
            tls = replace(tls, keystore_key=pair.key, keystore_certificate_chain=pair.certificate)
        return ClientSecurity(tls)

    def admin(self, security: ClientSecurity, broker_id: int = 1) -> ClusterAdmin:
        return ClusterAdmin(
            *self.address("REPLICATION", broker_id)[:1], security, self.address("REPLICATION", broker_id)[1]
        )

    def address(self, listener: str, broker_id: int = 1) -> tuple[str, int]:
        broker: Broker = self.cluster.brokers[broker_id]
        return next((host, port) for name, host, port in broker.listeners.advertised() if name == listener)


@asynccontextmanager
async def place(data: Path, brokers: int = 1) -> AsyncIterator[Place]:
    now = datetime.now(UTC)
    brokers_ca, users_ca = new_authority("demo", "cluster-ca", now, 2), new_authority("demo", "clients-ca", now, 2)
    (data / CLUSTER_CA_FILE).write_text(brokers_ca.certificate)
    (data / CLIENTS_CA_FILE).write_text(users_ca.certificate)
    subject = broker_subject(NAMES, frozenset({"127.0.0.1"}))
    (data / broker_file(0)).write_text(issued(brokers_ca, subject, now, 1).bundle)
    made = security_properties(SPEC, NAMES, 0, ["CLIENT", "REPLICATION"])
    settings = {key: value.replace(CERTIFICATES_PATH, str(data)) for key, value in made.items()}
    settings["connection.failed.authentication.delay.ms"] = "0"
    async with running(data, brokers, **settings) as cluster:
        await cluster.has_controller()
        yield Place(cluster, brokers_ca, users_ca)


def refused(found: Place, security: ClientSecurity) -> str:
    """Why somebody does not get in at the replication listener."""
    with pytest.raises(NoAnswer) as said, found.admin(security) as admin:
        admin.access(authorized=True)
    return str(said.value)


class Refusing:
    """A connection to a broker that refuses ACLs of one kind, or quotas, and notes what it is asked."""

    def __init__(self, refuses: Permission | None) -> None:
        self._refuses = refuses
        self.asked: list[str] = []

    def request(self, api_key: ApiKey, _: int, values: dict[str, Any]) -> Any:
        rows = values.get("creations") or values.get("filters") or values.get("entries") or [{}]
        permission = rows[0].get("permission_type")
        self.asked.append(f"{ApiKey(api_key).name} {Permission(permission).name if permission else ''}".strip())
        refused = "creations" in values and permission == self._refuses
        refused |= self._refuses is None and "entries" in values
        row = SimpleNamespace(error_code=44 if refused else 0, error_message="no room")
        return SimpleNamespace(results=[row], filter_results=[row], entries=[row])


@pytest.mark.parametrize("refuses", [Permission.DENY, Permission.ALLOW])
def test_an_acl_that_is_refused_leaves_no_more_allowed_than_there_should_be(refuses: Permission) -> None:
    """The store is full, say, when a user's rights are taken away, and its password is changed."""
    connection = Refusing(refuses)
    admin = ClusterAdmin.__new__(ClusterAdmin)
    admin._connection = cast(BrokerConnection, connection)
    denies = Acl(READS.pattern, READS.entry._replace(permission=Permission.DENY))
    both = frozenset({READS, denies})
    with pytest.raises(AdminError, match="POLICY_VIOLATION: no room"):
        admin.change(AccessChange(created=both, upserted=ALICE, deleted=both))
    done = ["ALTER_USER_SCRAM_CREDENTIALS", "DELETE_ACLS ALLOW"]
    if refuses is Permission.ALLOW:
        done = ["CREATE_ACLS ALLOW", *done, "DELETE_ACLS DENY"]
    assert connection.asked == ["CREATE_ACLS DENY", *done]


def test_a_quota_that_is_refused_holds_up_nothing_else() -> None:
    connection = Refusing(None)
    admin = ClusterAdmin.__new__(ClusterAdmin)
    admin._connection = cast(BrokerConnection, connection)
    quotas = QuotaChange("alice", {"producer_byte_rate": 1.0, "request_percentage": None})
    with pytest.raises(AdminError, match="POLICY_VIOLATION: no room"):
        admin.change(AccessChange(created=frozenset({READS}), upserted=ALICE, quotas=quotas))
    assert connection.asked == ["ALTER_CLIENT_QUOTAS", "CREATE_ACLS ALLOW", "ALTER_USER_SCRAM_CREDENTIALS"]


@pytest.mark.slow
async def test_the_operator_makes_and_removes_users_by_any_broker(tmp_path: Path) -> None:
    async with place(tmp_path, brokers=2) as found:
        await found.cluster.create("t")  # brokers believe each other
        operator = found.security(operator_subject(NAMES))

        def act() -> list[KnownAccess]:
            seen = []
            for broker_id in (1, 2):  # one of them is not the controller, and passes it on
                with found.admin(operator, broker_id) as admin:
                    more = QuotaChange("alice", {"producer_byte_rate": 1024.0, "request_percentage": None})
                    admin.change(AccessChange(created=frozenset({READS}), upserted=ALICE, quotas=more))
                    seen.append(admin.access(authorized=True))
                    none = QuotaChange("alice", {"producer_byte_rate": None})
                    admin.change(AccessChange(removed="alice", deleted=frozenset({READS}), quotas=none))
                    seen.append(admin.access(authorized=True))
                    with pytest.raises(AdminError, match=r"^RESOURCE_NOT_FOUND"):
                        admin.change(AccessChange(removed="alice"))
            return seen

        quotas = {"alice": {"producer_byte_rate": 1024.0}}
        there = KnownAccess(frozenset({"alice"}), frozenset({READS}), quotas)
        gone = KnownAccess(frozenset(), frozenset())
        assert await asyncio.to_thread(act) == [there, gone, there, gone]


@pytest.mark.slow
async def test_who_gets_where(tmp_path: Path) -> None:
    """A certificate of the clients CA, even with a broker's name, is of no use where brokers are; a password is no other's."""
    async with place(tmp_path) as found:
        await asyncio.to_thread(_try_everything, found)


def _try_everything(found: Place) -> None:
    assert "TLS" in refused(found, found.security(None))
    assert "TLS" in refused(found, found.security(broker_subject(NAMES), found.users_ca))
    assert "TLS" in refused(found, found.security(broker_subject(NAMES), new_authority("x", "y", datetime.now(UTC), 1)))
    assert refused(found, ClientSecurity())
    with found.admin(found.security(operator_subject(NAMES))) as admin:
        admin.change(AccessChange(upserted=ALICE))
    host, port = found.address("CLIENT")
    logs_in = replace(found.security(None), login=Login(MECHANISM, *ALICE))
    with BrokerConnection(host, port, 60, logs_in) as connection:
        answer = connection.request(ApiKey.METADATA, 9, {"topics": []})
        assert len(answer.brokers) == 1
    for user, password in (("alice", "wrong"), ("nobody", "a password"), (broker_subject(NAMES).principal, "x")):
        wrong = replace(logs_in, login=Login(MECHANISM, user, password))
        with pytest.raises((NoAnswer, AuthenticationError)):
            BrokerConnection(host, port, 60, wrong)
