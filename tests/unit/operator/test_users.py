"""MiniKafkaUsers: their Secrets, what brokers are told of them, and what is refused."""

from __future__ import annotations

import logging
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar, cast

import pytest
from minikafka.client.connection import NoAnswer
from minikafka.client.security import ClientSecurity
from minikafka.security.acls import Acl, Entry, Operation, Pattern, PatternType, Permission, ResourceType
from minikafka.security.certificates import KeyPair, Subject, matches
from minikafka.security.jaas import parse_for
from minikafka_kube.api import API_VERSION
from minikafka_kube.api_server import ApiError, ApiServer
from minikafka_kube.kinds import SECRET, USER, Object
from minikafka_kube.leadership import Alone, NotLeadingError
from minikafka_kube.names import RENEW_ANNOTATION, RENEW_CLIENTS_CA_ANNOTATION, USER_FINALIZER
from minikafka_operator.security.authorities import texts_in
from minikafka_operator.users.access import AccessChange, KnownAccess, WantedAccess, change_to, removal
from minikafka_operator.users.cluster_admin import AdminError, in_turn
from minikafka_operator.users.reconciler import REFUSED_RETRY_SECONDS, UserReconciler

from tests.copies import copied
from tests.unit.kube.fake_api_server import FakeApiServer, Killed

from .world import BEGIN, settled

BOTH = {
    "listeners": {
        "internal": {"tls": True, "authentication": {"type": "scram-sha-512"}},
        "external": {"type": "NodePort", "tls": True, "authentication": {"type": "tls"}},
    },
    "authorization": {"type": "simple"},
}
READS = {"resource": {"type": "topic", "name": "a-", "patternType": "prefix"}, "operations": ["Read", "Describe"]}
SCRAM = {"authentication": {"type": "scram-sha-512"}}
CERTIFICATE = {"authentication": {"type": "tls"}}


def acl(principal: str, operation: Operation, name: str = "a-", how: PatternType = PatternType.PREFIXED) -> Acl:
    return Acl(Pattern(ResourceType.TOPIC, how, name), Entry(principal, "*", operation, Permission.ALLOW))


class Brokers:
    """What brokers know, and how often they were asked."""

    def __init__(self) -> None:
        self.passwords: dict[str, str] = {}
        self.acls: set[Acl] = set()
        self.quotas: dict[str, dict[str, float]] = {}
        self.asked = 0
        self.removed: list[str] = []
        self.silent = ""
        self.refuses = ""
        self.shown: list[ClientSecurity] = []

    def open(self, host: str, security: ClientSecurity) -> Brokers:
        if self.silent:
            raise NoAnswer(self.silent)
        self.asked += 1
        self.shown.append(security)
        return self

    def __enter__(self) -> Brokers:
        return self

    def __exit__(self, *exception: object) -> None: ...

    def access(self, *, authorized: bool) -> KnownAccess:
        return KnownAccess(frozenset(self.passwords), frozenset(self.acls) if authorized else None, copied(self.quotas))

    def change(self, change: AccessChange) -> None:
        if self.refuses:
            raise AdminError(self.refuses)
        self.acls = (self.acls | change.created) - change.deleted
        self.passwords.update([change.upserted] if change.upserted else [])
        self.removed += [change.removed] if change.removed else []
        self.passwords.pop(change.removed, None)
        if change.quotas is not None:
            both = {**self.quotas.pop(change.quotas.user, {}), **change.quotas.values}
            left = {name: value for name, value in both.items() if value is not None}
            self.quotas |= {change.quotas.user: left} if left else {}


