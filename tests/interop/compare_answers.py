"""Send the same requests, in order and odd, to two clusters in every version that both serve; print where answers differ.

    make compare [ARGS='--only TEXT --all']
    python -m tests.interop.compare_answers [MINIKAFKA:PORT KAFKA:PORT] [--only TEXT] [--all]

Both are started and removed again, unless they are named: brokers 1, 2 and 3 with two directories each, which create
topics on demand. What is asked is in ``odd_requests.py``; differences that are meant, each with its reason, in
``declared_differences.py``: they are counted, and printed with ``--all``. Ends with 1 when one is not declared. Fields
whose values cannot be alike (ids, hosts, ports) are compared by their type only. A line is ``TITLE vVERSION  path: what
the first answers | what the second answers``. Topics stay behind on clusters that were named.
"""

from __future__ import annotations

import argparse
import os
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import fields, is_dataclass
from typing import Any
from uuid import UUID

from minikafka.protocol import messages
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.wire import MalformedRequest

from bench.contenders import NAMES, temporary
from tests.interop.declared_differences import reason
from tests.interop.odd_batches import APPEND_TIME, NOW_MS, TOPICS
from tests.interop.odd_requests import COORDINATOR, FRESH, GROUP, IN_ORDER, ONE, TOPIC, TOPIC_ID, Request, requests
from tests.interop.raw_client import (
    BATCH_HEADER_BYTES,
    ConnectionClosed,
    RawConnection,
    api_versions,
    fetch_request,
    list_offset,
    metadata,
    produce_request,
    read_fetch_answer,
    record_batch,
    request,
)
from tests.waiting import until_now

PRODUCE_VERSION_MIN = 3
"""Versions before are advertised, and served by neither (KAFKA-18659)."""
SETTINGS = {"auto.create.topics.enable": "true"}
LOG_DIRS = ("data", "data-2")
SETTINGS_OF_ONE = {"min.insync.replicas": "1"}
"""Of topics with one replica that are written to."""
SAME_TYPE_ONLY = {
    *("throttle_time", "host", "port", "cluster_id", "controller_id", "topic_id", "producer_id", "session_id"),
    *("log_dir", "total_bytes", "usable_bytes", "member_id"),
    *("partition_size", "leader", "log_append_time"),
}
"""Names of fields whose values differ between any two clusters."""
TEXT_OR_NONE = {"error_message", "batch_index_error_message", "documentation", "error_string"}
"""Compared by whether there is something."""
KEYED_BY = (
    "name",
    "topic",
    "partition_index",
    "partition",
    "api_key",
    "group_id",
    "resource_name",
    "broker_id",
    "key",
    "entity_type",
    "index",
)
"""What identifies an element of a list, so that lists in another order are compared element by element."""
NOT_ASKED_FOR = ("compare-", "__")
"""How names in a list of everything begin that belong to other requests, and to other runs."""
ANSWER_SECONDS_MAX = 10.0
ABSENT = "(absent)"


