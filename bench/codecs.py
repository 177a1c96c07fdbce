"""Times three codecs of Kafka's messages against each other: this project's hot ones, kio, and kafka-python's.

    python -m bench.codecs [--json]

Each is given the same bytes and has to give back the same values, which is checked first. The figures are the best of
several rounds, in CPU microseconds a message: the cost of the code, not of the machine's other work. Memory and import
time are taken in fresh processes. docs/decisions/001-protocol-library.md draws the conclusion.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import os
import statistics
import struct
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from kafka.protocol.consumer import FetchRequest as PyFetchRequest
from kafka.protocol.consumer import FetchResponse as PyFetchResponse
from kafka.protocol.metadata import MetadataResponse as PyMetadataResponse
from kafka.protocol.producer import ProduceRequest as PyProduceRequest
from kafka.protocol.producer import ProduceResponse as PyProduceResponse
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.fetch.v16 import response as kio_fetch_response
from kio.schema.produce.v11 import response as kio_produce_response
from kio.serial import entity_reader, entity_writer
from minikafka.protocol import fetch, messages, produce
from minikafka.protocol.api_keys import ApiKey
from rich.console import Console
from rich.table import Table

PRODUCE_VERSION, FETCH_VERSION, METADATA_VERSION = 11, 16, 12
BATCH_BYTES = 16 * 1024
"""Kafka's default ``batch.size``."""

FETCHED_BYTES = 1024 * 1024
"""Kafka's default ``max.partition.fetch.bytes``, and of ``max.request.size`` of a producer."""

TOPIC = "orders"
TOPIC_ID = UUID("6f1c6a3e-90fb-4f0c-b2bd-6a6c0e1d9a01")
NO_TIME = timedelta(0)
ROUNDS, ROUND_SECONDS = 11, 0.1


class Case(NamedTuple):
    """One thing that each codec does to one message; a codec that does not do it is absent."""

    name: str
    codecs: Mapping[str, Callable[[], Any]]


class Range(NamedTuple):
    """Stands for records in a file, which are never read into Python (``sendfile``)."""

    file: int
    position: int
    length: int


def produce_request(partitions: int, batch_bytes: int) -> bytes:
    """The body of a Produce request with one batch for each partition, encoded by kio."""
    records = os.urandom(batch_bytes)
    values = {
        "transactional_id": None,
        "acks": -1,
        "timeout": 30_000,
        "topic_data": [
            {"name": TOPIC, "partition_data": [{"index": i, "records": records} for i in range(partitions)]},
        ],
    }
    return messages.encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, values)