class Users:
    """Users of a settled cluster, with the reconciler that looks after them."""

    def __init__(self, **spec: Any) -> None:
        self.world = settled(**(spec or BOTH))
        self.server = FakeApiServer("ns", BEGIN)
        self.brokers = Brokers()
        for number, pod in enumerate(self.world.pods.values()):
            pod["status"]["podIP"] = f"10.0.0.{number}"
        self.reconciler = self.new_operator()

    def new_operator(self) -> UserReconciler:
        server = cast(ApiServer, self.server)
        return UserReconciler(server, lambda: self.world.now, Alone(), self.brokers.open)

    def apply(self, name: str, **spec: Any) -> None:
        document = {"apiVersion": API_VERSION, "kind": USER.name, "metadata": {}}
        self.server.put(USER, name, {**document, "spec": {"clusterRef": {"name": "demo"}, **spec}})

    def edit(self, name: str, **spec: Any) -> None:
        user = self.server.objects[USER.name, name]
        user["spec"] |= spec
        user["metadata"]["generation"] += 1

    def annotate(self, name: str, value: str) -> None:
        self.server.objects[USER.name, name]["metadata"]["annotations"] = {RENEW_ANNOTATION: value}

    async def looks(self, times: int = 4) -> None:
        for _ in range(times):
            await self.reconciler.reconcile(self.world.observed())

    def condition(self, name: str) -> tuple[str, str, str]:
        (found,) = self.server.objects[USER.name, name]["status"]["conditions"]
        return found["status"], found["reason"], found["message"]

    def secret(self, name: str) -> dict[str, str]:
        return texts_in(self.server.objects[SECRET.name, name])


@pytest.fixture
def users() -> Users:
    return Users()


class TestPassword:
    async def test_from_nothing_to_in_force(self, users: Users) -> None:
        users.apply("alice", **SCRAM, authorization={"type": "simple", "acls": [READS]})
        await users.looks()
        assert users.condition("alice") == ("True", "InForce", "brokers know alice, and all of its ACLs and quotas")
        password = users.secret("alice")["password"]
        assert len(password) == 32 and users.brokers.passwords == {"alice": password}
        module = parse_for("SCRAM-SHA-512", users.secret("alice")["sasl.jaas.config"])
        assert (module.username, module.password) == ("alice", password)
        wanted = {acl("User:alice", Operation.READ), acl("User:alice", Operation.DESCRIBE)}
        assert users.brokers.acls == wanted
        status = users.server.objects[USER.name, "alice"]["status"]
        assert (status["userName"], status["secret"]) == ("alice", "alice")

    async def test_then_nothing_is_written_and_nobody_is_asked(self, users: Users) -> None:
        users.apply("alice", **SCRAM)
        await users.looks()
        writes, asked = users.server.writes, users.brokers.asked
        await users.looks()
        assert (users.server.writes, users.brokers.asked) == (writes, asked)
        users.reconciler = users.new_operator()
        before = dict(users.brokers.passwords)
        await users.looks()
        assert users.server.writes == writes and users.brokers.passwords == before
        assert users.brokers.asked == asked + 1, "another operator asks once"

    @pytest.mark.parametrize("how", ["delete", "annotate", "empty"])
    async def test_rotation(self, users: Users, how: str) -> None:
        users.apply("alice", **SCRAM)
        await users.looks()
        before = users.secret("alice")["password"]
        if how == "delete":
            users.server.remove(SECRET, "alice")
        elif how == "annotate":
            users.annotate("alice", "1")
        else:
            users.server.objects[SECRET.name, "alice"]["data"] = {}
        await users.looks()
        after = users.secret("alice")["password"]
        assert after != before and users.brokers.passwords == {"alice": after}
        await users.looks()
        assert users.secret("alice")["password"] == after, "an annotation asks once"
        assert users.condition("alice")[1] == "InForce"

    @pytest.mark.parametrize(
        "chosen",
        ['quo"te\\', "from a file\n", "\r\n", "\\n", "ä\0;", "x" * 100_000],
        ids=["quotes", "line", "return", "backslash", "zero", "long"],
    )
    async def test_a_password_that_somebody_has_chosen(self, users: Users, chosen: str) -> None:
        users.apply("alice", **SCRAM)
        await users.looks()
        users.server.objects[SECRET.name, "alice"]["data"]["password"] = b64encode(chosen.encode()).decode()
        users.server.touch(SECRET, "alice")
        await users.looks()
        assert users.brokers.passwords == {"alice": chosen}
        written = users.secret("alice")["sasl.jaas.config"]
        assert parse_for("SCRAM-SHA-512", written).password == chosen
        assert not {"\n", "\r"} & set(written), "Java ends a text in quotation marks at a line break"

    async def test_what_somebody_has_removed_from_the_cluster_comes_back(self, users: Users) -> None:
        users.apply("alice", **SCRAM, authorization={"type": "simple", "acls": [READS]})
        await users.looks()
        users.brokers.passwords.clear()
        users.brokers.acls = {acl("User:alice", Operation.ALL), acl("User:bob", Operation.ALL)}
        users.reconciler = users.new_operator()
        await users.looks()
        assert set(users.brokers.passwords) == {"alice"}
        bobs = acl("User:bob", Operation.ALL)
        assert users.brokers.acls == {acl("User:alice", Operation.READ), acl("User:alice", Operation.DESCRIBE), bobs}

    async def test_a_name_that_kubernetes_cannot_hold(self, users: Users) -> None:
        users.apply("alice", **SCRAM, userName="Alice_1")
        await users.looks()
        assert set(users.brokers.passwords) == {"Alice_1"}
        assert "alice" not in users.brokers.passwords


