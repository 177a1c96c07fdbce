"""Follows the cluster image, and brings this broker in line with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from minikafka.config import ConfigError
from minikafka.metadata.image import CLUSTER_CONFIG, MIN_ISR
from minikafka.metadata.store import StoreError, StoreWentBackError
from minikafka.replication.offline_logs import OfflineLogs
from minikafka.server.context import BrokerContext
from minikafka.server.hosting import PartitionHost
from minikafka.server.membership import Membership
from minikafka.server.metadata_cache import WATCH_SECONDS, MetadataCache

COMPONENT = "cluster image"


class MetadataFollower:
    """Of one broker.

    Args:
        context: see there.
        metadata: the image.
        host: has the replicas follow it.
        membership: tells which incarnation this is, and is told when all replicas could be brought in line.
        offline_logs: which could not.
        serve: has connections accepted, once there is an image.
        fail: ends the process, with the reason.
    """

    def __init__(
        self,
        context: BrokerContext,
        metadata: MetadataCache,
        host: PartitionHost,
        membership: Membership,
        offline_logs: OfflineLogs,
        serve: Callable[[], Awaitable[None]],
        fail: Callable[[str], None],
    ) -> None:
        self.context = context
        self.ready = asyncio.Event()
        """Set once this broker was seen registered and not fenced."""
        self._metadata = metadata
        self._host = host
        self._membership = membership
        self._offline_logs = offline_logs
        self._serve = serve
        self._serves = False
        self._fail = fail
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """The store is open."""
        self._task = self.context.supervisor.repeat(COMPONENT, self._follow, failed=self._give_up)

    async def stop(self) -> None:
        """Returns when nothing more is taken in."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _follow(self) -> None:
        """Take in what is new in the store, then wait for more.

        Nothing is hosted before our own registration is in the image: what is older may be untrue. Replicas are made and dropped
        in turns, each a round of this: others are served in between, and what comes in the image meanwhile does not wait for all.
        """
        metadata = self._metadata
        try:
            await metadata.read()
            if not self._serves:
                # Not before: who knows of no topic would tell clients that there is none (Kafka's brokers process no request
                # before they have caught up with the metadata either).
                await self._serve()
                self._serves = True
            if metadata.untaken or self._host.unsettled or not self._host.is_finished:
                self.take(metadata.untaken, in_slices=True)
                metadata.untaken = {}  # not before: whoever failed on them must see them again
            if metadata.is_taken:
                await metadata.wait()
        except StoreWentBackError as error:
            # What is led and followed here is of a history that the controllers to come know nothing of, and their changes
            # cannot be told from it. A new process takes the store as it is, and its logs as they are.
            self._fail(f"cluster store: {error}")
            await asyncio.sleep(WATCH_SECONDS)
        except ConfigError as error:
            self._fail(str(error))
            await asyncio.sleep(WATCH_SECONDS)
        except StoreError as error:
            self.context.warn_rarely("store", f"cluster store: {error}")
            await asyncio.sleep(WATCH_SECONDS)

    def _give_up(self) -> None:
        """The image cannot be followed, so nobody here knows what this broker leads: others shall lead, in all its roles.

        The next image that is taken in ends it.
        """
        self._membership.give_up("cannot follow the cluster image")
        self._host.reset()

    def take(self, records: Mapping[str, Any], in_slices: bool = False) -> None:
        """Bring this broker in line with the image, of which these records have changed; in slices: some way, if that is long."""
        observer = self.context.observer
        observer.image_changes()
        self._metadata.note_fenced()
        if CLUSTER_CONFIG in records:
            self._take_cluster_configs()
        me = self._membership.lifecycle.in_image(self._metadata.image)
        if me is not None:
            self._host.reconcile(records, in_slices)
            self._membership.replicas_settled(bool(self._host.leads_in_name_only), bool(len(self._offline_logs)))
            self.context.stats.fenced = int(me.fenced)
            if not me.fenced:
                self.ready.set()
        self._metadata.is_taken = me is None or self._host.is_finished
        self._metadata.announce()
        if me is not None and self._metadata.is_taken:
            observer.image_applied()

    def _take_cluster_configs(self) -> None:
        """What must be the same on every broker comes from the image, not from this broker's file (KIP-966)."""
        value = self._metadata.image.cluster_configs.get(MIN_ISR)
        self.context.config.apply_dynamic({} if value is None else {MIN_ISR: value}, {})

    def take_again(self) -> None:
        """In the next round of events, with the image as it is."""
        asyncio.get_running_loop().call_soon(self.context.supervisor.call, COMPONENT, partial(self.take, {}))
