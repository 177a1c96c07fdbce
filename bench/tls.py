"""What TLS costs a broker, MiniKafka's and Apache Kafka's: the same load at PLAINTEXT and at TLS, in turns.

python -m bench.tls [--megabytes 400] [--rounds 3]

One broker of each, both up all the time, one partition, librdkafka; the same certificate, and TLS as each is by default. A first
round warms them up and is not counted. The client encrypts on the same machine, so believe the broker's processor time rather
than megabytes a second.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import trustme
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from minikafka.local.cluster import LocalCluster
from minikafka.local.ports import HOST, free_base_port

from bench.apache_kafka import ApacheKafka
from bench.process_stats import cpu_seconds

RECORD = os.urandom(10_000)
DEADLINE_S = 120


class Cost(NamedTuple):
    """CPU seconds of the broker per GB."""

    produce: float
    fetch: float


class Subject(NamedTuple):
    """One listener of a broker that runs."""

    name: str
    pids: Sequence[int]
    client: dict[str, Any]
    """Settings of its clients."""


def load(subject: Subject, topic: str, megabytes: int) -> Cost:
    """Write so much to a new topic, read it back, delete the topic."""
    client = subject.client
    records = megabytes * 1_000_000 // len(RECORD)
    admin = AdminClient(client)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(DEADLINE_S)
    producer = Producer({**client, "acks": "all", "linger.ms": 5, "batch.size": 256 << 10})
    before = cpu_seconds(subject.pids)
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, RECORD)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(DEADLINE_S) == 0
    between = cpu_seconds(subject.pids)
    consumer = Consumer({**client, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline, got = time.monotonic() + DEADLINE_S, 0
    while got < records and time.monotonic() < deadline:
        got += len(consumer.consume(1000, 1.0))
    assert got == records
    after = cpu_seconds(subject.pids)
    consumer.close()
    admin.delete_topics([topic])[topic].result(DEADLINE_S)
    return Cost((between - before) * 1000 / megabytes, (after - between) * 1000 / megabytes)


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a keystore for `HOST` and the authority's certificate, both PEM; the key as PKCS #8, as Kafka needs."""
    authority = trustme.CA()
    leaf = authority.issue_cert(HOST)
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    keystore, ca = folder / "broker.pem", folder / "ca.pem"
    chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
    keystore.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + chain)
    ca.write_bytes(authority.cert_pem.bytes())
    return keystore, ca


@contextmanager
def subjects(folder: Path) -> Iterator[list[Subject]]:
    """Both brokers at both kinds of listener; MiniKafka's is two processes, for `minikafka up` gives a broker one listener."""
    keystore, ca = certificate(folder)
    with ExitStack() as running:
        found = []
        for protocol in ("PLAINTEXT", "SSL"):
            ours = LocalCluster(folder / protocol)
            secured = {
                "listener.security.protocol.map": f"PLAINTEXT:{protocol}",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(keystore),
            }
            running.callback(ours.down)
            ours.up(1, free_base_port(1), secured, unflushed=False)
            pids = [broker.pid for broker in ours.info().brokers if broker.pid is not None]
            found.append(Subject(f"MiniKafka {protocol}", pids, _client(ours.bootstrap, protocol, ca)))
        kafka = ApacheKafka(folder / "kafka", free_base_port(1), nodes=1, keystore=keystore, settings=ONE_REPLICA)
        running.callback(kafka.destroy)
        kafka.up()
        for protocol, bootstrap in (("PLAINTEXT", kafka.bootstrap), ("SSL", kafka.tls_bootstrap)):
            found.append(Subject(f"{kafka.name} {protocol}", kafka.pids(), _client(bootstrap, protocol, ca)))
        yield found


ONE_REPLICA = {
    "min.insync.replicas": "1",
    **dict.fromkeys(("default.replication.factor", "offsets.topic.replication.factor"), "1"),
    **dict.fromkeys(("transaction.state.log.replication.factor", "transaction.state.log.min.isr"), "1"),
}


def _client(bootstrap: str, protocol: str, ca: Path) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": protocol,
        "ssl.ca.location": str(ca),
        "log_level": 0,
    }


def main() -> None:
    """The command of the module's docstring."""
    parser = argparse.ArgumentParser(description="what TLS costs a broker")
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, subjects(Path(folder)) as running:
        costs: dict[str, list[Cost]] = {subject.name: [] for subject in running}
        for number in range(args.rounds + 1):
            for subject in running if number % 2 else reversed(running):
                costs[subject.name].append(
                    load(subject, f"t{number}-{subject.client['security.protocol']}", args.megabytes)
                )
    for name, found in costs.items():
        produce, fetch = (statistics.median(each) for each in zip(*found[1:], strict=True))
        print(f"{name}: {produce:.2f} CPU s/GB produced, {fetch:.2f} CPU s/GB fetched")


if __name__ == "__main__":
    main()
