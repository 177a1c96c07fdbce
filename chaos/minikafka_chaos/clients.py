"""librdkafka as this package uses it: quiet, quick to notice a new leader, and never hiding an outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError

from minikafka_chaos.history import FAIL, INFO, OK, WorkloadSettings

SOCKET_TIMEOUT_MS = 10_000
"""How long a client waits for one answer. A paused broker answers nothing: shorter than librdkafka's 60 s, so that the
client turns to the new leader within a run."""

RECONNECT_BACKOFF_MS = 50
RECONNECT_BACKOFF_MAX_MS = 500
"""librdkafka's default maximum of 10 s would make a restarted broker look away much longer than it was."""

METADATA_FAST_REFRESH_MS = 100
"""librdkafka's own default, named because the ack gap rests on it: how often a client without a leader asks again."""

GROUP_ID = "minikafka-verifier"
"""confluent-kafka wants a group id for every consumer; readers here assign partitions themselves and commit nothing."""

PADDING_SEPARATOR = "|"
"""Between the unique part of a value and the padding that gives a record its size."""

DEFINITE_FAILURES = frozenset(
    (
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
        KafkaError._INVALID_ARG,
        KafkaError._UNKNOWN_PARTITION,
    )
)
"""Errors that say something about the record itself, so that no attempt can have been written. Anything else may follow
an earlier attempt that was written and whose answer was lost: it is unknown."""

WITHOUT_RETRIES = frozenset((KafkaError.NOT_ENOUGH_REPLICAS,))
"""Refused before the append: definite when it was the only attempt."""


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """How producers send. Names follow Kafka's producer configuration."""

    acks: str = "all"
    idempotence: bool = False
    max_in_flight: int = 1
    linger_ms: int = 5
    delivery_timeout_ms: int = 30_000
    retries: int | None = None
    """None: as often as the delivery timeout allows."""
    compression: str = "none"

    @property
    def judged_by(self) -> WorkloadSettings:
        return WorkloadSettings(self.acks, self.idempotence, self.max_in_flight)


def producer_config(bootstrap: str, settings: ProducerSettings) -> dict[str, Any]:
    """The configuration of one producer."""
    config = {
        **_client_config(bootstrap, "producer"),
        "acks": settings.acks,
        "enable.idempotence": settings.idempotence,
        "max.in.flight.requests.per.connection": settings.max_in_flight,
        "linger.ms": settings.linger_ms,
        "message.timeout.ms": settings.delivery_timeout_ms,
        "request.timeout.ms": min(SOCKET_TIMEOUT_MS, settings.delivery_timeout_ms),
        "retry.backoff.ms": METADATA_FAST_REFRESH_MS,
        "compression.type": settings.compression,
        # Partitions are chosen here, so a record never waits for a sticky partitioner to make up its mind.
        "sticky.partitioning.linger.ms": 0,
    }
    if settings.retries is not None:
        config["message.send.max.retries"] = settings.retries
    return config


def reader_config(bootstrap: str) -> dict[str, Any]:
    """The configuration of a reader that is told where to read and is never moved behind its back."""
    return {
        **_client_config(bootstrap, "reader"),
        "group.id": GROUP_ID,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "check.crcs": True,
        "isolation.level": "read_uncommitted",
        "fetch.wait.max.ms": 200,
        "fetch.error.backoff.ms": METADATA_FAST_REFRESH_MS,
        "allow.auto.create.topics": False,
    }


def admin_config(bootstrap: str, timeout_ms: int = SOCKET_TIMEOUT_MS) -> dict[str, Any]:
    return {**_client_config(bootstrap, "admin"), "socket.timeout.ms": timeout_ms}


def _client_config(bootstrap: str, role: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "client.id": f"minikafka-chaos-{role}",
        "log_level": 0,  # brokers die here on purpose: what matters is in the history, not on stderr
        "socket.timeout.ms": SOCKET_TIMEOUT_MS,
        "reconnect.backoff.ms": RECONNECT_BACKOFF_MS,
        "reconnect.backoff.max.ms": RECONNECT_BACKOFF_MAX_MS,
        "topic.metadata.refresh.fast.interval.ms": METADATA_FAST_REFRESH_MS,
        "broker.address.family": "v4",
    }


def outcome_of(error: KafkaError | None, settings: ProducerSettings) -> tuple[str, str | None]:
    """The history's word (`ok`, `fail`, `info`) for a delivery report, and the error's name."""
    if error is None:
        if settings.acks == "0":
            return INFO, "acks=0: no acknowledgement was asked for"
        return OK, None
    definite = error.code() in DEFINITE_FAILURES or (settings.retries == 0 and error.code() in WITHOUT_RETRIES)
    return (FAIL if definite else INFO), error.name()


def unique_part(value: bytes | None) -> str:
    """The part of a record's value that names its send."""
    text = (value or b"").decode(errors="backslashreplace")
    return text.partition(PADDING_SEPARATOR)[0]


def padded(value: str, record_bytes: int) -> bytes:
    """`value` as a record of `record_bytes`, or as long as it is."""
    text = value + PADDING_SEPARATOR
    return text.encode().ljust(record_bytes, b".")
