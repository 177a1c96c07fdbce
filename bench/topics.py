"""Topics that live as long as one measurement."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.apache_kafka import NODES
from bench.readiness import wait_for_replicas
from tests.interop.raw_client import RawConnection, metadata

ADMIN_SECONDS_MAX = 30.0


@contextmanager
def fresh_topic(bootstrap: str, label: str, partitions: int = NODES) -> Iterator[str]:
    """A topic on all brokers, in sync before the block begins; deleted, and its pages written back, after it."""
    name = f"bench-{label}-{os.urandom(4).hex()}"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    _retry(lambda: admin.create_topics([NewTopic(name, partitions, NODES)])[name].result(ADMIN_SECONDS_MAX))
    wait_for_replicas(bootstrap, name, NODES)
    try:
        yield name
    finally:
        _retry(lambda: admin.delete_topics([name])[name].result(ADMIN_SECONDS_MAX))
        _wait_until_gone(bootstrap, name)
        os.sync()


def _retry(act: Callable[[], object]) -> None:
    """A cluster that has just lost its controller answers an administrator with errors for a while."""
    deadline = time.monotonic() + ADMIN_SECONDS_MAX
    while True:
        try:
            act()
            return
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _wait_until_gone(bootstrap: str, name: str) -> None:
    deadline = time.monotonic() + ADMIN_SECONDS_MAX
    while time.monotonic() < deadline:
        with RawConnection(bootstrap) as connection:
            if metadata(connection, [name]).topic_errors.get(name):
                return
        time.sleep(0.05)
