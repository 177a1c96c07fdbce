"""What a broker knows of the cluster, and what it suspects before the image says so."""

from __future__ import annotations

import asyncio

import pytest
from minikafka.metadata.image import CLUSTER_CONFIG, BrokerState, ClusterImage
from minikafka.metadata.memory import MemoryStore
from minikafka.metadata.store import StoreError
from minikafka.replication.clock import Clock
from minikafka.server import metadata_cache
from minikafka.server.metadata_cache import FENCED_LISTED_SECONDS, SUSPECT_SECONDS, MetadataCache

from tests.unit.server.in_process import DEADLINE
from tests.waiting import until


class Scene:
    def __init__(self) -> None:
        self.now = 100.0
        self.store = MemoryStore()
        self.store.open_now("id")
        self.metadata = MetadataCache(self.store, Clock(lambda: self.now, lambda: 0, lambda *_: None), "REPLICATION")
        self.metadata.open("id")

    def broker(self, broker_id: int, fenced: bool = False, rack: str | None = None) -> None:
        listeners = (("REPLICATION", "inside", 9091), ("CLIENT", "outside", 9092 + broker_id))
        self.metadata.image.brokers[broker_id] = BrokerState(broker_id, 1, "x", listeners, rack=rack, fenced=fenced)
        self.metadata.note_fenced()


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_broker_is_listed_for_a_while_after_it_was_fenced(scene: Scene) -> None:
    scene.broker(1, fenced=True)
    assert not scene.metadata.recently_fenced(1), "nobody saw it alive"
    scene.broker(1)
    scene.now += 1000.0
    scene.broker(1, fenced=True)
    assert scene.metadata.recently_fenced(1)
    scene.now += FENCED_LISTED_SECONDS - 0.1
    scene.broker(1, fenced=True)
    assert scene.metadata.recently_fenced(1), "it counts from when it was fenced"
    scene.now += 0.2
    assert not scene.metadata.recently_fenced(1)


async def test_clients_wait_for_the_successor_of_a_suspect_only(scene: Scene) -> None:
    scene.broker(1)
    async with asyncio.timeout(DEADLINE):
        await scene.metadata.wait_for_successors([1])  # nothing is wrong with it
    scene.metadata.suspect(1)
    waiting = asyncio.ensure_future(scene.metadata.wait_for_successors([1]))
    await asyncio.sleep(0)
    assert not waiting.done()
    scene.broker(1, fenced=True)
    scene.metadata.announce()
    async with asyncio.timeout(DEADLINE):
        await waiting


async def test_nobody_waits_for_ever_for_a_successor(scene: Scene) -> None:
    scene.broker(1)
    scene.metadata.suspect(1)
    waiting = asyncio.ensure_future(scene.metadata.wait_for_successors([1]))
    await asyncio.sleep(0)
    scene.now += SUSPECT_SECONDS + 0.01
    await until(waiting.done)


async def commit(scene: Scene) -> None:
    lease = scene.store.acquire_now(1, "h", 1, 0)
    await scene.store.commit(lease.epoch, {CLUSTER_CONFIG: {"min.insync.replicas": "2"}})


async def test_records_stay_untaken_until_somebody_took_them(scene: Scene) -> None:
    await commit(scene)
    for _ in range(2):
        await scene.metadata.read()
    assert list(scene.metadata.untaken) == [CLUSTER_CONFIG]
    assert scene.metadata.image.cluster_configs == {"min.insync.replicas": "2"}


async def test_records_that_the_image_cannot_take_are_not_forgotten(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image has the revision of what it took last, so the store gives them again; what was taken stays untaken too."""

    def refuse(image: ClusterImage, key: str, value: object) -> None:
        raise LookupError("a record of the future")

    await commit(scene)
    with monkeypatch.context() as broken:
        broken.setattr(ClusterImage, "apply", refuse)
        with pytest.raises(LookupError):
            await scene.metadata.read()
    assert list(scene.metadata.untaken) == [CLUSTER_CONFIG]
    await scene.metadata.read()
    assert scene.metadata.image.cluster_configs == {"min.insync.replicas": "2"}


async def test_caught_up_does_not_wait_for_a_store_that_is_away(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(revision: int) -> None:
        raise StoreError("away")

    monkeypatch.setattr(scene.store, "changes", away)
    async with asyncio.timeout(DEADLINE):
        await scene.metadata.caught_up()


async def test_caught_up_waits_a_second_at_most(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_cache, "CATCH_UP_SECONDS_MAX", 0.01)
    await commit(scene)
    async with asyncio.timeout(DEADLINE):
        await scene.metadata.caught_up()  # nobody reads


def test_addresses_are_those_of_the_listener_that_is_asked_for(scene: Scene) -> None:
    scene.broker(1, rack="a")
    scene.broker(2)
    metadata = scene.metadata
    assert metadata.address_of(1) == ("inside", 9091)
    assert metadata.address_of(3) is None
    assert metadata.endpoints_of({2, 1, 3}, "CLIENT") == [(1, "outside", 9093, "a"), (2, "outside", 9094, None)]
    assert metadata.endpoints_of({1}, "NONE") == []
