"""`minikafka groups`: list, describe, reset-offsets, delete; options as kafka-consumer-groups has them."""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

from minikafka.cli import arguments
from minikafka.cli.client import REQUEST_TIMEOUT, admin_client, admin_library, explained, kafka_errors
from minikafka.cli.metadata import fetch_metadata
from minikafka.cli.output import print_json, print_table
from minikafka.command import exits
from minikafka.command.exits import CommandError, bad_input

_NO_OFFSET = -1001


class PartitionOffset(NamedTuple):
    """A group's place in a partition; ``committed`` is None where it has none, ``end`` where it cannot be told."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    member: str | None = None

    @property
    def lag(self) -> int | None:
        """Records between the two."""
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    listing = actions.add_parser(
        "list", help="groups and their states", description="Groups and their states.", example="minikafka groups list"
    )
    _common(listing, group=False)

    describe = actions.add_parser(
        "describe",
        help="members, offsets, lag",
        description="Members, offsets and lag.",
        example="minikafka groups describe billing",
    )
    _common(describe)

    reset = actions.add_parser(
        "reset-offsets",
        help="move a group to another place",
        description="Move a group without members to another place in its partitions; only shown, unless --execute.",
        example="minikafka groups reset-offsets billing --topic orders --to-earliest --execute",
    )
    _common(reset)
    reset.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC[:0,1]",
        help="this topic, or these partitions (repeatable)",
    )
    reset.add_argument("--all-topics", action="store_true", help="every topic that the group has offsets in")
    where = reset.add_mutually_exclusive_group(required=True)
    where.add_argument("--to-earliest", action="store_true")
    where.add_argument("--to-latest", action="store_true")
    where.add_argument("--to-offset", type=arguments.whole_number(0), metavar="N", help="kept within what the log has")
    where.add_argument("--to-datetime", type=arguments.moment, metavar="ISO", help="first record of that time (UTC)")
    where.add_argument(
        "--by-duration", type=arguments.duration, metavar="PnDTnHnMnS", help="first record of so long ago"
    )
    where.add_argument("--shift-by", type=arguments.whole_number(-(2**63)), metavar="N", help="N on, or -N back")
    doing = reset.add_mutually_exclusive_group()
    doing.add_argument("--dry-run", action="store_true", help="only show it (default)")
    doing.add_argument("--execute", action="store_true", help="do it")

    delete = actions.add_parser(
        "delete",
        help="forget a group and its offsets",
        description="Forget a group.",
        example="minikafka groups delete billing",
    )
    _common(delete)


def _common(parser: argparse.ArgumentParser, *, group: bool = True) -> None:
    if group:
        parser.add_argument("group", nargs="?", metavar="GROUP", help="the group's name")
        parser.add_argument("--group", dest="group_option", help=argparse.SUPPRESS)
    arguments.add_bootstrap(parser)
    arguments.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Do the action."""
    actions = {"list": _list, "describe": _describe, "reset-offsets": _reset, "delete": _delete}
    return actions[args.action](args)


def _group(args: argparse.Namespace) -> str:
    names = {name for name in (args.group, args.group_option) if name}
    if len(names) != 1:
        raise bad_input("which group?" if not names else f"takes one group, not {' and '.join(sorted(names))}")
    return str(names.pop())


def _list(args: argparse.Namespace) -> int:
    admin = admin_client(args)
    with kafka_errors():
        answer = admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT).result()
    if answer.errors and not answer.valid:
        raise explained(answer.errors[0].args[0])
    groups = sorted((listing.group_id, _state(listing.state)) for listing in answer.valid)
    if args.json:
        print_json([{"group": name, "state": state} for name, state in groups])
    elif groups:
        print_table(("group", "state"), groups)
    return exits.OK


def _state(state: Any) -> str:
    """Kafka's own spelling: PreparingRebalance for PREPARING_REBALANCING."""
    names = {"PREPARING_REBALANCING": "PreparingRebalance", "COMPLETING_REBALANCING": "CompletingRebalance"}
    return names.get(state.name) or str(state.name).title()