class Side:
    """One of the two clusters, with what the requests are about."""

    def __init__(self, address: str, topic: str) -> None:
        self.topic = topic
        with RawConnection(address) as connection:
            self.versions = api_versions(connection)
            self.brokers = metadata(connection).brokers
        self.topic_id = UUID(int=0)
        self.create(topic, 1, 2, 3, **{"retention.ms": "-1"})
        self.create(f"{topic}-one", 1)
        self.produced_to = {name: name.replace(TOPIC, topic) for name in TOPICS}
        for name, settings in TOPICS.items():
            self.create(self.produced_to[name], 1, **SETTINGS_OF_ONE | settings)
        with RawConnection(self.brokers[1]) as connection:
            for timestamp in (1_700_000_000_000, 1_700_000_001_000, 1_700_000_000_500):
                connection.call(produce_request(topic, 0, record_batch([b"value"], timestamp_ms=timestamp)))
        self.topic_id = (
            self.ask(ApiKey.METADATA, 12, {"topics": [{"topic_id": None, "name": topic}]}).topics[0].topic_id
        )
        self.coordinators: dict[str, int] = {}
        self.ask(
            ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": None, "transaction_timeout": 1000}
        )  # Kafka refuses the very first
        self.commit(f"{topic}-group")

    def create(self, name: str, *replicas: int, **settings: str) -> None:
        """A topic of one partition, and wait until all brokers know it."""
        row = {"partition_index": 0, "broker_ids": replicas}
        topic = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": [row]}
        topic["configs"] = [{"name": key, "value": value} for key, value in settings.items()]
        self.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [topic], "timeout": 10_000, "validate_only": False})

        def is_known() -> bool:
            for address in self.brokers.values():
                with RawConnection(address) as connection:
                    seen = metadata(connection, [name]).topics[name]
                if not seen or len(seen[0].in_sync) != len(replicas):
                    return False
            return True

        until_now(is_known, what=f"topic {name}")

    def commit(self, group: str) -> None:
        """A group without members that has an offset."""
        row = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
        values = {
            **{"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None},
            "topics": [{"name": self.topic, "partitions": [row]}],
        }

        def is_taken() -> bool:
            answer = self.ask(ApiKey.OFFSET_COMMIT, 8, values, self.coordinator(group))
            if (taken := not int(answer.topics[0].partitions[0].error_code)) is False:
                self.coordinators.pop(group)
            return taken

        until_now(is_taken, what=f"group {group}")

    def coordinator(self, group: str) -> int:
        """The broker that coordinates a group."""

        def is_found() -> bool:
            found = self.ask(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [group]}).coordinators[0]
            if not int(found.error_code):
                self.coordinators[group] = found.node_id
            return group in self.coordinators

        if group not in self.coordinators:
            until_now(is_found, what=f"coordinator of {group}")
        return self.coordinators[group]

    def answer(self, asked: Request, version: int, number: int) -> dict[str, object]:
        """What this side answers, as (path, comparable leaf)."""
        fresh = f"{self.topic}-{number}"
        if asked.made == "topic":
            self.create(fresh, 1, 2)
        elif asked.made == "group":
            self.commit(fresh)
        names = {TOPIC: self.topic, ONE: f"{self.topic}-one", GROUP: f"{self.topic}-group", FRESH: fresh}
        names |= self.produced_to
        values = self._named(asked.values, names)
        at = asked.at
        if at == COORDINATOR:
            known = {field.name for field in fields(messages.request_type(asked.api_key, version))}
            group = _group({name: value for name, value in values.items() if name in known})
            at = self.coordinator(names[GROUP] if group is None else group)
        placeholders = {there: name for name, there in names.items()}
        if asked.api_key == ApiKey.PRODUCE:
            return self._produced(version, values, at, placeholders)
        return dict(flatten(self.ask(asked.api_key, version, values, at), placeholders))

    def _produced(self, version: int, values: Any, at: int, placeholders: dict[str, str]) -> dict[str, object]:
        """The answer to a Produce, its offsets counted from the log's end before, and what is written there now."""
        topic = next((each["name"] for each in values["topic_data"] if each["name"] in placeholders), "")
        written = Written(self.brokers[1], topic) if topic else None
        found = dict(flatten(self.ask(ApiKey.PRODUCE, version, values, at), placeholders))
        if written is None:
            return found
        for path, value in found.items():
            if path.endswith(".base_offset") and isinstance(value, int) and value >= 0:
                found[path] = value - written.start
        found.update(written.batches())
        if placeholders[topic] == FRESH:
            for what, timestamp in (("latest", -3), ("then", NOW_MS + 3000), ("later", NOW_MS + 6000)):
                row = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
                wanted = {"replica_id": -1, "topics": [{"name": topic, "partitions": [row]}]}
                found.update(flatten(self.ask(ApiKey.LIST_OFFSETS, 10, wanted), placeholders, f"offset of {what}"))
        return found

    def _named(self, value: Any, names: dict[str, str]) -> Any:
        if isinstance(value, dict):
            return {key: self._named(each, names) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._named(each, names) for each in value]
        if value == TOPIC_ID:
            return self.topic_id
        return names.get(value, value) if isinstance(value, str) else value

    def ask(self, api_key: int, version: int, values: Any, broker: int = 1) -> Any:
        """The decoded answer, or what went wrong instead of one, as a string."""
        body = messages.encode_request(api_key, version, values)
        flexible = messages.is_flexible(api_key, version)
        with RawConnection(self.brokers[broker], ANSWER_SECONDS_MAX) as connection:
            try:
                connection.send(request(api_key, version, body, flexible=flexible))
                if api_key == ApiKey.PRODUCE and values["acks"] == 0:
                    api_versions(connection)
                    return "no answer, and the connection stays"
                response = connection.receive()
            except (ConnectionClosed, TimeoutError) as error:
                return f"{type(error).__name__}: {error}"
        try:
            answer = messages.decode_response(api_key, version, messages.answer_body(api_key, version, bytes(response)))
        except MalformedRequest as error:
            return f"cannot be decoded: {error}"
        (correlation_id,) = struct.unpack_from(">i", response)
        return answer if correlation_id == 7 else f"correlation id {correlation_id}"


