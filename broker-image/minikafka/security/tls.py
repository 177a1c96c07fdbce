"""What a side of TLS is made of, from Kafka's ``ssl.*`` settings with PEM files or texts; changed files are read anew.

The files are looked at (`stat`) when a connection begins, so a renewed certificate holds for the next connection, and those
that there are go on with theirs. Files that cannot be used leave what was read before in force.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from minikafka.security.ciphers import restrict
from minikafka.security.fresh import Fresh, read_at_most
from minikafka.security.shown import HIDDEN, shown
from minikafka.security.tls_stream import tls_reason

KEYSTORE, TRUSTSTORE = "ssl.keystore", "ssl.truststore"
CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

REVOKED = "X509 CRL"
"""A list of revoked certificates (RFC 7468, 6); Kafka has no setting for it, and Java one of the whole process."""

PEM_BYTES_MAX = 4 << 20
"""Of a file, which is read while nobody else is served. The certificates that a system trusts are a quarter of a MiB, a Secret is
one; large are only CRLs, and this is one of nearly 80,000 certificates, read in a tenth of a second.
"""

TRUSTED_MAX, KEYSTORE_BLOCKS_MAX = 1000, 100
"""Certificates and CRLs in a trust store, of which a system has some 150: OpenSSL sorts those that there are for each. And blocks
in a key store: each of its certificates takes 0.1 ms.
"""

_LOOSE_END = re.compile(r"-----(BEGIN|END)\b|-----[A-Z]+$")
_MARK = re.compile(r"-----(BEGIN|END) ([A-Z0-9 ]+)-----")


class TlsSettingsError(ValueError):
    """A setting or a file of it cannot be used; one line: ``KEY: what is wrong; allowed: ...``."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Kafka's settings of one listener, or of a client; empty texts are not set."""

    keystore_location: str = ""
    keystore_certificate_chain: str = ""
    keystore_key: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    truststore_location: str = ""
    truststore_certificates: str = ""
    client_auth: str = "none"
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    endpoint_identification: bool = True

    @property
    def has_keystore(self) -> bool:
        return bool(self.keystore_location or self.keystore_key)

    @property
    def has_truststore(self) -> bool:
        return bool(self.truststore_location or self.truststore_certificates)


def _parts(text: str) -> tuple[list[tuple[str, str]], str]:
    """The blocks of a text, each as its label and what is in it, and what is beside them.

    A block begins at the last beginning before its end: a text is read once, whatever in it has no end.
    """
    blocks, beside, at = [], [], 0
    begun: re.Match[str] | None = None
    for mark in _MARK.finditer(text):
        if mark[1] == "BEGIN":
            begun = mark
        elif begun is not None and begun[2] == mark[2]:
            beside.append(text[at : begun.start()])
            blocks.append((mark[2], text[begun.end() : mark.start()]))
            begun, at = None, mark.end()
    return blocks, "".join([*beside, text[at:]])


def pem_blocks(text: str, label: str) -> list[str]:
    """The blocks with this label, as they stand in a text."""
    return [f"-----BEGIN {label}-----{body}-----END {label}-----" for found, body in _parts(text)[0] if found == label]


