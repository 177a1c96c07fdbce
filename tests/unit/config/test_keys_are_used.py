"""Nothing is silently ignored: a key is read somewhere, or declared ``unused`` and so said to be."""

import re
from pathlib import Path

import minikafka
from minikafka.config import BROKER_KEYS, TOPIC_KEYS
from minikafka.config.security_keys import EVERY_MECHANISM_KEY, LISTENER_KEYS

PACKAGE = Path(minikafka.__file__).parent
READ_WITHIN_CONFIG = {
    "compression.type": "only one value is allowed",
    "inter.broker.listener.name": "read as BrokerConfig.inter_broker_listener",
    "listener.security.protocol.map": "checked against the listeners",
    "log.dir": "stands in for log.dirs",
    "log.flush.scheduler.interval.ms": "stands in for log.flush.interval.ms",
    "log.retention.hours": "stands in for log.retention.ms",
    "log.retention.minutes": "stands in for log.retention.ms",
    "log.roll.hours": "stands in for log.roll.ms",
    "sasl.mechanism.inter.broker.protocol": "read as ListenerSecurity.login",
    "super.users": "read as ListenerSecurity.brokers",
    "security.inter.broker.protocol": "read as BrokerConfig.inter_broker_listener",
    **dict.fromkeys(LISTENER_KEYS | EVERY_MECHANISM_KEY, "read as ListenerSecurity of each listener"),
    "minikafka.metadata.store": "read as BrokerConfig.metadata_store",
    "minikafka.metrics.ssl.keystore.location": "read as BrokerConfig.metrics_tls",
}


def is_read_outside_config(attribute: str, source: str) -> bool:
    return re.search(rf"\.{attribute}\b", source) is not None


def test_keys_are_read_or_said_to_be_unused() -> None:
    source = "\n".join(
        path.read_text(encoding="utf-8")
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] != "config"
    )
    # A topic's settings reach the log as a LogConfig, and everybody else as attributes of TopicConfig.
    of_topics = {key.twin.name for key in TOPIC_KEYS.values()}
    wrong: list[str] = []
    for key in BROKER_KEYS.values():
        if key.name in READ_WITHIN_CONFIG or key.name in of_topics:
            continue
        used = is_read_outside_config(key.attribute, source)
        if used == key.unused:
            wrong.append(f"{key.name}: {'drop unused=True, it is read' if used else 'declare unused=True, or read it'}")
    assert wrong == []
