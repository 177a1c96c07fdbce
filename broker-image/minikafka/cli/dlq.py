"""`minikafka dlq`: list and show dead letters (`minikafka.reliability`), and send them back to where they came from."""

from __future__ import annotations

import argparse
import contextlib
import itertools
from collections.abc import Generator, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from minikafka.cli import arguments
from minikafka.cli.client import (
    configuration,
    configuration_errors,
    kafka_errors,
    require_broker,
)
from minikafka.cli.output import print_json, print_table, text_or_base64
from minikafka.command import exits
from minikafka.command.exits import CommandError, bad_input
from minikafka.protocol.types import TopicPartition
from minikafka.reliability.dead_letters import SUFFIX, DeadLetter, NotADeadLetter, dead_letter_topic
from minikafka.reliability.record import ConsumedRecord

VALUE_CHARACTERS_MAX = 60
"""Of a key or value in the table for people; --json has all of it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser(
        "list",
        help="dead-letter topics, and how many wait for a replay",
        description="Dead-letter topics, how many dead letters each has, and how many no replay has come to.",
        example="minikafka dlq list",
    )
    _common(listing, topic=False)
    show = actions.add_parser(
        "show",
        help="dead letters, where they came from and why they are here",
        description="Dead letters of a topic: where they came from, and why they are here.",
        example="minikafka dlq show orders --max-messages 20",
    )
    _common(show)
    _partition(show)
    show.add_argument("--max-messages", type=arguments.whole_number(1), metavar="N", help="stop after N dead letters")
    replay = actions.add_parser(
        "replay",
        help="send dead letters back to where they came from",
        description="Send the dead letters that no replay has come to back to their partitions, with key, value and "
        "headers, in their order; only counted, unless --execute.",
        example="minikafka dlq replay orders --execute",
    )
    _common(replay)
    _partition(replay)
    doing = replay.add_mutually_exclusive_group()
    doing.add_argument("--dry-run", action="store_true", help="only count them (default)")
    doing.add_argument("--execute", action="store_true", help="do it")


def _common(parser: argparse.ArgumentParser, *, topic: bool = True) -> None:
    if topic:
        arguments.add_topic(parser)
    arguments.add_bootstrap(parser)
    arguments.add_json(parser)


def _partition(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--partition", type=arguments.whole_number(0, 2**31 - 1), help="of the dead-letter topic; default all"
    )


def run(args: argparse.Namespace) -> int:
    """Do the action."""
    actions = {"list": _list, "show": _show, "replay": _replay}
    topic = _topic(args) if args.action != "list" else ""
    require_broker(args.bootstrap, args.security)
    return actions[args.action](args, topic)


def _topic(args: argparse.Namespace) -> str:
    """The dead-letter topic of the one that is named, or itself."""
    topic = arguments.topic_of(args)
    return topic if topic.endswith(SUFFIX) else dead_letter_topic(topic)


@contextlib.contextmanager
def _reader(args: argparse.Namespace) -> Iterator[Any]:
    from minikafka.reliability.confluent_reading import PartitionReader

    with configuration_errors():
        reader = PartitionReader(configuration(args))
    try:
        with kafka_errors():
            yield reader
    finally:
        reader.close()


def _list(args: argparse.Namespace, _: str) -> int:
    with _reader(args) as reader:
        topics = sorted(name for name in reader.topics() if name.endswith(SUFFIX))
        rows = [(topic, *_counts(args, reader, topic)) for topic in topics]
    if args.json:
        names = ("topic", "partitions", "dead_letters", "not_replayed")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    elif rows:
        print_table(("topic", "#partitions", "#dead letters", "#not replayed"), rows)
    return exits.OK


def _counts(args: argparse.Namespace, reader: Any, topic: str) -> tuple[int, int, int]:
    """Partitions, dead letters, and how many of these no replay has come to."""
    from minikafka.reliability.replay_group import ReplayGroup

    group = ReplayGroup(configuration(args), topic)
    try:
        spans = [group.span(reader, partition) for partition in group.partitions()]
    finally:
        group.close()
    return len(spans), sum(span.high - span.low for span in spans), sum(span.high - span.start for span in spans)


def _show(args: argparse.Namespace, topic: str) -> int:
    with _reader(args) as reader:
        partitions = reader.topics().get(topic, 0)
        if not partitions:
            raise CommandError(exits.NO, f"no such topic: {topic}")
        if args.partition is not None and args.partition >= partitions:
            raise bad_input(f"--partition: {topic} has partitions 0 to {partitions - 1}, not {args.partition}")
        numbers = range(partitions) if args.partition is None else [args.partition]
        with contextlib.closing(_letters(reader, [TopicPartition(topic, number) for number in numbers])) as found:
            shown = itertools.islice(found, args.max_messages)
            if args.json:
                for letter in shown:
                    print_json(_as_json(letter))
            elif rows := [_as_row(letter) for letter in shown]:
                names = ("from", "#offset", "time (UTC)", "group", "#attempts", "error", "key", "value", "here")
                print_table(names, rows)
    return exits.OK


def _letters(reader: Any, partitions: Iterable[TopicPartition]) -> Generator[ConsumedRecord]:
    """Who takes not all of them has to close this while the reader is open."""
    for partition in partitions:
        yield from reader.records(partition, *reader.bounds(partition))


def _as_row(letter: ConsumedRecord) -> tuple[object, ...]:
    here = f"{letter.partition.partition}:{letter.offset}"
    try:
        dead = DeadLetter.parse(letter)
    except NotADeadLetter as reason:
        return None, None, None, None, None, f"no dead letter: {reason}", _short(letter.key), _short(letter.value), here
    record = dead.record
    origin = (str(record.partition), record.offset, _time(record.timestamp_ms))
    return (
        *origin,
        _printable(dead.group),
        dead.attempts,
        _printable(dead.error),
        _short(record.key),
        _short(record.value),
        here,
    )


def _as_json(letter: ConsumedRecord) -> dict[str, Any]:
    value: dict[str, Any] = {"partition": letter.partition.partition, "offset": letter.offset}
    try:
        dead = DeadLetter.parse(letter)
    except NotADeadLetter as reason:
        return value | {"error": f"no dead letter: {reason}"} | _content(letter)
    record = dead.record
    value["origin"] = {
        "topic": record.topic,
        "partition": record.partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }
    return value | {"group": dead.group, "attempts": dead.attempts, "error": dead.error} | _content(record)


def _content(record: ConsumedRecord) -> dict[str, Any]:
    return {
        **text_or_base64("key", record.key),
        **text_or_base64("value", record.value),
        "headers": [{"key": name, **text_or_base64("value", value)} for name, value in record.headers],
    }


def _time(timestamp_ms: int) -> str | None:
    if timestamp_ms < 0:
        return None
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (OverflowError, OSError, ValueError):  # beyond the year 9999: whoever wrote it meant no time
        return str(timestamp_ms)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def _short(data: bytes | None) -> str | None:
    if data is None:
        return None
    text = _printable(data.decode(errors="backslashreplace"))
    return text if len(text) <= VALUE_CHARACTERS_MAX else text[: VALUE_CHARACTERS_MAX - 1] + "…"


def _replay(args: argparse.Namespace, topic: str) -> int:
    from minikafka.reliability.replay import DeadLetterReplay
    from minikafka.reliability.replay_group import ReplayRefused

    with configuration_errors():
        replay = DeadLetterReplay(configuration(args), topic, args.partition)
    plan: list[Any] = []
    try:
        with kafka_errors():
            if args.execute:
                replay.join()
            plan = replay.plan()
            if args.execute:
                replay.send(plan)
    except ReplayRefused as error:
        raise CommandError(exits.NO, _so_far(str(error), plan)) from error
    except CommandError as error:
        raise CommandError(error.code, _so_far(str(error), plan)) from error
    finally:
        replay.close()
    _report(args, topic, plan)
    return exits.OK


def _so_far(words: str, plan: list[Any]) -> str:
    sent = sum(each.sent for each in plan)
    return f"{words} ({sent} sent until then)" if sent else words


def _report(args: argparse.Namespace, topic: str, plan: list[Any]) -> None:
    rows = [(e.partition.partition, e.start, e.end, e.letters, e.there, e.strange, e.sent) for e in plan]
    if args.json:
        names = ("partition", "from", "to", "dead_letters", "already_there", "no_dead_letters", "sent")
        partitions = [dict(zip(names, row, strict=True)) for row in rows]
        print_json({"topic": topic, "executed": args.execute, "partitions": partitions})
        return
    print_table(("#partition", "#from", "#to", "#dead letters", "#already there", "#no dead letters", "#sent"), rows)
    sent = sum(each.sent for each in plan)
    print(f"{topic}: {sent} sent" if args.execute else "nothing was sent: --execute does it")
