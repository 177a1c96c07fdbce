"""Being the controller (R15): carries what :class:`~minikafka.controller.term.ControllerTerm` wants written, told and asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from minikafka.controller.controller import Controller
from minikafka.controller.heartbeats import Heartbeats
from minikafka.controller.resignation import ControllerResignation
from minikafka.controller.term import Commit, ControllerTerm, Effect, Failed, GiveAnswer, Happened, TermEnded
from minikafka.controller.workspace import Event
from minikafka.controller_settings import controller_config
from minikafka.metadata.image import ClusterImage
from minikafka.metadata.store import ClusterStore, Lease, StoreError
from minikafka.protocol.errors import KafkaError
from minikafka.server.context import BrokerContext
from minikafka.server.metadata_cache import MetadataCache
from minikafka.transport.turn import Turn

T = TypeVar("T")

PROBE_TIMEOUT_SECONDS = 0.5

RECONCILE_RETRY_SECONDS = 2.0
RECONCILE_WELL_SECONDS = 10.0
"""What failed is taken to be well again when it has lasted so long."""

COMPONENT, RECONCILING = "controller", "objects of the store"
"""Names of what may fail here, for /healthz."""


Reconcile = Callable[["ControllerRole"], Awaitable[None]]
"""Work of the controller's broker that is no decision: on Kubernetes, people's MiniKafkaTopic objects and what they show."""


class ControllerRole:
    """One term as the controller.

    Args:
        context: see there.
        store: where decisions are written.
        metadata: where other brokers are.
        lease: that of the term.
        image: the cluster as the store has it at the term's start.
        resignation: lets the lease be for a while after a term that was given up.
        ended: called once, when the term is over.
        reconcile: what this broker does beside, for as long as it is the controller; None: nothing.
    """

    def __init__(
        self,
        context: BrokerContext,
        store: ClusterStore,
        metadata: MetadataCache,
        lease: Lease,
        image: ClusterImage,
        resignation: ControllerResignation,
        ended: Callable[[ControllerRole], None],
        reconcile: Reconcile | None = None,
    ) -> None:
        self.context = context
        self.resignation = resignation
        self.store = store
        self._metadata = metadata
        self._ended = ended
        self._reconcile = reconcile
        self.controller = Controller(
            image,
            lease.epoch,
            controller_config(context.config, context.machine.descriptors),
            context.clock.now(),
            context.machine.new_id,
            context.check_topic_configs,
            store.room,
        )
        self.term = ControllerTerm(context.broker_id, lease, self.controller, resignation)
        self.over = asyncio.Event()
        self.renewed_at = context.clock.now()
        """When its lease was renewed last."""
        self.renewal_problem = ""
        """Why it could not be renewed since."""
        self._work = asyncio.Event()
        self._reported: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loops = self._commit_loop, self._tick_loop, self._probe_loop, self._renew_loop, self._reconcile_loop
        self._tasks = [asyncio.ensure_future(self._guarded(loop())) for loop in loops]

    async def _guarded(self, loop: Coroutine[Any, Any, None]) -> None:
        """Whatever ends one of its loops ends the term."""
        try:
            await loop
        except Exception as error:
            self._carry_out(self.term.failed(error, self.context.clock.now()))

    def resign(self, reason: str) -> None:
        """End the term, and leave the lease to the others for a while."""
        self._carry_out(self.term.resign(reason, self.context.clock.now()))

    async def stop(self, reason: str) -> None:
        """End the role; waiting requests learn that this is no controller. Returns when nothing of it runs any more."""
        self._carry_out(self.term.end(reason))
        if self._tasks:
            await asyncio.wait(self._tasks)

    # -- requests -----------------------------------------------------------------------------------------------------------

    async def submit(self, decide: Callable[[Controller], T]) -> T:
        """Run ``decide`` on the controller and wait until its changes are in the store.

        Raises:
            KafkaError: what ``decide`` raised, or NOT_CONTROLLER when the changes were refused.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def reply(answer: T | KafkaError) -> None:
            if future.done():
                return
            if isinstance(answer, KafkaError):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self._ask(self.term.submit(decide, reply))
        return await future

    def connection_lost(self, lost: Heartbeats) -> None:
        """The connection that carried a broker's heartbeats has ended."""
        self._ask(self.term.connection_lost(lost, self.context.clock.now()))

    def has_registered(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether this is the live incarnation of a broker, as far as this controller has decided."""
        return self.term.has_registered(broker_id, broker_epoch)

    def _ask(self, effects: list[Effect]) -> None:
        """Something may wait for a decision now."""
        self._carry_out(effects)
        self._work.set()

    # -- what the term wants --------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: list[Effect]) -> Commit | None:
        """All but a commit, which is given back."""
        self.context.observer.decided(self, effects)
        commit = None
        for effect in effects:
            match effect:
                case Commit():
                    commit = effect
                case GiveAnswer():
                    effect.give()
                case Happened():
                    self._tell(effect.event)
                case Failed():
                    self.context.supervisor.report(COMPONENT, effect.error)
                case TermEnded():
                    self._end(effect.reason)
        return commit

    def _tell(self, event: Event) -> None:
        if event.name == "leader_elected":
            self.context.stats.record_election(bool(event.fields["clean"]), self.context.clock.unix_ms() / 1000)
        self.context.events.emit(event.name, topic=event.topic, partition=event.partition, **event.fields)

    def _end(self, reason: str) -> None:
        self.over.set()
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()
        self._tasks = [task for task in self._tasks if task is not current]
        for component in (RECONCILING, *self._reported):  # the next controller attends to them
            self.context.supervisor.clear(component)
        self.context.events.emit("controller_resigned", controller_epoch=self.controller_epoch, reason=reason)
        self._ended(self)

    async def _commit_loop(self) -> None:
        while not self.term.over:
            await self._work.wait()
            self._work.clear()
            turn = Turn(self.context.clock.now)
            commit = self._carry_out(self.term.decide(self.context.clock.now(), lambda: turn.is_over))  # noqa: B023
            if self.term.has_requests:  # others are served, and the lease is renewed, in between
                self._work.set()
                if commit is None:
                    await asyncio.sleep(0)
            if commit is not None:
                began = time.perf_counter()
                try:
                    await self.store.commit(commit.controller_epoch, commit.records)
                except StoreError as error:
                    self._carry_out(self.term.commit_failed(error))
                    return
                self.context.stats.commits.observe(time.perf_counter() - began)
                self._carry_out(self.term.committed())
            if not self.term.over:
                self.context.supervisor.clear(COMPONENT)

    async def _tick_loop(self) -> None:
        while not self.term.over:
            self.term.woke(self.context.clock.now())
            self._ask(self.term.tick(self.context.clock.now()))
            await asyncio.sleep(self.term.tick_seconds)

    async def _probe_loop(self) -> None:
        """Apart from the ticks, and all at once: whoever does not answer must not put off the end of anybody's session."""
        while not self.term.over:
            await asyncio.gather(*map(self._probe, self.term.strangers()))
            await asyncio.sleep(self.term.tick_seconds)

    async def _probe(self, broker_id: int) -> None:
        """A refused connection says that nobody is there."""
        address = self._metadata.address_of(broker_id)
        if address is None:
            return
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                _, writer = await asyncio.open_connection(*address)
            writer.close()
        except ConnectionRefusedError:
            self._ask(self.term.connection_refused(broker_id))
        except (
            OSError,
            TimeoutError,
            ValueError,
            OverflowError,
        ):  # the last two: what was registered is no name, or no port
            pass

    async def _renew_loop(self) -> None:
        while not self.term.over:
            await asyncio.sleep(self.term.renew_seconds)
            try:
                self.term.renewed(await self.store.renew(self.term.lease))
                self.renewed_at, self.renewal_problem = self.context.clock.now(), ""
            except StoreError as error:
                self.renewal_problem = str(error)
                self._carry_out(self.term.renewal_failed(error))

    # -- what else is done by the controller's broker (kubernetes/topic_reconciler.py, ActiveController) -------------------

    async def _reconcile_loop(self) -> None:
        """Its troubles are its own: the role goes on without it."""
        loop, supervisor = asyncio.get_running_loop(), self.context.supervisor
        if self._reconcile is None:
            return
        while not self.term.over:
            well = loop.call_later(RECONCILE_WELL_SECONDS, supervisor.clear, RECONCILING)
            try:
                await self._reconcile(self)
                return
            except StoreError as error:
                self.warn_rarely("store", f"cluster store: {error}")
            except Exception as error:  # a mistake in this program must not cost the cluster its controller
                supervisor.report(RECONCILING, error)
            finally:
                well.cancel()
            await asyncio.sleep(RECONCILE_RETRY_SECONDS)

    @property
    def controller_epoch(self) -> int:
        return self.term.epoch

    @property
    def may_delete_topics(self) -> bool:
        return self.context.config.delete_topic_enable

    def warn_rarely(self, key: str, line: str) -> None:
        self.context.warn_rarely(key, line)

    def report(self, component: str, error: Exception) -> None:
        self._reported.add(component)
        self.context.supervisor.report(component, error)

    def clear(self, component: str) -> None:
        self._reported.discard(component)
        self.context.supervisor.clear(component)
