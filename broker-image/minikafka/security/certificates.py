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
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ORGANIZATION: Final = "minikafka.dev"
"""In the names of what the operator makes for itself; certificates of users have none, so none is taken for a broker's."""

BACKDATED: Final = timedelta(minutes=5)
"""Certificates are valid from a little before they are made: clocks differ."""

_SIGNING: Final = (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey)
"""Keys that sign with SHA-256."""

_RSA_BITS_MIN: Final = 2048
"""OpenSSL believes nobody whose CA has a shorter key."""

_UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""What reading keys and certificates raises that somebody else has made."""

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
        between = "" if self.key.endswith("\n") else "\n"
        return f"{self.key}{between}{self.certificate}"


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
    signing = _read_key(authority.key)
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
    hosts = {str(_alternative(host).value) for host in subject.hosts}
    if found.subject != subject.distinguished or not hosts <= _hosts(found) or not _signed(found, signer):
        return False
    if signer.not_valid_before_utc <= now < found.not_valid_before_utc:
        return False  # made while this clock was ahead; where the CA is not valid yet either, it is behind now
    if now < found.not_valid_after_utc - timedelta(days=renewal_days):
        return True
    possible = min(now + timedelta(days=days), signer.not_valid_after_utc)
    return possible <= found.not_valid_after_utc + _LATER


def matches(pair: KeyPair) -> bool:
    """Return whether both can be read, and belong together."""
    found, key = _read(pair.certificate), _read_key(pair.key)
    return found is not None and key is not None and found.public_key() == key.public_key()


def signs(pair: KeyPair) -> bool:
    """Return whether it is a CA with which others can be signed; somebody may have put another one in its place."""
    found, key = _read(pair.certificate), _read_key(pair.key)
    if found is None or not matches(pair) or not isinstance(key, _SIGNING):
        return False
    try:
        is_authority = found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False
    return is_authority and not (isinstance(key, rsa.RSAPrivateKey) and key.key_size < _RSA_BITS_MIN)


def expiry(certificate: str) -> datetime | None:
    """Until when it is valid; None where it is no certificate."""
    found = _read(certificate)
    return None if found is None else found.not_valid_after_utc


def together(certificates: Iterable[str], now: datetime) -> str:
    """Those that are valid, each once, in one text."""
    blocks = [_pem(one) for text in certificates for one in _all_in(text) if one.not_valid_after_utc > now]
    return "".join(dict.fromkeys(blocks))


def replaced_by(signing: str, trusted: str, known: str) -> list[str]:
    """Trusted certificates that are not known, and have signed until this one took their place: all where it is not trusted
    itself yet, else those that are newer. An older one is to be forgotten.
    """
    signer = _read(signing)
    if signer is None:
        return []
    there, expected = dict.fromkeys(_all_in(trusted)), frozenset(_all_in(known))
    begins = signer.not_valid_before_utc
    unknown = [one for one in there if one not in expected]
    return [_pem(one) for one in unknown if signer not in there or one.not_valid_before_utc > begins]


def _all_in(text: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(text.encode())
    except _UNREADABLE:
        return []


def _read(certificate: str) -> x509.Certificate | None:
    """The first certificate in a text; None where there is none, or a part of the text, or of it, cannot be read."""
    try:
        found = x509.load_pem_x509_certificates(certificate.encode())[0]
        parts = found.public_key(), found.subject, found.extensions  # each is read only when it is asked for
    except _UNREADABLE:
        return None
    return found if all(part is not None for part in parts) else None


def _read_key(text: str) -> PrivateKeyTypes | None:
    """None where it cannot be read. That an RSA key's numbers are prime is not looked at: of 8192 bits it takes ten seconds,
    in which nothing else is done, and whose it is the certificate says.
    """
    try:
        return serialization.load_pem_private_key(text.encode(), None, unsafe_skip_rsa_key_validation=True)
    except _UNREADABLE:
        return None


def _signed(found: x509.Certificate, signer: x509.Certificate) -> bool:
    try:
        found.verify_directly_issued_by(signer)
    except (*_UNREADABLE, InvalidSignature):
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