def normal_pem(where: str, text: str) -> str:
    """The blocks of a text, with line breaks where OpenSSL wants them: in a properties file it may stand on one line.

    Raises TlsSettingsError for a block without its end: the file is being written, and OpenSSL would take what there is.
    """
    found, beside = _parts(text)
    if _LOOSE_END.search(beside.rstrip()):
        raise TlsSettingsError(f"{where}: a block has no beginning or no end; allowed: all of a text in PEM format")
    blocks = []
    for label, body in found:
        # headers of old encrypted keys ("DEK-Info: ...") end at an empty line, and stay as they are
        lines = (
            "\n".join(body.strip().splitlines())
            if ":" in body
            else "\n".join(re.findall(".{1,64}", "".join(body.split())))
        )
        blocks.append(f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n")
    return "".join(blocks)


def _read(where: str, path: str) -> str:
    try:
        text = read_at_most(path, PEM_BYTES_MAX).decode()
    except OSError as error:
        raise TlsSettingsError(f"{where}: {error.strerror}; allowed: a file that can be read") from None
    except UnicodeDecodeError:
        raise TlsSettingsError(f"{where}: not PEM; allowed: a file in PEM format") from None
    except ValueError:  # a null character
        raise TlsSettingsError(f"{where}: no path; allowed: a file that can be read") from None
    return normal_pem(where, text)


def _check_number(where: str, text: str, number_max: int, what: str) -> None:
    number = text.count("-----BEGIN ")
    if number > number_max:
        raise TlsSettingsError(f"{where}: {number} {what} in it; allowed: PEM with at most {number_max} of them")


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """A path with this text in it, in memory: Python's ssl takes certificates and keys of its own side from files only."""
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _load_keystore(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.keystore_location:
        where = f"{KEYSTORE}.location={shown(settings.keystore_location)}"
        text = _read(where, settings.keystore_location)
    else:
        where = f"{KEYSTORE}.key"
        text = normal_pem(where, settings.keystore_key)
        text += normal_pem(f"{KEYSTORE}.certificate.chain", settings.keystore_certificate_chain)
    if not text.isascii():
        raise TlsSettingsError(
            f"{where}: not PEM, which is ASCII; allowed: PEM with a private key and its certificates"
        )
    for label, what in (("PRIVATE KEY-----", "private key"), ("CERTIFICATE-----", "certificate")):
        if label not in text:
            raise TlsSettingsError(f"{where}: no {what} in it; allowed: PEM with a private key and its certificates")
    _check_number(where, text, KEYSTORE_BLOCKS_MAX, "keys and certificates")
    try:
        with _as_file(text) as path:
            # without a password OpenSSL would ask at the terminal
            context.load_cert_chain(path, password=settings.key_password.encode)
    except ssl.SSLError as error:
        reason = "the key is encrypted, and ssl.key.password does not open it" if _locked(text) else tls_reason(error)
        raise TlsSettingsError(
            f"{where}: {reason}; allowed: PEM with a private key and the certificates that belong to it"
        ) from None
    except ValueError:  # of the password alone, and of an encrypted key; OpenSSL takes no longer one
        raise TlsSettingsError(f"ssl.key.password={HIDDEN}: no password; allowed: text of at most 1024 bytes") from None


def _locked(text: str) -> bool:
    return "ENCRYPTED" in text


def _load_truststore(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.truststore_location:
        where = f"{TRUSTSTORE}.location={shown(settings.truststore_location)}"
        text = _read(where, settings.truststore_location)
    elif settings.truststore_certificates:
        where = f"{TRUSTSTORE}.certificates"
        text = normal_pem(where, settings.truststore_certificates)
    else:
        context.load_default_certs()
        return
    _check_number(where, text, TRUSTED_MAX, "certificates and CRLs")
    for label, _ in _parts(text)[0]:
        if "CRL" in label and label != REVOKED:  # else it would be passed over, and revoke nothing
            raise TlsSettingsError(f"{where}: a block named {shown(label)}; allowed: CERTIFICATE and {REVOKED}")
    lists = "".join(f"{block}\n" for block in pem_blocks(text, REVOKED))
    try:
        context.load_verify_locations(cadata=text)
        if lists:  # each authority of a chain needs one then, that is not out of date
            with _as_file(lists) as path:
                context.load_verify_locations(cafile=path)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    except (ssl.SSLError, TypeError, ValueError) as error:  # TypeError: what is no ASCII
        reason = tls_reason(error) if isinstance(error, ssl.SSLError) else "no certificates in it"
        raise TlsSettingsError(f"{where}: {reason}; allowed: PEM with certificates and CRLs") from None


def _new_context(settings: TlsSettings, purpose: int) -> ssl.SSLContext:
    context = ssl.SSLContext(purpose)
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        restrict(context, settings.enabled_protocols, settings.cipher_suites)
    except ValueError as error:
        suites = shown(",".join(settings.cipher_suites))
        raise TlsSettingsError(
            f"ssl.cipher.suites={suites}: {shown(str(error))}; allowed: names of suites that OpenSSL has"
        ) from None
    return context


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Of the side that accepts connections. Raises TlsSettingsError."""
    context = _new_context(settings, ssl.PROTOCOL_TLS_SERVER)
    _load_keystore(context, settings)
    context.verify_mode = CLIENT_AUTH[settings.client_auth]
    if context.verify_mode != ssl.CERT_NONE:
        _load_truststore(context, settings)
    return context


METRICS_PREFIX = "minikafka.metrics."


def metrics_context(settings: TlsSettings) -> ssl.SSLContext:
    """As `server_context`, of the port of /metrics, whose key store is named with a prefix. Raises TlsSettingsError."""
    try:
        return server_context(settings)
    except TlsSettingsError as error:
        own = str(error).startswith(KEYSTORE)
        raise TlsSettingsError(f"{METRICS_PREFIX}{error}" if own else str(error)) from None


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Of the side that connects. Raises TlsSettingsError."""
    context = _new_context(settings, ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.endpoint_identification
    if settings.has_keystore:
        _load_keystore(context, settings)
    _load_truststore(context, settings)
    return context


Make = Callable[[TlsSettings], ssl.SSLContext]


class FreshContext(Fresh[ssl.SSLContext]):
    """A context as its files are now.

    Once the trust store has CRLs it needs some: one that is being written may have none yet, and would let in whom they revoke.

    Args:
        settings: see there; ``make`` is `server_context` or `client_context`.
        failed: gets one line when changed files cannot be used, once for each change.
        renewed: called when they are in force.

    Raises:
        TlsSettingsError: they cannot be used from the beginning.
    """

    def __init__(
        self,
        settings: TlsSettings,
        make: Make,
        failed: Callable[[str], None] = lambda _line: None,
        renewed: Callable[[], None] = lambda: None,
    ) -> None:
        self._revokes = False
        files = [path for path in (settings.keystore_location, settings.truststore_location) if path]
        super().__init__(files, partial(self._as_strict, settings, make), TlsSettingsError, failed, renewed)

    def _as_strict(self, settings: TlsSettings, make: Make) -> ssl.SSLContext:
        context = make(settings)
        revokes = bool(context.verify_flags & ssl.VERIFY_CRL_CHECK_CHAIN)
        if self._revokes and not revokes:
            where = f"{TRUSTSTORE}.location={shown(settings.truststore_location)}"
            raise TlsSettingsError(f"{where}: no CRL in it any more; allowed: PEM with CRLs, until the next start")
        self._revokes = revokes
        return context