class TestCertificate:
    async def test_it_is_made_and_kept(self, users: Users) -> None:
        users.apply("bob", **CERTIFICATE, authorization={"type": "simple", "acls": [READS]})
        await users.looks()
        found = users.secret("bob")
        assert matches(KeyPair(found["user.crt"], found["user.key"])) and found["user.pem"].endswith(found["user.crt"])
        assert not users.brokers.passwords
        assert {one.entry.principal for one in users.brokers.acls} == {"User:CN=bob"}
        assert users.condition("bob")[2].startswith("brokers know CN=bob,")
        await users.looks()
        assert users.secret("bob") == found

    async def test_rotation(self, users: Users) -> None:
        users.apply("bob", **CERTIFICATE)
        await users.looks()
        before = users.secret("bob")
        users.annotate("bob", "1")
        await users.looks()
        after = users.secret("bob")
        assert before["user.key"] != after["user.key"]
        await users.looks()
        assert users.secret("bob") == after

    @pytest.mark.slow
    async def test_a_renewed_ca_signs_anew_once_brokers_trust_it(self, users: Users) -> None:
        users.apply("bob", **CERTIFICATE)
        await users.looks()
        before = users.secret("bob")
        users.world.cluster["metadata"]["annotations"] = {RENEW_CLIENTS_CA_ANNOTATION: "1"}
        for _ in range(3):
            users.world.step()
        await users.looks()
        assert users.secret("bob")["user.crt"] == before["user.crt"], "nothing is signed by it yet"
        users.world.wait(86_400)
        for _ in range(3):
            users.world.step()
        await users.looks()
        assert users.secret("bob")["user.crt"] != before["user.crt"]


