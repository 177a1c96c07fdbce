"""The Kubernetes store keeps every promise of a cluster store, against a real API server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from minikafka.metadata.store import ClusterStore

from tests.apiserver.conftest import OpenStore
from tests.unit.metadata.store_conformance import TestCommit, TestCounters, TestLease, TestWatch

__all__ = ["TestCommit", "TestCounters", "TestLease", "TestWatch"]


@pytest.fixture
def connect(open_store: OpenStore) -> Callable[[int], Awaitable[ClusterStore]]:
    async def make(node: int) -> ClusterStore:
        del node
        return await open_store()

    return make