class Written:
    """What a Produce adds to the log of partition 0."""

    def __init__(self, address: str, topic: str) -> None:
        self._address = address
        self._topic = topic
        self.start = 0
        until_now(self._leads, what=f"{address} leads {topic}")

    def _leads(self) -> bool:
        with RawConnection(self._address) as connection:
            try:
                self.start = list_offset(connection, self._topic, 0)
            except ConnectionError:  # metadata tell of a topic a moment before its log is there
                return False
        return True

    def batches(self) -> Iterator[tuple[str, object]]:
        """(path, comparable leaf) of each batch that is there now and was not before."""
        with RawConnection(self._address) as connection:
            end = list_offset(connection, self._topic, 0)
            yield "written", end - self.start
            if end == self.start:
                return
            response = connection.call(fetch_request(self._topic, 0, self.start, max_wait_ms=0))
        answer = read_fetch_answer(response)
        data = bytes(response[answer.start : answer.start + answer.size])
        position = number = 0
        while position < len(data):
            length, _, magic, _, *header = HEADER.unpack_from(data, position + 8)
            fields = dict(zip(HEADER_FIELDS, header, strict=True))
            if fields["attributes"] & APPEND_TIME:
                fields["max timestamp"] = fields["max timestamp"] > NOW_MS
            place = f"written[{number}]"
            yield place, "there"
            yield from ((f"{place}.{name}", value) for name, value in (("magic", magic), *fields.items()))
            yield f"{place}.records", data[position + BATCH_HEADER_BYTES : position + 12 + length].hex()[:200]
            position += 12 + length
            number += 1


HEADER = struct.Struct(">iibIhiqqqhii")
HEADER_FIELDS = (
    "attributes",
    "last delta",
    "base timestamp",
    "max timestamp",
    "producer",
    "epoch",
    "sequence",
    "count",
)


def flatten(value: Any, placeholders: dict[str, str], path: str = "") -> Iterator[tuple[str, object]]:
    """(path, comparable leaf) of everything in an answer; the side's own names become placeholders."""
    name = path.rpartition(".")[2].partition("[")[0]
    if is_dataclass(value):
        for field in fields(value):
            yield from flatten(getattr(value, field.name), placeholders, f"{path}.{field.name}" if path else field.name)
    elif isinstance(value, tuple) and name not in SAME_TYPE_ONLY:
        yield path, "a list"
        seen: dict[object, int] = {}
        for number, element in enumerate(value):
            identity = _identity(element, number, placeholders)
            if str(identity).startswith(NOT_ASKED_FOR):
                continue
            seen[identity] = again = seen.get(identity, 0) + 1
            place = f"{path}[{identity}{f' #{again}' if again > 1 else ''}]"
            yield place, "there"
            yield from flatten(element, placeholders, place)
    elif name in TEXT_OR_NONE:
        yield path, "a text" if value else "no text"
    elif name in SAME_TYPE_ONLY or isinstance(value, UUID):
        yield path, type(value).__name__
    else:
        yield path, placeholders.get(value, value) if isinstance(value, str) else value


