"""Brokers as the controller knows them: registration, sessions, fencing, controlled shutdown (KIP-631, KIP-841).

Liveness has two sources. A broker whose connection to the controller closes is fenced at once: that is a dead process, and
fencing one that is not dead is harmless, for it registers again. A broker that falls silent is fenced when its session runs
out. Both are only ever a matter of speed; epochs keep a wrongly fenced broker from doing harm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from minikafka.controller.partitions import PartitionRegistry
from minikafka.controller.workspace import Workspace
from minikafka.metadata.image import BrokerState
from minikafka.protocol.errors import ErrorCode

CUT_OFF = "hears fewer than half of the brokers"
"""Why a controller gives up its term: see :meth:`BrokerRegistry.is_cut_off`."""


class Registration(NamedTuple):
    """A broker asks to join."""

    broker_id: int
    cluster_id: str
    incarnation: str
    endpoints: tuple[tuple[str, str, int], ...]
    rack: str | None
    previous_broker_epoch: int
    """The epoch in the marker of the last clean shutdown; -1 after an unclean one."""


class HeartbeatAnswer(NamedTuple):
    """What a broker learns from its heartbeat."""

    error: ErrorCode
    fenced: bool = True
    should_shut_down: bool = False


class MetadataProgress(NamedTuple):
    """How far a broker has read the cluster's metadata, as its last heartbeat said; times are in milliseconds since 1970."""

    offset: int = -1
    heard_ms: int = -1
    caught_up_ms: int = -1
    """When it last had all that the controller had."""


NOTHING_READ = MetadataProgress()


@dataclass(slots=True)
class Session:
    """Soft state: when the broker was last heard of, and whether a connection to it is open."""

    last_contact: float
    connected: bool
    metadata: MetadataProgress = NOTHING_READ


