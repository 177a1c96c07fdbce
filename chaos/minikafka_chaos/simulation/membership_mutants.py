"""Bug seeds in a broker's place in the cluster, and in a controller's term."""

from __future__ import annotations

from minikafka.controller.brokers import BrokerRegistry, HeartbeatAnswer
from minikafka.controller.term import Commit, ControllerTerm, Happened
from minikafka.controller.term import Effect as TermEffect
from minikafka.membership.lifecycle import (
    BrokerLifecycle,
    Effect,
    Heartbeat,
    ReadSnapshot,
    Register,
    TakeLease,
    TermBegins,
    Wait,
)
from minikafka.metadata.image import BrokerState, ClusterImage
from minikafka.metadata.store import Lease, Snapshot, StoreError

from minikafka_chaos.simulation.bug_seed import BugSeed, rules_with


class _AnswersBeforeTheCommit(ControllerTerm):
    def decide(self, now: float) -> list[TermEffect]:
        effects = super().decide(now)
        if any(isinstance(effect, Commit) for effect in effects):
            effects, self._decided = [*self._decided, *effects], []
        return effects


class _TellsBeforeTheCommit(ControllerTerm):
    def decide(self, now: float) -> list[TermEffect]:
        effects = super().decide(now)
        if any(isinstance(effect, Commit) for effect in effects):
            effects, self._events = [*map(Happened, self._events), *effects], []
        return effects


class _TellsOfWhatFailed(ControllerTerm):
    def commit_failed(self, error: StoreError) -> list[TermEffect]:
        events = [Happened(event) for event in self._events]
        return [*events, *super().commit_failed(error)]


class _OutlivesARefusal(ControllerTerm):
    """What the store refused counts as written, and the term goes on."""

    def commit_failed(self, error: StoreError) -> list[TermEffect]:
        del error
        self._events.clear()
        return self.committed()


class _KeepsALostLease(ControllerTerm):
    def renewal_failed(self, error: StoreError) -> list[TermEffect]:
        del error
        return []


class _KeepsItsImage(BrokerLifecycle):
    """The next term begins with what the last one had decided, written or not."""

    kept: ClusterImage | None = None

    def snapshot_read(self, lease: Lease, snapshot: Snapshot, now: float) -> list[Effect]:
        effects = super().snapshot_read(lease, snapshot, now)
        for effect in effects:
            if isinstance(effect, TermBegins):
                self.kept = self.kept or effect.image
        return [TermBegins(lease, self.kept or ClusterImage(""))]


class _ReadsBeforeItTakes(BrokerLifecycle):
    """The image is read, and then the lease is taken: what the controller before wrote in between is missed."""

    read: Snapshot | None = None

    def lease_read(self, lease: Lease | None, now: float) -> list[Effect]:
        return self._read_first(super().lease_read(lease, now))

    def connection_refused(self) -> list[Effect]:
        return self._read_first(super().connection_refused())

    def connect_failed(self, now: float) -> list[Effect]:
        return self._read_first(super().connect_failed(now))

    def _read_first(self, effects: list[Effect]) -> list[Effect]:
        if isinstance(self.step, TakeLease):
            self.read, self.step = None, ReadSnapshot(Lease(self.broker_id, self.step.expected_epoch, 0, "", 0))
        return effects

    def snapshot_read(self, lease: Lease, snapshot: Snapshot, now: float) -> list[Effect]:
        if self.read is None:
            self.read, self.step = snapshot, TakeLease(lease.epoch)
            return []
        return super().snapshot_read(lease, self.read, now)


class _HearsOldIncarnations(BrokerRegistry):
    """A heartbeat of a registration that is over counts for the one of now."""

    def heartbeat(
        self, broker_id: int, broker_epoch: int, want_fence: bool, want_shut_down: bool, now: float
    ) -> HeartbeatAnswer:
        known = self.workspace.image.brokers.get(broker_id)
        return super().heartbeat(broker_id, known.epoch if known else broker_epoch, want_fence, want_shut_down, now)


class _TakesPartUnregistered(BrokerLifecycle):
    """The image is followed before the own registration is in it."""

    def in_image(self, image: ClusterImage) -> BrokerState | None:
        return image.brokers.get(self.broker_id)


class _IsReadyAtOnce(BrokerLifecycle):
    """It asks to be unfenced before its replicas are what the image says."""

    def _beat(self) -> Register | Heartbeat:
        self.want_fence = False
        return super()._beat()


class _KeepsALostRegistration(BrokerLifecycle):
    def _registration_lost(self) -> list[Effect]:
        self.step = Wait(self._settings.heartbeat_interval, until_poked=True)
        return []


class _StaysReadyAfterALoss(BrokerLifecycle):
    def _registration_lost(self) -> list[Effect]:
        effects = super()._registration_lost()
        self.want_fence = False
        return effects


MEMBERSHIP_SEEDS = (
    BugSeed("answer-before-commit", "a controller answers before the store has what it decided", "audit s11",
            rules_with(term=_AnswersBeforeTheCommit)),
    BugSeed("tell-before-commit", "a controller tells of what is not in the store yet", "KIP-500",
            rules_with(term=_TellsBeforeTheCommit)),
    BugSeed("tell-of-failed-commit", "a controller tells of what the store refused", "KIP-500",
            rules_with(term=_TellsOfWhatFailed)),
    BugSeed("outlive-refused-commit", "a term goes on after a commit that failed", "KIP-631", rules_with(term=_OutlivesARefusal)),
    BugSeed("keep-lost-lease", "a term goes on though the lease could not be renewed", "KIP-631",
            rules_with(term=_KeepsALostLease)),
    BugSeed("keep-last-image", "a new term begins with what the last one had decided, written or not", "KIP-631",
            rules_with(lifecycle=_KeepsItsImage)),
    BugSeed("snapshot-before-lease", "the snapshot is read before the lease is taken", "audit s12",
            rules_with(lifecycle=_ReadsBeforeItTakes)),
    BugSeed("hear-old-incarnation", "a heartbeat of an old registration is accepted", "KIP-631, KIP-903",
            rules_with(brokers=_HearsOldIncarnations)),
    BugSeed("take-part-unregistered", "the image is applied before the own registration is in it", "audit s10",
            rules_with(lifecycle=_TakesPartUnregistered)),
    BugSeed("ready-at-once", "a broker is unfenced before its replicas match the image", "KIP-631",
            rules_with(lifecycle=_IsReadyAtOnce)),
    BugSeed("keep-lost-registration", "a broker does not register again when its registration is over", "KIP-631",
            rules_with(lifecycle=_KeepsALostRegistration)),
    BugSeed("ready-after-loss", "after a lost registration a broker is still ready to lead", "KIP-631",
            rules_with(lifecycle=_StaysReadyAfterALoss)),
)  # fmt: skip
