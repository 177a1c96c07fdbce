"""`minikafka produce`: every line of standard input becomes a record; at the end, what became of them."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import Any

from minikafka.cli import arguments
from minikafka.cli.client import configuration, configuration_errors, explained, kafka_errors, require_broker
from minikafka.cli.output import print_json
from minikafka.command import exits
from minikafka.command.exits import CommandError, bad_input

_POLL_EVERY = 500
"""Lines between looks at delivery reports when lines come fast; from a terminal every line is followed by one."""

_ERRORS_SHOWN_MAX = 5

_AUTO_CREATE_SECONDS = 1.0
"""How long an unknown topic may take to come into being: brokers with auto.create.topics.enable make it when asked."""

_OUTCOME_UNKNOWN = frozenset(
    {
        "NETWORK_EXCEPTION",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "REQUEST_TIMED_OUT",
        "_MSG_TIMED_OUT",
        "_TIMED_OUT",
        "_TRANSPORT",
    }
)
"""Errors after which the record may be in the log all the same."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    arguments.add_topic(parser)
    arguments.add_bootstrap(parser)
    arguments.add_json(parser)
    parser.add_argument("--key-separator", metavar="TEXT", type=_separator, help="a line is KEY TEXT VALUE")
    parser.add_argument(
        "--header",
        action="append",
        type=arguments.key_value,
        default=[],
        metavar="KEY=VALUE",
        help="a header of every record (repeatable, also with the same key)",
    )
    parser.add_argument("--acks", choices=("0", "1", "all", "-1"), default="all", help="default: all")
    parser.add_argument("--partition", type=arguments.whole_number(0, 2**31 - 1), help="default: by key, else spread")
    parser.add_argument("--compression", choices=("none", "gzip", "snappy", "lz4", "zstd"), default="none")
    parser.add_argument("--idempotence", action="store_true", help="no duplicates, in order, by producer id (acks=all)")
    parser.add_argument("--null-marker", metavar="TEXT", help="a value that is this text is null: a tombstone")
    parser.add_argument(
        "--timeout", type=arguments.seconds, default=30.0, metavar="SECONDS", help="to deliver a record (default 30)"
    )


