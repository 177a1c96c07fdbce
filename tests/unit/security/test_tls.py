"""TLS without a socket: two streams, whose bytes the test carries; settings, files, and their renewal (31 item 1)."""

from __future__ import annotations

import os
import re
import ssl
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from minikafka.log.filesystem import RealFileSystem
from minikafka.security.ciphers import openssl_name
from minikafka.security.distinguished_name import distinguished_name
from minikafka.security.tls import (
    PEM_BYTES_MAX,
    TRUSTED_MAX,
    FreshContext,
    TlsSettings,
    TlsSettingsError,
    client_context,
    normal_pem,
    server_context,
)
from minikafka.security.tls_stream import TlsStream, tls_reason

from tests.certificates import PASSWORD, Authority, authority, broker_keystore, client_keystore, revoked

CLIENT = TlsSettings(truststore_certificates=authority().pem)


class Wire:
    """One direction, as a socket that does not block: it takes ``room`` bytes."""

    family = 0

    def __init__(self) -> None:
        self.data = bytearray()
        self.room = 1 << 30

    def send(self, data: memoryview, flags: int = 0) -> int:
        taken = min(self.room, len(data))
        if not taken:
            raise BlockingIOError
        self.room -= taken
        self.data += data[:taken]
        return taken


class Pair:
    """A client and a server that have nothing between them."""

    def __init__(self, server: TlsSettings, client: TlsSettings = CLIENT, host: str = "localhost") -> None:
        self.server = TlsStream(server_context(server), server_side=True)
        self.client = TlsStream(client_context(client), server_side=False, host=host)
        self.wires: dict[TlsStream, Wire] = {}
        for stream in (self.server, self.client):
            self.wires[stream] = Wire()
            stream.attach(self.wires[stream])

    def carry(self) -> None:
        """Everything that was sent arrives."""
        for sender, receiver in ((self.client, self.server), (self.server, self.client)):
            data = self.wires[sender].data
            if data:
                receiver.feed(memoryview(bytes(data)))
                data.clear()

    def shake_hands(self) -> Pair:
        for _ in range(6):
            for stream in (self.client, self.server):
                if not stream.established:
                    stream.shake_hands()
                stream.flush()
                self.carry()
        assert self.client.established
        assert self.server.established
        return self

    def read(self, stream: TlsStream, size: int = 1 << 20) -> bytes:
        room = memoryview(bytearray(size))
        got = 0
        while got < size and (count := stream.read_into(room[got:])):
            got += count
        return bytes(room[:got])


def server_of(keystore: str, **more: Any) -> TlsSettings:
    key, _, chain = keystore.partition("-----BEGIN CERTIFICATE")
    return TlsSettings(keystore_key=key, keystore_certificate_chain="-----BEGIN CERTIFICATE" + chain, **more)


def test_bytes_go_through_in_both_directions() -> None:
    pair = Pair(server_of(broker_keystore())).shake_hands()
    assert pair.client.send(b"hello") == 5
    pair.carry()
    assert pair.read(pair.server) == b"hello"
    pair.server.send(b"x" * 100_000)
    pair.carry()
    assert pair.read(pair.client) == b"x" * 100_000


def test_what_the_socket_does_not_take_is_sent_later() -> None:
    pair = Pair(server_of(broker_keystore())).shake_hands()
    wire = pair.wires[pair.server]
    wire.room = 1000
    assert pair.server.send(b"a" * 50_000) == 50_000
    with pytest.raises(BlockingIOError):
        pair.server.send(b"b")
    with pytest.raises(BlockingIOError):
        pair.server.flush()
    wire.room = 1 << 30
    pair.server.send(b"b")
    pair.carry()
    assert pair.read(pair.client) == b"a" * 50_000 + b"b"


def test_a_file_goes_through(tmp_path: Path) -> None:
    pair = Pair(server_of(broker_keystore())).shake_hands()
    path = tmp_path / "log"
    path.write_bytes(bytes(range(256)) * 4)
    file = RealFileSystem().open_read(str(path))
    assert pair.server.send_file(file, 256, 300) == 300
    assert pair.server.send_file(file, 1024, 10) == 0, "as sendfile at the end"
    file.close()
    pair.carry()
    assert pair.read(pair.client) == (bytes(range(256)) * 4)[256:556]


def test_a_goodbye_is_heard() -> None:
    pair = Pair(server_of(broker_keystore())).shake_hands()
    pair.server.say_goodbye()
    pair.carry()
    assert pair.client.read_into(memoryview(bytearray(10))) == 0


def test_the_clients_certificate_is_known() -> None:
    server = server_of(broker_keystore(), client_auth="required", truststore_certificates=authority().pem)
    pair = Pair(server, replace(server_of(client_keystore()), truststore_certificates=authority().pem)).shake_hands()
    certificate = pair.server.peer_certificate
    assert certificate is not None
    assert "CN=alice" in distinguished_name(certificate)