def _describe(args: argparse.Namespace) -> int:
    name = _group(args)
    admin = admin_client(args)
    group = _described(admin, name)
    offsets = _offsets(admin, name)
    owners = {
        (assigned.topic, assigned.partition): member.member_id
        for member in group.members
        for assigned in (member.assignment.topic_partitions if member.assignment else ())
    }
    for place in owners.keys() - offsets.keys():
        offsets[place] = None
    if _state(group.state) == "Dead":
        raise CommandError(exits.NO, f"no such group: {name}")
    ends = _ends(admin, list(offsets))
    rows = [PartitionOffset(*place, offsets[place], ends.get(place), owners.get(place)) for place in sorted(offsets)]
    if args.json:
        print_json(_as_json(group, rows))
        return exits.OK
    coordinator = group.coordinator.id if group.coordinator else None
    print(f"group {name}: {_state(group.state)}, {len(group.members)} member(s), coordinator {coordinator}")
    cells = [(row.topic, row.partition, row.committed, row.end, row.lag, row.member) for row in rows]
    if cells:
        print_table(("topic", "#partition", "#committed", "#end", "#lag", "member"), cells)
    if group.members:
        members = [(member.member_id, member.client_id, member.host, _count(member)) for member in group.members]
        print_table(("member", "client", "host", "#partitions"), members)
    return exits.OK


def _count(member: Any) -> int:
    return len(member.assignment.topic_partitions) if member.assignment else 0


def _as_json(group: Any, rows: list[PartitionOffset]) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": _state(group.state),
        "coordinator": group.coordinator.id if group.coordinator else None,
        "assignor": group.partition_assignor or None,
        "partitions": [
            {
                "topic": row.topic,
                "partition": row.partition,
                "committed": row.committed,
                "end": row.end,
                "lag": row.lag,
                "member": row.member,
            }
            for row in rows
        ],
        "members": [
            {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "host": member.host,
                "partitions": [
                    {"topic": assigned.topic, "partition": assigned.partition}
                    for assigned in (member.assignment.topic_partitions if member.assignment else ())
                ],
            }
            for member in group.members
        ],
    }


def _described(admin: Any, name: str) -> Any:
    try:
        with kafka_errors():
            return admin.describe_consumer_groups([name], request_timeout=REQUEST_TIMEOUT)[name].result()
    except CommandError as error:
        if str(error).startswith("GROUP_ID_NOT_FOUND"):  # Kafka 4 says so; before, such a group is Dead
            raise CommandError(exits.NO, f"no such group: {name}") from error
        raise


def _offsets(admin: Any, name: str) -> dict[tuple[str, int], int | None]:
    """The committed offsets of a group, by topic and partition."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    with kafka_errors():
        future = admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name)], request_timeout=REQUEST_TIMEOUT
        )[name]
        committed = future.result().topic_partitions
    return {(one.topic, one.partition): one.offset if one.offset >= 0 else None for one in committed}


def _ends(admin: Any, places: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Return where each partition ends; a partition that cannot say (deleted, offline) is left out."""
    return _listed(admin, places, admin_library().OffsetSpec.latest())


def _listed(admin: Any, places: list[tuple[str, int]], spec: Any) -> dict[tuple[str, int], int]:
    from confluent_kafka import KafkaException, TopicPartition

    if not places:
        return {}
    futures = admin.list_offsets({TopicPartition(*place): spec for place in places}, request_timeout=REQUEST_TIMEOUT)
    found = {}
    for partition, future in futures.items():
        try:
            found[partition.topic, partition.partition] = int(future.result().offset)
        except KafkaException:
            continue
    return found


def _reset(args: argparse.Namespace) -> int:
    name = _group(args)
    wanted = [_topic_partitions(text) for text in args.topic]
    if bool(wanted) == args.all_topics:
        raise bad_input("which topics? --topic or --all-topics")
    admin = admin_client(args)
    offsets = _offsets(admin, name)
    places = _places(args, wanted) if wanted else sorted(offsets)
    if not places:
        raise CommandError(exits.NO, f"group {name} has no offsets in any topic")
    targets = _targets(admin, args, places, offsets)
    rows = [
        (topic, partition, offsets.get((topic, partition)), targets[topic, partition]) for topic, partition in places
    ]
    if args.execute:
        _require_no_members(admin, name)
        _commit(admin, name, targets)
    if args.json:
        moved = [{"topic": t, "partition": p, "from": before, "to": after} for t, p, before, after in rows]
        print_json({"group": name, "executed": args.execute, "partitions": moved})
        return exits.OK
    print_table(("topic", "#partition", "#from", "#to"), rows)
    print(f"group {name} was moved" if args.execute else "nothing was changed: --execute does it")
    return exits.OK


