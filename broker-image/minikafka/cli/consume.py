"""`minikafka consume`: records out, one a line, from a place in the log or as a member of a group."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from minikafka.cli import arguments
from minikafka.cli.client import (
    REQUEST_TIMEOUT,
    configuration,
    configuration_errors,
    explained,
    kafka_errors,
    require_broker,
)
from minikafka.cli.output import text_or_base64
from minikafka.client.watermarks import watermark_offsets
from minikafka.command import exits
from minikafka.command.exits import CommandError, bad_input

_BATCH_MAX = 1000
_COMMIT_SECONDS = 5.0
_JOIN_TIMEOUT = 60.0
_POLL_SECONDS = 0.2
"""How long one poll waits, and so how late Ctrl-C and the time limit may be noticed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    arguments.add_topic(parser, many=True)
    arguments.add_bootstrap(parser)
    arguments.add_json(parser)
    parser.add_argument("--group", help="be a member of this consumer group: partitions are shared, offsets committed")
    parser.add_argument("--no-commit", action="store_true", help="with --group: do not commit what was read")
    start = parser.add_mutually_exclusive_group()
    start.add_argument(
        "--from-beginning", action="store_true", help="with --group: only where the group has no offset committed"
    )
    start.add_argument(
        "--offset",
        type=_offset,
        metavar="N|-N|earliest|latest",
        help="start at N, or N before the end (default latest)",
    )
    start.add_argument(
        "--timestamp", type=arguments.whole_number(0), metavar="MS", help="start at the first record of that unix time"
    )
    start.add_argument(
        "--from-time", type=arguments.moment, dest="timestamp", metavar="ISO", help="the same as a date and time (UTC)"
    )
    parser.add_argument(
        "--partition",
        action="append",
        type=arguments.whole_number(0, 2**31 - 1),
        help="only this one (repeatable); default all",
    )
    parser.add_argument("--max-messages", type=arguments.whole_number(1), metavar="N", help="stop after N records")
    parser.add_argument(
        "--timeout", type=arguments.seconds, metavar="SECONDS", help="stop when no record came for so long"
    )
    parser.add_argument("--until-end", action="store_true", help="stop at the end of every partition")
    parser.add_argument("--isolation", choices=("read_committed", "read_uncommitted"), default="read_committed")
    parser.add_argument("--key-separator", metavar="TEXT", help="print KEY TEXT VALUE")
    parser.add_argument("--null-marker", default="", metavar="TEXT", help="what stands for a null key or value")


def _offset(text: str) -> int | str:
    if text in ("earliest", "latest"):
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an offset, -N for N before the end, earliest or latest"
        ) from None


def run(args: argparse.Namespace) -> int:
    """Print records until a limit is met or Ctrl-C."""
    topics = arguments.topics_of(args)
    if not topics:
        raise bad_input("which topic?")
    if args.group is not None:
        _check_group_options(args)
    elif args.no_commit:
        raise bad_input("--no-commit needs --group")
    require_broker(args.bootstrap, args.security)
    from confluent_kafka import Consumer

    reset = "earliest" if args.from_beginning else "latest" if args.group is not None else "error"
    with configuration_errors():
        consumer = Consumer(
            configuration(
                args,
                # librdkafka wants a name even for a consumer that is no member of any group and commits nothing
                group_id=args.group or "minikafka-consume",
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                enable_partition_eof=args.until_end,
                auto_offset_reset=reset,
                isolation_level=args.isolation,
                # Requests on a connection are answered in turn: a partition that joins in later, after its offset was
                # looked up, waits behind every fetch that has nothing to return. Half a second each would be felt.
                fetch_wait_max_ms=100,
            )
        )
    try:
        partitions = _partitions(consumer, topics, args.partition)
        if args.group is not None:
            # what was printed must be committed before another member gets the partition
            consumer.subscribe(topics, on_revoke=lambda member, _: _commit_if_ours(member, args))
        else:
            with kafka_errors():
                consumer.assign(_starting_points(consumer, args, partitions))
        _print_records(consumer, args, len(partitions))
    finally:
        consumer.close()
    return exits.OK