def _identity(element: Any, number: int, placeholders: dict[str, str]) -> object:
    """How an element of a list is found again in the other answer."""
    if isinstance(element, str):
        return placeholders.get(element, element)
    for name in KEYED_BY:
        found = getattr(element, name, None)
        if found is not None:
            return placeholders.get(found, found) if isinstance(found, str) else found
    return number


def _group(values: Mapping[str, Any]) -> str | None:
    """The group that a request is about, the first of them."""
    several = [*values.get("groups_names", ()), *values.get("groups", ())]
    first = several[0] if several else values.get("group_id")
    return str(first["group_id"]) if isinstance(first, dict) else first


class Differences:
    """What differs, versions that differ alike together."""

    def __init__(self) -> None:
        self.asked = 0
        self.unasked: list[int] = []
        """APIs that both serve and for which there is no request."""
        self._versions: dict[tuple[str, str, object, object], list[int]] = {}

    def add(self, title: str, version: int, first: dict[str, object], second: dict[str, object]) -> None:
        """Compare two answers to one request."""
        self.asked += 1
        lacking: tuple[str, ...] = ()
        for path in sorted(first.keys() | second.keys()):
            left, right = (answer.get(path, ABSENT) for answer in (first, second))
            if left != right and not path.startswith(lacking):
                self._versions.setdefault((title, path, left, right), []).append(version)
            if ABSENT in (left, right):
                lacking = (*lacking, path)

    def tell(self, show_all: bool) -> int:
        """Print them; how many nobody has declared, and how many APIs were not asked."""
        for key in self.unasked:
            print(f"API {key}: there is no request of it in odd_requests.py")
        meant = 0
        for (title, path, left, right), versions in self._versions.items():
            why = reason(title, path, left, right)
            meant += bool(why)
            if show_all or not why:
                of = f"v{versions[0]}" if len(versions) == 1 else f"v{versions[0]}-{versions[-1]}"
                print(f"{title} {of}  {path or 'answer'}: {left} | {right}{f'  ({why})' if why else ''}")
        count = len(self._versions) - meant
        print(f"{self.asked} requests; {count} differences that nobody has declared, {meant} that are meant")
        return count + len(self.unasked)


def compare(first: Side, second: Side, only: str) -> Differences:
    """Ask both the same."""
    found = Differences()
    for key in sorted(first.versions.keys() & second.versions.keys()):
        if all(each.api_key != key for each in IN_ORDER):
            found.unasked.append(key)
        low, high = (f(a, b) for f, a, b in zip((max, min), first.versions[key], second.versions[key], strict=True))
        for version in range(max(low, PRODUCE_VERSION_MIN) if key == ApiKey.PRODUCE else low, high + 1):
            for each in requests(key, version):
                if only.lower() in each.title.lower():
                    answers = [side.answer(each, version, found.asked) for side in (first, second)]
                    found.add(each.title, version, *answers)
    return found


@contextmanager
def two_clusters() -> Iterator[tuple[str, str]]:
    """Bootstrap servers of MiniKafka and of Apache Kafka, both fresh; nothing of them is left after the block."""
    with ExitStack() as stack:
        subjects = [stack.enter_context(temporary(name, SETTINGS, LOG_DIRS)) for name in NAMES]
        for subject in subjects:
            print(f"{subject.name} is there after {subject.up():.0f} s: {subject.bootstrap}", flush=True)
        yield subjects[0].bootstrap, subjects[1].bootstrap


def main() -> int:
    """The command of the module's docstring."""
    parser = argparse.ArgumentParser(description="where do two clusters answer the same request differently?")
    parser.add_argument("clusters", nargs="*", metavar="HOST:PORT", help="two that run, instead of fresh ones")
    parser.add_argument("--only", default="", help="only requests whose title has this in it")
    parser.add_argument("--all", action="store_true", help="differences that are declared, too")
    args = parser.parse_args()
    if len(args.clusters) not in (0, 2):
        parser.error("HOST:PORT: give two, or none")
    topic = f"compare-{os.urandom(3).hex()}"
    with nullcontext(args.clusters) if args.clusters else two_clusters() as (ours, theirs):
        found = compare(Side(ours, topic), Side(theirs, topic), args.only)
    return 1 if found.tell(args.all) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