class TestQuotas:
    """All quotas of the user alone are in its spec; those of others, and of its single clients, are not the operator's."""

    LIMITS: ClassVar = {"producerByteRate": 1024, "requestPercentage": 55, "controllerMutationRate": 5}
    BY_NAME: ClassVar = {"producer_byte_rate": 1024.0, "request_percentage": 55.0, "controller_mutation_rate": 5.0}

    @pytest.mark.parametrize(("kind", "entity"), [(SCRAM, "alice"), (CERTIFICATE, "CN=alice")], ids=["scram", "tls"])
    async def test_they_come_and_change_and_go(self, users: Users, kind: dict[str, Any], entity: str) -> None:
        users.brokers.quotas = {"bob": {"producer_byte_rate": 1.0}}
        users.apply("alice", **kind, quotas=self.LIMITS)
        await users.looks()
        assert users.condition("alice")[0] == "True" and users.brokers.quotas[entity] == self.BY_NAME
        users.edit("alice", quotas={"consumerByteRate": 2048})
        await users.looks()
        assert users.brokers.quotas[entity] == {"consumer_byte_rate": 2048.0}
        users.edit("alice", quotas=None)
        await users.looks()
        assert users.brokers.quotas == {"bob": {"producer_byte_rate": 1.0}}

    async def test_what_somebody_has_changed_comes_right(self, users: Users) -> None:
        users.apply("alice", **SCRAM, quotas=self.LIMITS)
        await users.looks()
        users.brokers.quotas["alice"] = {"producer_byte_rate": 9.0, "consumer_byte_rate": 9.0}
        users.reconciler = users.new_operator()
        await users.looks()
        assert users.brokers.quotas == {"alice": self.BY_NAME}

    async def test_they_go_with_the_user(self, users: Users) -> None:
        users.apply("alice", **SCRAM, quotas=self.LIMITS)
        await users.looks()
        users.server.remove(USER, "alice")
        await users.looks()
        assert users.brokers.quotas == {} and (USER.name, "alice") not in users.server.objects


class TestGoing:
    async def test_nothing_is_left(self, users: Users) -> None:
        users.apply("alice", **SCRAM, authorization={"type": "simple", "acls": [READS]})
        users.apply("bob", **CERTIFICATE, authorization={"type": "simple", "acls": [READS]})
        await users.looks()
        for name in ("alice", "bob"):
            users.server.remove(USER, name)
        await users.looks()
        assert not users.brokers.passwords and not users.brokers.acls
        assert users.server.objects == {}, "its Secret is the garbage collector's"

    async def test_it_waits_for_brokers(self, users: Users) -> None:
        users.apply("alice", **SCRAM)
        await users.looks()
        users.brokers.silent = "Connection refused"
        users.server.remove(USER, "alice")
        await users.looks()
        says = "brokers cannot be asked: 10.0.0.2: Connection refused"
        assert users.condition("alice") == ("Unknown", "WaitingForBrokers", says)
        users.brokers.silent = ""
        await users.looks()
        assert not users.brokers.passwords and (USER.name, "alice") not in users.server.objects

    async def test_it_is_told_that_there_is_no_ca_to_come_with(self, users: Users) -> None:
        """Somebody has taken the CA's Secret away from the cluster, which is told of it; the user waits, and says so."""
        users.apply("alice", **SCRAM)
        await users.looks()
        owners = users.world.objects["Secret", "demo-clients-ca"]["metadata"].pop("ownerReferences")
        users.server.remove(USER, "alice")
        await users.looks()
        says = "brokers cannot be asked: the cluster's CAs are not there; see the cluster's condition Accepted"
        assert users.condition("alice") == ("Unknown", "WaitingForBrokers", says)
        users.world.objects["Secret", "demo-clients-ca"]["metadata"]["ownerReferences"] = owners
        await users.looks()
        assert (USER.name, "alice") not in users.server.objects

    async def test_not_for_those_of_a_cluster_that_goes(self, users: Users) -> None:
        users.apply("alice", **SCRAM)
        await users.looks()
        users.server.remove(USER, "alice")
        users.world.delete()
        await users.looks()
        assert (USER.name, "alice") not in users.server.objects

    async def test_a_cluster_that_is_not_there(self, users: Users) -> None:
        users.apply("alice", **SCRAM)
        await users.looks()
        users.apply("bob", **SCRAM)
        users.server.remove(USER, "alice")
        assert await users.reconciler.without_cluster("ns", "demo")
        says = "spec.clusterRef.name=demo: there is no MiniKafkaCluster of that name in its namespace"
        assert users.condition("bob") == ("False", "ClusterNotFound", says)
        assert (USER.name, "alice") not in users.server.objects
        assert not await users.reconciler.without_cluster("ns", "demo")

    @pytest.mark.slow
    async def test_killed_at_every_write_it_still_leaves_nothing(self) -> None:
        """The finalizer comes before all, and goes after all."""
        for dies_at in range(1, 12):
            users = Users()
            users.server.dies_at, users.server.dies_after = dies_at, dies_at % 2 == 0
            users.apply("alice", **SCRAM, authorization={"type": "simple", "acls": [READS]})
            for again in range(8):
                try:
                    await users.looks(1)
                except Killed:
                    users.reconciler = users.new_operator()
                if again == 4 and (USER.name, "alice") in users.server.objects:
                    users.server.remove(USER, "alice")
            assert (users.brokers.passwords, users.brokers.acls) == ({}, set())


