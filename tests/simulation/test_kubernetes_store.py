"""The cluster store on Kubernetes in the simulation: it is production's, and its troubles come."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from typing import NamedTuple

import pytest
from minikafka.kubernetes.api import CONFIG_MAP, LEASE, TOPIC
from minikafka_simulator.schedules.world import World
from minikafka_simulator.stores.api_server import SimApiError
from minikafka_simulator.stores.kubectl_user import NAME
from minikafka_simulator.stores.kubernetes_client import CLUSTER
from minikafka_simulator.stores.kubernetes_store import KubernetesStores

SEEDS = (10, 18, 26, 33)
"""Of runs that have this store."""


class Ended(NamedTuple):
    """A schedule that is over."""

    world: World
    store: KubernetesStores
    refused: Counter[int]
    """Requests that the API server refused, by status."""


def finished(seed: int) -> Ended:
    world = World(seed)
    assert isinstance(world.store, KubernetesStores)
    refused: Counter[int] = Counter()
    carry_out = KubernetesStores.carry_out

    def counting(self: KubernetesStores, *args: object) -> object:
        try:
            return carry_out(self, *args)  # type: ignore[arg-type]
        except SimApiError as refusal:
            refused[refusal.status] += 1
            raise

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KubernetesStores, "carry_out", counting)
        world.run()
    return Ended(world, world.store, refused)


@pytest.fixture(scope="module")
def used() -> Iterator[Ended]:
    ended = finished(SEEDS[0])
    yield ended
    ended.store.close()


def test_what_the_cluster_did_is_written_there(used: Ended) -> None:
    world, store, _ = used
    kinds = Counter(change.plural for change in store.server.history)
    assert kinds[CONFIG_MAP.plural] > 10 and kinds[LEASE.plural] > 10 and kinds[TOPIC.plural] > 1
    assert {value["metadata"]["name"] for value in store.server.all(TOPIC.plural)} >= {"t"}
    assert store.held is not None and world.brokers[store.held.holder].role is not None


def test_troubles_come(used: Ended) -> None:
    """Conflicts are what a compare-and-set is for; a store without any would not have been tried."""
    assert used.refused[409] > 0


def test_what_is_out_of_line_is_seen(used: Ended) -> None:
    """The last that uses the store, for it changes what is there."""
    store = used.store
    assert store.out_of_line() is None
    kept = deepcopy(store.server.find(TOPIC.plural, "t"))
    assert kept is not None
    path = TOPIC.path(CLUSTER, "t")

    def write(revision: int) -> None:
        body = deepcopy(store.server.find(TOPIC.plural, "t"))
        assert body is not None
        body["status"]["revision"] = revision
        store.server.request("PUT", f"{path}/status", json.dumps(body).encode())

    write(kept["status"]["revision"] - 1)
    assert store.out_of_line() is not None, "an old state is shown"
    write(kept["status"]["revision"])
    assert store.out_of_line() is None
    store.server.request("PATCH", path, b'{"metadata": {"finalizers": null}}')
    store.server.request("DELETE", path, b"{}")
    assert store.out_of_line() is not None, "it is not shown at all"
    other = TOPIC.path(CLUSTER)
    store.server.request("POST", other, b'{"metadata": {"name": "left"}, "spec": {}}')
    assert "left" in str(store.out_of_line())


@pytest.mark.full
def test_people_have_their_way() -> None:
    """What they make becomes a topic, what they delete goes, and what cannot be had is refused with a reason."""
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        _, store, refusals = finished(seed)
        assert refusals[409] > 0
        for change in store.server.history:
            if change.plural != TOPIC.plural or change.object["metadata"]["name"] != NAME:
                continue
            status = change.object.get("status") or {}
            refused = any(condition["status"] == "False" for condition in status.get("conditions", ()))
            seen[change.type] += 1
            seen["refused"] += refused
            seen["shown"] += "topicId" in status
        store.close()
    assert min(seen[kind] for kind in ("ADDED", "MODIFIED", "DELETED", "refused", "shown")) > 0, seen