class BrokerRegistry:
    """Decides on brokers."""

    def __init__(self, workspace: Workspace, partitions: PartitionRegistry, now: float) -> None:
        self.workspace = workspace
        self.partitions = partitions
        self.sessions = {b.broker_id: Session(now, False) for b in workspace.image.brokers.values() if not b.fenced}

    def register(self, registration: Registration, now: float) -> tuple[ErrorCode, int]:
        """Admit an incarnation; answers its broker epoch. It starts fenced, until its heartbeat says that it is ready."""
        image = self.workspace.image
        if registration.cluster_id != image.cluster_id:
            return ErrorCode.INCONSISTENT_CLUSTER_ID, -1
        known = image.brokers.get(registration.broker_id)
        if known is not None and known.incarnation == registration.incarnation:
            self.sessions[known.broker_id] = Session(now, True)
            return ErrorCode.NONE, known.epoch
        if known is not None and self.has_live_connection(known, now):
            return ErrorCode.DUPLICATE_BROKER_REGISTRATION, -1
        epoch = max((0, *(b.epoch for b in image.brokers.values()), *image.unregistered.values())) + 1
        clean = known is None or registration.previous_broker_epoch == known.epoch
        newcomer = BrokerState(
            registration.broker_id,
            epoch,
            registration.incarnation,
            registration.endpoints,
            registration.rack,
            returning=known is not None and (known.shutting_down or clean),
        )
        self.workspace.put_broker(newcomer)
        if known is not None:
            self._replace_incarnation(known, registration)
        self.sessions[registration.broker_id] = Session(now, True)
        self.workspace.note("broker_registered", target=registration.broker_id, broker_epoch=epoch, clean=clean)
        return ErrorCode.NONE, epoch

    def has_live_connection(self, broker: BrokerState, now: float) -> bool:
        """Another process of this id is connected and in session; without a connection a newcomer may replace it at once."""
        session = self.sessions.get(broker.broker_id)
        if session is None or not session.connected or broker.fenced:
            return False
        return now - session.last_contact <= self.workspace.config.session_timeout

    def _replace_incarnation(self, known: BrokerState, registration: Registration) -> None:
        """The old incarnation is gone. What it was in sync with counts only if it stopped cleanly (KIP-966)."""
        if self.workspace.config.trust_isr:
            self.partitions.leader_restarted(known.broker_id)
            return
        uncleanly = registration.previous_broker_epoch != known.epoch
        reason = f"broker {known.broker_id} restarted {'uncleanly' if uncleanly else 'cleanly'}"
        self.partitions.broker_gone(known.broker_id, reason, uncleanly=uncleanly)

    def heartbeat(
        self, broker_id: int, broker_epoch: int, want_fence: bool, want_shut_down: bool, now: float
    ) -> HeartbeatAnswer:
        """Keep the session; fence, unfence or shut down as the broker asks."""
        broker = self.workspace.image.brokers.get(broker_id)
        if broker is None:
            return HeartbeatAnswer(ErrorCode.BROKER_ID_NOT_REGISTERED)
        if broker.epoch != broker_epoch:
            return HeartbeatAnswer(ErrorCode.STALE_BROKER_EPOCH)
        session = self.sessions.setdefault(broker_id, Session(now, True))
        session.last_contact, session.connected = now, True
        if want_shut_down:
            return self._shut_down(broker)
        if want_fence:
            self.fence(broker, "at its own wish")
            self.sessions[broker_id] = session
            return HeartbeatAnswer(ErrorCode.NONE, fenced=True)
        if broker.fenced:
            broker = replace(broker, fenced=False)
            self.workspace.put_broker(broker)
            self.workspace.note("broker_unfenced", target=broker_id, broker_epoch=broker_epoch)
            self.partitions.broker_back(broker_id)
        return HeartbeatAnswer(ErrorCode.NONE, broker.fenced)

    def note_metadata(self, broker_id: int, offset: int, newest: int, now_ms: int) -> None:
        """A broker has read the metadata up to ``offset``, and this controller has it up to ``newest``."""
        session = self.sessions.get(broker_id)
        if session is not None:
            caught_up_ms = now_ms if offset >= newest else session.metadata.caught_up_ms
            session.metadata = MetadataProgress(offset, now_ms, caught_up_ms)

    def unregister(self, broker_id: int) -> ErrorCode:
        """Forget a broker that will not come back (UnregisterBroker). One that lives registers again.

        It leaves every ISR and ELR, as after an unclean stop: nobody knows what it has when it comes back after all.
        """
        broker = self.workspace.image.brokers.get(broker_id)
        if broker is None:
            return ErrorCode.BROKER_ID_NOT_REGISTERED
        self.fence(broker, "unregistered")
        self.partitions.broker_gone(broker_id, f"broker {broker_id}: unregistered", uncleanly=True)
        self.workspace.unregister_broker(self.workspace.image.brokers[broker_id])
        self.workspace.note("broker_unregistered", target=broker_id, broker_epoch=broker.epoch)
        return ErrorCode.NONE

    def _shut_down(self, broker: BrokerState) -> HeartbeatAnswer:
        """Controlled shutdown: leaders move away first, then the broker may stop."""
        if not broker.shutting_down:
            self.workspace.put_broker(replace(broker, shutting_down=True))
            self.partitions.broker_gone(broker.broker_id, f"broker {broker.broker_id} shuts down")
        return HeartbeatAnswer(ErrorCode.NONE, broker.fenced, should_shut_down=True)

    def connection_lost(self, broker_id: int, broker_epoch: int) -> None:
        """The connection that carried its heartbeats is closed: act on it now, unless the classic rules are wanted."""
        if self.disconnected(broker_id, broker_epoch) and not self.workspace.config.trust_isr:
            self.fence(self.workspace.image.brokers[broker_id], "connection closed")

    def disconnected(self, broker_id: int, broker_epoch: int) -> bool:
        """It has no connection; its session goes on. False when this is not its live incarnation."""
        broker = self.workspace.image.brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch:
            return False
        session = self.sessions.get(broker_id)
        if session is not None:
            session.connected = False
        return True

    def connection_refused(self, broker_id: int) -> None:
        """Nobody listens at the broker's address: the process is gone (asked by a new controller that never met it)."""
        broker = self.workspace.image.brokers.get(broker_id)
        session = self.sessions.get(broker_id)
        if broker is None or session is None or session.connected or self.workspace.config.trust_isr:
            return
        self.fence(broker, "connection refused")

    def is_cut_off(self, now: float) -> bool:
        """A session has run out while most brokers are silent: then it is this controller that nobody reaches.

        One without a majority resigns in KRaft too (KAFKA-15489), so that those who hear each other can go on. Half of a
        session is silence enough here: the others' sessions run out one after the other, not at once.
        """
        timeout = self.workspace.config.session_timeout
        silent = [now - session.last_contact for session in self.sessions.values()]
        heard = sum(seconds <= timeout / 2 for seconds in silent)
        return max(silent, default=0.0) > timeout and 2 * heard < len(silent)

    def hears_most(self, now: float) -> bool:
        """At least half of the brokers in session have spoken to this controller lately."""
        half = self.workspace.config.session_timeout / 2
        heard = sum(session.connected and now - session.last_contact <= half for session in self.sessions.values())
        return 2 * heard >= len(self.sessions)

    def excuse(self, seconds: float) -> None:
        """The controller itself stood still for so long, and cannot know who spoke meanwhile."""
        for session in self.sessions.values():
            session.last_contact += seconds

    def tick(self, now: float) -> None:
        """Fence what has been silent for longer than a session."""
        for broker_id, session in list(self.sessions.items()):
            if now - session.last_contact > self.workspace.config.session_timeout:
                broker = self.workspace.image.brokers[broker_id]
                self.fence(broker, "session timed out")

    def give_leadership_back(self) -> None:
        """After planned stops: to each broker that is in sync again, all at once and once only.

        A roll would leave every leader on the brokers that were replaced first until the next periodic rebalance. One that
        failed is not trusted so soon, and waits for that.
        """
        for broker in list(self.workspace.image.brokers.values()):
            if broker.returning and broker.active and self.partitions.return_leadership(broker.broker_id):
                self.workspace.put_broker(replace(broker, returning=False))

    def fence(self, broker: BrokerState, reason: str) -> None:
        """No leadership, no in-sync place, until it heartbeats again."""
        self.sessions.pop(broker.broker_id, None)
        if broker.fenced:
            return
        self.workspace.put_broker(replace(broker, fenced=True, returning=False))
        self.workspace.note("broker_fenced", target=broker.broker_id, broker_epoch=broker.epoch, reason=reason)
        self.partitions.broker_gone(broker.broker_id, f"broker {broker.broker_id}: {reason}")
