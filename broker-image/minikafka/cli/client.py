"""librdkafka clients for the subcommands: configuration, a quick look whether anybody is there, errors as one line.

confluent_kafka is imported here only, and only when a command needs it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from minikafka.cli.arguments import settings
from minikafka.cli.metadata import first_that_answers
from minikafka.client.security import ClientSecurity
from minikafka.command.exits import BAD_INPUT, NO, UNKNOWN, CommandError, bad_input

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

REQUEST_TIMEOUT = 15.0
"""Seconds that one administrative request may take."""

_CONNECT_TIMEOUT = 3.0

_BAD_INPUT = frozenset(
    {
        "INVALID_CONFIG",
        "INVALID_GROUP_ID",
        "INVALID_PARTITIONS",
        "INVALID_REPLICATION_FACTOR",
        "INVALID_REPLICA_ASSIGNMENT",
        "INVALID_REQUEST",
        "INVALID_TIMESTAMP",
        "TOPIC_EXCEPTION",
        "_INVALID_ARG",
    }
)
_UNKNOWN = frozenset(
    {
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "NOT_CONTROLLER",
        "NOT_COORDINATOR",
        "REQUEST_TIMED_OUT",
        "_ALL_BROKERS_DOWN",
        "_DESTROY",
        "_MSG_TIMED_OUT",
        "_TIMED_OUT",
        "_TIMED_OUT_QUEUE",
        "_TRANSPORT",
        "_WAIT_COORD",
    }
)


def require_broker(bootstrap: str, security: ClientSecurity) -> None:
    """Raise a :class:`CommandError` at once when no bootstrap address takes a connection, and lets this client in.

    librdkafka would go on trying in silence until some timeout; a person wants the reason now.
    """
    with first_that_answers(bootstrap, _CONNECT_TIMEOUT, security):
        pass


def configuration(args: argparse.Namespace, **values: Any) -> dict[str, Any]:
    """A librdkafka configuration: ours (dots as underscores), then what ``--client-config`` says."""
    base: dict[str, Any] = {
        "bootstrap.servers": args.bootstrap,
        "client.id": "minikafka-cli",
        # Reasons reach the user through errors; librdkafka's own log lines would stand between the data.
        "log_level": 0,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        "topic.metadata.propagation.max.ms": 5000,
    }
    base |= {name.replace("_", "."): value for name, value in values.items()}
    chosen = settings(args.client_config)
    if "debug" in chosen:
        base["log_level"] = 7
    security: dict[str, Any] = args.security.librdkafka()
    return base | security | chosen


@contextlib.contextmanager
def kafka_errors() -> Iterator[None]:
    """Turn librdkafka's exceptions into :class:`CommandError`."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise explained(error.args[0]) from error


def explained(error: Any, about: str = "") -> CommandError:
    """A ``KafkaError`` as one line and the exit code that fits."""
    name = error.name()
    text = " ".join(error.str().split()) or name
    code = BAD_INPUT if name in _BAD_INPUT else UNKNOWN if name in _UNKNOWN else NO
    label = name.lstrip("_")
    return CommandError(code, f"{about + ': ' if about else ''}{label}: {text}" if label else text)


def admin_library() -> Any:
    """The module ``confluent_kafka.admin``, untyped: it does not export its names the way strict type checks want."""
    return importlib.import_module("confluent_kafka.admin")


def admin_client(args: argparse.Namespace) -> AdminClient:
    """An admin client of a cluster that answers."""
    from confluent_kafka.admin import AdminClient

    require_broker(args.bootstrap, args.security)
    with configuration_errors():
        return AdminClient(configuration(args))


@contextlib.contextmanager
def configuration_errors() -> Iterator[None]:
    """Around the making of a client: what librdkafka does not like about ``--client-config`` is bad input."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise bad_input(f"client configuration: {error.args[0].str()}") from error
    except (TypeError, ValueError) as error:
        raise bad_input(f"client configuration: {error}") from error
