"""What the controller's broker does for MiniKafkaTopic objects: what people ask for goes in, the topics' state comes out.

Level-triggered: :meth:`TopicReconciler._step` looks at one topic's record and its objects, does the one thing that is missing,
and looks again. What it does not find missing it does not write, so a quiet cluster causes no writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from minikafka.controller.controller import Controller
from minikafka.kubernetes import desired, topics
from minikafka.kubernetes.api import TOPIC as TOPICS
from minikafka.kubernetes.api import Backoff, Conflict, Listing, NotFound, Object, WatchEvent, now
from minikafka.kubernetes.reflector import Reflector
from minikafka.kubernetes.topics import TopicRefusal
from minikafka.metadata.image import BROKER, TOPIC, TopicState
from minikafka.metadata.store import StoreError
from minikafka.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from minikafka.kubernetes.document import Document
    from minikafka.kubernetes.store import KubernetesStore

T = TypeVar("T")

WORKERS = 4
GONE_MAX = 1_000
STEPS_MAX = 20
"""Steps for one topic before others have their turn; a topic needs five at most when nobody interferes."""

TRIM_QUIET_SECONDS = 1.0
"""How long nothing may be to do before the journal is trimmed; a commit trims it in passing."""

REFUSED_SECONDS_FIRST, REFUSED_SECONDS_MAX = 5.0, 60.0
RECORDS_WAIT_SECONDS = 30.0

WATCHING = "watch of MiniKafkaTopic objects"
"""Names what may fail here, for /healthz."""


@dataclass(slots=True)
class _Refused:
    """What was asked for and the controller refused. It is tried again later: brokers may have come."""

    generation: int
    refusal: TopicRefusal
    again_at: float
    pause: float


class ActiveController(Protocol):
    """The controller on this broker, for who does something for it as long as it is the controller."""

    @property
    def controller_epoch(self) -> int: ...

    @property
    def may_delete_topics(self) -> bool:
        """``delete.topic.enable``."""
        ...

    async def submit(self, decide: Callable[[Controller], T]) -> T:
        """Decide, and return when the changes are in the store. Raises KafkaError: refused, or NOT_CONTROLLER."""
        ...

    def warn_rarely(self, key: str, line: str) -> None:
        """A line for the operator; not more than one a minute for each ``key``."""
        ...

    def report(self, component: str, error: Exception) -> None:
        """Something failed that nobody expected to: shown by ``/healthz`` until it is cleared."""
        ...

    def clear(self, component: str) -> None:
        """What was reported works again."""
        ...


class TopicReconciler:
    """One term. ``run`` ends only by being cancelled, or when this broker is no longer the controller."""

    def __init__(self, store: KubernetesStore, controller: ActiveController) -> None:
        self.store = store
        self.controller = controller
        self._objects: dict[str, Object] = {}
        self._by_topic: dict[str, set[str]] = {}
        self._refused: dict[str, _Refused] = {}
        self._put: dict[str, tuple[Mapping[str, Any], Any]] = {}
        self._gone: dict[str, None] = {}
        """The uids of objects that were deleted, the last of them: the answer to a write of ours may come after that news."""
        self._deleted: dict[str, None] = {}
        """The ids of topics whose object was deleted in this term, the last of them: the topic goes, too."""
        self._dirty: dict[str, None] = {}
        self._active: set[str] = set()
        self._backoff: dict[str, Backoff] = {}
        self._work = asyncio.Condition()
        self._timers: set[asyncio.TimerHandle] = set()
        self._seen_revision = -1

    async def run(self) -> None:
        """Raises StoreError, and what nobody expected."""
        self.store.topic_reconciler = self
        try:
            await self._run()
        finally:
            if self.store.topic_reconciler is self:
                self.store.topic_reconciler = None

    async def _run(self) -> None:
        store = self.store
        while True:
            try:
                listing = await store.list_topics()
                break
            except StoreError as error:
                self.controller.warn_rarely("topics", f"MiniKafkaTopic objects: {error}")
                await asyncio.sleep(1.0)
        await self._took_list(listing)
        reflector = Reflector(
            store.api,
            TOPICS,
            store.topic_selector,
            self._took_list,
            self._took_event,
            store.warn,
            lambda error: self.controller.report(WATCHING, error),
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(reflector.run(listing))
                tasks.create_task(self._follow_records())
                tasks.create_task(self._trim_loop())
                for _ in range(WORKERS):
                    tasks.create_task(self._work_loop())
        except* _TermOver:
            pass
        finally:
            for timer in self._timers:
                timer.cancel()

    # -- what happens -------------------------------------------------------------------------------------------------

    async def _took_list(self, listing: Listing) -> None:
        before = list(self._by_topic)
        self.controller.clear(WATCHING)
        listed = {value["metadata"]["uid"] for value in listing.objects}
        self._bury(*(uid for each in self._objects.values() if (uid := each["metadata"]["uid"]) not in listed))
        self._objects.clear()
        self._by_topic.clear()
        for value in listing.objects:
            self._note(value)
        known = [k.removeprefix(TOPIC) for k in self.store.records.values if k.startswith(TOPIC)]
        await self._mark(*before, *self._by_topic, *known)

    async def _took_event(self, event: WatchEvent) -> None:
        value = event.object
        if not topics.belongs_to(value, self.store.cluster):
            return
        if event.type == "DELETED":
            self._forget(value)
            _keep_last(self._deleted, str(topics.topic_id(value)))
        else:
            self._note(value)
        await self._mark(topics.topic_name(value))

    def _note(self, value: Object) -> None:
        """Take in an object, unless we know a later version of it (from the answer to our own write), or that it is gone."""
        if not topics.belongs_to(value, self.store.cluster) or value["metadata"]["uid"] in self._gone:
            return
        name, topic = value["metadata"]["name"], topics.topic_name(value)
        known = self._objects.get(name)
        if known is not None and _is_older(value, known):
            return
        self._objects[name] = topics.slim(value)
        self._by_topic.setdefault(topic, set()).add(name)

    def _bury(self, *uids: str) -> None:
        _keep_last(self._gone, *uids)

    def _forget(self, value: Object) -> None:
        self._bury(value["metadata"]["uid"])
        name, topic = value["metadata"]["name"], topics.topic_name(value)
        known = self._objects.get(name)
        if known is not None and known["metadata"]["uid"] != value["metadata"]["uid"]:
            return
        self._objects.pop(name, None)
        names = self._by_topic.get(topic, set())
        names.discard(name)
        if not names:
            self._by_topic.pop(topic, None)
        self._refused.pop(value["metadata"]["uid"], None)
        self._put.pop(value["metadata"]["uid"], None)

    async def _follow_records(self) -> None:
        records = self.store.records
        while True:
            changes = records.changes(self._seen_revision)
            self._seen_revision = changes.revision
            names = [k.removeprefix(TOPIC) for k in changes.records if k.startswith(TOPIC)]
            if any(k.startswith(BROKER) for k in changes.records):
                names += self._give_another_chance()
            await self._mark(*names)
            await self.store.wait(self._seen_revision, RECORDS_WAIT_SECONDS)

    def _give_another_chance(self) -> list[str]:
        """A broker has come or gone: what was refused may be possible now."""
        for refused in self._refused.values():
            refused.again_at = 0.0
        return [topics.topic_name(v) for v in self._objects.values() if v["metadata"]["uid"] in self._refused]

    def _now(self) -> str:
        """The time of a condition."""
        return self.store.api.utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")

    # -- the queue ----------------------------------------------------------------------------------------------------

    async def _mark(self, *names: str) -> None:
        async with self._work:
            self._dirty.update(dict.fromkeys(names))
            self._work.notify_all()

    def _mark_later(self, name: str, seconds: float) -> None:
        loop = asyncio.get_running_loop()

        def due() -> None:
            self._timers.discard(timer)
            task = loop.create_task(self._mark(name))
            task.add_done_callback(lambda t: t.cancelled() or t.exception())

        timer = loop.call_later(seconds, due)
        self._timers.add(timer)

    async def _work_loop(self) -> None:
        while True:
            async with self._work:
                while (name := next((n for n in self._dirty if n not in self._active), None)) is None:
                    await self._work.wait()
                del self._dirty[name]
                self._active.add(name)
            try:
                await self._reconcile(name)
            finally:
                self._active.discard(name)
            async with self._work:
                self._work.notify_all()

    async def _reconcile(self, name: str) -> None:
        try:
            for _ in range(STEPS_MAX):
                if not await self._step(name):
                    break
            else:
                self._mark_later(name, Backoff.SECONDS_MAX)
            self._backoff.pop(name, None)
        except Conflict:
            await self._look_again(name)
        except (StoreError, KafkaError) as error:
            self.controller.warn_rarely(f"topic {name}", f"MiniKafkaTopic of {name}: {error}")
            self._mark_later(name, self._backoff.setdefault(name, self.store.api.backoff()).next())
        except _TermOver:
            raise
        except Exception as error:  # one object that nobody expected must not keep all others from being attended to
            self.controller.report(_component(name), error)
            self._mark_later(name, self._backoff.setdefault(name, self.store.api.backoff()).next())
        else:
            self.controller.clear(_component(name))

    async def _look_again(self, name: str) -> None:
        """Somebody else wrote at the same time: read what they wrote, and start over."""
        for known in [self._objects[held] for held in sorted(self._by_topic.get(name, ()))]:
            try:
                value = await self.store.api.find(TOPICS, known["metadata"]["name"])
            except StoreError:
                continue
            if value is None:
                self._forget(known)  # the watch may have said so meanwhile, and that there is another one
            else:
                self._note(value)
        self._mark_later(name, self._backoff.setdefault(name, self.store.api.backoff()).next())

    # -- one topic ----------------------------------------------------------------------------------------------------

    async def _step(self, name: str) -> bool:
        """Do the next thing that this topic needs; False when it needs nothing more now."""
        found = self.store.records.topic(name)
        claims = [self._objects[held] for held in self._by_topic.get(name, ())]
        main = _main(claims, found)
        for other in claims:
            if main is not None and other is not main:
                await self._refuse_duplicate(other, main)
        if main is None:
            return False if found is None else await self._without_object(*found)
        if topics.is_deleting(main):
            return await self._deleting(main, found)
        if found is None:
            return await self._without_topic(name, main)
        return await self._with_topic(main, *found)

    async def _without_object(self, revision: int, state: TopicState) -> bool:
        """A client's topic needs an object; one that had it and lost it was deleted, by force or while no broker ran."""
        name, document = state.name, self.store.document
        had_one = name not in document.journal or name in document.shown or str(state.topic_id) in self._deleted
        if had_one:
            if document.topics.get(name) == revision:
                await self._submit(desired.deletion(name, state.topic_id))
            return False
        wanted = topics.object_name(name)
        taken = self._objects.get(wanted)
        if taken is not None and topics.topic_name(taken) != name:
            wanted = topics.hashed_name(name)
        await self._create(wanted, state)
        return True

    async def _create(self, wanted: str, state: TopicState) -> None:
        api, cluster = self.store.api, self.store.cluster
        try:
            self._note(await api.create(TOPICS, topics.new_object(wanted, cluster, state)))
            return
        except Conflict:
            there = await api.find(TOPICS, wanted)
        if there is None:
            raise StoreError(f"MiniKafkaTopic {wanted} came and went")
        if topics.belongs_to(there, cluster) and topics.topic_name(there) == state.name:
            self._note(there)
            return
        wanted = topics.hashed_name(state.name, cluster)  # another cluster of this namespace has the name
        self._note(await api.create(TOPICS, topics.new_object(wanted, cluster, state)))

    async def _deleting(self, main: Object, found: tuple[int, TopicState] | None) -> bool:
        if not topics.has_finalizer(main):
            return False
        if found is None or topics.shows_another(main, found[1]):
            await self._drop_finalizer(main)
            return False
        if not self.controller.may_delete_topics:
            refusal = TopicRefusal("TopicDeletionDisabled", "delete.topic.enable=false: topics of this cluster stay")
            await self._put_status(main, topics.status_of(main, found[1], found[0], refusal, self._now()))
            return False
        await self._submit(desired.deletion(found[1].name, found[1].topic_id))
        return True

    async def _drop_finalizer(self, value: Object) -> None:
        kept = [f for f in value["metadata"]["finalizers"] if f != topics.FINALIZER]
        try:
            await self._merge(value, {"metadata": {"finalizers": kept}})
        except NotFound:
            kept = []
        if not kept:
            self._forget(value)  # it is gone now, and the watch may have said so before the answer came

    async def _without_topic(self, name: str, main: Object) -> bool:
        """Either somebody asks for a new topic, or it is what a client's deletion has left."""
        if topics.state_of(main) is not None or topics.made_by_brokers(main):
            await self._delete_remains(name, main)
            return True
        if self._is_refused(main) is not None:
            return False
        patch = topics.metadata_patch(main, self.store.cluster)
        if topics.topic_id(main) is not None:
            patch["annotations"] = {topics.TOPIC_ID: None}  # copied from the object of a topic that is no more
        if patch:  # before the topic is there, so that it cannot be left without an object unnoticed
            await self._merge(main, {"metadata": patch})
            return True
        try:
            await self._submit(desired.creation(name, topics.desired_of(main)))
        except KafkaError as error:
            refusal = self._refuse(name, main, error)
            await self._put_status(main, topics.refused_status(main, refusal, self._now()))
            return False
        self._refused.pop(main["metadata"]["uid"], None)
        return True

    async def _delete_remains(self, name: str, main: Object) -> None:
        """A client has deleted the topic; its object goes, too. Unless we are not the ones to judge any more."""
        document = await self.store.refresh()
        if document.controller_epoch != self.controller.controller_epoch:
            raise _TermOver
        if name in document.topics:
            return
        await self.store.api.delete(TOPICS, main)
        value = await self.store.api.find(TOPICS, main["metadata"]["name"])
        if value is None or value["metadata"]["uid"] != main["metadata"]["uid"]:
            self._forget(main)
        else:
            self._note(value)

    async def _with_topic(self, main: Object, revision: int, state: TopicState) -> bool:
        agreed = topics.state_of(main)
        if agreed is not None and agreed[0] > revision and agreed[0] > self.store.records.revision:
            return False  # a later controller wrote this
        refusal = self._is_refused(main)
        edit = topics.edit_of(main, state)
        if edit and refusal is None:
            try:
                await self._submit(desired.alteration(state.name, state.topic_id, edit))
                self._refused.pop(main["metadata"]["uid"], None)
                return True
            except KafkaError as error:
                refusal = self._refuse(state.name, main, error)
        elif not edit:
            self._refused.pop(main["metadata"]["uid"], None)
            refusal = None
        metadata = topics.metadata_patch(main, self.store.cluster)
        spec = topics.spec_patch(main, state)
        if metadata or spec:
            # The spec first: a status that is ahead of it would make an old spec look as if somebody asked to go back.
            await self._merge(main, {"metadata": metadata, **({"spec": spec} if spec else {})})
            return True
        await self._put_status(main, topics.status_of(main, state, revision, refusal, self._now()))
        return False

    async def _refuse_duplicate(self, other: Object, main: Object) -> None:
        if topics.is_deleting(other):
            if topics.has_finalizer(other):
                await self._drop_finalizer(other)
            return
        refusal = TopicRefusal(
            "Duplicate", f"MiniKafkaTopic {main['metadata']['name']} is topic {topics.topic_name(main)} already"
        )
        await self._put_status(other, topics.refused_status(other, refusal, self._now()))

    # -- the controller's word ------------------------------------------------------------------------------------------

    async def _submit(self, decide: Callable[[Controller], T]) -> T:
        """Raises KafkaError; NOT_CONTROLLER ends the term."""
        try:
            return await self.controller.submit(decide)
        except KafkaError as error:
            if error.code is ErrorCode.NOT_CONTROLLER:
                raise _TermOver from error
            raise

    def _is_refused(self, value: Object) -> TopicRefusal | None:
        """The refusal of just this spec, unless it is time to try again."""
        refused = self._refused.get(value["metadata"]["uid"])
        if refused is None or refused.generation != value["metadata"].get("generation"):
            return None
        return refused.refusal if now() < refused.again_at else None

    def _refuse(self, name: str, value: Object, error: KafkaError) -> TopicRefusal:
        uid, generation = value["metadata"]["uid"], value["metadata"].get("generation")
        refusal = TopicRefusal(topics.reason_of(error.code.name), str(error))
        before = self._refused.get(uid)
        pause = REFUSED_SECONDS_FIRST
        if before is not None and before.generation == generation:
            pause = min(before.pause * 2, REFUSED_SECONDS_MAX)
        self._refused[uid] = _Refused(generation, refusal, now() + pause, pause)
        self._mark_later(name, pause)
        return refusal

    # -- writes -------------------------------------------------------------------------------------------------------

    async def _merge(self, value: Object, patch: dict[str, Any]) -> None:
        """Compare-and-set of metadata and spec; raises Conflict, NotFound, StoreError."""
        metadata = {**patch.get("metadata", {}), "resourceVersion": value["metadata"]["resourceVersion"]}
        written = await self.store.api.merge(TOPICS, value["metadata"]["name"], {**patch, "metadata": metadata})
        self._note(written)

    async def _put_status(self, value: Object, status: dict[str, Any]) -> None:
        """Compare-and-set of the status, if it is not that already."""
        uid, old = value["metadata"]["uid"], value.get("status") or {}
        if old == status or self._put.get(uid) == (status, old):
            return
        metadata = {k: value["metadata"][k] for k in ("name", "namespace", "resourceVersion")}
        body = {"metadata": metadata, "spec": value.get("spec") or {}, "status": status}
        try:
            written = await self.store.api.replace(TOPICS, body, "status")
        except NotFound:
            self._forget(value)
            return
        self._note(written)
        kept = written.get("status") or {}
        if kept != status:
            self._put[uid] = (status, kept)  # or we would write it for ever
            lost = sorted(k for k in status if kept.get(k) != status[k])
            self.controller.warn_rarely(
                "pruned",
                f"MiniKafkaTopic: the API server changed status.{lost}; apply the CRDs of this version (crds/)",
            )

    async def _trim_loop(self) -> None:
        """Drop what the objects show from the journal, when there is nothing else to do."""
        while True:
            await asyncio.sleep(TRIM_QUIET_SECONDS)
            if self._dirty or self._active:
                continue
            try:
                await self.store.trim(self.controller.controller_epoch, self.confirmed())
            except StoreError:
                continue  # the next commit says it; trimming can wait

    def confirmed(self) -> dict[str, int]:
        """Topics whose object holds exactly the record of the journal: name -> revision."""
        document: Document = self.store.document
        found: dict[str, int] = {}
        for name, value in document.journal.items():
            for held in self._by_topic.get(name, ()):
                state = topics.state_of(self._objects[held])
                if state is None or state[0] != document.topics[name]:
                    continue
                if TopicState.from_json(name, state[1]) == TopicState.from_json(name, value):
                    found[name] = state[0]
        return found


def _keep_last(kept: dict[str, None], *more: str) -> None:
    """The last GONE_MAX of them."""
    kept.update(dict.fromkeys(more))
    while len(kept) > GONE_MAX:
        del kept[next(iter(kept))]


def _component(name: str) -> str:
    return f"MiniKafkaTopic of {name}"


class _TermOver(Exception):
    """This broker is no longer the controller."""


def _main(claims: list[Object], found: tuple[int, TopicState] | None) -> Object | None:
    """Which of several objects is the topic: the one that has been, else the oldest."""
    if not claims:
        return None
    identity = None if found is None else str(found[1].topic_id)

    def rank(value: Object) -> tuple[bool, bool, bool, str, str]:
        metadata = value["metadata"]
        return (
            identity is None or topics.topic_id(value) != identity,
            topics.topic_id(value) is None,
            not topics.has_finalizer(value),
            metadata["creationTimestamp"],
            metadata["name"],
        )

    return min(claims, key=rank)


def _is_older(value: Object, known: Object) -> bool:
    one, other = value["metadata"], known["metadata"]
    if one["uid"] != other["uid"]:
        return False
    return int(one["resourceVersion"]) < int(other["resourceVersion"])
