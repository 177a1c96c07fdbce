"""Certificates for tests, made once: those that are to be trusted, and every kind that is not."""

from __future__ import annotations

import datetime
import ssl
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

PASSWORD = "opens the key"

SEQUENCE, SET = 0x30, 0x31


def der(tag: int, *parts: bytes) -> bytes:
    """A value of ASN.1 of less than 64 KiB."""
    content = b"".join(parts)
    size = len(content)
    length = bytes((size,)) if size < 128 else bytes((0x81, size)) if size < 256 else b"\x82" + size.to_bytes(2)
    return bytes((tag,)) + length + content


def certificate_of(subject: bytes, version: bytes = der(0xA0, der(0x02, b"\2"))) -> bytes:
    """As much of one as is looked at for the name of its subject."""
    empty = der(SEQUENCE)
    return der(
        SEQUENCE, der(SEQUENCE, version, der(0x02, b"\1"), empty, empty, empty, subject, empty), empty, der(0x03)
    )


@dataclass(frozen=True)
class Authority:
    """Who signs, and what it has signed."""

    ca: trustme.CA

    @property
    def pem(self) -> str:
        return self.ca.cert_pem.bytes().decode()

    def issue(self, *names: str, common_name: str | None = None, expired: bool = False) -> str:
        """A private key and its certificates, as a PEM key store has them."""
        until = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC) if expired else None
        before = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC) if expired else None
        kwargs = {"not_after": until, "not_before": before} if expired else {}
        leaf = self.ca.issue_cert(*names, common_name=common_name, organization_name="Tests", **kwargs)  # type: ignore[arg-type]
        key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
        pkcs8 = key.private_bytes(  # the one form that Java reads
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return pkcs8.decode() + "".join(blob.bytes().decode() for blob in leaf.cert_chain_pems)

    def issue_bytes(self, subject: bytes, email: bytes = b"alice@example.org") -> str:
        """As `issue`, with a subject and a name that nobody looks at before they are signed."""
        signer = serialization.load_pem_private_key(self.ca.private_key_pem.bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        issuer = x509.load_pem_x509_certificate(self.ca.cert_pem.bytes())
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        algorithm = der(SEQUENCE, bytes.fromhex("06082a8648ce3d040302"))
        validity = der(SEQUENCE, der(0x17, b"200101000000Z"), der(0x17, b"490101000000Z"))
        names = der(SEQUENCE, bytes.fromhex("0603551d11"), der(0x04, der(SEQUENCE, der(0x81, email))))
        which = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
        by = der(SEQUENCE, bytes.fromhex("0603551d23"), der(0x04, der(SEQUENCE, der(0x80, which))))
        begin = bytes.fromhex("a003020102020101")  # version 3, serial number 1
        more = der(0xA3, der(SEQUENCE, names, by))
        signed = der(SEQUENCE, begin, algorithm, issuer.subject.public_bytes(), validity, subject, public, more)
        signature = der(0x03, b"\0", signer.sign(signed, ec.ECDSA(hashes.SHA256())))
        pkcs8 = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return pkcs8.decode() + ssl.DER_cert_to_PEM_cert(der(SEQUENCE, signed, algorithm, signature))


@cache
def authority(name: str = "trusted") -> Authority:
    """One for each name."""
    del name
    return Authority(trustme.CA(key_type=trustme.KeyType.ECDSA))


BROKER_NAMES = ("localhost", "127.0.0.1")


@cache
def broker_keystore() -> str:
    return authority().issue(*BROKER_NAMES, common_name="broker")


@cache
def client_keystore(name: str = "alice") -> str:
    return authority().issue(f"{name}@example.org", common_name=name)


def revoked(*keystores: str, by: Authority | None = None, expired: bool = False) -> str:
    """A list of an authority that has revoked the certificates of these key stores."""
    ca = (by or authority()).ca
    key = serialization.load_pem_private_key(ca.private_key_pem.bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    begins = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
    ends = datetime.datetime(2001 if expired else 3000, 1, 1, tzinfo=datetime.UTC)
    issuer = x509.load_pem_x509_certificate(ca.cert_pem.bytes()).subject
    new = x509.CertificateRevocationListBuilder(issuer, begins, ends)
    for keystore in keystores:
        number = x509.load_pem_x509_certificate(keystore[keystore.index("-----BEGIN CERT") :].encode()).serial_number
        entry = x509.RevokedCertificateBuilder(number, begins).build()
        new = new.add_revoked_certificate(entry)
    return new.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


@dataclass(frozen=True)
class PemFiles:
    """Files in a test's own folder."""

    keystore: Path
    truststore: Path
    client: Path

    @classmethod
    def write(cls, folder: Path) -> PemFiles:
        files = cls(folder / "broker.pem", folder / "ca.pem", folder / "client.pem")
        files.keystore.write_text(broker_keystore())
        files.truststore.write_text(authority().pem)
        files.client.write_text(client_keystore())
        return files

    @property
    def settings(self) -> dict[str, str]:
        """Of a broker."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.truststore),
        }
