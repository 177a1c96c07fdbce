"""The settings of TLS and SASL: Kafka's own. Most may be set for one listener, as ``listener.name.NAME.KEY``."""

from minikafka.config.keys import INT_MAX, boolean, integer, long, one_of, optional_text, password, text, words
from minikafka.security.authorizer import NAMES
from minikafka.security.ciphers import VERSIONS
from minikafka.security.jaas import MODULES
from minikafka.security.principal import parse_rules
from minikafka.security.tls import CLIENT_AUTH

MECHANISMS = tuple(MODULES)
"""Those of SASL that are served."""

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


LISTENER_KEYS = frozenset(
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
"""Keys that a mechanism of a listener may have of its own."""
