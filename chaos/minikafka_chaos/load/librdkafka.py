"""librdkafka as this package uses it: quiet, quick to notice a new leader, and never hiding an outcome."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError
from minikafka.client.security import ClientSecurity
from minikafka.telemetry.fault_verbs import VERBS_CLIENT

from minikafka_chaos.load.load import REQUEST_TIMEOUT_MS, RETRY_BACKOFF_MS, UNASKED, ProducerSettings
from minikafka_chaos.record.history import FAIL, INFO, OK

RECONNECT_BACKOFF_MS = 50
RECONNECT_BACKOFF_MAX_MS = 200
"""With librdkafka's default of 10 s a client stands still for as long when a broker that has just come back leads next."""

HEARTBEATS_A_SESSION = 6

GROUP_ID = "minikafka-verifier"
"""confluent-kafka wants a group id for every consumer; readers here assign partitions themselves and commit nothing."""

LOCAL_FAILURES = frozenset((KafkaError._INVALID_ARG,))
"""librdkafka's own errors that say that a record was never sent. _UNKNOWN_PARTITION says nothing of that: a broker whose answer
has no such partition ends records with it that were sent before, and whose answers were lost."""


def producer_config(bootstrap: str, security: ClientSecurity, settings: ProducerSettings) -> dict[str, Any]:
    """The configuration of one producer."""
    config = {
        **_client_config(bootstrap, security, "producer"),
        "acks": settings.acks,
        "enable.idempotence": settings.idempotence,
        "max.in.flight.requests.per.connection": settings.max_in_flight,
        "linger.ms": settings.linger_ms,
        "message.timeout.ms": settings.delivery_timeout_ms,
        "request.timeout.ms": min(REQUEST_TIMEOUT_MS, settings.delivery_timeout_ms),
        "retry.backoff.ms": RETRY_BACKOFF_MS,
        "compression.type": settings.compression,
        # Partitions are chosen here, so a record never waits for a sticky partitioner to make up its mind.
        "sticky.partitioning.linger.ms": 0,
    }
    if settings.retries is not None:
        config["message.send.max.retries"] = settings.retries
    return config


def reader_config(bootstrap: str, security: ClientSecurity) -> dict[str, Any]:
    """The configuration of a reader that is told where to read and is never moved behind its back."""
    return {
        **_client_config(bootstrap, security, "reader"),
        "group.id": GROUP_ID,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "check.crcs": True,
        "isolation.level": "read_uncommitted",
        "fetch.wait.max.ms": 200,
        "fetch.error.backoff.ms": RETRY_BACKOFF_MS,
        "allow.auto.create.topics": False,
    }


def member_config(bootstrap: str, security: ClientSecurity, group: str, session_timeout_ms: int) -> dict[str, Any]:
    """The configuration of a member of a consumer group that says itself where it begins, and when it commits."""
    return {
        **reader_config(bootstrap, security),
        **_client_config(bootstrap, security, "member"),
        "group.id": group,
        "enable.partition.eof": False,
        "partition.assignment.strategy": "range",
        "session.timeout.ms": session_timeout_ms,
        "heartbeat.interval.ms": session_timeout_ms // HEARTBEATS_A_SESSION,
    }


def admin_config(bootstrap: str, security: ClientSecurity, timeout_ms: int = REQUEST_TIMEOUT_MS) -> dict[str, Any]:
    return {**_client_config(bootstrap, security, "admin"), "socket.timeout.ms": timeout_ms}


def _client_config(bootstrap: str, security: ClientSecurity, role: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "client.id": f"{VERBS_CLIENT}{role}",
        "log_level": 0,  # brokers die here on purpose: what matters is in the history, not on stderr
        "socket.timeout.ms": REQUEST_TIMEOUT_MS,
        "reconnect.backoff.ms": RECONNECT_BACKOFF_MS,
        "reconnect.backoff.max.ms": RECONNECT_BACKOFF_MAX_MS,
        "topic.metadata.refresh.fast.interval.ms": RETRY_BACKOFF_MS,
        "broker.address.family": "v4",
        **security.librdkafka(),
    }


def outcome_of(error: KafkaError | None, settings: ProducerSettings) -> tuple[str, str | None]:
    """The history's word (`ok`, `fail`, `info`) for a delivery report, and the error's name."""
    if error is None:
        return (INFO, UNASKED) if settings.acks == "0" else (OK, None)
    outcome = FAIL if error.code() in LOCAL_FAILURES else settings.outcome_of_error(error.code())
    return outcome, error.name()
