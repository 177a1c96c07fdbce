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
from bench.contenders import Contender
from bench.readiness import wait_for_replicas
from tests.interop.raw_client import RawConnection, metadata

ADMIN_SECONDS_MAX = 30.0
GONE_SECONDS_MAX = 90.0
"""Apache Kafka begins to remove files half a minute after its start."""


@contextmanager
def fresh_topic(subject: Contender, label: str, partitions: int = NODES) -> Iterator[str]:
    """A topic on all brokers, in sync before the block begins; gone from the disk, and all pages written back, after it.

    Brokers remove the files of a deleted topic later (``log.segment.delete.delay.ms``), and gigabytes that go in the middle
    of the next measurement hold up whoever writes then: it would be a matter of luck whose records wait.
    """
    bootstrap = subject.bootstrap
    name = f"bench-{label}-{os.urandom(4).hex()}"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    _retry(lambda: admin.create_topics([NewTopic(name, partitions, NODES)])[name].result(ADMIN_SECONDS_MAX))
    wait_for_replicas(bootstrap, name, NODES)
    try:
        yield name
    finally:
        _retry(lambda: admin.delete_topics([name])[name].result(ADMIN_SECONDS_MAX))
        _wait_until_gone(subject, name)
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


def _wait_until_gone(subject: Contender, name: str) -> None:
    deadline = time.monotonic() + GONE_SECONDS_MAX
    while any(subject.data.glob(f"*/*/{name}-*")) or _is_known(subject.bootstrap, name):
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"{subject.name} still has files of the deleted topic {name} after {GONE_SECONDS_MAX:g} s"
            )
        time.sleep(0.1)


def _is_known(bootstrap: str, name: str) -> bool:
    with RawConnection(bootstrap) as connection:
        return not metadata(connection, [name]).topic_errors.get(name)