class TestToken:
    """Users for whom somebody else issues tokens."""

    SUBJECT: ClassVar = "system:serviceaccount:ns:alice"
    KEYS: ClassVar = {"jwksEndpointUrl": "https://issuer.example/keys", "expectedIssuer": "https://issuer.example"}
    SPEC: ClassVar = {
        "listeners": {
            "internal": {"tls": True, "authentication": {"type": "oauthbearer", **KEYS}},
            "external": {"type": "NodePort", "tls": True, "authentication": {"type": "scram-sha-512"}},
        },
        "authorization": {"type": "simple"},
    }

    async def test_from_nothing_to_in_force_and_to_nothing(self) -> None:
        users = Users(**self.SPEC)
        limits = {"producerByteRate": 1000}
        acls = {"type": "simple", "acls": [READS]}
        users.brokers.passwords = {self.SUBJECT: "somebody else has made it"}
        users.apply("alice", userName=self.SUBJECT, authorization=acls, quotas=limits)
        await users.looks()
        says = f"brokers know {self.SUBJECT}, and all of its ACLs and quotas"
        assert users.condition("alice") == ("True", "InForce", says)
        principal = f"User:{self.SUBJECT}"
        assert users.brokers.acls == {acl(principal, Operation.READ), acl(principal, Operation.DESCRIBE)}
        assert users.brokers.quotas == {self.SUBJECT: {"producer_byte_rate": 1000.0}}
        status = users.server.objects[USER.name, "alice"]["status"]
        assert (SECRET.name, "alice") not in users.server.objects
        assert status["userName"] == self.SUBJECT and not {"secret", "secretVersion"} & set(status)

        users.brokers.silent = "no broker is ready"
        users.world.now += timedelta(hours=1)
        await users.new_operator().reconcile(users.world.observed())
        assert users.condition("alice")[0] == "True", "brokers that are away for a moment do not forget it"
        users.brokers.silent = ""
        users.server.remove(USER, "alice")
        await users.looks()
        assert (USER.name, "alice") not in users.server.objects
        assert (users.brokers.acls, users.brokers.quotas, users.brokers.removed) == (set(), {}, [])

    async def test_it_is_the_same_as_one_with_a_password(self) -> None:
        """Both would be the same principal, whatever listener they come by."""
        users = Users(**self.SPEC)
        users.apply("alice", **SCRAM)
        users.apply("other", userName="alice")
        await users.looks()
        assert [users.condition(name)[1] for name in ("alice", "other")] == ["InForce", "Duplicate"]