def _check_group_options(args: argparse.Namespace) -> None:
    if not args.group:
        raise bad_input("--group: an empty name")
    for option in ("offset", "timestamp", "partition"):
        if getattr(args, option) is not None:
            name = "from-time or --timestamp" if option == "timestamp" else option
            raise bad_input(f"--{name} does not go with --group: use `minikafka groups reset-offsets`")


def _partitions(consumer: Any, topics: list[str], chosen: list[int] | None) -> list[tuple[str, int]]:
    found = []
    for topic in topics:
        with kafka_errors():
            described = consumer.list_topics(topic, timeout=REQUEST_TIMEOUT).topics[topic]
        if described.error is not None:
            if described.error.name() == "UNKNOWN_TOPIC_OR_PART":
                raise CommandError(exits.NO, f"no such topic: {topic}")
            raise explained(described.error, f"topic {topic}")
        for partition in chosen or ():
            if partition not in described.partitions:
                last = len(described.partitions) - 1
                raise bad_input(f"--partition: topic {topic} has partitions 0 to {last}, not {partition}")
        found += [(topic, partition) for partition in sorted(chosen or described.partitions)]
    return found


def _starting_points(consumer: Any, args: argparse.Namespace, partitions: list[tuple[str, int]]) -> list[Any]:
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

    if args.timestamp is not None:
        wanted = [TopicPartition(topic, partition, args.timestamp) for topic, partition in partitions]
        found = consumer.offsets_for_times(wanted, timeout=REQUEST_TIMEOUT)
        for point in found:
            if point.error is not None:
                raise explained(point.error, f"{point.topic}-{point.partition}")
        return list(found)
    if isinstance(args.offset, int):
        return [
            TopicPartition(topic, partition, _absolute(consumer, topic, partition, args.offset))
            for topic, partition in partitions
        ]
    from_start = args.from_beginning or args.offset == "earliest"
    return [
        TopicPartition(topic, partition, OFFSET_BEGINNING if from_start else OFFSET_END)
        for topic, partition in partitions
    ]


def _absolute(consumer: Any, topic: str, partition: int, offset: int) -> int:
    low, high = watermark_offsets(consumer, topic, partition, REQUEST_TIMEOUT)
    if offset < 0:
        return int(max(low, high + offset))
    if not low <= offset <= high:
        raise CommandError(exits.NO, f"--offset: {topic}-{partition} has offsets {low} to {high}, not {offset}")
    return offset


def _print_records(consumer: Any, args: argparse.Namespace, partitions: int) -> None:
    """Until --max-messages, --timeout or --until-end; with a group, what was printed is committed, and nothing else."""
    out = sys.stdout.buffer
    line = _json_line if args.json else _text_line(args.key_separator, args.null_marker)
    left = args.max_messages
    ended: set[tuple[str, int]] = set()
    commits = _Commits(consumer, enabled=args.group is not None and not args.no_commit)
    idle_since = time.monotonic()
    waiting_to_join = args.group is not None and args.timeout is not None
    try:
        while left is None or left > 0:
            last: dict[tuple[str, int], Any] = {}
            printed = 0
            for message in _poll(consumer, _BATCH_MAX if left is None else min(left, _BATCH_MAX)):
                place = (message.topic(), message.partition())
                error = message.error()
                if error is None:
                    out.write(line(message))
                    ended.discard(place)
                    last[place] = message
                    printed += 1
                elif error.name() == "_PARTITION_EOF":
                    ended.add(place)
                else:
                    out.flush()
                    _raise_unless_transient(error, place)
            if printed:
                out.flush()
                commits.printed(last.values())
                idle_since = time.monotonic()
                left = None if left is None else left - printed
            commits.tick(idle=not printed)
            if args.until_end and _all_ended(consumer, args, ended, partitions):
                break
            if waiting_to_join and not consumer.assignment():
                # joining a group takes its time, and says nothing about whether records are there
                if time.monotonic() - idle_since > _JOIN_TIMEOUT:
                    raise CommandError(exits.UNKNOWN, f"group {args.group} gave no partition in {_JOIN_TIMEOUT:g} s")
                continue
            if waiting_to_join:
                waiting_to_join, idle_since = False, time.monotonic()
            if args.timeout is not None and time.monotonic() - idle_since >= args.timeout:
                break
    finally:
        commits.now()


