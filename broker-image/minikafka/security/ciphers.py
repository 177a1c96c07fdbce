"""Cipher suites and TLS versions as Kafka's settings name them, and what OpenSSL calls them."""

from __future__ import annotations

import ssl

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""Older ones are refused: RFC 8996 forbids them."""

TLS13_SUITES = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})
"""Those that OpenSSL offers for TLS 1.3. Python's ssl cannot choose among them before 3.15."""


def openssl_name(suite: str) -> str:
    """The name that OpenSSL has for a suite of TLS 1.2 by its standard name; a name of OpenSSL's own stays as it is.

    ``TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384`` is ``ECDHE-RSA-AES256-GCM-SHA384`` there.
    """
    if not suite.startswith("TLS_") or "_WITH_" not in suite:
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_CBC", "")
    if cipher == "CHACHA20_POLY1305_SHA256":
        cipher = "CHACHA20_POLY1305"
    name = cipher if exchange == "RSA" else f"{exchange}_{cipher}"
    return name.replace("_", "-")


def restrict(context: ssl.SSLContext, versions: tuple[str, ...], suites: tuple[str, ...]) -> None:
    """Allow these versions, and these suites where any are named. Raises ValueError with what is wrong.

    A version of which no suite is named is not used, as in Java.
    """
    if suites:
        new = TLS13_SUITES & set(suites)
        old = [suite for suite in suites if suite not in TLS13_SUITES]
        versions = tuple(v for v in versions if (new if v == "TLSv1.3" else old))
        if new and new != TLS13_SUITES and "TLSv1.3" in versions:
            raise ValueError(
                f"of TLS 1.3 only {', '.join(sorted(new))}; OpenSSL's settings for it cannot be reached from Python: "
                f"name none of TLS 1.3, or all of {', '.join(sorted(TLS13_SUITES))}"
            )
        if old:
            _set_suites(context, old)
        if not versions:
            raise ValueError("none of them belongs to a version of ssl.enabled.protocols")
    numbers = [VERSIONS[version] for version in versions]
    context.minimum_version, context.maximum_version = min(numbers), max(numbers)


def _set_suites(context: ssl.SSLContext, suites: list[str]) -> None:
    unknown = []
    for suite in suites:
        try:
            context.set_ciphers(openssl_name(suite))
        except ssl.SSLError:
            unknown.append(suite)
    if unknown:
        raise ValueError(f"OpenSSL does not have {', '.join(unknown)}")
    context.set_ciphers(":".join(map(openssl_name, suites)))
