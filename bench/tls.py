"""What TLS costs a broker: the same load at a PLAINTEXT listener and at one with TLS, in turns.

python -m bench.tls [--megabytes 400] [--rounds 3]

One broker, one partition, librdkafka. The client encrypts on the same machine, so believe the broker's processor time rather
than megabytes a second.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import trustme
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from minikafka.local.cluster import LocalCluster
from minikafka.local.ports import HOST, free_base_port

from bench.process_stats import cpu_seconds

RECORD = os.urandom(10_000)
DEADLINE_S = 120


class Cost(NamedTuple):
    """CPU seconds of the broker per GB."""

    produce: float
    fetch: float


def load(cluster: LocalCluster, client: dict[str, Any], topic: str, megabytes: int) -> Cost:
    """Write so much, read it back."""
    records = megabytes * 1_000_000 // len(RECORD)
    pid = cluster.info().brokers[0].pid
    assert pid is not None
    admin = AdminClient(client)
    for done in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        done.result(DEADLINE_S)
    producer = Producer({**client, "acks": "all", "linger.ms": 5, "batch.size": 256 << 10})
    before = cpu_seconds([pid])
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, RECORD)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(DEADLINE_S) == 0
    between = cpu_seconds([pid])
    consumer = Consumer({**client, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline, got = time.monotonic() + DEADLINE_S, 0
    while got < records and time.monotonic() < deadline:
        got += len(consumer.consume(1000, 1.0))
    assert got == records
    after = cpu_seconds([pid])
    consumer.close()
    return Cost((between - before) * 1000 / megabytes, (after - between) * 1000 / megabytes)


def main() -> None:
    """The command of the module's docstring."""
    parser = argparse.ArgumentParser(description="what TLS costs a broker")
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        authority = trustme.CA()
        leaf = authority.issue_cert(HOST)
        keystore, ca = Path(folder) / "broker.pem", Path(folder) / "ca.pem"
        keystore.write_bytes(b"".join(blob.bytes() for blob in (leaf.private_key_pem, *leaf.cert_chain_pems)))
        ca.write_bytes(authority.cert_pem.bytes())
        costs: dict[str, list[Cost]] = {"PLAINTEXT": [], "SSL": []}
        for number in range(args.rounds):
            for protocol, found in costs.items():
                cluster = LocalCluster(Path(folder) / f"{protocol}-{number}")
                secured = {
                    "listener.security.protocol.map": f"PLAINTEXT:{protocol}",
                    "ssl.keystore.type": "PEM",
                    "ssl.keystore.location": str(keystore),
                }
                cluster.up(1, free_base_port(1), secured)
                client = {"bootstrap.servers": cluster.bootstrap, "security.protocol": protocol, "log_level": 0}
                try:
                    found.append(load(cluster, client | {"ssl.ca.location": str(ca)}, "t", args.megabytes))
                finally:
                    cluster.down()
    for protocol, found in costs.items():
        produce, fetch = (statistics.median(each) for each in zip(*found, strict=True))
        print(f"{protocol}: {produce:.2f} CPU s/GB produced, {fetch:.2f} CPU s/GB fetched")


if __name__ == "__main__":
    main()