class _Commits:
    """Commits of a group's offsets: of records whose lines have left this process, when idle or every few seconds."""

    def __init__(self, consumer: Any, *, enabled: bool) -> None:
        self._consumer = consumer
        self._enabled = enabled
        self._pending_since: float | None = None

    def printed(self, last: Iterable[Any]) -> None:
        """These records, the last of each partition, and all before them are out."""
        if self._enabled:
            for message in last:
                self._consumer.store_offsets(message)
            if self._pending_since is None:
                self._pending_since = time.monotonic()

    def tick(self, *, idle: bool) -> None:
        """Commit in the background when nothing more comes just now, or for long enough."""
        if self._pending_since is not None and (idle or time.monotonic() - self._pending_since > _COMMIT_SECONDS):
            self._pending_since = None
            _commit(self._consumer, asynchronous=True)

    def now(self) -> None:
        """Commit, and wait for it."""
        if self._enabled:
            self._pending_since = None
            _commit(self._consumer, asynchronous=False)


def _poll(consumer: Any, most: int) -> Iterator[Any]:
    """Return what there is, at most so many; waits for the first. ``consume(n)`` alone would wait for all n."""
    first = consumer.poll(_POLL_SECONDS)
    if first is not None:
        yield first
        if most > 1:
            yield from consumer.consume(most - 1, 0)


def _all_ended(consumer: Any, args: argparse.Namespace, ended: set[tuple[str, int]], partitions: int) -> bool:
    if args.group is None:
        return len(ended) == partitions
    mine = {(assigned.topic, assigned.partition) for assigned in consumer.assignment()}
    return bool(mine) and mine <= ended


def _commit_if_ours(consumer: Any, args: argparse.Namespace) -> None:
    if not args.no_commit:
        _commit(consumer, asynchronous=False)


def _commit(consumer: Any, *, asynchronous: bool) -> None:
    from confluent_kafka import KafkaException

    try:
        consumer.commit(asynchronous=asynchronous)
    except KafkaException as error:
        if error.args[0].name() != "_NO_OFFSET":  # nothing new to commit
            raise explained(error.args[0], "commit") from error


def _raise_unless_transient(error: Any, place: tuple[str | None, int]) -> None:
    """librdkafka goes on by itself after errors of connections and leaders; others end the command."""
    if error.name() in ("_ALL_BROKERS_DOWN", "_TRANSPORT", "_TIMED_OUT", "_RESOLVE") or error.retriable():
        return
    where = f"{place[0]}-{place[1]}" if place[0] is not None and place[1] >= 0 else ""
    raise explained(error, where)


def _text_line(separator: str | None, null_marker: str) -> Callable[[Any], bytes]:
    null = null_marker.encode()
    between = None if separator is None else separator.encode()

    def line(message: Any) -> bytes:
        value = message.value()
        text = null if value is None else value
        if between is not None:
            key = message.key()
            text = (null if key is None else key) + between + text
        return bytes(text) + b"\n"

    return line


def _json_line(message: Any) -> bytes:
    import json

    kind, timestamp = message.timestamp()
    headers = message.headers() or []
    record = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp if kind else None,
        "timestamp_type": {1: "CreateTime", 2: "LogAppendTime"}.get(kind),
        "leader_epoch": message.leader_epoch(),
        **text_or_base64("key", message.key()),
        **text_or_base64("value", message.value()),
        "headers": [{"key": key, **text_or_base64("value", value)} for key, value in headers],
    }
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"
