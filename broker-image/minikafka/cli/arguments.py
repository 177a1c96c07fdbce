"""Options that several subcommands share, and the types that check them; a refusal names the value and what may be."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from minikafka.client.security import PLAINTEXT
from minikafka.command.exits import bad_input
from minikafka.command_config import add_command_config

DEFAULT_BOOTSTRAP = "127.0.0.1:19092"
"""Where the first broker of `minikafka up` listens."""

_TOPIC_NAME_MAX = 249
_TOPIC_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def add_bootstrap(parser: argparse.ArgumentParser) -> None:
    """``--bootstrap`` or ``--data``, ``--command-config`` and ``--client-config``."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--bootstrap",
        "--bootstrap-server",
        type=bootstrap,
        default=DEFAULT_BOOTSTRAP,
        metavar="HOST:PORT[,...]",
        help=f"brokers to ask first (default {DEFAULT_BOOTSTRAP})",
    )
    where.add_argument(
        "--data", dest="bootstrap", action=_OfFolder, metavar="DIR", help="the brokers of `minikafka up --data DIR`"
    )
    add_command_config(parser)
    parser.add_argument(
        "--client-config",
        action="append",
        type=key_value,
        default=[],
        metavar="KEY=VALUE",
        help="a librdkafka setting, e.g. debug=broker (repeatable)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON for programs instead of text for people")


def add_topic(parser: argparse.ArgumentParser, *, many: bool = False) -> None:
    """The topic's name as a positional argument or, as Kafka's tools have it, ``--topic``."""
    parser.add_argument("topics", nargs="*" if many else "?", metavar="TOPIC", type=topic_name, help="the topic's name")
    parser.add_argument("--topic", action="append", dest="topic_option", type=topic_name, help=argparse.SUPPRESS)


def topics_of(args: argparse.Namespace) -> list[str]:
    """The names given in either way, each once."""
    given = args.topics if isinstance(args.topics, list) else [args.topics] if args.topics else []
    return list(dict.fromkeys([*given, *(args.topic_option or [])]))


def topic_of(args: argparse.Namespace) -> str:
    """The one topic of a command that takes one."""
    names = topics_of(args)
    if len(names) != 1:
        raise bad_input("which topic?" if not names else f"takes one topic, not {len(names)}: {', '.join(names)}")
    return names[0]


def bootstrap(text: str) -> str:
    """``host:port`` or several with commas between."""
    for part in text.split(","):
        host, separator, port = part.strip().rpartition(":")
        if not separator or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise argparse.ArgumentTypeError(f"{part!r} is not HOST:PORT")
    return text


class _OfFolder(argparse.Action):
    """All listeners of the local cluster in a data directory, and the way to be let in, where no other is named."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        del parser, option_string
        from minikafka.local.clients_listener import own_security
        from minikafka.local.cluster import LocalCluster
        from minikafka.local.errors import ClusterError

        try:
            record = LocalCluster(str(values)).record
        except ClusterError as error:
            raise argparse.ArgumentError(self, str(error)) from None
        namespace.bootstrap = record.bootstrap
        if getattr(namespace, "security", PLAINTEXT) is PLAINTEXT:
            namespace.security = own_security(record.config)


def topic_name(text: str) -> str:
    """Kafka's rule: 1 to 249 of a-z A-Z 0-9 . _ - and neither "." nor ".."."""
    if not text or len(text) > _TOPIC_NAME_MAX or text in (".", "..") or not _TOPIC_CHARACTERS.issuperset(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a topic name (1 to {_TOPIC_NAME_MAX} of a-z A-Z 0-9 . _ -)")
    return text


def key_value(text: str) -> tuple[str, str]:
    """``KEY=VALUE``; the value may be empty and may have more equal signs."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    try:
        text.encode()
    except UnicodeEncodeError:  # librdkafka's admin client dies of it
        raise argparse.ArgumentTypeError(f"{text!r} is not UTF-8") from None
    return key.strip(), value


def whole_number(minimum: int, maximum: int = 2**63 - 1) -> Callable[[str], int]:
    """An argparse type: an integer within bounds, both included."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if not minimum <= value <= maximum:
            most = "" if maximum == 2**63 - 1 >= value else f" and not above {maximum}"
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {minimum}{most}")
        return value

    return parse


def seconds(text: str) -> float:
    """A positive number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return value


def moment(text: str) -> int:
    """A date and time as unix milliseconds: ISO 8601; UTC unless it says otherwise (as kafka-consumer-groups)."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a date and time like 2026-01-31T12:00:00 (UTC) or 2026-01-31T12:00:00.250+01:00"
        ) from None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=UTC)
    return round(parsed.timestamp() * 1000)


_DURATION = re.compile(
    r"P(?!$)(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


def duration(text: str) -> int:
    """A duration as milliseconds: ISO 8601's PnDTnHnMnS (as kafka-consumer-groups)."""
    found = _DURATION.fullmatch(text.upper())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration like P7D, PT30M or P1DT2H30M5S")
    try:
        span = timedelta(**{unit: float(number) for unit, number in found.groupdict(default="0").items()})
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is longer than a duration can be") from None
    return round(span.total_seconds() * 1000)


def replica_assignment(text: str) -> list[list[int]]:
    """``0:1:2,1:2:0`` as kafka-topics has it: partitions by commas, each its replicas by colons, the leader first."""
    partitions: list[list[int]] = []
    for part in text.split(","):
        try:
            replicas = [int(broker) for broker in part.split(":")]
        except ValueError:
            raise argparse.ArgumentTypeError(f"{part!r} in {text!r} is not broker ids with colons between") from None
        if min(replicas) < 0:
            raise argparse.ArgumentTypeError(f"{part!r} in {text!r} has a negative broker id")
        if len(set(replicas)) != len(replicas):
            raise argparse.ArgumentTypeError(f"{part!r} in {text!r} names a broker twice")
        if partitions and len(replicas) != len(partitions[0]):
            raise argparse.ArgumentTypeError(f"{text!r} has partitions with different numbers of replicas")
        partitions.append(replicas)
    return partitions


def settings(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Repeated ``KEY=VALUE`` options as a dictionary; the same key twice with different values is refused."""
    values: dict[str, str] = {}
    for key, value in pairs:
        if values.setdefault(key, value) != value:
            raise bad_input(f"{key} is given twice, with different values")
    return values