@pytest.mark.parametrize(
    ("keystore", "said"),
    [
        (authority("stranger").issue("localhost"), "unable to get local issuer certificate"),
        (authority().issue("elsewhere.example"), "Hostname mismatch"),
        (authority().issue("localhost", expired=True), "certificate has expired"),
    ],
    ids=["unknown authority", "another name", "expired"],
)
def test_a_client_does_not_believe_every_broker(keystore: str, said: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=said):
        Pair(server_of(keystore)).shake_hands()


def test_names_are_not_looked_at_where_nobody_wants_it() -> None:
    keystore = authority().issue("elsewhere.example")
    Pair(server_of(keystore), replace(CLIENT, endpoint_identification=False)).shake_hands()


@pytest.mark.parametrize(
    ("client", "said"),
    [
        ({}, "peer did not return a certificate"),
        ({"keystore": authority("stranger").issue("alice@x.example")}, "unable to get local issuer certificate"),
        ({"keystore": authority().issue("alice@x.example", expired=True)}, "certificate has expired"),
    ],
    ids=["none", "unknown authority", "expired"],
)
def test_a_broker_does_not_let_every_client_in(client: dict[str, str], said: str) -> None:
    server = server_of(broker_keystore(), client_auth="required", truststore_certificates=authority().pem)
    own = server_of(client["keystore"]) if client else TlsSettings()
    with pytest.raises(ssl.SSLError, match=f"(?i){said}"):
        Pair(server, replace(own, truststore_certificates=authority().pem)).shake_hands()


def test_a_revoked_certificate_lets_nobody_in() -> None:
    """A trust store may have CRLs; then each authority needs one that is not out of date."""

    def shake_hands(client: str, *lists: str) -> None:
        trusted = "".join((authority().pem, authority("second").pem, *lists))
        broker = server_of(broker_keystore(), client_auth="required", truststore_certificates=trusted)
        Pair(broker, replace(server_of(client), truststore_certificates=authority().pem)).shake_hands()

    alice, bob, eve = client_keystore("alice"), client_keystore("bob"), authority("second").issue(common_name="eve")
    for client in (alice, bob, eve):
        shake_hands(client)
    shake_hands(bob, revoked(alice))
    for client, lists, said in (
        (alice, [revoked(alice)], "certificate revoked"),
        (eve, [revoked(alice)], "unable to get certificate CRL"),
        (bob, [revoked(alice, expired=True)], "CRL has expired"),
    ):
        with pytest.raises(ssl.SSLError) as caught:
            shake_hands(client, *lists)
        assert said in tls_reason(caught.value)
    shake_hands(eve, revoked(alice), revoked(by=authority("second")))
    with pytest.raises(TlsSettingsError, match="a block named CRL; allowed: CERTIFICATE and X509 CRL"):
        shake_hands(alice, revoked(alice).replace("X509 CRL", "CRL"))


