"""Bug seeds in the two cluster stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from minikafka.kubernetes import lease as leases
from minikafka.kubernetes.api import ApiError, Object, WatchEvent
from minikafka.kubernetes.connection import ApiUnreachable
from minikafka.kubernetes.document import Document
from minikafka.kubernetes.store import KubernetesStore
from minikafka.kubernetes.topic_reconciler import TopicReconciler
from minikafka.metadata.database import Database
from minikafka.metadata.store import Changes, FencedControllerError, Lease

from minikafka_chaos.simulation.bug_seed import BugSeed, rules_with


class _CommitsUnfenced(Database):
    """The epoch of whoever has the lease now."""

    def commit(self, controller_epoch: int, records: Mapping[str, Any]) -> int:
        held = self.lease()
        return super().commit(controller_epoch if held is None else held.epoch, records)


class _TellsTheLatestOnly(Database):
    """One revision, not all that were missed."""

    def changes(self, since: int) -> Changes:
        found = super().changes(since)
        return super().changes(max(since, found.revision - 1))


class _GivesTheLeaseToAnybody(Database):
    def acquire(self, holder: int, host: str, port: int, expected_epoch: int) -> Lease | None:
        held = self.lease()
        return super().acquire(holder, host, port, expected_epoch if held is None else held.epoch)


class _RenewsForAnybody(Database):
    def renew(self, lease: Lease) -> Lease:
        held = self.lease()
        return super().renew(lease if held is None else held)


class _WritesUnfenced(KubernetesStore):
    """The document's own epoch, whoever sealed it."""

    async def commit(self, controller_epoch: int, records: Mapping[str, Any]) -> int:
        del controller_epoch
        while True:
            try:
                return await super().commit(self.document.controller_epoch, records)
            except FencedControllerError:
                await self.refresh()


class _SealsNothing(KubernetesStore):
    """The lease alone says who the controller is; its first commit puts the epoch into the document."""

    async def _seal(self, epoch: int) -> bool:
        del epoch
        return True

    async def commit(self, controller_epoch: int, records: Mapping[str, Any]) -> int:
        await self.write(lambda d: replace(d, controller_epoch=controller_epoch), lambda _: False)
        return await super().commit(controller_epoch, records)


class _TakesALostAnswerForAFailure(KubernetesStore):
    """What may have been written counts as not written, and the term goes on without it."""

    async def write(self, change: Callable[[Document], Document], done: Callable[[Document], bool]) -> Document:
        del done
        try:
            return await super().write(change, lambda _: False)
        except (ApiError, ApiUnreachable):
            return self.document


class _RecognisesNoLeaseOfItsOwn(KubernetesStore):
    """Whoever's lease is there after a lost answer: it is taken for the own one."""

    async def _write_lease(self, term: str, next_lease: Callable[[Object | None], Lease | None]) -> Lease | None:
        taken = await super()._write_lease(term, next_lease)
        value = await self._find_lease()
        return taken if value is None or taken is not None else leases.from_object(value)


class _HearsListsOnly(KubernetesStore):
    """Events of the watch are dropped."""

    async def _took_event(self, event: WatchEvent) -> None:
        del event


class _ShowsNothing(TopicReconciler):
    """Nobody tells people what became of a topic."""

    async def run(self) -> None:
        """Nothing is done."""


STORE_SEEDS = (
    BugSeed("sqlite-commit-unfenced", "SQLite: a commit of an old controller epoch is written", "R15",
            rules_with(database=_CommitsUnfenced)),
    BugSeed("sqlite-changes-latest", "SQLite: who missed several commits hears of the last one only", "R15",
            rules_with(database=_TellsTheLatestOnly)),
    BugSeed("sqlite-lease-to-anybody", "SQLite: the lease is taken whatever its epoch is by now", "R15",
            rules_with(database=_GivesTheLeaseToAnybody)),
    BugSeed("sqlite-renew-for-anybody", "SQLite: an old controller renews the lease of its successor", "R15",
            rules_with(database=_RenewsForAnybody)),
    BugSeed("kubernetes-commit-unfenced", "Kubernetes: a commit of an old controller epoch is written", "R15",
            rules_with(kubernetes_store=_WritesUnfenced)),
    BugSeed("kubernetes-seal-nothing", "Kubernetes: a new controller leaves the document unsealed", "R15",
            rules_with(kubernetes_store=_SealsNothing)),
    BugSeed("kubernetes-lost-is-refused", "Kubernetes: a write whose answer is lost counts as not made, and all goes on", "R15",
            rules_with(kubernetes_store=_TakesALostAnswerForAFailure)),
    BugSeed("kubernetes-lease-of-others", "Kubernetes: another's Lease is taken for the own one", "R15",
            rules_with(kubernetes_store=_RecognisesNoLeaseOfItsOwn)),
    BugSeed("kubernetes-drop-events", "Kubernetes: the events of a watch are dropped", "client-go's Reflector",
            rules_with(kubernetes_store=_HearsListsOnly)),
    BugSeed("kubernetes-show-nothing", "Kubernetes: the objects of topics are never written", "level-triggered controllers",
            rules_with(topic_reconciler=_ShowsNothing)),
)  # fmt: skip