def fetch_request(partitions: int) -> bytes:
    """The body of a consumer's Fetch request, encoded by kio."""
    asked = [
        {
            "partition": i,
            "current_leader_epoch": 7,
            "fetch_offset": 123_456 + i,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": FETCHED_BYTES,
        }
        for i in range(partitions)
    ]
    values = {
        "max_wait": 500,
        "min_bytes": 1,
        "max_bytes": 50 * FETCHED_BYTES,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic_id": TOPIC_ID, "partitions": asked}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    return messages.encode_request(ApiKey.FETCH, FETCH_VERSION, values)


def decode_cases(partitions: int, batch_bytes: int) -> list[Case]:
    """Return what the broker does with every Produce and Fetch request."""
    produced, asked = produce_request(partitions, batch_bytes), fetch_request(partitions)
    read_produce = entity_reader(messages.request_type(ApiKey.PRODUCE, PRODUCE_VERSION))
    read_fetch = entity_reader(messages.request_type(ApiKey.FETCH, FETCH_VERSION))
    # our decoders skip the tagged fields of the request header first: one byte
    produce_frame, fetch_frame = memoryview(b"\0" + produced), memoryview(b"\0" + asked)
    return [
        Case(
            f"decode a Produce request, {partitions} x {batch_bytes // 1024:,} KiB",
            {
                "ours": lambda: produce.decode_produce(produce_frame, 0, PRODUCE_VERSION),
                "kio": lambda: read_produce(produced, 0),
                "kafka-python": lambda: PyProduceRequest.decode(produced, version=PRODUCE_VERSION),
            },
        ),
        Case(
            f"decode a Fetch request, {partitions}",
            {
                "ours": lambda: fetch.decode_fetch(fetch_frame, 0, FETCH_VERSION),
                "kio": lambda: read_fetch(asked, 0),
                "kafka-python": lambda: PyFetchRequest.decode(asked, version=FETCH_VERSION),
            },
        ),
    ]


def encode_cases(partitions: int, fetched_bytes: int) -> list[Case]:
    """Return what the broker does to answer them. Building the value that is encoded is part of it, for it is never kept."""
    records = os.urandom(fetched_bytes)
    write_produce = entity_writer(messages.response_type(ApiKey.PRODUCE, PRODUCE_VERSION))
    write_fetch = entity_writer(messages.response_type(ApiKey.FETCH, FETCH_VERSION))

    def ours_produce() -> bytes:
        row = [produce.PartitionResult(i, 0, 1000 + i, -1, 0) for i in range(partitions)]
        return produce.encode_produce_response(PRODUCE_VERSION, 1, [(TOPIC, row)])

    def kio_produce() -> bytes:
        row = tuple(
            kio_produce_response.PartitionProduceResponse(
                index=i,
                error_code=KioErrorCode.none,
                base_offset=1000 + i,
                log_append_time=None,
                log_start_offset=0,
                record_errors=(),
            )
            for i in range(partitions)
        )
        topic = kio_produce_response.TopicProduceResponse(name=TOPIC, partition_responses=row)
        out = io.BytesIO()
        write_produce(out, kio_produce_response.ProduceResponse(responses=(topic,), throttle_time=NO_TIME))
        return out.getvalue()

    def py_produce() -> bytes:
        topic = PyProduceResponse.TopicProduceResponse
        part = topic.PartitionProduceResponse
        row = [
            part(
                index=i,
                error_code=0,
                base_offset=1000 + i,
                log_append_time_ms=-1,
                log_start_offset=0,
                record_errors=[],
                error_message=None,
            )
            for i in range(partitions)
        ]
        answer = PyProduceResponse(responses=[topic(name=TOPIC, partition_responses=row)], throttle_time_ms=0)
        return bytes(answer.encode(version=PRODUCE_VERSION))

    def ours_fetch() -> list[Any]:
        row = []
        for i in range(partitions):
            data = fetch.PartitionData(i, 0, 2000, 0)
            data.ranges, data.size = (Range(3, 0, fetched_bytes),), fetched_bytes
            row.append(data)
        return fetch.encode_fetch_response(FETCH_VERSION, 1, [(TOPIC_ID.bytes, row)])

    def kio_fetch() -> bytes:
        row = tuple(
            kio_fetch_response.PartitionData(
                partition_index=i,
                error_code=KioErrorCode.none,
                high_watermark=2000,
                last_stable_offset=2000,
                log_start_offset=0,
                aborted_transactions=None,
                preferred_read_replica=-1,
                records=records,
            )
            for i in range(partitions)
        )
        topic = kio_fetch_response.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=row)
        out = io.BytesIO()
        answer = kio_fetch_response.FetchResponse(
            throttle_time=NO_TIME, error_code=KioErrorCode.none, session_id=0, responses=(topic,)
        )
        write_fetch(out, answer)
        return out.getvalue()

    def py_fetch() -> bytes:
        topic = PyFetchResponse.FetchableTopicResponse
        row = [
            topic.PartitionData(
                partition_index=i,
                error_code=0,
                high_watermark=2000,
                last_stable_offset=2000,
                log_start_offset=0,
                aborted_transactions=None,
                preferred_read_replica=-1,
                records=records,
            )
            for i in range(partitions)
        ]
        answer = PyFetchResponse(
            throttle_time_ms=0, error_code=0, session_id=0, responses=[topic(topic_id=TOPIC_ID, partitions=row)]
        )
        return bytes(answer.encode(version=FETCH_VERSION))

    return [
        Case(
            f"encode a Produce response, {partitions}",
            {"ours": ours_produce, "kio": kio_produce, "kafka-python": py_produce},
        ),
        Case(
            f"encode a Fetch response, {partitions} x {fetched_bytes // 1024:,} KiB",
            {"ours": ours_fetch, "kio": kio_fetch, "kafka-python": py_fetch},
        ),
    ]


def cold_case(topics: int, partitions: int) -> Case:
    """A large Metadata response: what the cold path costs at its worst. There is no codec of ours for it."""
    parts = [
        {
            "error_code": 0,
            "partition_index": i,
            "leader_id": 1,
            "leader_epoch": 7,
            "replica_nodes": [1, 2, 3],
            "isr_nodes": [1, 2, 3],
            "offline_replicas": [],
        }
        for i in range(partitions)
    ]
    listed = [
        {"error_code": 0, "name": f"topic-{n}", "topic_id": TOPIC_ID, "is_internal": False, "partitions": parts}
        for n in range(topics)
    ]
    brokers = [{"node_id": n, "host": "127.0.0.1", "port": 19091 + n, "rack": None} for n in (1, 2, 3)]
    values = {"brokers": brokers, "cluster_id": "c", "controller_id": 1, "topics": listed}

    def py_metadata() -> bytes:
        topic = PyMetadataResponse.MetadataResponseTopic
        part = topic.MetadataResponsePartition
        answer = PyMetadataResponse(
            throttle_time_ms=0,
            brokers=[PyMetadataResponse.MetadataResponseBroker(**broker) for broker in brokers],
            cluster_id="c",
            controller_id=1,
            topics=[topic(**{**t, "partitions": [part(**p) for p in parts]}) for t in listed],
        )
        return bytes(answer.encode(version=METADATA_VERSION))

    return Case(
        f"encode a Metadata response, {topics} x {partitions}",
        {
            "kio": lambda: messages.encode_response(ApiKey.METADATA, METADATA_VERSION, values),
            "kafka-python": py_metadata,
        },
    )


