"""How a listener believes access tokens (OAUTHBEARER): Kafka's settings of it, put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from minikafka.security.jaas import LoginModule
from minikafka.security.oauthbearer import TokenRules
from minikafka.security.tls import TlsSettings

JWKS_URL, TOKEN_URL = "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.token.endpoint.url"

_TRUSTSTORE = {"ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates"}
"""Options of the login module: whom to trust at an https address, as Kafka has them there."""


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """Of one listener."""

    keys_url: str
    refresh_seconds: float
    retry_seconds: float
    retry_seconds_max: float
    rules: TokenRules
    trust: TlsSettings


def oauth_settings(read: Callable[[str], Any], module: LoginModule | None) -> OAuthSettings:
    """As read key by key, and as the login module says."""
    options = {} if module is None else module.options
    prefix = "sasl.oauthbearer."
    return OAuthSettings(
        keys_url=read(JWKS_URL) or "",
        refresh_seconds=read(f"{prefix}jwks.endpoint.refresh.ms") / 1000,
        retry_seconds=read(f"{prefix}jwks.endpoint.retry.backoff.ms") / 1000,
        retry_seconds_max=read(f"{prefix}jwks.endpoint.retry.backoff.max.ms") / 1000,
        rules=TokenRules(
            expected_audience=read(f"{prefix}expected.audience"),
            expected_issuer=read(f"{prefix}expected.issuer"),
            sub_claim_name=read(f"{prefix}sub.claim.name"),
            scope_claim_name=read(f"{prefix}scope.claim.name"),
            clock_skew_seconds=read(f"{prefix}clock.skew.seconds"),
        ),
        trust=TlsSettings(
            truststore_location=options.get("ssl.truststore.location", ""),
            truststore_certificates=options.get("ssl.truststore.certificates", ""),
        ),
    )


def oauth_problems(name: str, settings: OAuthSettings, module: LoginModule | None) -> Iterable[str]:
    """Return what is missing, or does not go together, on a listener of this name."""
    if not settings.keys_url:
        yield f"{JWKS_URL}: required by OAUTHBEARER on listener {name}; allowed: file:///PATH or https://HOST/PATH"
    elif "@" in urlsplit(settings.keys_url).netloc:
        yield f"{JWKS_URL}=[hidden]: names a user, and keys are for everybody; allowed: https://HOST/PATH"
    where = f"listener.name.{name.lower()}.oauthbearer.sasl.jaas.config=[hidden]"
    options = {} if module is None else module.options
    for option in sorted(set(options) - _TRUSTSTORE):
        reason = (
            "tokens without a signature are not served" if option.startswith("unsecured") else "not used by a broker"
        )
        yield f"{where}: {option}: {reason}; allowed: {', '.join(sorted(_TRUSTSTORE))}"
    trust = settings.trust
    if trust.has_truststore and options.get("ssl.truststore.type") != "PEM":
        yield f"{where}: ssl.truststore.type: known to Kafka, not supported by MiniKafka; allowed: PEM"
    if trust.truststore_location and trust.truststore_certificates:
        yield f"{where}: ssl.truststore.location: ssl.truststore.certificates is set as well; allowed: one of both"