def test_a_revoked_authority_lets_nobody_in() -> None:
    """Each certificate of a chain is looked for in the CRL of who has signed it."""
    middle = Authority(authority().ca.create_child_ca())
    carol = server_of(middle.issue(common_name="carol"))

    def shake_hands(*lists: str) -> None:
        trusted = authority().pem + "".join(lists)
        broker = server_of(broker_keystore(), client_auth="required", truststore_certificates=trusted)
        Pair(broker, replace(carol, truststore_certificates=authority().pem)).shake_hands()

    shake_hands()
    shake_hands(revoked(), revoked(by=middle))
    for lists, said in (
        ([revoked(middle.pem), revoked(by=middle)], "certificate revoked"),
        ([revoked(by=middle)], "unable to get certificate CRL"),
    ):
        with pytest.raises(ssl.SSLError) as caught:
            shake_hands(*lists)
        assert said in tls_reason(caught.value)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_resumed_session_does_not_outlive_its_certificate(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = server_of(
        broker_keystore(), client_auth="required", truststore_certificates=authority().pem, enabled_protocols=(version,)
    )
    server, client = (
        server_context(broker),
        client_context(replace(server_of(client_keystore()), truststore_certificates=authority().pem)),
    )

    def connect(session: ssl.SSLSession | None) -> ssl.SSLObject:
        incoming, outgoing, wire = ssl.MemoryBIO(), ssl.MemoryBIO(), Wire()
        own = client.wrap_bio(incoming, outgoing, server_hostname="localhost", session=session)
        stream = TlsStream(server, server_side=True)
        stream.attach(wire)
        for _ in range(3):
            with suppress(ssl.SSLWantReadError):
                own.do_handshake()
            stream.feed(memoryview(outgoing.read()))
            if not stream.established:
                stream.shake_hands()
            stream.flush()
            incoming.write(wire.data)
            wire.data.clear()
        with suppress(ssl.SSLWantReadError):
            own.read()  # the ticket of TLS 1.3
        return own

    first = connect(None)
    assert connect(first.session).session_reused
    monkeypatch.setattr("time.time", lambda: 4e10)
    connect(None)
    with pytest.raises(ssl.SSLError) as caught:
        connect(first.session)
    assert tls_reason(caught.value) == "certificate verify failed: certificate has expired"


def test_versions_without_one_in_common() -> None:
    server = server_of(broker_keystore(), enabled_protocols=("TLSv1.3",))
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol"):
        Pair(server, replace(CLIENT, enabled_protocols=("TLSv1.2",))).shake_hands()


@pytest.mark.parametrize(
    ("standard", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ],
)
def test_suites_have_their_standard_names(standard: str, openssl: str) -> None:
    assert openssl_name(standard) == openssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(openssl)


def test_only_the_suites_that_are_named_are_used() -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    pair = Pair(server_of(broker_keystore(), cipher_suites=(suite,))).shake_hands()
    assert pair.server._object.version() == "TLSv1.2", "none of TLS 1.3 is named"
    assert (pair.server._object.cipher() or ("",))[0] == openssl_name(suite)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (TlsSettings(keystore_location="/nowhere"), "ssl.keystore.location=/nowhere: No such file"),
        (
            TlsSettings(keystore_location=broker_keystore()),
            "ssl.keystore.location=[hidden]: ",
        ),
        (TlsSettings(keystore_location="a\nb"), "ssl.keystore.location=a\\nb: No such file"),
        (TlsSettings(keystore_key="x", keystore_certificate_chain="x"), "ssl.keystore.key: no private key in it"),
        (
            replace(server_of(broker_keystore()), keystore_certificate_chain=""),
            "ssl.keystore.key: no certificate in it",
        ),
        (server_of(broker_keystore()[:-9]), "ssl.keystore.certificate.chain: a block has no beginning or no end"),
        (
            server_of(broker_keystore(), client_auth="required", truststore_certificates=authority().pem + "-----BEG"),
            "ssl.truststore.certificates: a block has no beginning or no end",
        ),
        (
            server_of(
                broker_keystore(),
                client_auth="required",
                truststore_certificates=authority().pem + revoked().replace("M", "A", 1),
            ),
            "ssl.truststore.certificates: ",
        ),
        (
            replace(server_of(broker_keystore()), keystore_key=server_of(client_keystore()).keystore_key),
            "ssl.keystore.key: key values mismatch",
        ),
        (
            server_of(broker_keystore(), client_auth="required", truststore_certificates="x"),
            "ssl.truststore.certificates: no certificates in it",
        ),
        (
            server_of(broker_keystore(), cipher_suites=("TLS_X",)),
            "ssl.cipher.suites=TLS_X: OpenSSL does not have TLS_X",
        ),
        (
            server_of(broker_keystore(), cipher_suites=("TLS_AES_128_GCM_SHA256",)),
            "ssl.cipher.suites=TLS_AES_128_GCM_SHA256: of TLS 1.3 only",
        ),
    ],
)
def test_settings_that_cannot_be_used(settings: TlsSettings, said: str) -> None:
    with pytest.raises(TlsSettingsError) as caught:
        server_context(settings)
    assert str(caught.value).startswith(said)
    assert "; allowed: " in str(caught.value)