def _separator(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


class _Deliveries:
    """Counts of what became of the records; the callback of every delivery report."""

    def __init__(self, acks: str) -> None:
        self._acknowledges = acks != "0"
        self.acknowledged = 0
        self.unacknowledged = 0
        self.failed = 0
        self.unknown = 0
        self.errors: Counter[str] = Counter()
        self.partitions: dict[int, list[int]] = {}
        """Per partition: records, first offset, last offset (of what was acknowledged)."""

    def report(self, error: Any, message: Any) -> None:
        """librdkafka says how one record ended."""
        if error is not None:
            self._count_error(error)
        elif not self._acknowledges:
            self.unacknowledged += 1
        else:
            self.acknowledged += 1
            offset = message.offset()
            entry = self.partitions.setdefault(message.partition(), [0, offset, offset])
            entry[0] += 1
            entry[1] = min(entry[1], offset)
            entry[2] = max(entry[2], offset)

    def _count_error(self, error: Any) -> None:
        name = error.name().lstrip("_")
        unknown = error.name() in _OUTCOME_UNKNOWN
        self.unknown += unknown
        self.failed += not unknown
        if name not in self.errors and len(self.errors) < _ERRORS_SHOWN_MAX:
            outcome = "may or may not be written" if unknown else "not written"
            print(f"minikafka produce: {name}: {error.str()} ({outcome})", file=sys.stderr)
        self.errors[name] += 1


def run(args: argparse.Namespace) -> int:
    """Send the lines; exit code 1 when some record was not written, 3 when of some it cannot be told."""
    topic = arguments.topic_of(args)
    if args.idempotence and args.acks not in ("all", "-1"):
        raise bad_input(f"--idempotence needs --acks all, not {args.acks}")
    require_broker(args.bootstrap, args.security)
    from confluent_kafka import Producer

    with configuration_errors():
        producer = Producer(
            configuration(
                args,
                acks=args.acks,
                compression_type=args.compression,
                enable_idempotence=args.idempotence,
                linger_ms=5,
                delivery_timeout_ms=round(args.timeout * 1000),
                # Java's partitioner, so that a key lands where other clients put it
                partitioner="murmur2_random",
            )
        )
    _require_topic(producer, topic, args.partition)
    started = time.monotonic()
    deliveries = _Deliveries(args.acks)
    interrupted = False
    problem: CommandError | None = None
    try:
        sent = _send_lines(producer, topic, args, deliveries)
    except CommandError as error:
        problem, sent = error, 0
    except KeyboardInterrupt:
        interrupted, sent = True, 0
    left = producer.flush(args.timeout + 5)
    deliveries.unknown += left
    sent = sent or deliveries.acknowledged + deliveries.unacknowledged + deliveries.failed + deliveries.unknown
    _report(args, topic, sent, deliveries, time.monotonic() - started)
    if problem is not None:
        raise problem
    if interrupted:
        raise KeyboardInterrupt
    return exits.NO if deliveries.failed else exits.UNKNOWN if deliveries.unknown else exits.OK


def _require_topic(producer: Any, topic: str, partition: int | None) -> None:
    """Say at once that a topic or partition is not there (brokers that create topics by themselves do it here)."""
    deadline = time.monotonic() + _AUTO_CREATE_SECONDS
    while True:
        with kafka_errors():
            described = producer.list_topics(topic, timeout=10).topics[topic]
        name = described.error.name() if described.error is not None else ""
        if name not in ("UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE") or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    if name == "UNKNOWN_TOPIC_OR_PART":
        raise CommandError(exits.NO, f"no such topic: {topic}")
    if name and name != "LEADER_NOT_AVAILABLE":
        raise explained(described.error, f"topic {topic}")
    if partition is not None and described.partitions and partition not in described.partitions:
        last = len(described.partitions) - 1
        raise bad_input(f"--partition: topic {topic} has partitions 0 to {last}, not {partition}")


def _send_lines(producer: Any, topic: str, args: argparse.Namespace, deliveries: _Deliveries) -> int:
    separator = args.key_separator.encode() if args.key_separator else None
    null = args.null_marker.encode() if args.null_marker is not None else None
    options: dict[str, Any] = {"on_delivery": deliveries.report}
    if args.partition is not None:
        options["partition"] = args.partition
    if args.header:
        options["headers"] = [(key, value.encode()) for key, value in args.header]
    poll_every = 1 if sys.stdin.isatty() else _POLL_EVERY
    number = 0
    for number, line in enumerate(sys.stdin.buffer, 1):
        value: bytes | None = line.removesuffix(b"\n").removesuffix(b"\r")
        key: bytes | None = None
        if separator is not None and value is not None:
            key, found, value = value.partition(separator)
            if not found:
                missing = f"line {number} has no key separator {args.key_separator!r}"
                raise bad_input(f"{missing}; the lines before it were sent")
        if value == null:
            value = None
        _produce(producer, number, topic=topic, key=key, value=value, **options)
        if number % poll_every == 0:
            producer.poll(0)
    return number


def _produce(producer: Any, number: int, **record: Any) -> None:
    from confluent_kafka import KafkaException

    while True:
        try:
            producer.produce(**record)
            return
        except BufferError:  # the local queue is full: deliver some first
            producer.poll(0.1)
        except KafkaException as error:
            raise explained(error.args[0], f"line {number}") from error


def _report(args: argparse.Namespace, topic: str, sent: int, deliveries: _Deliveries, seconds: float) -> None:
    if args.json:
        print_json(
            {
                "topic": topic,
                "acks": args.acks,
                "sent": sent,
                "acknowledged": deliveries.acknowledged,
                "failed": deliveries.failed,
                "unknown": deliveries.unknown,
                "errors": dict(deliveries.errors),
                "partitions": [
                    {"partition": partition, "records": records, "first_offset": first, "last_offset": last}
                    for partition, (records, first, last) in sorted(deliveries.partitions.items())
                ],
                "seconds": round(seconds, 3),
            }
        )
        return
    counts = [
        (deliveries.acknowledged, "acknowledged"),
        (deliveries.unacknowledged, "sent without acknowledgement"),
        (deliveries.failed, "not written"),
        (deliveries.unknown, "with unknown outcome"),
    ]
    text = ", ".join(f"{count} {what}" for count, what in counts if count) or "nothing to send"
    print(f"{topic}: {text}", file=sys.stderr)
