"""The settings of TLS and SASL: Kafka's own. Most may be set for one listener, as ``listener.name.NAME.KEY``."""

from minikafka.config.keys import (
    INT_MAX,
    boolean,
    class_name,
    integer,
    long,
    one_of,
    optional_text,
    password,
    text,
    words,
)
from minikafka.security.authorizer import NAMES
from minikafka.security.ciphers import VERSIONS
from minikafka.security.jaas import MODULES
from minikafka.security.principal import parse_rules
from minikafka.security.tls import CLIENT_AUTH

MECHANISMS = tuple(MODULES)
"""Those of SASL that are served."""

OAUTHBEARER_PACKAGE = "org.apache.kafka.common.security.oauthbearer"

_STORES = ("JKS", "PEM")
_ONLY_PEM = "only PEM can be used, which has to be said, for Kafka's default is JKS"


class Security:
    """Security: TLS and SASL"""

    security_inter_broker_protocol = one_of(
        "PLAINTEXT",
        ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        doc="Protocol that brokers use among themselves, and name of its listener. Set this or inter.broker.listener.name.",
    )
    ssl_keystore_type = one_of("JKS", _STORES, doc="Format of the key store.", note=_ONLY_PEM)
    ssl_keystore_location = optional_text(
        doc="PEM file with this broker's private key and its certificates, its own first. It is looked at whenever a connection "
        "begins: a changed one holds from then on, for new connections.",
        allowed="a file path",
    )
    ssl_keystore_certificate_chain = password(
        doc="The certificates themselves, instead of a file; ssl.keystore.key, too."
    )
    ssl_keystore_key = password(doc="The private key itself, instead of a file.")
    ssl_key_password = password(doc="Opens an encrypted private key.")
    ssl_truststore_type = one_of("JKS", _STORES, doc="Format of the trust store.", note=_ONLY_PEM)
    ssl_truststore_location = optional_text(
        doc="PEM file with the certificates of those who sign peers' certificates; changes hold as those of the key store. "
        "Without one, brokers that connect to others trust those that this machine trusts.",
        allowed="a file path",
    )
    ssl_truststore_certificates = password(doc="The same certificates themselves, instead of a file.")
    ssl_client_auth = one_of(
        "none",
        tuple(CLIENT_AUTH),
        doc="Whether clients show a certificate of their own. On a listener with SASL as well, the principal is SASL's.",
    )
    ssl_enabled_protocols = words(
        tuple(VERSIONS), tuple(VERSIONS), doc="Versions of TLS.", note="Kafka's older ones are refused (RFC 8996)"
    )
    ssl_protocol = one_of("TLSv1.3", tuple(VERSIONS), doc="The newest version of TLS.", unused=True)
    ssl_cipher_suites = words(
        (),
        None,
        doc="Cipher suites, by their standard names or OpenSSL's; empty: OpenSSL's own choice. A version of TLS of which none is "
        "named is not used.",
        allowed="comma-separated list of suites that OpenSSL has; of TLS 1.3 all or none",
    )
    ssl_endpoint_identification_algorithm = text(
        "https",
        doc="Whether a broker that connects to another looks for the other's name in its certificate; empty: it does not.",
        allowed="https, or nothing",
        pattern="(https|HTTPS)?",
    )
    ssl_principal_mapping_rules = text(
        "DEFAULT",
        doc="How a principal's name follows from the subject of a client's certificate: the first rule that fits (KIP-371).",
        allowed="comma-separated list of RULE:pattern/replacement/[LU] and DEFAULT",
        check=parse_rules,
    )
    sasl_enabled_mechanisms = words(
        ("GSSAPI",),
        ("GSSAPI", *MECHANISMS),
        doc="Mechanisms of SASL that are served.",
        note="GSSAPI, Kafka's default, is not served: name others",
    )
    sasl_mechanism_inter_broker_protocol = one_of(
        "GSSAPI",
        ("GSSAPI", *MECHANISMS),
        doc="By which of them brokers log in at other brokers.",
        note="GSSAPI is not there",
    )
    sasl_jaas_config = password(
        doc="Login module of a mechanism, as listener.name.NAME.MECHANISM.sasl.jaas.config only: the users of PLAIN (user_NAME), "
        "and as whom brokers log in (username, password).",
        note="refused without listener and mechanism, where Kafka ignores it",
    )
    sasl_server_callback_handler_class = class_name(
        tuple(f"{OAUTHBEARER_PACKAGE}.{name}OAuthBearerValidatorCallbackHandler" for name in ("", "secured.")),
        doc="Who looks at the tokens of OAUTHBEARER, of a listener and its mechanism only: MiniKafka does as these classes of "
        "Kafka's do, whether or not one is named.",
        note="Kafka has to be told, for its default believes tokens without a signature; no other class can be brought along",
    )
    sasl_oauthbearer_jwks_endpoint_url = optional_text(
        doc="Where the keys are with which tokens are signed (OAUTHBEARER): a JSON Web Key Set. A file is looked at whenever a "
        "token comes; an address is asked at start and from time to time.",
        allowed="file:///PATH, https://HOST/PATH or http://HOST/PATH, without a user",
        pattern=r"file:(//(localhost)?)?/[^/].*|https?://[^/\s]+(/\S*)?",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms = long(3_600_000, 1, doc="How often the address is asked for keys.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = long(
        100, 1, doc="When it has not answered: how long until it is asked again. Doubled each time."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = long(
        10_000, 1, doc="At most so long; and not sooner than this for a token that names an unknown key."
    )
    sasl_oauthbearer_expected_audience = words(
        (),
        None,
        doc="A token has to be for one of these (claim aud). Empty: for anybody.",
        allowed="comma-separated list",
    )
    sasl_oauthbearer_expected_issuer = optional_text(
        doc="Who has to have issued a token (claim iss). Not set: anybody."
    )
    sasl_oauthbearer_sub_claim_name = text("sub", doc="The claim with the principal's name.")
    sasl_oauthbearer_scope_claim_name = text("scope", doc="The claim with the scope, which has to be text.")
    sasl_oauthbearer_clock_skew_seconds = integer(
        30, 0, INT_MAX, doc="How far the clocks of brokers and of those who issue tokens may be apart."
    )
    sasl_oauthbearer_token_endpoint_url = optional_text(
        doc="Where the token is with which this broker logs in at others by OAUTHBEARER, a file. It is read at every login.",
        allowed="file:///PATH",
        pattern=r"file:(//(localhost)?)?/[^/].*",
        note="Kafka also asks http and https addresses for a token",
    )
    authorizer_class_name = one_of(
        "",
        NAMES,
        doc="Whether ACLs decide what a client may do. Empty: whoever is let in may do everything.",
        note="no other authorizer can be brought along",
    )
    allow_everyone_if_no_acl_found = boolean(
        False,
        doc="Whether everybody may do everything with a resource that no ACL is about. Counts with an authorizer.",
        note="of Kafka's authorizer",
    )
    super_users = text(
        "",
        doc="Who may do everything, whatever ACLs say. And who is a broker, where brokers have to say who they are: on an "
        "inter-broker listener with SASL these and the user as whom this broker logs in; on one with certificates these, or, "
        "when there are none and no authorizer, whoever has a certificate.",
        allowed="principals with ; between, as User:broker-1;User:broker-2",
        pattern=r"(User:[^;]+(;\s*User:[^;]+)*)?",
        note="of Kafka's authorizer; Kafka leaves who is a broker to CLUSTER_ACTION",
    )
    sasl_server_max_receive_size = integer(
        524_288, 0, doc="Largest request in bytes of a client that has not logged in yet."
    )
    connections_max_reauth_ms = long(
        0,
        0,
        doc="A client has to log in again within this time (KIP-368); else its connection is closed with its next request. "
        "0: never. Also as listener.name.NAME.MECHANISM.connections.max.reauth.ms.",
    )
    connection_failed_authentication_delay_ms = integer(
        100, 0, INT_MAX, doc="How long the answer to a failed login is held back."
    )


OAUTHBEARER_KEYS = frozenset(
    {
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.token.endpoint.url",
    }
)
"""Keys of OAUTHBEARER, which a listener may have of its own, with and without the mechanism's name."""

LISTENER_KEYS = OAUTHBEARER_KEYS | frozenset(
    {
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.key.password",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.certificates",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
        "ssl.principal.mapping.rules",
        "sasl.enabled.mechanisms",
        "connections.max.reauth.ms",
    }
)
"""Keys that a listener may have of its own."""

MECHANISM_KEYS = frozenset({"sasl.jaas.config", "connections.max.reauth.ms"})
"""Keys that a mechanism of a listener may have of its own; OAUTHBEARER has more."""


def mechanism_keys(mechanism: str) -> frozenset[str]:
    """Return the keys that this mechanism of a listener may have of its own."""
    if mechanism != "OAUTHBEARER":
        return MECHANISM_KEYS
    return MECHANISM_KEYS | OAUTHBEARER_KEYS | {"sasl.server.callback.handler.class"}


EVERY_MECHANISM_KEY = frozenset().union(*map(mechanism_keys, MECHANISMS))
