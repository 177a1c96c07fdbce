"""Send the same requests to two clusters, in every version that both advertise, and print where the answers differ.

    python -m tests.interop.compare_answers MINIKAFKA:PORT KAFKA:PORT [--api NAME]

An aid for development, not a test: some differences are fine (Kafka has more configs). It makes one topic on each side,
writes the same three records to it, and leaves it there. Fields whose values cannot be alike (ids, hosts, ports) are
compared by their type only. A line is ``API vVERSION  path: what the first answers | what the second answers``.
"""

from __future__ import annotations

import argparse
import os
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any
from uuid import UUID

from minikafka.protocol import messages
from minikafka.protocol.wire import MalformedRequest

from tests.interop.journey import wait_until
from tests.interop.raw_client import (
    CREATE_TOPICS,
    ConnectionClosed,
    RawConnection,
    api_versions,
    metadata,
    produce_request,
    record_batch,
    request,
)

API_VERSIONS = 18
SAME_TYPE_ONLY = {
    *("throttle_time", "host", "port", "node_id", "broker_id", "cluster_id", "controller_id", "topic_id", "leader_id"),
    *("replica_nodes", "isr_nodes", "producer_id", "session_id", "log_dir", "total_bytes", "usable_bytes", "key"),
    *("error_message", "documentation", "leader", "error_string"),
}
"""Names of fields whose values differ between any two clusters."""
KEYED_BY = ("name", "topic", "partition_index", "partition", "api_key", "group_id", "resource_name", "broker_id", "key")
"""What identifies an element of a list, so that lists in another order are compared element by element."""


class Side:
    """One of the two clusters, with a topic of its own."""

    def __init__(self, address: str, topic: str) -> None:
        self.topic = topic
        with RawConnection(address) as connection:
            self.versions = api_versions(connection)
            creation = {
                "topics": [
                    {"name": topic, "num_partitions": 1, "replication_factor": 3, "assignments": [], "configs": []}
                ],
                "timeout": 10_000,
                "validate_only": False,
            }
            connection.call(request(CREATE_TOPICS, 7, messages.encode_request(CREATE_TOPICS, 7, creation)))

            def has_leader() -> bool:
                seen = metadata(connection, [topic]).topics[topic]
                return bool(seen) and seen[0].leader >= 0 and len(seen[0].in_sync) == 3

            wait_until(has_leader, f"{topic} at {address}")
            self.leader = metadata(connection, [topic]).leader_address(topic, 0)
        with RawConnection(self.leader) as connection:
            for timestamp in (1_700_000_000_000, 1_700_000_001_000, 1_700_000_000_500):
                connection.call(produce_request(topic, 0, record_batch([b"value"], timestamp_ms=timestamp)))
            described = self.ask(3, 12, {"topics": [{"topic_id": None, "name": topic}]})
        self.topic_id = described.topics[0].topic_id

    def ask(self, api_key: int, version: int, values: Mapping[str, Any]) -> Any:
        """The decoded answer, or what went wrong instead of one, as a string."""
        body = messages.encode_request(api_key, version, values)
        flexible = messages.is_flexible(api_key, version)
        with RawConnection(self.leader, 10.0) as connection:  # some versions get no answer at all
            try:
                response = connection.call(request(api_key, version, body, flexible=flexible))
            except (ConnectionClosed, TimeoutError) as error:
                return f"{type(error).__name__}: {error}"
        start = 5 if flexible and api_key != API_VERSIONS else 4  # ApiVersions always has response header v0 (KIP-511)
        try:
            answer = messages.decode_response(api_key, version, bytes(response[start:]))
        except MalformedRequest as error:
            return f"cannot be decoded: {error}"
        (correlation_id,) = struct.unpack_from(">i", response)
        return answer if correlation_id == 7 else f"correlation id {correlation_id}"