def _require_no_members(admin: Any, name: str) -> None:
    try:
        group = _described(admin, name)
    except CommandError as error:
        if error.code == exits.NO:  # a group that does not exist yet may be given offsets
            return
        raise
    if group.members:
        raise CommandError(
            exits.NO, f"group {name} has {len(group.members)} member(s); it can be moved when they have left"
        )


def _topic_partitions(text: str) -> tuple[str, list[int] | None]:
    topic, separator, numbers = text.partition(":")
    try:
        arguments.topic_name(topic)
        partitions = [int(number) for number in numbers.split(",")] if separator else None
    except (argparse.ArgumentTypeError, ValueError):
        raise bad_input(f"--topic: {text!r} is not TOPIC or TOPIC:0,1,...") from None
    return topic, partitions


def _places(args: argparse.Namespace, wanted: list[tuple[str, list[int] | None]]) -> list[tuple[str, int]]:
    # not librdkafka's admin client: it lets brokers create the topics that it asks about
    metadata = fetch_metadata(args.bootstrap, sorted({topic for topic, _ in wanted}), security=args.security)
    places = []
    for topic, chosen in wanted:
        described = metadata.topic(topic)
        if described is None:
            raise CommandError(exits.NO, f"no such topic: {topic}")
        there = [partition.number for partition in described.partitions]
        for partition in chosen or ():
            if partition not in there:
                raise bad_input(f"--topic: {topic} has partitions 0 to {len(there) - 1}, not {partition}")
        places += [(topic, partition) for partition in chosen or there]
    return sorted(set(places))


def _targets(
    admin: Any, args: argparse.Namespace, places: list[tuple[str, int]], offsets: dict[tuple[str, int], int | None]
) -> dict[tuple[str, int], int]:
    """Return where to move to; :class:`CommandError` when some partition cannot say."""
    spec = admin_library().OffsetSpec
    starts = _listed(admin, places, spec.earliest())
    ends = _listed(admin, places, spec.latest())
    silent = [place for place in places if place not in starts or place not in ends]
    if silent:
        raise CommandError(exits.UNKNOWN, "{}-{} does not tell its offsets: offline or deleted?".format(*silent[0]))
    if args.to_earliest:
        return starts
    if args.to_latest:
        return ends
    if args.to_offset is not None:
        return {place: _within(args.to_offset, starts[place], ends[place]) for place in places}
    if args.shift_by is not None:
        return {
            place: _within(_committed(offsets, place) + args.shift_by, starts[place], ends[place]) for place in places
        }
    moment = args.to_datetime if args.by_duration is None else max(0, round(time.time() * 1000) - args.by_duration)
    found = _listed(admin, places, spec.for_timestamp(moment))
    # no record so late: the end, as kafka-consumer-groups does
    return {place: found[place] if found.get(place, -1) >= 0 else ends[place] for place in places}


def _within(offset: int, start: int, end: int) -> int:
    return min(max(offset, start), end)


def _committed(offsets: dict[tuple[str, int], int | None], place: tuple[str, int]) -> int:
    offset = offsets.get(place)
    if offset is None:
        raise CommandError(exits.NO, "--shift-by: the group has no offset in {}-{}".format(*place))
    return offset


def _commit(admin: Any, name: str, targets: dict[tuple[str, int], int]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    wanted = [TopicPartition(*place, offset) for place, offset in targets.items()]
    with kafka_errors():
        future = admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name, wanted)], request_timeout=REQUEST_TIMEOUT
        )[name]
        answer = future.result().topic_partitions
    for partition in answer:
        if partition.error is not None:
            raise explained(partition.error, f"{partition.topic}-{partition.partition}")


def _delete(args: argparse.Namespace) -> int:
    name = _group(args)
    admin = admin_client(args)
    try:
        with kafka_errors():
            admin.delete_consumer_groups([name], request_timeout=REQUEST_TIMEOUT)[name].result()
    except CommandError as error:
        if str(error).startswith("GROUP_ID_NOT_FOUND"):
            raise CommandError(exits.NO, f"no such group: {name}") from error
        if str(error).startswith("NON_EMPTY_GROUP"):
            raise CommandError(exits.NO, f"group {name} has members; it can be deleted when they have left") from error
        raise
    if args.json:
        print_json({"deleted": name})
    else:
        print(f"deleted group {name}")
    return exits.OK
