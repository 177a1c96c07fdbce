"""`minikafka status`: brokers, controller, and every replica of every partition, side by side."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from minikafka.cli import arguments
from minikafka.cli.metadata import BrokerMetadata, ClusterMetadata, PartitionMetadata, TopicMetadata, fetch_metadata
from minikafka.cli.output import new_table, print_json, print_rich, shown, shown_ids
from minikafka.cli.scrape import NO_METRICS, Page, Replica, best, scrape_all
from minikafka.command import exits
from minikafka.command.exits import CommandError

_SCRAPE_TIMEOUT = 3.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    arguments.add_topic(parser, many=True)
    arguments.add_bootstrap(parser)
    arguments.add_json(parser)
    parser.add_argument("--internal", action="store_true", help="also list the partitions of internal topics")
    parser.add_argument("--check", action="store_true", help="exit code 1 unless every partition is fully replicated")


def run(args: argparse.Namespace) -> int:
    """Print the cluster; exit code 1 for a topic that is not there, and with --check for an unhealthy cluster."""
    names = arguments.topics_of(args)
    metadata = fetch_metadata(args.bootstrap, names or None, security=args.security)
    missing = [name for name in names if metadata.topic(name) is None]
    if missing:
        raise CommandError(exits.NO, f"no such topic: {', '.join(missing)}")
    pages = scrape_all([*metadata.brokers, *metadata.fenced], _SCRAPE_TIMEOUT, args.security)
    if args.json:
        print_json(_as_json(metadata, pages))
    else:
        _print(metadata, pages, internal=args.internal or bool(names))
    return exits.NO if args.check and not _healthy(metadata) else exits.OK


def _healthy(metadata: ClusterMetadata) -> bool:
    return not any(_ill(partition) for topic in metadata.topics for partition in topic.partitions)


def _ill(partition: PartitionMetadata) -> bool:
    return partition.offline or partition.under_replicated


def _known_brokers(metadata: ClusterMetadata) -> list[int]:
    """Ids of the brokers that are registered, and of those that some partition is assigned to."""
    ids = set(_by_id(metadata))
    for topic in metadata.topics:
        for partition in topic.partitions:
            ids.update(partition.replicas)
    return sorted(ids)


def _as_json(metadata: ClusterMetadata, pages: dict[int, Page]) -> dict[str, Any]:
    known = _by_id(metadata)
    live = {broker.id for broker in metadata.brokers}
    partitions = [
        _partition_as_json(topic, partition, pages) for topic in metadata.topics for partition in topic.partitions
    ]
    return {
        "cluster_id": metadata.cluster_id,
        "controller": None if metadata.controller < 0 else metadata.controller,
        "healthy": _healthy(metadata),
        "offline_partitions": sum(one["offline"] for one in partitions),
        "under_replicated_partitions": sum(one["under_replicated"] for one in partitions),
        "brokers": [
            _broker_as_json(broker, known.get(broker), pages.get(broker), alive=broker in live)
            for broker in _known_brokers(metadata)
        ],
        "partitions": partitions,
    }


def _by_id(metadata: ClusterMetadata) -> dict[int, BrokerMetadata]:
    return {broker.id: broker for broker in (*metadata.fenced, *metadata.brokers)}


def _is_down(page: Page | None) -> bool:
    """Whether nothing is at a fenced broker's address; what answers, or hangs, is fenced only."""
    return page is None or page.refused


def _broker_as_json(broker: int, known: BrokerMetadata | None, page: Page | None, *, alive: bool) -> dict[str, Any]:
    return {
        "id": broker,
        "alive": alive,
        "fenced": not alive and not _is_down(page),
        "host": known.host if known else None,
        "port": known.port if known else None,
        "rack": known.rack if known else None,
        "metrics_port": page.port if page else None,
        "error": page.error if page else "is not in the cluster's metadata",
    }


def _partition_as_json(topic: TopicMetadata, partition: PartitionMetadata, pages: dict[int, Page]) -> dict[str, Any]:
    place = (topic.name, partition.number)
    return {
        "topic": topic.name,
        "partition": partition.number,
        "internal": topic.internal,
        "leader": None if partition.offline else partition.leader,
        "leader_epoch": None if partition.leader_epoch < 0 else partition.leader_epoch,
        "partition_epoch": best(pages, place, partition.leader).partition_epoch,
        "isr": partition.isr,
        "offline": partition.offline,
        "under_replicated": partition.under_replicated,
        "replicas": [
            {
                "broker": broker,
                "role": _role(partition, broker),
                "in_isr": broker in partition.isr,
                "leo": replica.leo,
                "hw": replica.hw,
                "flushed": replica.flushed,
                "log_start_offset": replica.start,
                "leader_epoch": replica.leader_epoch,
            }
            for broker, replica in _replicas(partition, pages, place)
        ],
    }


