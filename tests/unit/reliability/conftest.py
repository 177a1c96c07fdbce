"""The cluster of these tests: one broker in this process, whole and without topics at the beginning of each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from minikafka.testing import MiniKafkaCluster


@pytest.fixture(scope="module")
def shared() -> Iterator[MiniKafkaCluster]:
    with MiniKafkaCluster(1, in_process=True) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: MiniKafkaCluster) -> Iterator[MiniKafkaCluster]:
    yield shared
    shared.heal()
    shared.delete_topics()
