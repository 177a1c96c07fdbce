"""The ClusterStore on the Kubernetes API. See :mod:`minikafka.kubernetes.document` for what a commit is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol
from uuid import uuid4

from minikafka.kubernetes import capacity, topics
from minikafka.kubernetes import lease as leases
from minikafka.kubernetes.api import (
    CONFIG_MAP,
    LEASE,
    TOPIC,
    ApiError,
    Backoff,
    Conflict,
    KubernetesApi,
    Listing,
    NotFound,
    Object,
    WatchEvent,
    now,
)
from minikafka.kubernetes.connection import ApiUnreachable
from minikafka.kubernetes.document import Document
from minikafka.kubernetes.records import Records
from minikafka.kubernetes.reflector import Reflector, Warn
from minikafka.metadata.image import ClusterImage
from minikafka.metadata.store import (
    Changes,
    FencedControllerError,
    Lease,
    Room,
    Snapshot,
    StoreError,
    StoreWentBackError,
)

ATTEMPT_SECONDS_MAX = 1.5
"""How long one attempt of a write waits for its answer before it is made again."""

LOAD_ATTEMPTS_MAX = 20
OPEN_WARNING_SECONDS = 10.0


class ShowsTopics(Protocol):
    """Who writes into the topics' objects what the records say."""

    def confirmed(self) -> Mapping[str, int]:
        """Topics whose object holds exactly the record of the journal: name -> revision."""
        ...