def _replicas(
    partition: PartitionMetadata, pages: dict[int, Page], place: tuple[str, int]
) -> Iterable[tuple[int, Replica]]:
    for broker in partition.replicas:
        page = pages.get(broker)
        yield broker, page.replicas.get(place, Replica()) if page else Replica()


def _role(partition: PartitionMetadata, broker: int) -> str:
    return "leader" if broker == partition.leader else "follower"


def _print(metadata: ClusterMetadata, pages: dict[int, Page], *, internal: bool) -> None:
    from rich.text import Text

    controller = "none" if metadata.controller < 0 else str(metadata.controller)
    print_rich(f"cluster {metadata.cluster_id}, controller {controller}", _broker_table(metadata, pages))
    listed = [
        (topic, partition)
        for topic in metadata.topics
        for partition in topic.partitions
        if internal or not topic.internal
    ]
    if listed:
        print_rich(_partition_table(listed, pages))
    hidden = [topic for topic in metadata.topics if topic.internal and not internal]
    left_out = [partition for topic in hidden for partition in topic.partitions]
    if hidden:
        print_rich(f"not shown: {', '.join(topic.name for topic in hidden)} (--internal): {_summary(left_out)}")
    words = _summary([partition for _, partition in listed])
    if _healthy(metadata):
        print_rich(Text(f"healthy: {words}", style="green"))
    elif any(_ill(partition) for _, partition in listed):
        print_rich(Text(f"unhealthy: {words}", style="bold red"))
    else:
        print_rich(Text(f"unhealthy: what is not shown; else {words}", style="bold red"))


def _summary(partitions: Sequence[PartitionMetadata]) -> str:
    """How these are: what is counted is what is told of."""
    if not any(_ill(partition) for partition in partitions):
        return f"{len(partitions)} partition(s), all in sync"
    offline = sum(partition.offline for partition in partitions)
    under = sum(partition.under_replicated for partition in partitions)
    return f"{offline} offline, {under} under-replicated of {len(partitions)}"


def _broker_table(metadata: ClusterMetadata, pages: dict[int, Page]) -> Any:
    table = new_table(("#broker", "address", "rack", "#metrics", "state"))
    known = _by_id(metadata)
    live = {broker.id for broker in metadata.brokers}
    for number in _known_brokers(metadata):
        broker, page = known.get(number), pages.get(number)
        if broker is None or (number not in live and _is_down(page)):
            table.add_row(str(number), "-", "-", "-", "down", style="red")
            continue
        state = "up" if number in live else "fenced"
        if number == metadata.controller:
            state += ", controller"
        if page is not None and page.error is not None:
            state += f"; {page.error}"
        port = str(page.port) if page and page.port else "-"
        ill = number not in live or (page and page.error not in (None, NO_METRICS))
        style = "yellow" if ill else None
        table.add_row(str(number), f"{broker.host}:{broker.port}", broker.rack or "-", port, state, style=style)
    return table


def _partition_table(listed: list[tuple[TopicMetadata, PartitionMetadata]], pages: dict[int, Page]) -> Any:
    table = new_table(("partition", "#leader", "#epoch", "#p.epoch", "ISR", "replica", "#LEO", "#HW", "#flushed"))
    for topic, partition in listed:
        place = (topic.name, partition.number)
        first = [
            f"{topic.name}-{partition.number}",
            "none" if partition.offline else str(partition.leader),
            shown(partition.leader_epoch if partition.leader_epoch >= 0 else None),
            shown(best(pages, place, partition.leader).partition_epoch),
            shown_ids(partition.isr) or "-",
        ]
        for broker, replica in _replicas(partition, pages, place):
            out = broker not in partition.isr
            standing = "leader" if broker == partition.leader else "out of sync" if out else "in sync"
            cells = [f"{broker} {standing}", shown(replica.leo), shown(replica.hw), shown(replica.flushed)]
            ill = "bold red" if partition.offline else "yellow" if out or (first[0] and _ill(partition)) else None
            table.add_row(*first, *cells, style=ill)
            first = [""] * len(first)
    return table
