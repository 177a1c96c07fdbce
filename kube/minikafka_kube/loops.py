"""One loop for each cluster: it waits until something happened, or some time passed, and has the cluster reconciled.

These are tasks of our own and not kopf's daemons: kopf starts no daemon for an object that is already being deleted. Its
``on.delete`` handlers do run then, also for what was deleted while the operator was away, as long as kopf has put its own
finalizer on the object before. But deleting a cluster takes minutes and many looks, each of which may find another state;
a cluster that is being deleted is one more state for the planner, which has to know it in any case, and one finalizer is
enough. So kopf watches, and writes nothing: no finalizer, no annotations of progress.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from minikafka_kube.api_server import TRANSIENT, ApiError
from minikafka_kube.leadership import NotLeadingError
from minikafka_kube.telemetry import Looking

RESYNC_SECONDS: Final = 120.0
"""Without any event a cluster is looked at this often, in case one was missed."""

SETTLE_SECONDS: Final = 0.2
"""Events come in bursts; what follows within this time is looked at in one go."""

PAUSE_SECONDS_MIN: Final = 0.5
"""Between two looks at the same cluster, however much happens."""

GLANCE_SECONDS: Final = 5.0
"""Between two looks, where a look has left something to glance at."""

BACKOFF_SECONDS_MAX: Final = 60.0
CONCURRENT_MAX: Final = 10
"""Clusters reconciled at the same time; at the start all of them want to be."""

STALL_SECONDS_MAX: Final = 600.0
"""A reconciliation that takes longer hangs. It is a handful of requests, each bounded to half a minute."""

Glance = Callable[[], Awaitable[bool]]
Key = tuple[str, str]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReconcileResult:
    """How a look at a cluster ended. ``gone``: there is no such cluster any more."""

    name: str
    retry_seconds: float | None = None
    gone: bool = False
    glance: Callable[[], Awaitable[bool]] | None = None
    """Asked every few seconds until the next look: whether it is due now. For what is no event."""


Reconcile = Callable[[str, str], Awaitable[ReconcileResult]]


class Loops:
    """All loops, by namespace and name of the cluster."""

    def __init__(self, reconcile: Reconcile, telemetry: Looking, *, resync_seconds: float = RESYNC_SECONDS) -> None:
        self._reconcile = reconcile
        self._telemetry = telemetry
        self._resync_seconds = resync_seconds
        self._limit = asyncio.Semaphore(CONCURRENT_MAX)
        self._loops: dict[Key, _Loop] = {}
        self.leading = asyncio.Event()
        self.leading.set()

    def lead(self, leading: bool) -> None:
        """Begin to work, or stand by: then clusters are known, and nothing is done about them."""
        self._telemetry.lead(leading)
        if not leading:
            self.leading.clear()
            self._count()
            return
        self.leading.set()
        self._count()
        for loop in self._loops.values():
            loop.wake()  # whoever led before may have stopped anywhere

    def seen(self, namespace: str, name: str) -> None:
        """There is such a cluster, or something names it; whether it is there is the first thing that is looked at."""
        key = (namespace, name)
        if key not in self._loops:
            self._loops[key] = _Loop(self, key)
            self._count()
        self._loops[key].wake()

    def wake(self, namespace: str, name: str) -> None:
        """Something that belongs to a cluster changed. Of unknown clusters nothing needs to be known."""
        loop = self._loops.get((namespace, name))
        if loop is not None:
            loop.wake()

    def stalled(self) -> list[Key]:
        """Clusters whose reconciliation hangs."""
        now = time.monotonic()
        return [
            key for key, loop in self._loops.items() if loop.busy_since and now - loop.busy_since > STALL_SECONDS_MAX
        ]

    async def stop(self) -> None:
        """End all loops, in the middle of what they do if need be: the next operator finds out where they were."""
        tasks = [loop.task for loop in self._loops.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._loops.clear()

    async def once(self, key: Key) -> ReconcileResult:
        """One reconciliation, with its metrics."""
        namespace, name = key
        async with self._limit:
            began = time.monotonic()
            self._telemetry.in_progress.labels(namespace, name).set(time.time())
            try:
                outcome = await self._reconcile(namespace, name)
            except BaseException:
                self._telemetry.reconciliations.labels("failed").inc()
                raise
            finally:
                self._telemetry.done(namespace, name)
                self._telemetry.duration.observe(time.monotonic() - began)
        self._telemetry.reconciliations.labels(outcome.name).inc()
        self._telemetry.last_success.labels(namespace, name).set(time.time())
        return outcome

    def next_look_seconds(self, asked: float | None) -> float:
        """Jitter, so that many clusters are not looked at in step."""
        resync = self._resync_seconds * random.uniform(0.8, 1.2)
        return resync if asked is None else min(asked, resync)

    def forget(self, key: Key) -> None:
        """A cluster is gone."""
        self._loops.pop(key, None)
        self._telemetry.forget(*key)
        self._count()

    def _count(self) -> None:
        """Export how many it looks after: none while it stands by, when it does not notice one that goes."""
        self._telemetry.looked_after.set(len(self._loops) if self.leading.is_set() else 0)


class _Loop:
    def __init__(self, loops: Loops, key: Key) -> None:
        self._loops = loops
        self._key = key
        self._woken = asyncio.Event()
        self.busy_since = 0.0
        self.task = asyncio.create_task(self._run(), name=f"reconcile {key[0]}/{key[1]}")

    def wake(self) -> None:
        self._woken.set()

    async def _run(self) -> None:
        failures = 0
        wait_seconds = 0.0
        glance: Glance | None = None
        while True:
            await self._wait(wait_seconds, glance)
            await self._loops.leading.wait()
            self._woken.clear()
            self.busy_since = time.monotonic()
            try:
                outcome = await self._loops.once(self._key)
            except NotLeadingError as error:
                logger.info("Left %s to another operator: %s", "/".join(self._key), error)
                wait_seconds = 0.0
                await asyncio.sleep(PAUSE_SECONDS_MIN)
                continue
            except Exception as error:
                failures += 1
                wait_seconds = self._backoff(error, failures)
                # Events do not shorten it: a failing API server is not to be asked more often because more happens.
                await asyncio.sleep(wait_seconds)
                wait_seconds = 0.0
                continue
            finally:
                self.busy_since = 0.0
            failures = 0
            glance = outcome.glance
            if outcome.gone and not self._woken.is_set():
                self._loops.forget(self._key)
                return
            wait_seconds = self._loops.next_look_seconds(outcome.retry_seconds)
            await asyncio.sleep(PAUSE_SECONDS_MIN)

    async def _wait(self, seconds: float, glance: Glance | None) -> None:
        """Until something happened, the time is up, or a glance says so."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while True:
            left = until - clock()
            try:
                async with asyncio.timeout(left if glance is None else min(left, GLANCE_SECONDS)):
                    await self._woken.wait()
            except TimeoutError:
                if clock() >= until or (glance is not None and await self._is_due(glance)):
                    return
                continue
            await asyncio.sleep(SETTLE_SECONDS)
            return

    async def _is_due(self, glance: Glance) -> bool:
        if not self._loops.leading.is_set():
            return True  # the next look waits until this one leads again
        try:
            return await glance()
        except (ApiError, *TRANSIENT):
            return False  # the next look tells

    def _backoff(self, error: Exception, failures: int) -> float:
        seconds = min(2.0 ** (failures - 1), BACKOFF_SECONDS_MAX) * random.uniform(0.5, 1.0)
        where = "/".join(self._key)
        if isinstance(error, ApiError):
            seconds = max(seconds, error.retry_after_seconds or 0.0)
            logger.warning("Reconciling %s was refused, again in %.1f s: %s", where, seconds, error)
        elif isinstance(error, TRANSIENT):
            logger.warning("Reconciling %s did not reach the API server, again in %.1f s: %r", where, seconds, error)
        else:
            logger.error("Reconciling %s failed, again in %.1f s", where, seconds, exc_info=error)
        return seconds
