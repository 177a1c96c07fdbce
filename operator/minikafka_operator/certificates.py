"""X.509 certificates: made, and read as far as has to be known whether they still serve. PEM in, PEM out.

Keys are elliptic (P-256), which every client takes, and made in a millisecond.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ORGANIZATION: Final = "minikafka.dev"
"""In the names of what the operator makes for itself; certificates of users have none, so none is taken for a broker's."""

BACKDATED: Final = timedelta(minutes=5)
"""Certificates are valid from a little before they are made: clocks differ."""

_SIGNING: Final = (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey)
"""Keys that sign with SHA-256."""

_LATER: Final = timedelta(hours=1)

_NO_KEY_USE: Final = {
    "digital_signature": False,
    "content_commitment": False,
    "key_encipherment": False,
    "data_encipherment": False,
    "key_agreement": False,
    "key_cert_sign": False,
    "crl_sign": False,
    "encipher_only": False,
    "decipher_only": False,
}


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key."""

    certificate: str
    key: str = field(repr=False)

    @property
    def bundle(self) -> str:
        """Both in one file, as Kafka's ``ssl.keystore.location`` has them."""
        return self.key + self.certificate


@dataclass(frozen=True)
class Subject:
    """Whom a certificate is for: a name, the organization where it is one of the operator's own, hosts and addresses."""

    common_name: str
    is_ours: bool = False
    hosts: frozenset[str] = frozenset()

    @property
    def distinguished(self) -> x509.Name:
        """As certificates have it."""
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION)] if self.is_ours else []
        return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, self.common_name)])

    @property
    def principal(self) -> str:
        """The user as whom Kafka knows its owner: RFC 2253, which begins with the last part."""
        return f"CN={self.common_name}" + (f",O={ORGANIZATION}" if self.is_ours else "")


def new_authority(cluster: str, name: str, now: datetime, days: int) -> KeyPair:
    """A certificate that signs others, signed by itself. Each generation has a name of its own."""
    key = ec.generate_private_key(ec.SECP256R1())
    parts = (
        (NameOID.ORGANIZATION_NAME, ORGANIZATION),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, cluster),
        (NameOID.COMMON_NAME, f"{name} {now:%Y-%m-%dT%H:%M:%SZ}"),
    )
    subject = x509.Name([x509.NameAttribute(kind, value) for kind, value in parts])
    made = _begun(subject, subject, key.public_key(), now, now + timedelta(days=days))
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = x509.KeyUsage(**{**_NO_KEY_USE, "key_cert_sign": True, "crl_sign": True})
    made = made.add_extension(usage, critical=True)
    made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return _pair(made.sign(key, hashes.SHA256()), key)


def issued(authority: KeyPair, subject: Subject, now: datetime, days: int) -> KeyPair:
    """A certificate for both sides of TLS that the authority has signed, valid for no longer than that is."""
    signer = x509.load_pem_x509_certificate(authority.certificate.encode())
    signing = serialization.load_pem_private_key(authority.key.encode(), None)
    assert isinstance(signing, _SIGNING), "see `signs`"
    key = ec.generate_private_key(ec.SECP256R1())
    until = min(now + timedelta(days=days), signer.not_valid_after_utc)
    made = _begun(subject.distinguished, signer.subject, key.public_key(), now, until)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = made.add_extension(x509.KeyUsage(**{**_NO_KEY_USE, "digital_signature": True}), critical=True)
    purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    made = made.add_extension(purposes, critical=False)
    made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
    made = made.add_extension(identifier, critical=False)
    if subject.hosts:
        names = x509.SubjectAlternativeName([_alternative(host) for host in sorted(subject.hosts)])
        made = made.add_extension(names, critical=False)
    return _pair(made.sign(signing, hashes.SHA256()), key)


def serves(pair: KeyPair, authority: KeyPair, subject: Subject, now: datetime, days: int, renewal_days: int) -> bool:
    """Return whether a certificate may stay: it is this subject's, for all of its hosts, signed by this authority, with its own
    key, and not to be renewed yet; or a new one would not be valid for longer.
    """
    found, signer = _read(pair.certificate), _read(authority.certificate)
    if found is None or signer is None or not matches(pair):
        return False
    if found.subject != subject.distinguished or not subject.hosts <= _hosts(found) or not _signed(found, signer):
        return False
    if now < found.not_valid_after_utc - timedelta(days=renewal_days):
        return True
    possible = min(now + timedelta(days=days), signer.not_valid_after_utc)
    return possible <= found.not_valid_after_utc + _LATER


def matches(pair: KeyPair) -> bool:
    """Return whether both can be read, and belong together."""
    found = _read(pair.certificate)
    try:
        key = serialization.load_pem_private_key(pair.key.encode(), None)
    except (ValueError, TypeError):
        return False
    return found is not None and found.public_key() == key.public_key()


def signs(pair: KeyPair) -> bool:
    """Return whether it is a CA with which others can be signed; somebody may have put another one in its place."""
    found = _read(pair.certificate)
    if found is None or not matches(pair):
        return False
    try:
        is_authority = found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False
    return is_authority and isinstance(serialization.load_pem_private_key(pair.key.encode(), None), _SIGNING)


def expiry(certificate: str) -> datetime | None:
    """Until when it is valid; None where it is no certificate."""
    found = _read(certificate)
    return None if found is None else found.not_valid_after_utc


def together(certificates: Iterable[str], now: datetime) -> str:
    """Those that are valid, each once, in one text."""
    blocks = []
    for text in certificates:
        try:
            found = x509.load_pem_x509_certificates(text.encode())
        except ValueError:
            continue
        blocks += [_pem(one) for one in found if one.not_valid_after_utc > now]
    return "".join(dict.fromkeys(blocks))


def _read(certificate: str) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(certificate.encode())
    except ValueError:
        return None


def _signed(found: x509.Certificate, signer: x509.Certificate) -> bool:
    try:
        found.verify_directly_issued_by(signer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _hosts(found: x509.Certificate) -> frozenset[str]:
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = (str(address) for address in names.get_values_for_type(x509.IPAddress))
    return frozenset([*names.get_values_for_type(x509.DNSName), *addresses])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return made.serial_number(x509.random_serial_number()).not_valid_before(now - BACKDATED).not_valid_after(until)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    text = key.private_bytes(encoding, form, serialization.NoEncryption()).decode()
    return KeyPair(_pem(certificate), text)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
