"""The store when answers are lost, watches break, and servers refuse, restart and forget (R10, R15)."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar
from uuid import UUID

import pytest
from minikafka.kubernetes import Access, KubernetesApi, KubernetesStore
from minikafka.kubernetes import store as store_module
from minikafka.kubernetes.api import ApiError
from minikafka.metadata.store import FencedControllerError, Lease, StoreError

from tests.apiserver.conftest import CLUSTER, OpenStore
from tests.apiserver.control_plane import ADMIN_TOKEN, ControlPlane
from tests.apiserver.faulty_proxy import Fault, FaultyProxy, Request, Rule
from tests.unit.metadata.store_conformance import controller
from tests.waiting import SOON, until

DOCUMENT = f"/configmaps/{CLUSTER}-metadata"
LEASE = f"/leases/{CLUSTER}-controller"
GIVES_UP_SECONDS_MAX = 30.0
"""For a store whose patience is a second or so; one that waits for an answer would wait for ever."""

T = TypeVar("T")


async def at_last(do: Callable[[], Awaitable[T]]) -> T:
    """Do what must succeed now. A store of little patience may need more than one try for it, on a busy machine."""
    deadline = time.monotonic() + SOON
    while True:
        try:
            return await do()
        except FencedControllerError:
            raise
        except StoreError:
            if time.monotonic() > deadline:
                raise


def once(fault: Fault, method: str, part: str) -> Rule:
    """The fault for the first request of this method whose path has this part."""
    used: list[Request] = []

    def rule(request: Request) -> Fault | None:
        if used or request.method != method or part not in request.path:
            return None
        used.append(request)
        return fault

    return rule


def always(fault: Fault, method: str, part: str) -> Rule:
    return lambda request: fault if request.method == method and part in request.path else None


class TestUnknownOutcome:
    @pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.FAIL_AFTERWARDS])
    async def test_a_commit_that_was_carried_out_is_not_made_twice(
        self, open_store: OpenStore, proxy: FaultyProxy, fault: Fault
    ) -> None:
        """R10: the answer is lost; reading back finds the commit, and it counts once."""
        store, reader = await open_store(proxy.url), await open_store()
        lease = await controller(store)
        before = await store.commit(lease.epoch, {"a": 1})
        proxy.rule = once(fault, "PUT", DOCUMENT)
        assert await store.commit(lease.epoch, {"a": 2, "b": 2}) == before + 1
        assert (await reader.snapshot()).revision == before + 1
        assert (await reader.snapshot()).records == {"a": 2, "b": 2}

    @pytest.mark.parametrize("fault", [Fault.REFUSE, Fault.HANG])
    async def test_a_commit_that_never_arrived_is_made_again(
        self, open_store: OpenStore, proxy: FaultyProxy, fault: Fault
    ) -> None:
        """R10: from here the same as a lost answer."""
        store = await open_store(proxy.url)
        lease = await controller(store)
        proxy.rule = once(fault, "PUT", DOCUMENT)
        revision = await store.commit(lease.epoch, {"a": 1})
        assert (await store.snapshot()).revision == revision == 1

    async def test_a_late_write_comes_to_nothing(self, open_store: OpenStore, proxy: FaultyProxy) -> None:
        """R10: a commit that was given up and arrives after its repetition is refused, as is one after the next term."""
        store, reader = await open_store(proxy.url, patience=5.0), await open_store()
        lease = await controller(store)
        proxy.rule = once(Fault.DELAY, "PUT", DOCUMENT)
        await store.commit(lease.epoch, {"a": 1})
        assert await proxy.release() == [409]
        proxy.rule = always(Fault.DELAY, "PUT", DOCUMENT)
        with pytest.raises(StoreError):
            await store.commit(lease.epoch, {"a": "given up"})
        proxy.rule = lambda _: None
        await controller(reader, 2)
        assert set(await proxy.release()) == {409}
        assert (await reader.snapshot()).records == {"a": 1}

    @pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.FAIL_AFTERWARDS, Fault.REFUSE])
    async def test_the_lease_is_taken_once(self, open_store: OpenStore, proxy: FaultyProxy, fault: Fault) -> None:
        """R15: who wins the lease and does not hear of it still wins; the epoch grows by one."""
        store = await open_store(proxy.url)
        for epoch, method in ((1, "POST"), (2, "PUT")):
            proxy.rule = once(fault, method, "/leases")
            lease = await controller(store)
            assert lease.epoch == epoch
        proxy.rule = once(fault, "PUT", DOCUMENT)  # the seal
        lease = await controller(store)
        assert lease.epoch == 3
        proxy.rule = once(fault, "PUT", LEASE)
        assert (await store.renew(lease)).renewed == 1
        assert await store.commit(3, {"a": 1}) == 1

    async def test_numbers_are_never_handed_out_twice(self, open_store: OpenStore, proxy: FaultyProxy) -> None:
        """R18: what may have been taken is left out."""
        one, two = await open_store(proxy.url), await open_store()
        assert await one.allocate("producer.id", 10) == 0
        proxy.rule = once(Fault.LOSE_ANSWER, "PUT", DOCUMENT)
        first = await one.allocate("producer.id", 10)
        assert first in (10, 20)
        assert await two.allocate("producer.id", 10) >= first + 10

    async def test_nothing_is_said_when_nothing_is_known(self, open_store: OpenStore, proxy: FaultyProxy) -> None:
        """R15: StoreError within the patience, for heartbeats must not wait longer."""
        store = await open_store(proxy.url, patience=1.0)
        lease = await at_last(lambda: controller(store))
        proxy.rule = always(Fault.HANG, "PUT", DOCUMENT)
        began = time.monotonic()
        with pytest.raises(StoreError):
            await store.commit(lease.epoch, {"a": 1})
        assert time.monotonic() - began < GIVES_UP_SECONDS_MAX


class TestRaces:
    async def test_many_controllers_one_truth(self, open_store: OpenStore) -> None:
        """R15: whoever commits holds the epoch; the sum of what was acknowledged is what is there."""
        stores = [await open_store() for _ in range(3)]
        acknowledged: list[tuple[int, str]] = []

        async def life(node: int, store: KubernetesStore) -> None:
            for turn in range(4):
                held = await store.lease()
                lease = await store.acquire(node, "h", node, held.epoch if held else 0)
                if lease is None:
                    continue
                try:
                    for step in range(3):
                        key = f"{node}-{turn}-{step}"
                        acknowledged.append((await store.commit(lease.epoch, {key: lease.epoch, "last": key}), key))
                except FencedControllerError:
                    continue

        await asyncio.gather(*(life(node, store) for node, store in enumerate(stores)))
        final = await stores[0].snapshot()
        revisions = [revision for revision, _ in acknowledged]
        assert len(set(revisions)) == len(revisions)
        assert final.revision == max(revisions)
        assert {key for _, key in acknowledged} == set(final.records) - {"last"}
        assert final.records["last"] == max(acknowledged)[1]

    async def test_a_controller_between_lease_and_seal_is_overtaken(
        self, open_store: OpenStore, proxy: FaultyProxy
    ) -> None:
        """R15: it took the lease and was away; by then another term is sealed, and its own never begins."""
        slow, quick = await open_store(proxy.url), await open_store()
        first = await controller(quick)
        proxy.rule = always(Fault.HANG, "PUT", DOCUMENT)
        taking = asyncio.ensure_future(slow.acquire(1, "h", 1, first.epoch))
        await until(lambda: any(DOCUMENT in r.path and r.method == "PUT" for r in proxy.requests))
        held = await quick.lease()
        assert held is not None
        assert held.epoch == first.epoch + 1
        assert await quick.commit(first.epoch, {"a": 1}) == 1, "not sealed: the old term goes on"
        next_term = await quick.acquire(2, "h", 2, held.epoch)
        assert next_term is not None
        proxy.rule = lambda _: None
        assert await taking is None
        with pytest.raises(FencedControllerError):
            await slow.commit(held.epoch, {"a": 2})
        assert (await quick.snapshot()).records == {"a": 1}

    async def test_the_lease_was_deleted(self, open_store: OpenStore, plane: ControlPlane, namespace: str) -> None:
        """R15: epochs go on from what the document says; two terms never share one."""
        one, two = await open_store(), await open_store()
        old = await controller(one)
        plane.request("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}{LEASE}")
        assert await two.lease() is None
        new = await two.acquire(2, "h", 2, 0)
        assert new == Lease(2, old.epoch + 1, 0, "h", 2)
        with pytest.raises(FencedControllerError):
            await one.commit(old.epoch, {"a": 1})
        with pytest.raises(FencedControllerError):
            await one.renew(old)

    async def test_the_document_was_deleted(self, open_store: OpenStore, plane: ControlPlane, namespace: str) -> None:
        """R15: the controller writes what it knows anew."""
        store, reader = await open_store(), await open_store()
        lease = await controller(store)
        await store.commit(lease.epoch, {"a": 1})
        plane.request("DELETE", f"/api/v1/namespaces/{namespace}{DOCUMENT}")
        assert await store.commit(lease.epoch, {"b": 2}) == 2
        assert (await reader.snapshot()).records == {"a": 1, "b": 2}


class TestRefusals:
    async def test_throttled(self, open_store: OpenStore, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> None:
        """429: nothing was done; try again when the server says so."""
        monkeypatch.setattr(store_module, "ATTEMPT_SECONDS_MAX", 60.0)  # the pause of a second is part of an attempt
        store = await open_store(proxy.url, patience=60.0)
        lease = await controller(store)
        proxy.rule = once(Fault.THROTTLE, "PUT", DOCUMENT)
        began = time.monotonic()
        await store.commit(lease.epoch, {"a": 1})
        assert time.monotonic() - began > 0.9
        proxy.rule = once(Fault.THROTTLE, "GET", LEASE)
        assert await store.lease() == lease

    @pytest.mark.full
    async def test_throttled_for_longer_than_anybody_waits(self, open_store: OpenStore, proxy: FaultyProxy) -> None:
        """429 for ever is a store that cannot be reached."""
        store = await open_store(proxy.url, patience=1.5)
        lease = await at_last(lambda: controller(store))
        proxy.rule = always(Fault.THROTTLE, "PUT", DOCUMENT)
        with pytest.raises(StoreError, match="429"):
            await store.commit(lease.epoch, {"a": 1})
        proxy.rule = lambda _: None
        await at_last(lambda: store.commit(lease.epoch, {"a": 1}))

    async def test_a_wrong_token(self, open_store: OpenStore) -> None:
        """One line that says what is wrong, at once."""
        with pytest.raises(ApiError, match="401 Unauthorized"):
            await open_store(token="wrong")

    async def test_another_clusters_broker(self, open_store: OpenStore) -> None:
        """R15: a broker with data of another cluster is refused."""
        assert await (await open_store(cluster_id="mine")).open(None) == "mine"
        with pytest.raises(StoreError, match="'mine', not to 'other'"):
            await open_store(cluster_id="other")

    async def test_a_namespace_that_is_not_there(self, plane: ControlPlane) -> None:
        """One clear line."""
        store = KubernetesStore(KubernetesApi(Access(plane.url, plane.tls, token=ADMIN_TOKEN), "nowhere"), CLUSTER)
        with pytest.raises(StoreError, match='namespaces "nowhere" not found'):
            await store.open(None)
        await store.close()


class TestWatches:
    async def test_connections_that_break(self, open_store: OpenStore, proxy: FaultyProxy) -> None:
        """R15: a broken watch goes on where it was; nothing is read twice for it."""
        store, reader = await open_store(), await open_store(proxy.url)
        lease = await controller(store)
        assert reader.reflector is not None
        for number in range(1, 6):
            watches = reader.reflector.watches
            await until(lambda: reader.reflector.watches > 0)  # type: ignore[union-attr]
            proxy.cut()
            await store.commit(lease.epoch, {"a": number})
            await until(lambda n=number: reader.records.values["a"][1] == n if "a" in reader.records.values else False)  # type: ignore[misc]
            assert reader.reflector.watches > watches
        assert reader.reflector.lists == 0, "resumed, not read anew"

    async def test_a_proxy_that_is_away(self, open_store: OpenStore, proxy: FaultyProxy) -> None:
        """R15: the reader keeps what it has, and catches up."""
        store, reader = await open_store(), await open_store(proxy.url)
        lease = await controller(store)
        await store.commit(lease.epoch, {"a": 1})
        await until(lambda: reader.records.revision, lambda r: r == 1)
        await proxy.stop()
        await store.commit(lease.epoch, {"a": 2})
        await asyncio.sleep(1.5)
        assert (await reader.changes(0)).records == {"a": 1}
        await proxy.start()
        await until(lambda: reader.records.revision, lambda r: r == 2)

    async def test_bookmarks_move_the_place_to_resume_from(self, open_store: OpenStore, proxy: FaultyProxy) -> None:
        """KEP-956: a bookmark carries a resourceVersion and no change."""
        from minikafka.kubernetes.api import Backoff, WatchEvent
        from minikafka.kubernetes.reflector import Reflector

        taken: list[str] = []

        class Api:
            backoff = Backoff

            def __init__(self) -> None:
                self.asked: list[str] = []

            async def list(self, kind, selector):  # type: ignore[no-untyped-def]
                from minikafka.kubernetes.api import Listing

                return Listing([], "10")

            async def watch(self, kind, version, selector, opened):  # type: ignore[no-untyped-def]
                self.asked.append(version)
                if len(self.asked) > 2:
                    await asyncio.Event().wait()
                yield WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": str(20 * len(self.asked))}})

        async def took_list(_: object) -> None:
            taken.append("list")

        async def took_event(event: WatchEvent) -> None:
            taken.append(event.type)

        api = Api()
        task = asyncio.ensure_future(
            Reflector(api, None, None, took_list, took_event, lambda _: None).run()  # type: ignore[arg-type]
        )
        await until(lambda: len(api.asked) == 3)
        task.cancel()
        assert api.asked == ["10", "20", "40"]
        assert taken == ["list"]


class TestSize:
    async def test_a_large_commit(self, open_store: OpenStore) -> None:
        """R10: atomic also when ten thousand partitions change at once; compressed, for a ConfigMap holds 1 MiB."""
        store, reader = await open_store(), await open_store()
        lease = await controller(store)
        state = {"replicas": [0, 1, 2], "isr": [0, 1, 2], "leader": 0, "leaderEpoch": 1, "partitionEpoch": 7}
        records = {
            f"topic/t{number}": {
                "topicId": str(UUID(int=number)),
                "partitions": [{**state, "partitionEpoch": number + index} for index in range(50)],
                "configs": {},
            }
            for number in range(200)
        }
        began = time.monotonic()
        await store.commit(lease.epoch, {**records, "broker/0": {"fenced": True}})
        print(f"\na commit of 10000 partitions: {(time.monotonic() - began) * 1000:.0f} ms", file=sys.stderr)
        await until(lambda: reader.records.revision, lambda r: r == 1)
        assert (await reader.snapshot()).records == {**records, "broker/0": {"fenced": True}}
        await store.commit(lease.epoch, dict.fromkeys(records))
        assert (await reader.snapshot()).records == {"broker/0": {"fenced": True}}


@pytest.mark.full
class TestServerLife:
    async def test_restart_and_compaction(self, stoppable_plane: ControlPlane, namespace: str) -> None:
        """410 Gone: the watch's place is no longer known after a restart and a compaction; list, and go on."""
        plane = stoppable_plane
        proxy = FaultyProxy("127.0.0.1", plane.port, plane.tls)
        await proxy.start()
        reader = KubernetesStore(KubernetesApi(Access(proxy.url, None, token=ADMIN_TOKEN), namespace), CLUSTER)
        store = KubernetesStore(KubernetesApi(Access(plane.url, plane.tls, token=ADMIN_TOKEN), namespace), CLUSTER)
        await store.open(None)
        await reader.open(None)
        lease = await at_last(lambda: controller(store))
        await at_last(lambda: store.commit(lease.epoch, {"a": 1}))
        await until(lambda: reader.records.revision, lambda r: r >= 1)
        await proxy.stop()
        for number in range(2, 20):
            await at_last(partial(store.commit, lease.epoch, {"a": number}))
        plane.compact()
        plane.stop_server()
        with pytest.raises(StoreError):
            await store.commit(lease.epoch, {"lost": 1})
        plane.start_server()
        await proxy.start()
        assert reader.reflector is not None
        await until(lambda: reader.records.values["a"][1], lambda v: v == 19)
        assert reader.reflector.lists == 1, "410 Gone made it list again"
        next_term = await at_last(lambda: controller(store, 2))
        await at_last(lambda: store.commit(next_term.epoch, {"a": 20}))
        await until(lambda: reader.records.values["a"][1], lambda v: v == 20)
        assert "lost" not in (await reader.snapshot()).records
        await reader.close()
        await store.close()
        await proxy.stop()

    async def test_a_server_that_says_nothing(self, stoppable_plane: ControlPlane, namespace: str) -> None:
        """R15: a paused server keeps its connections; a commit ends in time, and all goes on afterwards."""
        store = KubernetesStore(
            KubernetesApi(Access(stoppable_plane.url, stoppable_plane.tls, token=ADMIN_TOKEN), namespace),
            CLUSTER,
            patience=1.5,
        )
        await store.open(None)
        lease = await at_last(lambda: controller(store))
        stoppable_plane.pause_server()
        began = time.monotonic()
        with pytest.raises(StoreError):
            await store.commit(lease.epoch, {"a": 1})
        assert time.monotonic() - began < GIVES_UP_SECONDS_MAX
        stoppable_plane.resume_server()
        next_term = await at_last(lambda: controller(store))
        await at_last(lambda: store.commit(next_term.epoch, {"b": 1}))
        assert (await at_last(store.snapshot)).records["b"] == 1
        await store.close()

    async def test_open_waits_for_the_server(self, stoppable_plane: ControlPlane, namespace: str) -> None:
        """A broker that starts while the API server is away waits for it, instead of crashing again and again."""
        stoppable_plane.stop_server()
        lines: list[str] = []
        store = KubernetesStore(
            KubernetesApi(Access(stoppable_plane.url, stoppable_plane.tls, token=ADMIN_TOKEN), namespace),
            CLUSTER,
            warn=lines.append,
        )
        opening = asyncio.ensure_future(store.open("mine"))
        await asyncio.sleep(1.0)
        assert not opening.done()
        stoppable_plane.start_server()
        assert await opening == "mine"
        await store.close()
