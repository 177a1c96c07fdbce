"""Being the controller (R15): runs the sans-I/O controller of one epoch, one batch of decisions a commit.

Requests that arrive while a commit is under way wait for the next one and share it. No answer leaves before the records
behind it are in the store; when the store refuses, every waiting request is told NOT_CONTROLLER and the role ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from minikafka.controller.brokers import CUT_OFF
from minikafka.controller.controller import Controller
from minikafka.controller.standing_back import StandingBack
from minikafka.controller_settings import controller_config
from minikafka.metadata.image import ClusterImage
from minikafka.metadata.store import ClusterStore, FencedControllerError, Lease, StoreError
from minikafka.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from minikafka.server.broker import Broker

T = TypeVar("T")

TICK_SECONDS_MAX = 0.5
"""How late a session may be found to be over."""

PROBE_TIMEOUT_SECONDS = 0.5

ATTEND_RETRY_SECONDS = 2.0
ATTEND_WELL_SECONDS = 10.0
"""Work for the store that failed is taken to be well again when it has lasted so long."""

COMPONENT, ATTENDING = "controller", "objects of the store"
"""Names of what may fail here, for /healthz."""


class ControllerRole:
    """One term as the controller."""

    def __init__(
        self, broker: Broker, store: ClusterStore, lease: Lease, image: ClusterImage, standing_back: StandingBack
    ) -> None:
        self.broker = broker
        self.standing_back = standing_back
        self.store = store
        self.lease = lease
        self.controller = Controller(
            image,
            lease.epoch,
            controller_config(broker.config),
            time.monotonic(),
            uuid4,
            broker.check_topic_configs,
            store.check_room,
        )
        self.over = asyncio.Event()
        self._queue: list[tuple[Callable[[Controller], Any], asyncio.Future[Any]]] = []
        self._work = asyncio.Event()
        self._reported: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [
            asyncio.ensure_future(self._guarded(loop))
            for loop in (self._commit_loop(), self._tick_loop(), self._renew_loop(), self._attend_loop())
        ]

    async def _guarded(self, loop: Coroutine[Any, Any, None]) -> None:
        """A controller that cannot decide must not hold the lease: whatever ends one of its loops ends the term."""
        try:
            await loop
        except StoreError as error:
            await self.stop(str(error))
        except Exception as error:
            self.broker.supervisor.report(COMPONENT, error)
            self.standing_back.begin(time.monotonic())
            await self.stop(f"internal error: {error!r}")

    def resign(self, reason: str) -> None:
        """End the term soon, and leave the lease to the others for a while."""
        self.standing_back.begin(time.monotonic())
        if not self.over.is_set():
            self._tasks.append(asyncio.ensure_future(self.stop(reason)))

    async def stop(self, reason: str) -> None:
        """End the role; waiting requests learn that this is no controller."""
        if self.over.is_set():
            return
        self.over.set()
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()
        others = [task for task in self._tasks if task is not current]
        if others:
            await asyncio.wait(others)
        for _, future in self._queue:
            self._refuse(future)
        self._queue.clear()
        for component in (ATTENDING, *self._reported):  # the next controller attends to them
            self.broker.supervisor.clear(component)
        self.broker.events.emit("controller_resigned", controller_epoch=self.lease.epoch, reason=reason)

    @staticmethod
    def _refuse(future: asyncio.Future[Any]) -> None:
        if not future.done():
            future.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER, "this broker is no longer the controller"))

    def has_registered(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether this is the live incarnation of a broker, as far as this controller has decided."""
        found = self.controller.brokers.workspace.image.brokers.get(broker_id)
        return found is not None and found.epoch == broker_epoch

    async def submit(self, decide: Callable[[Controller], T]) -> T:
        """Run ``decide`` on the controller and wait until its changes are in the store.

        Raises:
            KafkaError: what ``decide`` raised, or NOT_CONTROLLER when the changes were refused.
        """
        if self.over.is_set():
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this broker is no longer the controller")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append((decide, future))
        self._work.set()
        return await future

    def submit_later(self, decide: Callable[[Controller], Any]) -> None:
        """Like :meth:`submit` for callers that need no answer."""
        if not self.over.is_set():
            future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            future.add_done_callback(lambda f: f.cancelled() or f.exception())
            self._queue.append((decide, future))
            self._work.set()

    async def _commit_loop(self) -> None:
        while not self.over.is_set():
            await self._work.wait()
            self._work.clear()
            batch, self._queue = self._queue, []
            try:
                await self._decide(batch)
                self.broker.supervisor.clear(COMPONENT)
            finally:  # also when this task is cancelled in the middle: nobody may wait for ever
                for _, future in batch:
                    self._refuse(future)

    async def _decide(self, batch: list[tuple[Callable[[Controller], Any], asyncio.Future[Any]]]) -> None:
        """Run a batch of decisions, write what they change, release their answers."""
        answers: list[tuple[asyncio.Future[Any], Any, KafkaError | None]] = []
        for decide, future in batch:
            try:
                answers.append((future, decide(self.controller), None))
            except KafkaError as error:
                answers.append((future, None, error))
            except Exception:
                # It may be half decided, so nothing of it may be written. The client is not told to try the next controller.
                if not future.done():
                    future.set_exception(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller failed on this"))
                raise
        changes, events = self.controller.take_changes()
        if changes:
            began = time.perf_counter()
            await self.store.commit(self.lease.epoch, changes)
            self.broker.stats.commits.observe(time.perf_counter() - began)
        for event in events:
            if event.name == "leader_elected":
                self.broker.stats.record_election(bool(event.fields["clean"]), time.time())
            self.broker.events.emit(event.name, topic=event.topic, partition=event.partition, **event.fields)
        for future, value, problem in answers:
            if future.done():
                continue
            if problem is not None:
                future.set_exception(problem)
            else:
                future.set_result(value)

    async def _tick_loop(self) -> None:
        pause = min(self.controller.config.session_timeout / 8, TICK_SECONDS_MAX)
        while not self.over.is_set():
            await self._probe_strangers()
            now, brokers = time.monotonic(), self.controller.brokers
            if self.standing_back.gives_way(brokers, now):
                await self.stop(CUT_OFF)
                return
            self.submit_later(lambda controller, now=now: controller.tick(now))  # type: ignore[misc]
            await asyncio.sleep(pause)
            overslept = time.monotonic() - now - pause
            if overslept > pause:  # this process was paused, or had no processor
                brokers.excuse(overslept)

    async def _probe_strangers(self) -> None:
        """Brokers in session that never spoke to this controller: is anybody there? A refused connection says no."""
        for broker_id, session in list(self.controller.brokers.sessions.items()):
            if session.connected or broker_id == self.broker.broker_id:
                continue
            address = self.broker.address_of(broker_id)
            if address is None:
                continue
            try:
                async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                    _, writer = await asyncio.open_connection(*address)
                writer.close()
            except ConnectionRefusedError:
                self.submit_later(lambda controller, b=broker_id: controller.brokers.connection_refused(b))  # type: ignore[misc]
            except (OSError, TimeoutError, ValueError):  # ValueError: what was registered is no name of a host
                continue  # silence is judged by the session, not here

    async def _renew_loop(self) -> None:
        """Show signs of life in the store, for brokers that get no answer from here: three a session, each costs a commit."""
        pause = self.broker.config.broker_session_timeout_ms / 3000
        while not self.over.is_set():
            await asyncio.sleep(pause)
            try:
                self.lease = await self.store.renew(self.lease)
            except FencedControllerError:
                raise
            except StoreError:
                continue  # the store is away; nobody else can take the lease meanwhile either

    # -- what a store may ask of the controller (metadata/store.py, Desk) --------------------------------------------------

    async def _attend_loop(self) -> None:
        """What the store wants done by the controller. Its troubles are its own: the role goes on without it."""
        loop, supervisor = asyncio.get_running_loop(), self.broker.supervisor
        while not self.over.is_set():
            well = loop.call_later(ATTEND_WELL_SECONDS, supervisor.clear, ATTENDING)
            try:
                await self.store.attend(self)
                return
            except StoreError as error:
                self.complain("store", f"cluster store: {error}")
            except Exception as error:  # a mistake in this program must not cost the cluster its controller
                supervisor.report(ATTENDING, error)
            finally:
                well.cancel()
            await asyncio.sleep(ATTEND_RETRY_SECONDS)

    @property
    def controller_epoch(self) -> int:
        return self.lease.epoch

    @property
    def may_delete_topics(self) -> bool:
        return self.broker.config.delete_topic_enable

    def complain(self, key: str, line: str) -> None:
        self.broker.housekeeping.complain(key, line)

    def report(self, component: str, error: Exception) -> None:
        self._reported.add(component)
        self.broker.supervisor.report(component, error)

    def clear(self, component: str) -> None:
        self._reported.discard(component)
        self.broker.supervisor.clear(component)
