"""Certificates of brokers and users, and the renewal of the CAs that sign them: what is new is trusted before it is used."""

from __future__ import annotations

import ssl
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from minikafka.config import BrokerConfig
from minikafka.config.properties import parse_properties
from minikafka.security.certificates import KeyPair, Subject, expiry, issued, matches, new_authority, serves
from minikafka.security.distinguished_name import distinguished_name
from minikafka.security.tls import TlsSettings, client_context, server_context
from minikafka_kube.kinds import Object
from minikafka_kube.names import (
    CERTIFICATES_PATH,
    RENEW_CLIENTS_CA_ANNOTATION,
    RENEW_CLUSTER_CA_ANNOTATION,
    SINCE_ANNOTATION,
)
from minikafka_operator.actions import Apply, Create, ReplacePod
from minikafka_operator.api.security import CertificateAuthority
from minikafka_operator.manifests.broker_certificates import authorities_found
from minikafka_operator.security.authorities import Authority, Renewal, authority_in, authority_now, encoded, texts_in

from .test_rollout_lease import held_by
from .world import BEGIN, NAMES, World, settled

TLS = {"listeners": {"internal": {"tls": True, "authentication": {"type": "tls"}}}}
GRACE = CertificateAuthority().grace_seconds
NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, for which Python has no name."""
HALF = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
BROKER = f"CN={NAMES.broker},O=minikafka.dev"
HOST = NAMES.bootstrap_host


# With openssl ecparam -name sect163k1 -genkey -noout: a curve that cryptography does not know. Not a secret: of this test only.
SECT163 = KeyPair(
    """-----BEGIN CERTIFICATE-----
MIIBPjCB/KADAgECAhQ91gTLaot8tXPci2D0NQa5RQl9dTAKBggqhkjOPQQDAjAM
MQowCAYDVQQDDAF4MCAXDTI2MTEyNzE4MzMzOVoYDzIxMjYxMTAzMTgzMzM5WjAM
MQowCAYDVQQDDAF4MEAwEAYHKoZIzj0CAQYFK4EEAAEDLAAEA9EzvFsxuMeiTIqa
qJwNRA0TFhKdBNpZsVsiXqubvB8Ms+BnhvivVBbho1MwUTAdBgNVHQ4EFgQUOL0P
tp1Q16Hyz0tmEUHcz0yulKAwHwYDVR0jBBgwFoAUOL0Ptp1Q16Hyz0tmEUHcz0yu
lKAwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgMxADAuAhUApShxcnkKqvBH
nvJREd6334lL1LcCFQJGHOyrgpdNB4p7zZ7QvBV1I0cpxQ==
-----END CERTIFICATE-----
""",
    """-----BEGIN EC PRIVATE KEY-----
MFMCAQEEFQIwZ/1AP6AjYPY0U5BtBE8N96Yd0aAHBgUrgQQAAaEuAywABAPRM7xb
MbjHokyKmqicDUQNExYSnQTaWbFbIl6rm7wfDLPgZ4b4r1QW4Q==
-----END EC PRIVATE KEY-----
""",
)


def with_tls(**spec: Any) -> World:
    return settled(**{**TLS, **spec})


def secret(world: World, name: str) -> dict[str, str]:
    return texts_in(world.objects["Secret", name])


def broker_files(world: World) -> dict[str, str]:
    return secret(world, NAMES.broker_certificates)


def properties(world: World, broker_id: int = 0) -> dict[str, str]:
    text = world.objects["ConfigMap", NAMES.config]["data"][NAMES.properties_file(broker_id)]
    return parse_properties(text)


def store(bundle: str) -> dict[str, str]:
    return {"keystore_key": bundle, "keystore_certificate_chain": bundle[bundle.index("-----BEGIN CERT") :]}


def handshake(shown: str, trusted: str, host: str = HOST, clients: str = "", client: str = "") -> str:
    """The client's name as a broker reads it. Raises ssl.SSLError unless both believe each other."""
    broker = TlsSettings(**store(shown), truststore_certificates=clients, client_auth="required" if clients else "none")
    settings = TlsSettings(**(store(client) if client else {}), truststore_certificates=trusted)
    contexts = client_context(settings), server_context(broker)
    for context in contexts:
        context.verify_flags |= ssl.VERIFY_X509_STRICT | NO_CHECK_TIME  # the world's clock is not this machine's
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = contexts[0].wrap_bio(down, up, server_hostname=host)
    there = contexts[1].wrap_bio(up, down, server_side=True)
    for side in (here, there, here, there):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    shown = there.getpeercert(binary_form=True)
    return distinguished_name(shown) if shown else ""


