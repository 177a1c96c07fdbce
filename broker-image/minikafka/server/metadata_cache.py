"""What this broker knows of the cluster: the image, and what is suspected before the image says so (Kafka's MetadataCache)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any
from uuid import UUID

from minikafka.metadata.image import ClusterImage, PartitionState
from minikafka.metadata.store import ClusterStore, StoreError
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fetch import TopicKey
from minikafka.replication.clock import Clock

WATCH_SECONDS = 2.0
"""How long a lost bell of the store can go unnoticed."""

CATCH_UP_SECONDS_MAX = 1.0

SUSPECT_SECONDS = 0.2
"""How long an answer to Metadata may wait for the successor of a leader whose connection has closed."""

FENCED_LISTED_SECONDS = 10.0
"""How long Metadata still lists a broker after it was fenced; longer than clients take to find the new leaders."""


class MetadataCache:
    """Of one broker.

    Args:
        store: where the image comes from.
        clock: see there.
        inter_broker_listener: the listener at which brokers reach each other.
    """

    def __init__(self, store: ClusterStore, clock: Clock, inter_broker_listener: str) -> None:
        self.image = ClusterImage("")
        self.untaken: dict[str, Any] = {}
        """Records that are in the image, and that this broker has not been brought in line with."""
        self.is_taken = True
        """Whether this broker was brought in line with what it took as a whole, all replicas made."""
        self._store = store
        self._clock = clock
        self._inter_broker_listener = inter_broker_listener
        self._changed = asyncio.Event()
        self._last_alive: dict[int, float] = {}
        self._suspects: dict[int, float] = {}

    def open(self, cluster_id: str) -> None:
        """The store is open: there is an image to follow."""
        self.image = ClusterImage(cluster_id)

    # -- the image ----------------------------------------------------------------------------------------------------------

    async def read(self) -> None:
        """Bring what is new in the store into the image. Raises StoreError."""
        changes = await self._store.changes(self.image.revision)
        if changes.revision != self.image.revision:
            self.untaken.update(changes.records)
            for key, value in changes.records.items():
                self.image.apply(key, value)
            self.image.revision = changes.revision

    async def wait(self) -> None:
        """Until the store may have something new. Raises StoreError."""
        await self._store.wait(self.image.revision, WATCH_SECONDS)

    def announce(self) -> None:
        """This broker is what the image says: wake those who wait for that."""
        self._changed.set()

    async def changed(self) -> None:
        """Wait for the next announcement."""
        self._changed.clear()
        await self._changed.wait()

    async def caught_up(self) -> None:
        """Wait (a second at most) until this broker is what the store had when this was called.

        What was asked for is done, whether this broker can know it now or not: a store that is away is no error of the request.
        """
        try:
            target = (await self._store.changes(self.image.revision)).revision
        except StoreError:
            return
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS_MAX):
                while self.image.revision < target or not self.is_taken:
                    await self.changed()
        except TimeoutError:
            return

    # -- who is alive -------------------------------------------------------------------------------------------------------

    def note_fenced(self) -> None:
        """Remember when brokers were last seen alive in the image."""
        now = self._clock.now()
        for broker_id, fenced in [(b.broker_id, b.fenced) for b in self.image.brokers.values()]:
            if not fenced:
                self._last_alive[broker_id] = float("inf")
            elif self._last_alive.get(broker_id) == float("inf"):
                self._last_alive[broker_id] = now

    def recently_fenced(self, broker_id: int) -> bool:
        """Whether a broker was seen alive less than :data:`FENCED_LISTED_SECONDS` ago."""
        seen = self._last_alive.get(broker_id)
        return seen is not None and self._clock.now() - seen < FENCED_LISTED_SECONDS

    def suspect(self, broker_id: int) -> None:
        """Our connection to a leader closed: it may be dead, and the controller about to say who leads now."""
        self._suspects[broker_id] = self._clock.now()

    async def wait_for_successors(self, leaders: Collection[int]) -> None:
        """Give the controller a moment to replace suspected leaders before clients are told of them.

        A client whose leader has died asks another broker at once. Told of the dead leader once more it believes that and
        asks again only after a second (librdkafka's ``topic.metadata.refresh`` timer); told 20 ms later it goes on.
        """
        # Let the loop read what the kernel already knows: the end of a dead leader's connection, too.
        for _ in range(2):
            await asyncio.sleep(0)
        deadline = self._clock.now() + SUSPECT_SECONDS
        while self._clock.now() < deadline and any(self._is_suspect(leader) for leader in leaders):
            try:
                async with asyncio.timeout(SUSPECT_SECONDS / 4):
                    await self.changed()
            except TimeoutError:
                continue

    def _is_suspect(self, broker_id: int) -> bool:
        since = self._suspects.get(broker_id)
        if since is None:
            return False
        peer = self.image.brokers.get(broker_id)
        if peer is None or peer.fenced or self._clock.now() - since > SUSPECT_SECONDS:
            del self._suspects[broker_id]
            return False
        return True

    # -- what is where ------------------------------------------------------------------------------------------------------

    def partition_exists(self, key: TopicKey, index: int) -> bool:
        """Whether the cluster has such a partition, here or elsewhere."""
        return self._partition(key, index) is not None

    def _partition(self, key: TopicKey, index: int) -> PartitionState | None:
        topic = self.image.topics_by_id.get(key) if isinstance(key, bytes) else self.image.topics.get(key)
        return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None

    def name_of(self, topic_id: UUID | None) -> str | None:
        """The name of the topic with this id; None: there is none."""
        topic = None if topic_id is None else self.image.topics_by_id.get(topic_id.bytes)
        return None if topic is None else topic.name

    def id_of(self, name: str) -> UUID | None:
        """The id of the topic with this name; None: there is none."""
        topic = self.image.topics.get(name)
        return None if topic is None else topic.topic_id

    def absent(self, topic: str, index: int) -> ErrorCode:
        """Why a partition is not on this broker, as whoever asks for it is told: it is elsewhere, or nowhere."""
        known = self.partition_exists(topic, index)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def leader_hint(self, key: TopicKey, index: int) -> tuple[int, int] | None:
        """(leader, leader epoch) for a client that came to the wrong broker (KIP-951)."""
        state = self._partition(key, index)
        return None if state is None else (state.leader, state.leader_epoch)

    def address_of(self, broker_id: int) -> tuple[str, int] | None:
        """Where brokers reach a broker."""
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else broker.endpoint(self._inter_broker_listener)

    def endpoints_of(self, broker_ids: Collection[int], listener: str) -> list[tuple[int, str, int, str | None]]:
        """(id, host, port, rack) for the node endpoints of KIP-951."""
        found = []
        for broker_id in sorted(broker_ids):
            broker = self.image.brokers.get(broker_id)
            address = broker.endpoint(listener) if broker is not None else None
            if broker is not None and address is not None:
                found.append((broker_id, *address, broker.rack))
        return found