class KubernetesStore:
    """See :class:`~minikafka.metadata.store.ClusterStore`.

    Args:
        api: the objects of the cluster's namespace.
        cluster: the MiniKafkaCluster's name, from which the other names follow.
        patience: seconds for a write, with all its attempts; then the outcome is unknown and StoreError says so.
            Less than what brokers wait for a heartbeat's answer, or they would take a slow commit for a dead controller.
        lease_seconds: ``leaseDurationSeconds`` of the Lease, for people who look at it.
        pod_uid: of the pod that this process runs in, for the operator: it goes into the Lease.
        warn: gets lines for the operator.
    """

    def __init__(
        self,
        api: KubernetesApi,
        cluster: str,
        *,
        patience: float = 3.0,
        lease_seconds: float = 9.0,
        pod_uid: str = "",
        warn: Warn = lambda _: None,
    ) -> None:
        self.cluster = cluster
        self.api = api
        self.warn = warn
        self.document_name = f"{cluster}-metadata"
        self.lease_name = f"{cluster}-controller"
        self.topic_selector: str | None = f"spec.clusterRef.name={cluster}"
        self.records = Records()
        self.reflector: Reflector | None = None
        self._patience = patience
        self._lease_seconds = lease_seconds
        self._pod_uid = pod_uid
        self._document: Document | None = None
        self.topic_reconciler: ShowsTopics | None = None
        """The one that runs while this broker is the controller: it knows what the topics' objects hold of the journal."""
        self._term = ""
        self._lease: Object | None = None
        """As last read or written, so that writing it takes one request; a stale one is noticed by its resourceVersion."""
        self._writing = asyncio.Lock()
        self._taking = asyncio.Lock()
        self._went_back: tuple[int, int] | None = None
        self._moved = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    # -- life ---------------------------------------------------------------------------------------------------------

    async def open(self, cluster_id: str | None) -> str:
        """Waits for an API server that is away; what it refuses is a StoreError."""
        backoff = self.api.backoff()
        complained = now()
        while True:
            try:
                found = await self._open(cluster_id)
                break
            except ApiUnreachable as error:
                problem: StoreError = error
            except ApiError as error:
                if error.status < 500 and error.status != 429:
                    raise
                problem = error
            if now() - complained > OPEN_WARNING_SECONDS:
                complained = now()
                self.warn(f"waiting for the cluster store: {problem}")
            await asyncio.sleep(backoff.next())
        return found

    async def _open(self, cluster_id: str | None) -> str:
        selector = f"metadata.name={self.document_name}"
        listing = await self.api.list(CONFIG_MAP, selector)
        if not listing.objects:
            await self._create(cluster_id)
            listing = await self.api.list(CONFIG_MAP, selector)
        document = self._read(listing.objects[0])
        if cluster_id is not None and document.cluster_id != cluster_id:
            raise StoreError(
                f"ConfigMap {self.document_name} in namespace {self.api.namespace} belongs to cluster "
                f"{document.cluster_id!r}, not to {cluster_id!r}"
            )
        await self._take(document)
        if self._following is None:
            self.reflector = Reflector(self.api, CONFIG_MAP, selector, self._took_list, self._took_event, self.warn)
            self._following = asyncio.ensure_future(self.reflector.run(listing))
        return document.cluster_id

    async def _create(self, cluster_id: str | None) -> None:
        """The first broker of a cluster; or the ConfigMap was lost, and the topics' objects know what was in it."""
        found = await self._topic_objects()
        held = await self.lease()
        shown = {name: revision for name, (revision, _) in found.items()}
        document = Document(
            cluster_id or uuid4().hex[:22],
            controller_epoch=held.epoch if held else 0,
            revision=max(shown.values(), default=0),
            topics=shown,
        )
        value = document.to_config_map(self.document_name, topics.labels_of(self.cluster))
        try:
            await self.api.create(CONFIG_MAP, value)
        except Conflict:
            return  # another broker was quicker

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait((self._following,))
            self._following = None
        self.api.close()

    # -- reading ------------------------------------------------------------------------------------------------------

    async def snapshot(self) -> Snapshot:
        """As of now, not as of the last event of the watch."""
        await self.refresh()
        return self.records.snapshot()

    async def changes(self, since: int) -> Changes:
        if self.reflector is not None and self.reflector.broken is not None:
            raise RuntimeError(f"ConfigMap {self.document_name} cannot be followed: {self.reflector.broken!r}")
        self._check_history()
        return self.records.changes(since)

    async def wait(self, since: int, timeout: float) -> None:
        if self.records.revision > since:
            return
        moved = self._moved
        try:
            async with asyncio.timeout(timeout):
                await moved.wait()
        except TimeoutError:
            return

    @property
    def document(self) -> Document:
        """The newest document seen; raises StoreError before the store is open."""
        if self._document is None:
            raise StoreError("the store is closed")
        return self._document

    def _read(self, value: Object) -> Document:
        """The document in a ConfigMap of our name. Raises StoreError when it is not this cluster's: it is left alone then."""
        if (value["metadata"].get("labels") or {}).get(topics.CLUSTER_LABEL) != self.cluster:
            raise StoreError(
                f"ConfigMap {self.document_name} in namespace {self.api.namespace} is not this cluster's: it lacks the label "
                f"{topics.CLUSTER_LABEL}={self.cluster}; remove it, or give the cluster another name"
            )
        return Document.from_config_map(value)

    async def refresh(self) -> Document:
        """Read the document anew."""
        document = self._read(await self.api.get(CONFIG_MAP, self.document_name, self._patience))
        await self._take(document)
        return self.document

    async def _took_list(self, listing: Listing) -> None:
        if not listing.objects:
            self.warn(f"ConfigMap {self.document_name} is gone")
            return
        await self._take(self._read(listing.objects[0]))

    async def _took_event(self, event: WatchEvent) -> None:
        if event.type == "DELETED":
            self.warn(f"ConfigMap {self.document_name} was deleted")
            if self.topic_reconciler is not None:
                await self._restore()
            return
        await self._take(self._read(event.object))

    async def _take(self, document: Document) -> None:
        """Make a document's content our own, if it is newer than what we have; read the topics that we lack."""
        async with self._taking:
            known = self._document
            if known is not None and document.goes_back_behind(known):
                self._went_back = (document.revision, known.revision)
            self._check_history()
            if known is not None and not document.newer_than(known):
                return
            objects: Mapping[str, tuple[int, Any]] | None = None
            if self.records.missing(document):
                document, objects = await self._complete(document)
            before = self.records.revision
            self.records.apply(document, objects)
            self._document = document
            if self.records.revision != before:
                self._moved.set()
                self._moved = asyncio.Event()

    def _check_history(self) -> None:
        """Raises StoreWentBackError from the first time on: what is written since then belongs to another history."""
        if self._went_back is not None:
            raise StoreWentBackError(f"ConfigMap {self.document_name} in {self.api.namespace}", *self._went_back)

    async def _complete(self, document: Document) -> tuple[Document, Mapping[str, tuple[int, Any]]]:
        """The topics' objects at the revisions that a document names: this one, or a later one.

        Raises:
            StoreError: an object is there without the state that it should have. Taking its topic for a new one
                would make brokers throw away its records.
        """
        for attempt in range(LOAD_ATTEMPTS_MAX):
            objects = await self._topic_objects()
            lacking = {
                name
                for name in self.records.missing(document)
                if name in objects and objects[name][0] != document.topics[name]
            }
            absent = {name for name in self.records.missing(document) if name not in objects}
            if not lacking and not absent:
                return document, objects
            newer = self._read(await self.api.get(CONFIG_MAP, self.document_name))
            if not newer.newer_than(document):
                damaged = lacking | (absent & await self._claimed_topics())
                if not damaged:
                    return document, objects
                if attempt >= LOAD_ATTEMPTS_MAX // 2:
                    name = min(damaged)
                    raise StoreError(
                        f"MiniKafkaTopic of topic {name!r} has lost its state: its status should be of revision "
                        f"{document.topics[name]}; restore the status, or delete the object to give up the topic"
                    )
                await asyncio.sleep(Backoff.FIRST_SECONDS)
            document = newer
        raise StoreError(f"the cluster's metadata changed {LOAD_ATTEMPTS_MAX} times while it was read")

    async def list_topics(self) -> Listing:
        """All MiniKafkaTopic objects of this cluster."""
        try:
            listing = await self.api.list(TOPIC, self.topic_selector)
        except NotFound as error:
            raise StoreError(
                "Kubernetes API: it does not know MiniKafkaTopic; apply the custom resource definitions (crds/) first"
            ) from error
        except ApiError as error:
            if error.status != 400 or self.topic_selector is None:
                raise
            self.topic_selector = None  # before Kubernetes 1.31 custom resources had no selectable fields
            return await self.list_topics()
        mine = [value for value in listing.objects if topics.belongs_to(value, self.cluster)]
        return Listing(mine, listing.resource_version)

    async def _topic_objects(self) -> dict[str, tuple[int, Any]]:
        found: dict[str, tuple[int, Any]] = {}
        for value in (await self.list_topics()).objects:
            state = topics.state_of(value)
            name = topics.topic_name(value)
            if state is not None and state[0] >= found.get(name, (-1, None))[0]:
                found[name] = state
        return found

    async def _claimed_topics(self) -> set[str]:
        return {topics.topic_name(value) for value in (await self.list_topics()).objects}

    # -- writing the document -------------------------------------------------------------------------------------------

    async def write(self, change: Callable[[Document], Document], done: Callable[[Document], bool]) -> Document:
        """Replace the document by ``change`` of the newest one.

        When an answer is lost, the very same write is made again: whichever of the two comes second fails on its
        resourceVersion, and reading back shows whether the first one is there (``done``). So afterwards nothing of
        this write can happen any more.

        Raises:
            StoreError: the outcome is not known after all of ``patience``; or what ``change`` raises.
        """
        async with self._writing:
            deadline = now() + self._patience
            base = self.document
            backoff = self.api.backoff()
            uncertain = False
            while True:
                wanted = change(base)
                if wanted is base:
                    return base
                try:
                    written = await self._replace(wanted, deadline)
                    await self._take(written)
                    return written
                except Conflict:
                    base = await self.refresh()
                    if uncertain and done(base):
                        return base
                    uncertain = False  # what was under way was of an older resourceVersion, and can come no more
                    if now() > deadline:
                        raise
                    continue
                except NotFound:
                    base = await self._restore()
                    continue
                except ApiUnreachable as error:
                    uncertain = uncertain or error.sent
                    problem: StoreError = error
                except ApiError as error:
                    if not error.maybe_done:
                        raise
                    uncertain = True
                    problem = error
                pause = backoff.next()
                if now() + pause > deadline:
                    raise problem
                await asyncio.sleep(pause)

    async def _restore(self) -> Document:
        """The ConfigMap was deleted: write what we know into a new one, unless somebody did."""
        value = replace(self.document, resource_version="").to_config_map(
            self.document_name, topics.labels_of(self.cluster)
        )
        try:
            await self._take(self._read(await self.api.create(CONFIG_MAP, value, self._patience)))
            self.warn(f"ConfigMap {self.document_name} was made anew")
        except Conflict:
            return await self.refresh()
        return self.document

    async def _replace(self, document: Document, deadline: float) -> Document:
        value = document.to_config_map(self.document_name, topics.labels_of(self.cluster))
        timeout = min(ATTEMPT_SECONDS_MAX, max(deadline - now(), 0.01))
        return self._read(await self.api.replace(CONFIG_MAP, value, timeout=timeout))

    async def commit(self, controller_epoch: int, records: Mapping[str, Any]) -> int:
        target = -1

        def change(document: Document) -> Document:
            nonlocal target
            check_epoch(document, controller_epoch)
            wanted = document.trimmed(self._confirmed()).after(records, self.records.made_anew(records))
            target = wanted.revision
            return wanted

        def done(document: Document) -> bool:
            # Nobody else can make this revision under our epoch; and nobody can take our epoch from a later one.
            return document.controller_epoch == controller_epoch and document.revision == target

        return (await self.write(change, done)).revision

    def _confirmed(self) -> Mapping[str, int]:
        return self.topic_reconciler.confirmed() if self.topic_reconciler is not None else {}

    async def trim(self, controller_epoch: int, confirmed: Mapping[str, int]) -> None:
        """Drop journal entries that the topics' objects hold (name -> revision); no write when there are none."""

        def change(document: Document) -> Document:
            check_epoch(document, controller_epoch)
            return document.trimmed(confirmed)

        await self.write(change, lambda _: False)

    def room(self, image: ClusterImage) -> Room:
        """See :mod:`~minikafka.kubernetes.capacity`."""
        return capacity.room(image)

    async def allocate(self, counter: str, count: int) -> int:
        first = -1

        def change(document: Document) -> Document:
            nonlocal first
            first = document.counters.get(counter, 0)
            return replace(document, counters={**document.counters, counter: first + count})

        await self.write(change, lambda _: False)  # numbers that may have been taken are left out
        return first

    # -- the lease ------------------------------------------------------------------------------------------------------

    async def lease(self) -> Lease | None:
        value = await self._find_lease()
        return None if value is None else leases.from_object(value)

    async def _find_lease(self) -> Object | None:
        self._lease = await self.api.find(LEASE, self.lease_name, self._patience)
        return self._lease

    async def acquire(self, holder: int, host: str, port: int, expected_epoch: int) -> Lease | None:
        term = uuid4().hex
        if expected_epoch == 0:  # also when somebody deleted the Lease: epochs go on from what the document says
            await self.refresh()

        def next_lease(old: Object | None) -> Lease | None:
            if (leases.from_object(old).epoch if old is not None else 0) != expected_epoch:
                return None
            return Lease(holder, max(expected_epoch, self.document.controller_epoch) + 1, 0, host, port)

        taken = await self._write_lease(term, next_lease)
        if taken is None or not await self._seal(taken.epoch):
            return None
        self._term = term
        return taken

    async def _seal(self, epoch: int) -> bool:
        """From here on no commit of an earlier epoch can succeed; False when a later one has sealed before us."""
        overtaken = False

        def change(document: Document) -> Document:
            nonlocal overtaken
            overtaken = document.controller_epoch >= epoch
            if overtaken:
                return document
            lost = self.records.vanished
            if lost:  # deleted by force while nobody looked: from now on it is gone for everybody
                document = document.after({f"topic/{name}": None for name in lost})
            return replace(document, controller_epoch=epoch)

        await self.write(change, lambda document: document.controller_epoch == epoch)
        return not overtaken

    async def renew(self, lease: Lease) -> Lease:
        def next_lease(old: Object | None) -> Lease | None:
            held = leases.from_object(old) if old is not None else None
            if held is None or held.epoch != lease.epoch:
                return None
            return replace(held, renewed=held.renewed + 1)

        renewed = await self._write_lease(self._term, next_lease)
        if renewed is None:
            raise FencedControllerError(f"controller epoch {lease.epoch} is over")
        return renewed

    async def _write_lease(self, term: str, next_lease: Callable[[Object | None], Lease | None]) -> Lease | None:
        """Compare-and-set of the Lease, settled as :meth:`write` is; None when ``next_lease`` has none."""
        deadline = now() + self._patience
        backoff = self.api.backoff()
        attempted: Lease | None = None
        old, fresh = self._lease, False
        while True:
            if old is None and not fresh:
                old, fresh = await self._find_lease(), True
            if attempted is not None and old is not None and leases.term_of(old) == term:
                found = leases.from_object(old)
                if found == attempted:
                    return found
            wanted = next_lease(old)
            if wanted is None and fresh:
                return None
            if wanted is None:
                old = None
                continue
            value = leases.to_object(
                self.lease_name, self.cluster, wanted, term, self._lease_seconds, old, self._pod_uid, self.api.utc_now()
            )
            timeout = min(ATTEMPT_SECONDS_MAX, max(deadline - now(), 0.01))
            try:
                if old is None:
                    self._lease = await self.api.create(LEASE, value, timeout)
                else:
                    self._lease = await self.api.replace(LEASE, value, timeout=timeout)
                return wanted
            except (Conflict, NotFound):
                if now() > deadline:
                    raise
                old, fresh = None, False
                continue
            except ApiUnreachable as error:
                attempted = wanted if error.sent else attempted
                problem: StoreError = error
            except ApiError as error:
                if not error.maybe_done:
                    raise
                attempted = wanted
                problem = error
            pause = backoff.next()
            if now() + pause > deadline:
                raise problem
            await asyncio.sleep(pause)


def check_epoch(document: Document, controller_epoch: int) -> None:
    """Raises FencedControllerError unless this is the epoch that the document is sealed with."""
    if document.controller_epoch != controller_epoch or controller_epoch == 0:
        raise FencedControllerError(f"controller epoch {controller_epoch} is over")