def rsa_pair(bits: int, *, is_authority: bool = False) -> KeyPair:
    """Signed by itself."""
    key, name = rsa.generate_private_key(65537, bits), Subject("x").distinguished
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    made = made.not_valid_before(BEGIN).not_valid_after(BEGIN + timedelta(days=3650))
    made = made.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    pem, form, open_to_all = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    text = key.private_bytes(pem, form, open_to_all).decode()
    return KeyPair(made.sign(key, hashes.SHA256()).public_bytes(pem).decode(), text)


def authority(days: int = 3650) -> KeyPair:
    return new_authority("demo", "cluster-ca", BEGIN, days)


class TestSecrets:
    def test_brokers_and_users_believe_each_other(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world = with_tls()
        files, trusted = broker_files(world), secret(world, NAMES.cluster_ca_cert)["ca.crt"]
        clients = secret(world, NAMES.clients_ca)
        user = issued(KeyPair(clients["ca.crt"], clients["ca.key"]), Subject("alice"), BEGIN, 3650).bundle
        shown = files["broker-0.pem"]
        for host in (HOST, "demo-bootstrap", "demo-broker-0.demo-brokers.ns.svc"):
            assert (
                handshake(shown, trusted, host, files["clients-ca.crt"], user)
                == Subject("alice").principal
                == "CN=alice"
            )
        assert handshake(shown, trusted, clients=files["cluster-ca.crt"], client=files["broker-1.pem"]) == BROKER
        with pytest.raises(ssl.SSLError):
            handshake(shown, trusted, "demo-broker-1.demo-brokers.ns.svc", files["clients-ca.crt"], user)

    @pytest.mark.parametrize("client", ["", "user", "stranger"])
    def test_nobody_else_gets_to_the_replication_listener(self, client: str) -> None:
        """Users' certificates are of another CA than brokers'."""
        world = with_tls()
        files, clients = broker_files(world), secret(world, NAMES.clients_ca)
        subject = Subject(NAMES.broker, is_ours=True)
        shown = {
            "": "",
            "user": issued(KeyPair(clients["ca.crt"], clients["ca.key"]), subject, BEGIN, 3650).bundle,
            "stranger": issued(authority(), subject, BEGIN, 3650).bundle,
        }[client]
        with pytest.raises(ssl.SSLError):
            handshake(files["broker-0.pem"], files["cluster-ca.crt"], clients=files["cluster-ca.crt"], client=shown)

    def test_a_settled_cluster_stays_as_it_is(self) -> None:
        world = with_tls()
        assert world.plan().steady
        world.now += timedelta(days=300)
        assert [type(action) for action in world.plan().actions] == []

    @pytest.mark.slow
    def test_clients_find_each_address_in_the_certificate(self) -> None:
        world = with_tls(listeners={**TLS["listeners"], "external": {"type": "NodePort", "tls": True}})
        trusted = secret(world, NAMES.cluster_ca_cert)["ca.crt"]
        assert handshake(broker_files(world)["broker-2.pem"], trusted, "10.1.0.1") == ""
        before = broker_files(world)["broker-2.pem"]
        del world.pods[NAMES.pod(0)]
        world.step()
        assert broker_files(world)["broker-2.pem"] == before, (
            "while a pod is away nothing is taken out of a certificate"
        )

    def test_without_any_of_it_nothing_is_different(self) -> None:
        """A newer operator must not roll clusters that it has nothing new to say about."""
        world = settled()
        pod = world.pods[NAMES.pod(0)]["spec"]
        assert "Secret" not in {kind for kind, _ in world.objects}
        assert {volume["name"] for volume in pod["volumes"]} == {"config", "tmp", "events"}
        made = properties(world)
        assert made["listener.security.protocol.map"] == "CLIENT:PLAINTEXT,REPLICATION:PLAINTEXT"
        assert not [key for key in made if key.startswith(("ssl.", "sasl.", "listener.name.", "super.", "authorizer."))]

    def test_keys_are_in_no_event_status_or_representation(self) -> None:
        world = with_tls()
        made = World(**TLS).plan()
        secrets = [one.thing for one in made.actions if isinstance(one, Create) and one.thing["kind"] == "Secret"]
        data = [each for one in secrets for each in one["data"].items()]
        keys = [value for name, value in data if value and name.endswith((".key", ".pem"))]
        assert len(keys) == 5
        pair = authority()
        assert pair.key not in repr(pair) and pair.key not in repr(Authority(pair))
        assert "PRIVATE" not in repr(world.status) and "PRIVATE" not in repr(world.events)

    def test_pods_have_them_as_a_whole_volume(self) -> None:
        """The kubelet never brings anything new into what is mounted by a path."""
        pod = with_tls().pods[NAMES.pod(0)]["spec"]
        (volume,) = (each for each in pod["volumes"] if each["name"] == "certificates")
        assert volume["secret"] == {"secretName": NAMES.broker_certificates, "defaultMode": 0o440}
        (mount,) = (each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "certificates")
        assert mount == {"name": "certificates", "mountPath": CERTIFICATES_PATH, "readOnly": True}

    def test_a_ca_of_somebody_else_signs_nothing(self) -> None:
        world = with_tls()
        assert authorities_found(world.observed()) is not None
        world.objects["Secret", NAMES.clients_ca]["metadata"]["ownerReferences"] = []
        assert authorities_found(world.observed()) is None

    def test_somebody_elses_secret_is_left_alone(self) -> None:
        world = World(**TLS)
        theirs = world.stranger("Secret", NAMES.cluster_ca, data=encoded({"ca.key": "theirs"}))
        world.step()
        assert world.condition("Accepted")[1] == "ObjectConflict"
        assert world.objects["Secret", NAMES.cluster_ca] == theirs


class TestGivenCertificate:
    SPEC: ClassVar = {"listeners": {"internal": {"tls": True, "certificateSecret": {"name": "given"}}}}

    @pytest.mark.slow
    def test_it_is_shown_on_its_listener_only(self) -> None:
        world = World(**self.SPEC)
        pair = issued(authority(), Subject("x", hosts=frozenset({"kafka.example"})), BEGIN, 3650)
        world.stranger("Secret", "given", data=encoded({"tls.crt": pair.certificate, "tls.key": pair.key}))
        world.settle()
        assert broker_files(world)["internal.pem"] == pair.bundle
        made = properties(world)
        assert made["listener.name.client.ssl.keystore.location"] == f"{CERTIFICATES_PATH}/internal.pem"
        assert made["listener.name.replication.ssl.keystore.location"] == f"{CERTIFICATES_PATH}/broker-0.pem"

    @pytest.mark.parametrize(
        ("data", "what"), [(None, "is not there"), ({}, "cannot be used"), ({"tls.crt": "x"}, "cannot be used")]
    )
    def test_one_that_cannot_be_used_changes_nothing(self, data: dict[str, str] | None, what: str) -> None:
        world = World(**self.SPEC)
        if data is not None:
            world.stranger("Secret", "given", data=encoded(data))
        for _ in range(4):
            world.step()
        status, reason, message = world.condition("Accepted")
        assert (status, reason) == ("False", "CertificateUnusable")
        assert message.startswith(f"spec.listeners.internal.certificateSecret: Secret given {what}; allowed: ")
        assert ("StatefulSet", NAMES.broker) not in world.objects

    @pytest.mark.parametrize("how", ["weak", "broken chain", "curve of its own", "no line break at the end"])
    def test_what_somebody_else_has_put_there(self, how: str) -> None:
        """A broker would not start with a key too short or half a chain, and the operator is stopped by nothing that it reads."""
        world = World(**self.SPEC)
        pair = issued(authority(), Subject("x"), BEGIN, 3650)
        if how == "weak":
            pair = rsa_pair(bits=1024)
        elif how == "broken chain":
            pair = KeyPair(pair.certificate + HALF, pair.key)
        elif how == "curve of its own":
            pair = KeyPair(SECT163.certificate, SECT163.key)
        else:
            pair = KeyPair(pair.certificate.rstrip(), pair.key.rstrip())
        world.stranger("Secret", "given", data=encoded({"tls.crt": pair.certificate, "tls.key": pair.key}))
        for _ in range(4):
            world.step()
        is_fine = how == "no line break at the end"
        assert world.condition("Accepted")[1] == ("Accepted" if is_fine else "CertificateUnusable")
        assert (NAMES.broker in {name for kind, name in world.objects if kind == "StatefulSet"}) is is_fine
        if is_fine:
            assert "-----END PRIVATE KEY-----\n-----BEGIN CERTIFICATE-----\n" in broker_files(world)["internal.pem"]


class TestProperties:
    @pytest.mark.parametrize(
        ("spec", "protocols"),
        [
            ({"listeners": {"internal": {"tls": True}}}, "CLIENT:SSL,REPLICATION:SSL"),
            (TLS, "CLIENT:SSL,REPLICATION:SSL"),
            (
                {"listeners": {"internal": {"authentication": {"type": "scram-sha-512"}}}},
                "CLIENT:SASL_PLAINTEXT,REPLICATION:SSL",
            ),
            (
                {"listeners": {"internal": {"tls": True, "authentication": {"type": "scram-sha-512"}}}},
                "CLIENT:SASL_SSL,REPLICATION:SSL",
            ),
            ({"authorization": {"type": "simple"}}, "CLIENT:PLAINTEXT,REPLICATION:SSL"),
            (
                {"listeners": {"external": {"type": "NodePort", "tls": True}}},
                "CLIENT:PLAINTEXT,REPLICATION:SSL,EXTERNAL:SSL",
            ),
        ],
    )
    def test_a_broker_takes_them(self, spec: dict[str, Any], protocols: str) -> None:
        world = settled(**spec)
        made = properties(world)
        assert made["listener.security.protocol.map"] == protocols
        text = {
            key: value.replace("${env:POD_IP}", "10.0.0.1").replace("${env:HOST_IP}", "10.0.0.2")
            for key, value in made.items()
        }
        config = BrokerConfig.from_properties(text)
        replication = config.security("REPLICATION")
        assert replication.tls is not None and replication.tls.client_auth == "required"
        assert replication.brokers is not None and f"User:CN={NAMES.broker},O=minikafka.dev" in replication.brokers

    def test_a_name_of_a_secret_is_one(self) -> None:
        """Brokers would get the keys of another namespace."""
        world = World(listeners={"internal": {"tls": True}})
        given = {"tls": True, "certificateSecret": {"name": "../../other/secrets/given"}}
        world.cluster["spec"]["listeners"] = {"internal": given}  # the CRD of an older version let it in
        world.step()
        status, reason, message = world.condition("Accepted")
        assert (status, reason) == ("False", "InvalidSpec")
        assert message.startswith("spec.listeners.internal.certificateSecret.name")

    @pytest.mark.slow
    def test_a_super_users_name_adds_no_setting(self) -> None:
        name = "a\nlistener.name.replication.ssl.client.auth=none\\"
        world = settled(authorization={"type": "simple", "superUsers": [name]})
        assert properties(world)["super.users"].endswith(f";User:{name}")
        assert properties(world)["listener.name.replication.ssl.client.auth"] == "required"

    def test_super_users(self) -> None:
        world = settled(authorization={"type": "simple", "superUsers": ["admin", "CN=root"]})
        ours = "User:CN=demo-broker,O=minikafka.dev;User:CN=demo-operator,O=minikafka.dev"
        assert properties(world)["super.users"] == f"{ours};User:admin;User:CN=root"

    @pytest.mark.parametrize(
        "key", ["super.users", "listener.name.replication.ssl.client.auth", "authorizer.class.name"]
    )
    def test_config_does_not_open_what_the_spec_closes(self, key: str) -> None:
        world = World(**TLS, config={key: "x"})
        world.step()
        says = f"spec.config: {key} is made by the operator from spec.listeners and spec.authorization"
        assert world.condition("Accepted") == ("False", "InvalidConfig", says)

    def test_the_operator_reaches_brokers(self) -> None:
        """Where NetworkPolicies are enforced: only in clusters where a certificate is asked for there."""
        policies = []
        for spec in ({}, TLS):
            world = settled(**spec)
            rules = world.objects["NetworkPolicy", NAMES.broker]["spec"]["ingress"]
            policies.append(
                next(rule for rule in rules if rule["ports"] == [{"port": 9091, "protocol": "TCP"}])["from"]
            )
        assert [len(peers) for peers in policies] == [1, 2]
        assert policies[1][1]["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "minikafka-operator"}}


class TestRenewal:
    """The steps of a renewal, on a whole cluster."""

    @pytest.fixture(params=[RENEW_CLUSTER_CA_ANNOTATION, RENEW_CLIENTS_CA_ANNOTATION])
    def annotation(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.mark.slow
    def test_what_is_new_is_trusted_before_it_is_used_and_what_is_old_after(self, annotation: str) -> None:
        world = with_tls()
        name = NAMES.cluster_ca if annotation == RENEW_CLUSTER_CA_ANNOTATION else NAMES.clients_ca
        steps = [self.seen(world, name)]
        world.cluster["metadata"]["annotations"] = {annotation: "1"}
        for _ in range(3):
            self.act(world)
            steps.append(self.seen(world, name))
            assert self.seen(world, name) == steps[-1]
            world.now += timedelta(seconds=GRACE)
        (first, trusted_0), (second, trusted_1), (third, trusted_2), (fourth, trusted_3) = steps
        assert first == second != third == fourth, "it signs only once it was trusted for a while"
        assert [len(trusted) for trusted in (trusted_0, trusted_1, trusted_2, trusted_3)] == [1, 2, 2, 1]
        assert trusted_1 == trusted_2 and trusted_0 | trusted_3 == trusted_1
        self.act(world)
        assert self.seen(world, name) == (fourth, trusted_3), "the annotation asks once"
        world.cluster["metadata"]["annotations"] = {annotation: "2"}
        self.act(world)
        assert len(self.seen(world, name)[1]) == 2, "another value asks again"

    @staticmethod
    def seen(world: World, name: str) -> tuple[str, set[str]]:
        """The certificate that signs, and those that brokers trust."""
        trusted = broker_files(world)[f"{name.removeprefix('demo-')}.crt"]
        assert secret(world, f"{name}-cert")["ca.crt"] == trusted
        return secret(world, name)["ca.crt"], set(filter(None, trusted.split("-----END CERTIFICATE-----\n")))

    @staticmethod
    def act(world: World) -> None:
        """Some looks, in which no pod is replaced: brokers read certificates anew by themselves."""
        for _ in range(4):
            assert not [action for action in world.step().actions if isinstance(action, ReplacePod)]

    @pytest.mark.slow
    def test_at_every_step_any_two_brokers_believe_each_other(self) -> None:
        """A volume is brought up to date some time after its Secret, in one pod sooner than in another."""
        world = with_tls(clusterCa={"validityDays": 3650, "renewalDays": 30, "graceSeconds": GRACE})
        world.cluster["metadata"]["annotations"] = {RENEW_CLUSTER_CA_ANNOTATION: "1"}
        was = broker_files(world)
        for _ in range(4):
            self.act(world)
            files = broker_files(world)
            for one, other in ((was, files), (files, was), (files, files)):
                shown, trusted = one["broker-0.pem"], other["cluster-ca.crt"]
                assert handshake(shown, trusted, clients=one["cluster-ca.crt"], client=other["broker-1.pem"]) == BROKER
            was = files
            world.now += timedelta(seconds=GRACE)

    @pytest.mark.slow
    def test_while_an_experiment_goes_on_what_is_new_signs_nothing(self, annotation: str) -> None:
        """Its clients trust, and show, what they have read when they began."""
        world = with_tls()
        name = NAMES.cluster_ca if annotation == RENEW_CLUSTER_CA_ANNOTATION else NAMES.clients_ca
        signing, _ = self.seen(world, name)
        held_by(world, "experiment/try/uid", 4 * GRACE)
        world.cluster["metadata"]["annotations"] = {annotation: "1"}
        for _ in range(3):
            self.act(world)
            assert self.seen(world, name)[0] == signing
            world.now += timedelta(seconds=GRACE)
        assert len(self.seen(world, name)[1]) == 2, "it is trusted already"
        held_by(world, "", 0)
        self.act(world)
        assert self.seen(world, name)[0] != signing

    @pytest.mark.slow
    def test_by_itself_before_it_expires(self) -> None:
        world = with_tls()
        world.now += timedelta(days=336)
        for _ in range(3):
            self.act(world)
            world.now += timedelta(seconds=GRACE)
        self.act(world)
        ends = expiry(secret(world, NAMES.cluster_ca)["ca.crt"])
        assert ends is not None and ends > world.now + timedelta(days=300)
        ends = expiry(
            broker_files(world)["broker-0.pem"][
                len(broker_files(world)["broker-0.pem"].partition("-----BEGIN CERT")[0]) :
            ]
        )
        assert ends is not None and ends > world.now + timedelta(days=300)


class TestAuthority:
    TERMS = CertificateAuthority()

    def now(self, keys: Object | None, when: int = 0, asked: str = "", trusted: str = "") -> Authority:
        wanted = Renewal("demo", "cluster-ca", self.TERMS, asked)
        return authority_now(keys, trusted, wanted, BEGIN + timedelta(seconds=when))

    @staticmethod
    def kept(found: Authority) -> Object:
        return {"metadata": {"annotations": found.annotations()}, "data": encoded(found.data())}

    def test_it_survives_its_secret(self) -> None:
        found = self.now(None, asked="1")
        again = self.now(self.kept(found), asked="2")
        assert again.following is not None
        assert authority_in(self.kept(again)) == again
        assert self.now(self.kept(again), GRACE - 1, "2") == again
        assert self.now(self.kept(again), GRACE, "2").signing == again.following

    def test_the_status_says_until_when(self) -> None:
        world = with_tls()
        assert world.status["certificates"] == {
            "clusterCaExpires": "2027-11-21T12:00:00Z",
            "clientsCaExpires": "2027-11-21T12:00:00Z",
            "renewing": False,
        }

    def test_one_that_has_expired_waits_for_no_experiment(self) -> None:
        renewed = self.kept(self.now(self.kept(self.now(None)), asked="1"))
        after = BEGIN + timedelta(days=366)
        wanted = Renewal("demo", "cluster-ca", self.TERMS, "1", waits=True)
        assert authority_now(renewed, "", wanted, BEGIN + timedelta(days=364)).following is not None
        assert authority_now(renewed, "", wanted, after).following is None

    def test_one_that_has_expired_waits_for_nothing(self) -> None:
        late = 400 * 86_400
        found = self.now(self.kept(self.now(None)), late)
        assert self.now(self.kept(found), late + 1).signing == found.following

    @pytest.mark.parametrize("lost", ["ca.key", "ca.crt"])
    def test_lost_keys_are_made_anew_and_what_they_signed_is_trusted_for_a_while(self, lost: str) -> None:
        found = self.now(None)
        data = {name: text for name, text in found.data().items() if name != lost}
        made = self.now({"metadata": {}, "data": encoded(data)}, trusted=found.trusted(BEGIN))
        assert made.signing != found.signing
        assert found.signing.certificate in made.trusted(BEGIN)

    @pytest.mark.parametrize("step", [1, 2, 3])
    def test_keys_from_a_backup_do_not_make_brokers_strangers(self, step: int) -> None:
        """Of before the renewal, whichever of its steps is the last: what the last keys have signed is trusted still."""
        backup = self.kept(self.now(None))
        found, when = self.now(backup, 1, "1"), 1
        for _ in range(step - 1):
            when += GRACE
            found = self.now(self.kept(found), when, "1", found.trusted(BEGIN))
        trusted = found.trusted(BEGIN)
        made = self.now(backup, when, "1", trusted)
        assert found.signing.certificate in made.trusted(BEGIN)
        if step > 1:  # else nothing has been signed by the new one yet
            assert self.now(self.kept(made), when, "1", trusted) == made, "also where it died before brokers had it"
            over = self.now(self.kept(made), when + GRACE, "1", made.trusted(BEGIN))
            assert over.trusted(BEGIN) == made.signing.certificate

    def test_what_somebody_else_has_applied_does_not_stay(self) -> None:
        """The API server takes out only what nobody else owns: with a backup's following CA, no renewal would end."""
        first = self.now(None)
        backup = self.kept(self.now(self.kept(first), 1, "1"))
        over = self.now(self.kept(self.now(backup, 1 + GRACE, "1")), 1 + 2 * GRACE, "1")
        there = {"metadata": {"annotations": over.annotations()}, "data": {**backup["data"], **self.kept(over)["data"]}}
        assert authority_in(there) == over and not over.renewing
        assert over.trusted(BEGIN) != first.trusted(BEGIN)

    def test_what_is_forgotten_does_not_come_back(self) -> None:
        """The operator died between two writes: the keys' Secret is a step ahead of what brokers trust."""
        found = self.now(self.kept(self.now(None)), 1, "1")
        found = self.now(self.kept(found), 1 + GRACE, "1")
        trusted = found.trusted(BEGIN)
        over = self.now(self.kept(found), 1 + 2 * GRACE, "1", trusted)
        again = self.now(self.kept(over), 2 + 2 * GRACE, "1", trusted)
        assert again == over and again.trusted(BEGIN) == over.signing.certificate != trusted

    @pytest.mark.parametrize(
        "since", [None, "", "yesterday", "2026-01-01T00:00:00", "0000-01-01T00:00:00Z", "2126-01-01T00:00:00Z"]
    )
    def test_a_step_of_which_nobody_knows_when_it_began_begins_now(self, since: str | None) -> None:
        """Else the new CA would sign before anybody trusts it."""
        found = self.now(self.kept(self.now(None)), 1, "1")
        keys = self.kept(found)
        keys["metadata"]["annotations"].pop(SINCE_ANNOTATION)
        if since is not None:
            keys["metadata"]["annotations"][SINCE_ANNOTATION] = since
        again = self.now(keys, 500, "1")
        assert (again.signing, again.following) == (found.signing, found.following)
        assert self.now(self.kept(again), 499 + GRACE, "1") == again
        assert self.now(self.kept(again), 500 + GRACE, "1").signing == found.following

    @pytest.mark.parametrize("garbage", ["", "no PEM", "\x00"])
    def test_garbage_in_its_secret_is_none(self, garbage: str) -> None:
        assert authority_in({"metadata": {}, "data": {"ca.crt": garbage, "ca.key": garbage}}) is None
        assert not matches(KeyPair(garbage, garbage))

    @pytest.mark.parametrize("pair", ["weak", "curve of its own"])
    def test_one_whom_nobody_believes_is_none(self, pair: str) -> None:
        """Somebody's own CA, with a key that OpenSSL refuses, or that cannot even be read."""
        found = rsa_pair(bits=1024, is_authority=True) if pair == "weak" else SECT163
        assert (
            authority_in({"metadata": {}, "data": encoded({"ca.crt": found.certificate, "ca.key": found.key})}) is None
        )

    def test_what_signs_nothing_is_no_authority(self) -> None:
        """Somebody has put it into the Secret: a CA of their own would do."""
        signer = authority()
        data = {"ca.crt": signer.certificate, "ca.key": signer.key}
        assert authority_in({"metadata": {}, "data": encoded(data)}) == Authority(signer)
        data = {"ca.crt": signer.certificate + HALF, "ca.key": signer.key}
        assert authority_in({"metadata": {}, "data": encoded(data)}) is None, "nobody could trust it"
        leaf = issued(signer, Subject("x"), BEGIN, 1)
        data = {"ca.crt": leaf.certificate, "ca.key": leaf.key}
        assert authority_in({"metadata": {}, "data": encoded(data)}) is None


class TestServes:
    SUBJECT = Subject("x", hosts=frozenset({"a.example", "10.0.0.1"}))

    def serves(self, pair: KeyPair, signer: KeyPair, **changed: Any) -> bool:
        given = {"subject": self.SUBJECT, "now": BEGIN, "days": 365, "renewal_days": 30, **changed}
        return serves(pair, signer, **given)

    def test_what_has_to_be_made_anew(self) -> None:
        signer = authority()
        pair = issued(signer, self.SUBJECT, BEGIN, 365)
        assert self.serves(pair, signer)
        assert self.serves(pair, signer, subject=Subject("x", hosts=frozenset({"a.example"})))
        assert not self.serves(pair, signer, subject=Subject("y", hosts=self.SUBJECT.hosts))
        assert not self.serves(pair, signer, subject=Subject("x", hosts=frozenset({"b.example"})))
        assert not self.serves(pair, signer, now=BEGIN + timedelta(days=336))
        assert not self.serves(pair, authority())
        assert not self.serves(KeyPair(pair.certificate, signer.key), signer)
        assert not self.serves(KeyPair(pair.certificate + HALF, pair.key), signer), "brokers would read none of it"

    def test_one_that_could_not_be_valid_for_longer_stays(self) -> None:
        """Else it would be made anew at every look in the last days of the CA."""
        signer = authority(days=10)
        assert self.serves(issued(signer, self.SUBJECT, BEGIN, 365), signer)

    def test_an_address_is_the_same_however_it_is_written(self) -> None:
        """Else it would be made anew at every look."""
        signer, subject = authority(), Subject("x", hosts=frozenset({"2001:DB8:0::1"}))
        assert self.serves(issued(signer, subject, BEGIN, 365), signer, subject=subject)

    def test_one_that_was_made_while_the_clock_was_ahead(self) -> None:
        """Nobody believes it for months; nothing is to be done about it where it is this clock that is behind."""
        signer = authority()
        ahead = issued(signer, self.SUBJECT, BEGIN + timedelta(days=200), 365)
        assert not self.serves(ahead, signer)
        assert self.serves(ahead, signer, now=BEGIN - timedelta(days=10_000))

    def test_a_long_key_costs_no_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whether its numbers are prime takes OpenSSL ten seconds, in which the operator would lose its Lease."""
        asked: list[Any] = []
        load = serialization.load_pem_private_key

        def noted(data: bytes, password: None, **how: Any) -> Any:
            asked.append(how)
            return load(data, password, **how)

        monkeypatch.setattr(serialization, "load_pem_private_key", noted)
        signer = authority()
        assert self.serves(issued(signer, self.SUBJECT, BEGIN, 365), signer)
        assert authority_in({"metadata": {}, "data": encoded({"ca.crt": signer.certificate, "ca.key": signer.key})})
        assert asked and all(how == {"unsafe_skip_rsa_key_validation": True} for how in asked)

    def test_no_subject_of_a_user_is_a_brokers(self) -> None:
        assert Subject("demo-broker").principal != Subject("demo-broker", is_ours=True).principal
        assert issued(authority(), Subject("a" * 64), BEGIN, 1)


def test_applied_secrets_say_which_field_and_not_what_is_in_it() -> None:
    """The reason of a write is logged."""
    world = with_tls()
    world.objects["Secret", NAMES.cluster_ca]["data"]["ca.key"] = encoded({"x": "y"})["x"]
    why = [one.why for one in world.plan().actions if isinstance(one, Apply)]
    assert why and all("PRIVATE" not in one and len(one) < 60 for one in why)