def check_agreement() -> None:
    """All codecs read the same values from the same bytes, and write the same bytes for the same values.

    kio's decoder needs no check: kio wrote the bytes that the others read.

    Raises:
        AssertionError: they do not, so their times cannot be compared.
    """
    body = produce_request(2, 100)
    mine = produce.decode_produce(memoryview(b"\0" + body), 0, PRODUCE_VERSION)
    theirs = PyProduceRequest.decode(body, version=PRODUCE_VERSION)
    ours = [(index, bytes(records or b"")) for index, records in mine.topics[0][1]]
    assert ours == [(p.index, bytes(p.records)) for p in theirs.topic_data[0].partition_data]
    asked = fetch_request(2)
    first = fetch.decode_fetch(memoryview(b"\0" + asked), 0, FETCH_VERSION).topics[0]
    second = PyFetchRequest.decode(asked, version=FETCH_VERSION).topics[0]
    assert (first[0], [p.fetch_offset for p in first[1]]) == (
        second.topic_id.bytes,
        [p.fetch_offset for p in second.partitions],
    )
    answer = encode_cases(2, 0)[0].codecs
    frame = answer["ours"]()
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    assert frame[9:] == answer["kio"]() == answer["kafka-python"]()  # after length, correlation id and header tags


def microseconds(work: Callable[[], Any]) -> float:
    """The best of several rounds."""
    timer = timeit.Timer(work, timer=time.process_time)  # CPU time: others may be at work on this machine
    number, seconds = timer.autorange()
    number = max(1, round(number * ROUND_SECONDS / seconds))
    gc.collect()
    return min(timer.repeat(ROUNDS, number)) / number * 1e6


IMPORTS = {
    "ours": "import minikafka.protocol.produce, minikafka.protocol.fetch",
    "kio (bridge and Produce, Fetch, Metadata)": (
        "from minikafka.protocol.messages import _reader, _writer, request_type, response_type\n"
        f"for key, version in ((0, {PRODUCE_VERSION}), (1, {FETCH_VERSION}), (3, {METADATA_VERSION})):\n"
        "    _reader(request_type(key, version)); _writer(response_type(key, version))"
    ),
    "kafka-python (the same three)": (
        "from kafka.protocol.producer import *; from kafka.protocol.consumer import *; "
        "from kafka.protocol.metadata import *"
    ),
}

_PROBE = """
import sys, time
sys.modules["hypothesis"] = None  # kio loads it where it is installed, which production does not have
def kilobytes():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
before, began = kilobytes(), time.perf_counter()
{statement}
print(kilobytes() - before, time.perf_counter() - began)
"""


def import_cost(statement: str) -> tuple[float, float]:
    """(MiB of resident memory, milliseconds) that an import adds to a bare interpreter: the median of five."""
    memory, seconds = [], []
    for _ in range(5):
        command = [sys.executable, "-c", _PROBE.format(statement=statement)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        memory.append(int(printed[0]) / 1024)
        seconds.append(float(printed[1]) * 1e3)
    return statistics.median(memory), statistics.median(seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.codecs", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    check_agreement()
    cases = [
        *decode_cases(1, BATCH_BYTES),
        *decode_cases(10, BATCH_BYTES),
        decode_cases(1, FETCHED_BYTES)[0],
        *encode_cases(1, 0),
        *encode_cases(10, 0),
        encode_cases(1, FETCHED_BYTES)[1],
        encode_cases(10, FETCHED_BYTES)[1],
        cold_case(50, 3),
    ]
    times = {case.name: {codec: microseconds(work) for codec, work in case.codecs.items()} for case in cases}
    imports = {name: import_cost(statement) for name, statement in IMPORTS.items()}
    if options.json:
        print(json.dumps({"microseconds": times, "imports": imports}, indent=2))
        return 0
    table = Table("CPU microseconds a message (x: partitions)", "ours", "kio", "kafka-python")
    for name, row in times.items():
        table.add_row(
            name, *(f"{row[codec]:,.1f}" if codec in row else "-" for codec in ("ours", "kio", "kafka-python"))
        )
    console = Console()
    console.print(table)
    table = Table("import", "MiB", "ms")
    for name, (megabytes, milliseconds) in imports.items():
        table.add_row(name, f"{megabytes:.1f}", f"{milliseconds:.0f}")
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
