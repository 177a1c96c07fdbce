"""`minikafka topic`: create, list, describe, delete, alter; options as kafka-topics has them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from minikafka.cli import arguments
from minikafka.cli.client import REQUEST_TIMEOUT, admin_client, admin_library, kafka_errors
from minikafka.cli.metadata import ClusterMetadata, TopicMetadata, await_metadata, fetch_metadata
from minikafka.cli.output import print_json, print_table, shown_ids
from minikafka.command import exits
from minikafka.command.exits import CommandError, bad_input

_SETTLE_TIMEOUT = 10.0
"""Seconds that `create` and `delete` wait for the brokers to tell the new state; the change itself is made by then."""

_PARTITIONS_MAX = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    create = actions.add_parser(
        "create",
        help="make a topic",
        description="Make a topic.",
        example="minikafka topic create orders --partitions 2 --config min.insync.replicas=2",
    )
    _common(create)
    create.add_argument("--partitions", type=arguments.whole_number(1, _PARTITIONS_MAX), help="default: num.partitions")
    create.add_argument(
        "--replication-factor", type=arguments.whole_number(1, 1000), help="default: default.replication.factor"
    )
    create.add_argument(
        "--replica-assignment",
        type=arguments.replica_assignment,
        metavar="0:1:2,1:2:0",
        help="brokers of each partition, the preferred leader first; instead of the two above",
    )
    _settings(create, "--config")
    create.add_argument("--if-not-exists", action="store_true", help="a topic that exists is fine")

    listing = actions.add_parser(
        "list",
        help="names of topics",
        description="Names of topics, one a line.",
        example="minikafka topic list --exclude-internal",
    )
    _common(listing, topic=False)
    listing.add_argument("--exclude-internal", action="store_true", help="leave out __consumer_offsets and its like")

    describe = actions.add_parser(
        "describe",
        help="partitions, leaders, ISRs, settings",
        description="Describe topics.",
        example="minikafka topic describe orders",
    )
    _common(describe, many=True)
    describe.add_argument("--under-replicated-partitions", action="store_true", help="only those")
    describe.add_argument("--unavailable-partitions", action="store_true", help="only those without a leader")

    delete = actions.add_parser(
        "delete",
        help="delete topics and their records",
        description="Delete topics.",
        example="minikafka topic delete orders",
    )
    _common(delete, many=True)
    delete.add_argument("--if-exists", action="store_true", help="a topic that does not exist is fine")

    alter = actions.add_parser(
        "alter",
        help="add partitions, change settings",
        description="Alter a topic.",
        example="minikafka topic alter orders --config retention.ms=3600000",
    )
    _common(alter)
    alter.add_argument("--partitions", type=arguments.whole_number(1, _PARTITIONS_MAX), help="new total; only more")
    alter.add_argument(
        "--replica-assignment",
        type=arguments.replica_assignment,
        metavar="0:1:2,1:2:0",
        help="brokers of all partitions, with --partitions; those of the old ones are ignored",
    )
    _settings(alter, "--config")
    alter.add_argument("--delete-config", action="append", default=[], metavar="KEY", help="back to the default")


def _common(parser: argparse.ArgumentParser, *, topic: bool = True, many: bool = False) -> None:
    if topic:
        arguments.add_topic(parser, many=many)
    arguments.add_bootstrap(parser)
    arguments.add_json(parser)


def _settings(parser: argparse.ArgumentParser, option: str) -> None:
    parser.add_argument(
        option,
        action="append",
        type=arguments.key_value,
        default=[],
        metavar="KEY=VALUE",
        help="a topic setting, e.g. min.insync.replicas=2 (repeatable)",
    )


def run(args: argparse.Namespace) -> int:
    """Do the action."""
    actions = {"create": _create, "list": _list, "describe": _describe, "delete": _delete, "alter": _alter}
    return actions[args.action](args)


def _create(args: argparse.Namespace) -> int:
    name = arguments.topic_of(args)
    config = arguments.settings(args.config)
    assignment: list[list[int]] | None = args.replica_assignment
    if assignment is not None and (args.partitions is not None or args.replication_factor is not None):
        raise bad_input("--replica-assignment says how many partitions and replicas; leave the other options out")
    admin = admin_client(args)
    options: dict[str, Any] = {"config": config}
    if assignment is not None:
        options |= {"num_partitions": len(assignment), "replica_assignment": assignment}
    else:
        # -1 is the protocol's "as the broker is configured" (KIP-464)
        options |= {"num_partitions": args.partitions or -1, "replication_factor": args.replication_factor or -1}
    created = True
    try:
        with kafka_errors():
            admin.create_topics([admin_library().NewTopic(name, **options)], request_timeout=REQUEST_TIMEOUT)[
                name
            ].result()
    except CommandError as error:
        if not str(error).startswith("TOPIC_ALREADY_EXISTS"):
            raise
        if not args.if_not_exists:
            raise CommandError(exits.NO, f"topic {name} already exists") from error
        created = False
    metadata = await_metadata(
        args.bootstrap, [name], lambda seen: _settled(seen.topic(name)), _SETTLE_TIMEOUT, args.security
    )
    topic = metadata.topic(name)
    partitions = len(topic.partitions) if topic else len(assignment or ()) or args.partitions
    replicas = len(topic.partitions[0].replicas) if topic and topic.partitions else args.replication_factor
    if args.json:
        value = {"topic": name, "created": created, "partitions": partitions, "replication_factor": replicas}
        print_json(value | {"config": config})
    elif created:
        print(f"created topic {name}: {partitions} partition(s), {replicas} replica(s) each")
    else:
        print(f"topic {name} exists: {partitions} partition(s), {replicas} replica(s) each")
    return exits.OK


def _settled(topic: TopicMetadata | None, partitions: int = 1) -> bool:
    if topic is None or len(topic.partitions) < partitions:
        return False
    return not any(partition.offline for partition in topic.partitions)


def _list(args: argparse.Namespace) -> int:
    metadata = fetch_metadata(args.bootstrap, security=args.security)
    topics = [topic for topic in metadata.topics if not (topic.internal and args.exclude_internal)]
    if args.json:
        print_json(
            [
                {
                    "topic": topic.name,
                    "internal": topic.internal,
                    "partitions": len(topic.partitions),
                    "replication_factor": max((len(part.replicas) for part in topic.partitions), default=0),
                }
                for topic in topics
            ]
        )
    else:
        for topic in topics:
            print(topic.name)
    return exits.OK


def _describe(args: argparse.Namespace) -> int:
    names = arguments.topics_of(args)
    metadata = fetch_metadata(args.bootstrap, names or None, security=args.security)
    missing = [name for name in names if metadata.topic(name) is None]
    if missing:
        raise CommandError(exits.NO, f"no such topic: {', '.join(missing)}")
    configs = _overrides(args, metadata)
    described = []
    for topic in metadata.topics:
        partitions = [
            partition
            for partition in topic.partitions
            if (partition.under_replicated or not args.under_replicated_partitions)
            and (partition.offline or not args.unavailable_partitions)
        ]
        if partitions or not (args.under_replicated_partitions or args.unavailable_partitions):
            described.append(topic._replace(partitions=partitions))
    if args.json:
        print_json([_as_json(topic, configs.get(topic.name, {})) for topic in described])
        return exits.OK
    for topic in described:
        settings = " ".join(f"{key}={value}" for key, value in sorted(configs.get(topic.name, {}).items()))
        title = f"{topic.name}: {len(topic.partitions)} partition(s){', ' + settings if settings else ''}"
        rows = [
            (
                partition.number,
                None if partition.offline else partition.leader,
                None if partition.leader_epoch < 0 else partition.leader_epoch,
                shown_ids(partition.replicas),
                shown_ids(partition.isr),
                "offline" if partition.offline else "under-replicated" if partition.under_replicated else "",
            )
            for partition in topic.partitions
        ]
        print_table(("#partition", "#leader", "#leader epoch", "replicas", "ISR", ""), rows, title=title)
    return exits.OK


def _as_json(topic: TopicMetadata, config: Mapping[str, str]) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "internal": topic.internal,
        "config": dict(config),
        "partitions": [
            {
                "partition": partition.number,
                "leader": None if partition.offline else partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replicas": partition.replicas,
                "isr": partition.isr,
            }
            for partition in topic.partitions
        ],
    }


def _overrides(args: argparse.Namespace, metadata: ClusterMetadata) -> dict[str, dict[str, str]]:
    """Return what was set on each topic itself."""
    names = [topic.name for topic in metadata.topics if not topic.error]
    if not names:
        return {}
    admin = admin_client(args)
    library = admin_library()
    resources = [library.ConfigResource(library.ResourceType.TOPIC, name) for name in names]
    overrides = {}
    with kafka_errors():
        for resource, future in admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT).items():
            overrides[resource.name] = {
                entry.name: entry.value
                for entry in future.result().values()
                if entry.source == library.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
            }
    return overrides


def _delete(args: argparse.Namespace) -> int:
    names = arguments.topics_of(args)
    if not names:
        raise bad_input("which topic?")
    missing = [
        name for name in names if fetch_metadata(args.bootstrap, [name], security=args.security).topic(name) is None
    ]
    if missing and not args.if_exists:
        raise CommandError(exits.NO, f"no such topic: {', '.join(missing)} (nothing was deleted)")
    present = [name for name in names if name not in missing]
    if present:
        admin = admin_client(args)
        with kafka_errors():
            for future in admin.delete_topics(present, request_timeout=REQUEST_TIMEOUT).values():
                future.result()
        await_metadata(
            args.bootstrap, present, lambda seen: not any(map(seen.topic, present)), _SETTLE_TIMEOUT, args.security
        )
    if args.json:
        print_json({"deleted": present})
    else:
        for name in present:
            print(f"deleted topic {name}")
    return exits.OK


def _alter(args: argparse.Namespace) -> int:
    name = arguments.topic_of(args)
    config = arguments.settings(args.config)
    if args.partitions is None and not config and not args.delete_config:
        raise bad_input("nothing to alter: --partitions, --config or --delete-config")
    if args.replica_assignment is not None and len(args.replica_assignment) != args.partitions:
        raise bad_input("--replica-assignment needs --partitions with the number of partitions that it names")
    both = sorted(set(config) & set(args.delete_config))
    if both:
        raise bad_input(f"{both[0]} is both set and deleted")
    topic = fetch_metadata(args.bootstrap, [name], security=args.security).topic(name)
    if topic is None:
        raise CommandError(exits.NO, f"no such topic: {name}")
    before = len(topic.partitions)
    if args.partitions is not None and args.partitions <= before:
        raise bad_input(f"--partitions: {name} has {before} already; partitions can only be added")
    admin = admin_client(args)
    if (
        config or args.delete_config
    ):  # first, since the brokers may refuse a setting, and more partitions cannot be undone
        _alter_config(admin, name, config, args.delete_config)
    if args.partitions is not None:
        added = (args.replica_assignment or [])[before:]
        options = {"replica_assignment": added} if added else {}
        new = admin_library().NewPartitions(name, args.partitions, **options)
        with kafka_errors():
            futures = admin.create_partitions([new], request_timeout=REQUEST_TIMEOUT)
            futures[name].result()
        await_metadata(
            args.bootstrap,
            [name],
            lambda seen: _settled(seen.topic(name), args.partitions),
            _SETTLE_TIMEOUT,
            args.security,
        )
    if args.json:
        print_json(
            {"topic": name, "partitions": args.partitions or before, "set": config, "deleted": args.delete_config}
        )
    else:
        print(f"altered topic {name}")
    return exits.OK


def _alter_config(admin: Any, name: str, config: Mapping[str, str], deleted: list[str]) -> None:
    library = admin_library()
    operation = library.AlterConfigOpType
    entries = [
        library.ConfigEntry(key, value, incremental_operation=operation.SET) for key, value in config.items()
    ] + [library.ConfigEntry(key, None, incremental_operation=operation.DELETE) for key in deleted]
    resource = library.ConfigResource(library.ResourceType.TOPIC, name, incremental_configs=entries)
    with kafka_errors():
        for future in admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT).values():
            future.result()