def encrypted(keystore: str) -> str:
    key = serialization.load_pem_private_key(keystore.encode(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(PASSWORD.encode()),
    ).decode()


def test_a_key_may_be_encrypted() -> None:
    settings = replace(server_of(broker_keystore()), keystore_key=encrypted(broker_keystore()))
    Pair(replace(settings, key_password=PASSWORD)).shake_hands()
    for wrong in ("", "x"):
        with pytest.raises(TlsSettingsError, match=r"ssl\.key\.password does not open it"):
            server_context(replace(settings, key_password=wrong))
    for odd in ("x" * 1025, "x\ud800"):
        with pytest.raises(
            TlsSettingsError, match=r"^ssl\.key\.password=\[hidden\]: no password; allowed: text of at most 1024"
        ):
            server_context(replace(settings, key_password=odd))


def test_pem_on_one_line() -> None:
    """As it may stand in a properties file, and as Kafka reads it."""
    on_one_line = " ".join(broker_keystore().split("\n"))
    assert normal_pem("k", on_one_line) == normal_pem("k", broker_keystore()) == broker_keystore().replace("\r", "")
    assert normal_pem("k", f"-----\n{authority().pem}-----\n") == authority().pem, "a line of dashes is a comment"


def test_what_has_no_end_is_read_once() -> None:
    """A text was read to its end for each beginning of a block: 1 MiB of them held the operator for six minutes."""
    began = time.process_time()
    for text in ("-----BEGIN A-----\n" * 10_000, authority().pem + "-----BEGIN A-----\n-----END B-----\n" * 5_000):
        with pytest.raises(TlsSettingsError, match="a block has no beginning or no end"):
            normal_pem("k", text)
    assert time.process_time() - began < 2


def test_a_block_that_is_begun_in_another_is_refused() -> None:
    with pytest.raises(TlsSettingsError, match="a block has no beginning or no end"):
        normal_pem("k", f"-----BEGIN CERTIFICATE-----\n{authority().pem}")


def test_a_file_has_a_size(tmp_path: Path) -> None:
    path = tmp_path / "keys.pem"
    with path.open("wb") as file:
        file.truncate(PEM_BYTES_MAX + 1)
    with pytest.raises(TlsSettingsError, match=r"^ssl\.keystore\.location=.*: more than 4194304 bytes; allowed: "):
        server_context(TlsSettings(keystore_location=str(path)))


def test_a_file_has_so_many_certificates(tmp_path: Path) -> None:
    """OpenSSL takes time by the square of their number, in which nobody is served."""
    path = tmp_path / "ca.pem"
    settings = TlsSettings(truststore_location=str(path))
    path.write_text(authority().pem * (TRUSTED_MAX - 1) + revoked())
    said: list[str] = []
    fresh = FreshContext(settings, client_context, said.append)
    before = fresh.get()
    line = f"ssl.truststore.location={path}: 1001 certificates and CRLs in it; allowed: PEM with at most 1000 of them"
    replace_file(path, authority().pem * TRUSTED_MAX + revoked())
    assert (fresh.get(), said) == (before, [line])
    with pytest.raises(TlsSettingsError, match=re.escape(line)):
        client_context(settings)
    path.write_text(broker_keystore() + authority().pem * 99)
    with pytest.raises(
        TlsSettingsError, match=r"ca\.pem: 101 keys and certificates in it; allowed: PEM with at most 100 of"
    ):
        server_context(TlsSettings(keystore_location=str(path)))


class Told:
    """What a context says of its files."""

    def __init__(self, path: Path) -> None:
        self.said: list[str] = []
        settings = TlsSettings(keystore_location=str(path))
        self.context = FreshContext(settings, server_context, self.said.append, lambda: self.said.append("renewed"))


def replace_file(path: Path, text: str) -> None:
    """As Kubernetes and careful people do."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


def test_changed_files_hold_for_the_next_connection(tmp_path: Path) -> None:
    path = tmp_path / "keys.pem"
    path.write_text(broker_keystore())
    told = Told(path)
    before = told.context.get()
    assert told.context.get() is before
    replace_file(path, authority().issue("localhost", common_name="renewed"))
    after = told.context.get()
    assert after is not before
    assert told.said == ["renewed"]


def test_a_trust_store_that_is_being_written_revokes_as_before(tmp_path: Path) -> None:
    """By ``cat ca.pem >TRUST; cat crl.pem >>TRUST``: whoever connects in between is not let in by the half that is there."""
    path, said = tmp_path / "ca.pem", list[str]()
    path.write_text(authority().pem)
    broker = server_of(broker_keystore(), client_auth="required", truststore_location=str(path))
    context = FreshContext(broker, server_context, said.append, lambda: said.append("renewed"))
    context.get()
    path.write_text(authority().pem + revoked(client_keystore()))
    before = context.get()
    assert said == ["renewed"], "it may have the first ones while the program runs"
    for half, problem in (
        (authority().pem, "no CRL in it any more; allowed: PEM with CRLs, until the next start"),
        (revoked(client_keystore()), ""),
    ):
        path.write_text(half)
        assert [context.get(), context.get()] == [before, before]
        assert said.pop().startswith(f"ssl.truststore.location={path}: {problem}")
    path.write_text(authority().pem + authority("second").pem + revoked(client_keystore("bob")))
    assert context.get() is not before
    assert said == ["renewed", "renewed"]


def test_files_that_cannot_be_used_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys.pem"
    path.write_text(broker_keystore())
    told = Told(path)
    before = told.context.get()
    replace_file(path, broker_keystore() + authority().pem[:-60])
    assert [told.context.get(), told.context.get()] == [before, before]
    (line,) = told.said
    assert line.startswith(f"ssl.keystore.location={path}: a block has no beginning or no end")
    path.unlink()
    assert told.context.get() is before
    path.write_text(broker_keystore())
    assert told.context.get() is not before
    assert told.said[-1] == "renewed"