class TestRefused:
    @pytest.mark.parametrize(
        ("cluster", "spec", "reason", "says"),
        [
            (
                {"listeners": {}},
                SCRAM,
                "AuthenticationDisabled",
                "no listener of MiniKafkaCluster demo has authentication of type scram-sha-512",
            ),
            (
                {"listeners": {"internal": SCRAM}},
                CERTIFICATE,
                "AuthenticationDisabled",
                "no listener of MiniKafkaCluster demo has authentication of type tls",
            ),
            (
                {"listeners": {"internal": SCRAM}},
                {**SCRAM, "authorization": {"type": "simple", "acls": []}},
                "AuthorizationDisabled",
                "spec.authorization: MiniKafkaCluster demo has none",
            ),
            (
                BOTH,
                {},
                "AuthenticationDisabled",
                "spec.authentication: a user without it logs in by a token, and no listener of MiniKafkaCluster demo has",
            ),
            (BOTH, {"authentication": {"type": "magic"}}, "InvalidSpec", "spec.authentication.type: Input should be"),
        ],
    )
    async def test_what_does_not_go_together(
        self, cluster: dict[str, Any], spec: dict[str, Any], reason: str, says: str
    ) -> None:
        users = Users(**cluster)
        users.apply("alice", **spec)
        await users.looks()
        status, found, message = users.condition("alice")
        assert (status, found) == ("False", reason)
        assert message.startswith(says)
        assert (SECRET.name, "alice") not in users.server.objects and not users.brokers.asked
        assert not users.server.objects[USER.name, "alice"]["metadata"].get("finalizers")

    async def test_two_users_for_one_principal(self, users: Users) -> None:
        users.apply("alice", **SCRAM)
        users.apply("other", **SCRAM, userName="alice")
        await users.looks()
        says = "another MiniKafkaUser is the user User:alice already: delete this one, or give it another name"
        assert users.condition("other") == ("False", "Duplicate", says)
        assert users.condition("alice")[0] == "True"
        before = dict(users.brokers.passwords)
        users.server.remove(USER, "other")
        await users.looks()
        assert users.brokers.passwords == before, "what goes is not the user"

    async def test_the_second_of_two_users_goes_alone_whatever_it_was(self, users: Users) -> None:
        """Both have come back from a backup, say."""
        users.apply("alice", **SCRAM)
        await users.looks()
        before = dict(users.brokers.passwords)
        users.apply("other", **SCRAM, userName="alice")
        users.server.objects[USER.name, "other"]["metadata"]["finalizers"] = [USER_FINALIZER]
        users.server.remove(USER, "other")
        await users.looks()
        assert (USER.name, "other") not in users.server.objects
        assert users.brokers.passwords == before and not users.brokers.removed

    @pytest.mark.slow
    async def test_nobody_takes_the_place_of_a_user_of_the_same_second(self, users: Users) -> None:
        users.apply("bob", **SCRAM)
        await users.looks()
        users.apply("a-bob", **SCRAM, userName="bob")
        await users.looks()
        assert users.condition("a-bob")[1] == "Duplicate" and users.condition("bob")[0] == "True"

    async def test_a_password_and_a_certificate_are_two_principals(self, users: Users) -> None:
        users.apply("alice", **SCRAM)
        users.apply("alice-tls", **CERTIFICATE, userName="alice")
        await users.looks()
        assert users.condition("alice")[0] == users.condition("alice-tls")[0] == "True"

    @pytest.mark.parametrize("owner", [None, "demo", "other-user"])
    async def test_somebody_elses_secret(self, users: Users, owner: str | None) -> None:
        theirs: Object = {"metadata": {"labels": {}}, "data": {"password": "dGhlaXJz"}}
        if owner == "demo":
            theirs = dict(users.world.objects["Secret", "demo-cluster-ca"])
        elif owner:
            users.apply(owner, **SCRAM)
            await users.looks()
            theirs = dict(users.server.objects[SECRET.name, owner])
        users.server.put(SECRET, "alice", theirs)
        before = dict(users.server.objects[SECRET.name, "alice"]["data"])
        users.apply("alice", **SCRAM)
        await users.looks()
        says = "not this user's, and left alone: Secret alice; remove it, or give the user another name"
        assert users.condition("alice") == ("False", "ObjectConflict", says)
        assert users.server.objects[SECRET.name, "alice"]["data"] == before
        assert "alice" not in users.brokers.passwords

    async def test_what_brokers_refuse_is_told_and_tried_again(self, users: Users) -> None:
        users.brokers.refuses = "POLICY_VIOLATION: no room"
        users.apply("alice", **SCRAM)
        await users.looks()
        assert users.condition("alice") == ("False", "Refused", "brokers refuse: POLICY_VIOLATION: no room")
        users.brokers.refuses = ""
        await users.looks()
        assert users.condition("alice")[0] == "True"

    @pytest.mark.slow
    async def test_brokers_that_are_away_for_a_moment_change_nothing(self, users: Users) -> None:
        users.apply("alice", **SCRAM)
        await users.looks()
        users.brokers.silent = "timed out"
        users.reconciler = users.new_operator()
        await users.looks()
        assert users.condition("alice")[0] == "True", "the user is still in force"
        users.edit("alice", authorization={"type": "simple", "acls": [READS]})
        await users.looks()
        assert users.condition("alice")[:2] == ("Unknown", "WaitingForBrokers")

    async def test_what_the_api_server_refuses_of_one_user_is_told_and_stops_no_other(self, users: Users) -> None:
        """A quota for Secrets, say. Whoever may make users in a namespace must not keep the others' from being looked after."""
        users.apply("alice", **SCRAM)
        await users.looks()
        users.apply("a-new-one", **SCRAM)
        users.server.refuses["Secret"] = ApiError(403, "Forbidden", "exceeded quota: secrets")
        users.annotate("alice", "1")
        before = users.secret("alice")["password"]
        await users.looks()
        says = "the API server refuses Secret a-new-one: exceeded quota: secrets"
        assert users.condition("a-new-one") == ("False", "Refused", says)
        assert users.condition("alice")[0] == "True" and users.brokers.passwords["alice"] != before
        assert await users.reconciler.reconcile(users.world.observed()) == REFUSED_RETRY_SECONDS
        users.server.refuses.clear()
        await users.looks()
        assert users.condition("a-new-one")[0] == "True"

    async def test_a_secret_that_cannot_be_changed(self, users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
        """Somebody has set ``immutable``; it must neither be tried without end nor be kept from whoever looks at the user."""
        users.apply("alice", **SCRAM)
        await users.looks()
        before = dict(users.brokers.passwords)

        async def patch(*_: object) -> Object:
            raise ApiError(422, "Invalid", "data: Forbidden: field is immutable when `immutable` is set")

        monkeypatch.setattr(users.server, "patch", patch)
        users.annotate("alice", "1")
        await users.looks()
        status, reason, message = users.condition("alice")
        assert (status, reason) == ("False", "Refused")
        assert message.startswith("the API server refuses Secret alice: data: Forbidden: field is immutable")
        assert users.brokers.passwords == before
        users.server.remove(SECRET, "alice")
        await users.looks()
        assert users.condition("alice")[0] == "True" and users.brokers.passwords != before

    @pytest.mark.parametrize("code", [403, 404])
    async def test_an_operator_without_rights_on_users_goes_on(
        self, users: Users, monkeypatch: pytest.MonkeyPatch, code: int
    ) -> None:
        """With ``rbac.create=false`` its Role may be one of a version that had none."""

        async def find_all(*_: object, **__: object) -> list[Object]:
            raise ApiError(code, "", "minikafkausers.minikafka.dev is forbidden")

        monkeypatch.setattr(users.server, "find_all", find_all)
        assert await users.reconciler.reconcile(users.world.observed()) is None
        assert not await users.reconciler.without_cluster("ns", "demo")

    async def test_a_name_that_is_too_long_for_a_certificate(self, users: Users) -> None:
        """The CRD of another version has let it in; others' certificates are made all the same."""
        users.apply("a" * 65, **CERTIFICATE)
        users.apply("bob", **CERTIFICATE)
        await users.looks()
        assert users.condition("a" * 65)[:2] == ("False", "InvalidSpec")
        assert users.condition("bob")[0] == "True"

    async def test_nothing_is_told_by_an_operator_that_leads_no_more(self, users: Users) -> None:
        """It was stopped for a while in the middle: a password of yesterday must not follow today's."""

        class Led(Alone):
            asked = 0

            def require(self) -> None:
                self.asked += 1
                if self.asked > 1:
                    raise NotLeadingError("another operator may lead by now")

        for name in ("alice", "bob"):
            users.apply(name, **SCRAM)
        await users.looks(2)
        server = cast(ApiServer, users.server)
        users.reconciler = UserReconciler(server, lambda: users.world.now, Led(), users.brokers.open)
        with pytest.raises(NotLeadingError):
            await users.looks(1)
        assert set(users.brokers.passwords) == {"alice"}

    async def test_a_paused_cluster_is_left_alone(self) -> None:
        users = Users(**BOTH)
        users.world.edit(paused=True)
        users.apply("alice", **SCRAM)
        await users.looks()
        assert (SECRET.name, "alice") not in users.server.objects


class TestSecrecy:
    @pytest.mark.slow
    async def test_no_secret_in_log_status_or_representation(
        self, users: Users, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        users.apply("alice", **SCRAM, authorization={"type": "simple", "acls": [READS]})
        users.apply("bob", **CERTIFICATE)
        await users.looks()
        users.annotate("alice", "1")
        users.brokers.refuses = "no"
        await users.looks()
        secrets = [*users.secret("alice").values(), users.secret("bob")["user.key"]]
        secrets += [b64encode(one.encode()).decode() for one in secrets]
        said = caplog.text + repr([users.server.objects[USER.name, name] for name in ("alice", "bob")])
        assert not [one for one in secrets if one in said]
        password = users.secret("alice")["password"]
        wanted = WantedAccess("User:alice", "alice", password, is_new=True)
        assert password not in repr(wanted) + repr(change_to(wanted, KnownAccess()))

    async def test_the_operator_believes_nobody_once_the_ca_has_expired(self, users: Users) -> None:
        users.world.wait(400 * 86_400)
        users.apply("alice", **SCRAM)
        await users.looks()
        assert not users.brokers.shown
        assert "the cluster CA has expired" in users.condition("alice")[2]

    async def test_the_operator_comes_as_itself(self, users: Users) -> None:
        users.apply("alice", **SCRAM)
        await users.looks()
        tls = users.brokers.shown[0].tls
        assert (
            tls is not None
            and tls.truststore_certificates == texts_in(users.world.objects["Secret", "demo-cluster-ca-cert"])["ca.crt"]
        )
        assert Subject("demo-operator", is_ours=True).principal == "CN=demo-operator,O=minikafka.dev"
        assert (
            b64decode(users.world.objects["Secret", "demo-cluster-ca"]["data"]["ca.key"]).decode() != tls.keystore_key
        )


class TestAccess:
    def test_what_comes_is_first_and_what_goes_is_last(self) -> None:
        """So that nothing that stays allowed is refused for a moment, and who goes cannot log in with less than all denials."""
        fields = list(AccessChange.__dataclass_fields__)
        assert fields == ["created", "upserted", "removed", "deleted", "quotas"]

    def test_a_cluster_without_an_authorizer(self) -> None:
        wanted = WantedAccess("User:alice", "alice", "x")
        assert removal(wanted, KnownAccess(frozenset({"alice"}), None)) == AccessChange(removed="alice")

    def test_the_first_broker_that_answers(self) -> None:
        asked: list[str] = []

        def open_admin(host: str) -> Any:
            asked.append(host)
            if host != "b":
                raise NoAnswer("refused")
            return Brokers()

        opening: Callable[[str], Any] = open_admin
        assert isinstance(in_turn(["a", "b", "c"], opening), Brokers)
        assert asked == ["a", "b"]
        with pytest.raises(NoAnswer, match="a: refused"):
            in_turn(["a"], opening)
        with pytest.raises(NoAnswer, match="no broker is ready"):
            in_turn([], opening)


async def test_the_finalizer_comes_first(users: Users) -> None:
    users.apply("alice", **SCRAM)
    await users.looks(1)
    assert users.server.objects[USER.name, "alice"]["metadata"]["finalizers"] == [USER_FINALIZER]
    assert (SECRET.name, "alice") not in users.server.objects