def requests_for(side: Side) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """(what is asked, API key, values): one set of values serves every version."""
    topic, topic_id = side.topic, side.topic_id
    yield "ApiVersions", API_VERSIONS, {"client_software_name": "compare", "client_software_version": "1"}
    asked = [{"topic_id": None, "name": topic}, {"topic_id": None, "name": "nobody-made-this"}]
    yield "Metadata", 3, {"topics": asked, "allow_auto_topic_creation": False}
    for name, timestamp in (
        ("latest", -1),
        ("earliest", -2),
        ("max", -3),
        ("then", 1_700_000_000_400),
        ("never", 2**50),
    ):
        one = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp, "max_num_offsets": 1}
        listed = {"topics": [{"name": topic, "partitions": [one]}], "replica_id": -1, "isolation_level": 0}
        yield f"ListOffsets({name})", 2, listed
    for epoch in (0, 5):
        one = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
        yield (
            f"OffsetForLeaderEpoch({epoch})",
            23,
            {"replica_id": -1, "topics": [{"topic": topic, "partitions": [one]}]},
        )
    for kind, name in ((2, topic), (2, "nobody-made-this"), (4, "1")):
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
        yield f"DescribeConfigs({kind})", 32, {"resources": [resource], "include_synonyms": False}
    for offset in (0, 2, 3, 99):
        partition = {
            **{"partition": 0, "current_leader_epoch": -1, "fetch_offset": offset, "last_fetched_epoch": -1},
            **{"log_start_offset": -1, "partition_max_bytes": 100_000},
        }
        fetched = {
            **{"replica_id": -1, "max_wait": 10, "min_bytes": 1, "max_bytes": 100_000, "isolation_level": 0},
            **{"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""},
            "topics": [{"topic": topic, "topic_id": topic_id, "partitions": [partition]}],
        }
        yield f"Fetch({offset})", 1, fetched
    yield "FindCoordinator", 10, {"key": "a-group", "key_type": 0, "coordinator_keys": ["a-group"]}
    yield (
        "OffsetFetch",
        9,
        {
            **{"group_id": "a-group", "topics": [{"name": topic, "partition_indexes": [0]}], "require_stable": False},
            "groups": [
                {"group_id": "a-group", "topics": [{"name": topic, "topic_id": topic_id, "partition_indexes": [0]}]}
            ],
        },
    )
    yield "DescribeGroups", 15, {"groups": ["nobody-made-this"], "include_authorized_operations": False}
    yield "ListGroups", 16, {"states_filter": ["Dead"], "types_filter": []}
    yield "InitProducerId", 22, {"transactional_id": None, "transaction_timeout": 1000}
    new = {"name": "bad name!", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    yield "CreateTopics(bad name)", 19, {"topics": [new], "timeout": 1000, "validate_only": True}
    new = new | {"name": topic}
    yield "CreateTopics(exists)", 19, {"topics": [new], "timeout": 1000, "validate_only": True}
    new = new | {"name": f"{topic}-2", "replication_factor": 9}
    yield "CreateTopics(RF 9)", 19, {"topics": [new], "timeout": 1000, "validate_only": True}
    more = {"name": topic, "count": 1, "assignments": None}
    yield "CreatePartitions(fewer)", 37, {"topics": [more], "timeout": 1000, "validate_only": True}
    gone = {"topics": [{"name": "nobody-made-this", "topic_id": None}], "topic_names": ["nobody-made-this"]}
    yield "DeleteTopics", 20, gone | {"timeout": 1000}
    yield "DescribeCluster", 60, {"include_cluster_authorized_operations": False, "endpoint_type": 1}
    yield "DescribeTopicPartitions", 75, {"topics": [{"name": topic}], "response_partition_limit": 10, "cursor": None}
    yield "DescribeLogDirs", 35, {"topics": [{"topic": topic, "partitions": [0]}]}
    gone = {"partition_index": 0, "offset": 99}
    yield "DeleteRecords", 21, {"topics": [{"name": topic, "partitions": [gone]}], "timeout": 1000}


def flatten(value: Any, side: Side, path: str = "") -> Iterator[tuple[str, object]]:
    """(path, comparable leaf) of everything in an answer; the side's own names become placeholders."""
    if is_dataclass(value):
        for field in fields(value):
            yield from flatten(getattr(value, field.name), side, f"{path}.{field.name}" if path else field.name)
    elif isinstance(value, tuple) and path.rpartition(".")[2] not in SAME_TYPE_ONLY:
        yield f"{path}.length", "a list"
        for number, element in enumerate(value):
            yield from flatten(element, side, f"{path}[{identity(element, number, side)}]")
    elif path.rpartition(".")[2].partition("[")[0] in SAME_TYPE_ONLY or isinstance(value, UUID):
        yield path, type(value).__name__
    else:
        yield path, str(value).replace(side.topic, "TOPIC") if isinstance(value, str) else value


def identity(element: Any, number: int, side: Side) -> object:
    """How an element of a list is found again in the other answer."""
    for name in KEYED_BY:
        if hasattr(element, name):
            return "TOPIC" if (found := getattr(element, name)) == side.topic else found
    return number


def compare(first: Side, second: Side, only: str) -> int:
    """Print all differences; how many there are."""
    count = 0
    for (title, key, values), (_, _, other) in zip(requests_for(first), requests_for(second), strict=True):
        if only.lower() not in title.lower():
            continue
        if key not in first.versions or key not in second.versions:
            print(f"{title}: only {'the second' if key in second.versions else 'the first'} has it")
            continue
        (low_1, high_1), (low_2, high_2) = first.versions[key], second.versions[key]
        if (low_1, high_1) != (low_2, high_2):
            print(f"{title}: versions {low_1}-{high_1} | {low_2}-{high_2}")
        for version in range(max(low_1, low_2), min(high_1, high_2) + 1):
            try:
                answers = [dict(flatten(s.ask(key, version, v), s)) for s, v in ((first, values), (second, other))]
            except KeyError:
                continue  # a version that the codec of this aid does not know
            for path in sorted(answers[0].keys() | answers[1].keys()):
                left, right = (answer.get(path, "(absent)") for answer in answers)
                if left != right:
                    count += 1
                    print(f"{title} v{version}  {path or 'answer'}: {left} | {right}")
    return count


def main() -> int:
    """The command of the module's docstring."""
    parser = argparse.ArgumentParser(description="where do two clusters answer the same request differently?")
    parser.add_argument("first", metavar="HOST:PORT")
    parser.add_argument("second", metavar="HOST:PORT")
    parser.add_argument("--api", default="", help="only requests whose name has this in it")
    args = parser.parse_args()
    topic = f"compare-{os.urandom(3).hex()}"
    differences = compare(Side(args.first, topic), Side(args.second, topic), args.api)
    print(f"{differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
