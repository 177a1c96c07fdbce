"""A broker's place in the cluster, sans I/O: who is the controller, am I it, does it know that I live (R15, KIP-631).

The controller's lease lies in the store. A broker connects to the lease's holder and heartbeats over that connection. When
the connection is refused the holder's process is gone, and the lease is taken at once; when the holder is merely silent,
it is taken after a session. Taking it wrongly is harmless: the epoch in every write decides who the controller is.

A controller that hears fewer than half of the brokers leaves the lease to the others for a while
(:mod:`minikafka.controller.resignation`).

There is one thing to do at a time: :attr:`BrokerLifecycle.step`. Who carries it out calls the method that the step names, which
returns effects and changes the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from minikafka.controller.brokers import HeartbeatAnswer
from minikafka.controller.resignation import ControllerResignation
from minikafka.metadata.image import BrokerState, ClusterImage
from minikafka.metadata.store import Lease, Snapshot
from minikafka.protocol.errors import ErrorCode

RETRY_SECONDS = 0.05
STORE_RETRY_SECONDS = 0.2
REFUSED_SECONDS = 0.15
"""Between registrations that are refused."""
LEAVE_LEASE_LOOK_SECONDS = 0.5
CONNECT_SECONDS_MIN = 0.1
"""The least time that a connection is given, however often heartbeats are to come."""


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    """Times in seconds."""

    heartbeat_interval: float
    session_timeout: float


# -- steps -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ReadLease:
    """Read the lease as it stands: ``lease_read`` or ``store_failed``."""


@dataclass(frozen=True, slots=True, eq=False)
class TakeLease:
    """Try to take the lease: ``lease_taken`` or ``store_failed``."""

    expected_epoch: int


@dataclass(frozen=True, slots=True, eq=False)
class ReadSnapshot:
    """Read all records, now that the lease is ours: ``snapshot_read`` or ``store_failed``."""

    lease: Lease


@dataclass(frozen=True, slots=True, eq=False)
class Connect:
    """Connect to the controller: ``connected``, ``connection_refused`` or ``connect_failed`` (also when time is up)."""

    host: str
    port: int
    controller: int
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Register:
    """Ask the controller for a broker epoch: ``registered``, or ``unanswered`` when time is up.

    Of the own term when :attr:`BrokerLifecycle.leads`, else over the connection.
    """

    incarnation: str
    previous_broker_epoch: int
    seconds: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Heartbeat:
    """Tell the controller that this broker lives: ``heartbeat_answered``, or ``unanswered`` when time is up."""

    broker_epoch: int
    want_fence: bool
    want_shut_down: bool
    seconds: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """Do nothing until time is up (``waited``), or until the step is another one."""

    seconds: float
    until_poked: bool = False


Step = ReadLease | TakeLease | ReadSnapshot | Connect | Register | Heartbeat | Wait


# -- effects -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TermBegins:
    """This broker is the controller from now on; a term that it still had is over."""

    lease: Lease
    image: ClusterImage


@dataclass(frozen=True, slots=True)
class TermIsOver:
    """The own term is to be ended."""

    reason: str


@dataclass(frozen=True, slots=True)
class Registered:
    """The controller admitted this incarnation; the image may already know."""

    broker_epoch: int


@dataclass(frozen=True, slots=True)
class RegistrationLost:
    """The controller does not know this incarnation: what it leads is not its own any more until it is registered again."""

    broker_epoch: int


@dataclass(frozen=True, slots=True)
class IdInUse:
    """Another live process has this broker's id."""


@dataclass(frozen=True, slots=True)
class MayStop:
    """The controlled shutdown was heard: leaders have been moved away, as far as that can be done."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection to the controller."""


Effect = TermBegins | TermIsOver | Registered | RegistrationLost | IdInUse | MayStop | Disconnect


class BrokerLifecycle:
    """From the start of a broker to its end. Times are seconds of the caller's clock.

    Args:
        new_incarnation: an id that no process had before.
        resignation: of this broker; its terms as the controller share it.
    """

    def __init__(
        self,
        broker_id: int,
        settings: LifecycleSettings,
        resignation: ControllerResignation,
        new_incarnation: Callable[[], str],
        now: float,
    ) -> None:
        self.broker_id = broker_id
        self.step: Step = ReadLease()
        self.cluster_id = ""
        """Set before the first step is carried out, as :attr:`previous_broker_epoch`."""
        self.previous_broker_epoch = -1
        """In the marker of the last clean shutdown; -1 without one, and when that incarnation is over."""
        self.controller_id = -1
        self.controller_epoch = 0
        self.broker_epoch = -1
        """-1 without a registration."""
        self.leads: int | None = None
        """The controller epoch of the own term."""
        self.want_fence = True
        self.want_shut_down = False
        self._settings = settings
        self._resignation = resignation
        self._new_incarnation = new_incarnation
        self._incarnation = new_incarnation()
        self._connected_to: int | None = None
        """The controller epoch of who is at the other end."""
        self._answered = False
        """Whether anything came over the connection."""
        self._hung_up: int | None = None
        """The controller epoch of a holder that took the last connection, and closed it without a word."""
        self._poked = False
        self._seen = (-1, -1)
        self._seen_at = now

    # -- what the broker wants --------------------------------------------------------------------------------------------

    def poke(self) -> None:
        """Heartbeat now: something in it has changed."""
        self._poked = True
        if isinstance(self.step, Wait) and self.step.until_poked:
            self.step = self._beat()

    def fence(self) -> None:
        """Have others lead what this broker leads, until :meth:`replicas_settled`."""
        self.want_fence = True
        self.poke()

    def shut_down(self) -> None:
        """Have others lead what this broker leads: it is about to stop."""
        self.want_shut_down = True
        self.poke()

    def in_image(self, image: ClusterImage) -> BrokerState | None:
        """This incarnation as the cluster knows it; None until then. Nothing is hosted before: what is older may be untrue."""
        me = image.brokers.get(self.broker_id)
        return me if me is not None and self.broker_epoch >= 0 and me.epoch == self.broker_epoch else None

    def is_fenced(self, image: ClusterImage) -> bool:
        """By the controller's word, which everybody else has as well; False before it has said anything."""
        me = self.in_image(image)
        return me is not None and me.fenced

    def replicas_settled(self, leads_in_name_only: bool, has_offline_logs: bool = False) -> None:
        """Replicas match the image; if all of them can, this broker may lead.

        A term that was given up must be ended first, by the controller: whoever asked to be fenced and was well again before
        there was a controller to hear it would be the leader in name for ever.
        """
        if leads_in_name_only:
            if not self.want_fence:
                self.fence()
        elif self.want_fence and not has_offline_logs:
            self.want_fence = False
            self.poke()

    # -- the lease --------------------------------------------------------------------------------------------------------

    def lease_read(self, lease: Lease | None, now: float) -> list[Effect]:
        """Who holds it."""
        if lease is None or (lease.holder == self.broker_id and lease.epoch != self.leads):
            effects = self._leave()
            self.step = self._take(lease.epoch if lease else 0, now)
            return effects
        self._look_at(lease, now)
        if lease.epoch == self.leads:
            self.step = self._beat()
        elif lease.epoch == self._connected_to:  # asked because it gave no answer in time
            self.step = self._take(lease.epoch, now) if self._is_silent(now) else self._beat()
        elif lease.epoch == self._hung_up:  # a proxy that stands before it may do so for ever
            self._hung_up = None
            effects = self._leave()
            return effects + self.connect_failed(now)
        else:
            effects = self._leave()
            self.step = Connect(lease.host, lease.port, lease.holder, self._interval)
            return effects
        return []

    def _take(self, epoch: int, now: float) -> TakeLease | Wait:
        """The lease, or a moment's patience while it is left to the others."""
        return Wait(LEAVE_LEASE_LOOK_SECONDS) if self._resignation.leaves_the_lease(now) else TakeLease(epoch)

    def _look_at(self, lease: Lease, now: float) -> None:
        """Note who holds the lease, and when it last showed a sign of life."""
        self.controller_id, self.controller_epoch = lease.holder, lease.epoch
        if self._seen != (lease.epoch, lease.renewed):
            self._seen = (lease.epoch, lease.renewed)
            self._seen_at = now

    def _is_silent(self, now: float) -> bool:
        return now - self._seen_at > self._settings.session_timeout

    @property
    def _interval(self) -> float:
        return max(self._settings.heartbeat_interval, CONNECT_SECONDS_MIN)

    def lease_taken(self, lease: Lease | None) -> list[Effect]:
        """None: somebody else was faster. The image is read *after* the lease is ours, so that no older write is missed."""
        self.step = ReadLease() if lease is None else ReadSnapshot(lease)
        return self._leave()

    def snapshot_read(self, lease: Lease, snapshot: Snapshot, now: float) -> list[Effect]:
        """The term may begin."""
        image = ClusterImage(self.cluster_id)
        for key, value in snapshot.records.items():
            image.apply(key, value)
        image.revision = snapshot.revision
        self._look_at(lease, now)
        self.leads = lease.epoch
        self.step = self._beat()
        return [TermBegins(lease, image)]

    def store_failed(self) -> list[Effect]:
        """The store is away, or its answer was lost."""
        if isinstance(self.step, ReadLease) and self._connected_to is not None:
            self.step = self._beat()  # nobody else can take the lease now; and to hang up would look like our death
            return []
        self.step = Wait(STORE_RETRY_SECONDS)
        return self._leave()

    def term_ended(self, controller_epoch: int) -> None:
        """The own term is over."""
        if self.leads == controller_epoch:
            self.leads = None
            if isinstance(self.step, Wait) and self.step.until_poked:
                self.step = ReadLease()

    # -- life under a controller ------------------------------------------------------------------------------------------

    def connected(self) -> list[Effect]:
        """To the lease's holder."""
        self._connected_to = self.controller_epoch
        self._answered = False
        self.step = self._beat()
        return []

    def connection_refused(self) -> list[Effect]:
        """The holder's process is gone."""
        self.step = TakeLease(self.controller_epoch)
        return []

    def connect_failed(self, now: float) -> list[Effect]:
        """Nothing is known of the holder."""
        self.step = self._take(self.controller_epoch, now) if self._is_silent(now) else Wait(RETRY_SECONDS)
        return []

    def disconnected(self) -> None:
        """The other side closed the connection, or there was no answer on it for too long."""
        if self._connected_to is not None:
            self._hung_up = None if self._answered else self._connected_to
            self._connected_to = None
            if isinstance(self.step, Register | Heartbeat | Wait):
                self.step = ReadLease()

    def failed(self) -> list[Effect]:
        """A step failed in a way that nobody expected: begin anew."""
        self.step = ReadLease()
        return self._leave()

    def _leave(self) -> list[Effect]:
        """Not under that controller any more, nor under the own term."""
        effects: list[Effect] = []
        if self._connected_to is not None:
            self._connected_to = None
            effects.append(Disconnect())
        if self.leads is not None:
            self.leads = None
            effects.append(TermIsOver("lease is held by another"))
        return effects

    def _beat(self) -> Register | Heartbeat:
        self._poked = False
        seconds = None if self.leads is not None else 2 * self._interval
        if self.broker_epoch < 0:
            return Register(self._incarnation, self.previous_broker_epoch, seconds)
        return Heartbeat(self.broker_epoch, self.want_fence, self.want_shut_down, seconds)

    def unanswered(self) -> list[Effect]:
        """Is it still the controller? The connection stays open meanwhile."""
        self.step = ReadLease()
        return []

    def registered(self, error: ErrorCode, broker_epoch: int, now: float) -> list[Effect]:
        """The controller's answer; NOT_CONTROLLER when it is none."""
        self._answered = True
        if error:
            effects: list[Effect] = [IdInUse()] if error is ErrorCode.DUPLICATE_BROKER_REGISTRATION else []
            return effects + self._refused(error, REFUSED_SECONDS, now)
        self.broker_epoch = broker_epoch
        self.step = self._beat()
        return [Registered(broker_epoch)]

    def heartbeat_answered(self, answer: HeartbeatAnswer, now: float) -> list[Effect]:
        """The controller's answer; NOT_CONTROLLER when it is none."""
        self._answered = True
        if answer.error in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            return self._registration_lost()
        if answer.error:
            return self._refused(answer.error, RETRY_SECONDS, now)
        if self._poked:
            self.step = self._beat()
        else:
            self.step = Wait(self._settings.heartbeat_interval, until_poked=True)
        return [MayStop()] if answer.should_shut_down else []

    def _registration_lost(self) -> list[Effect]:
        """Another registration under this id has replaced ours (a late request of a dead incarnation can): begin again."""
        lost = self.broker_epoch
        self.broker_epoch = self.previous_broker_epoch = -1
        self._incarnation = self._new_incarnation()
        self.want_fence = True
        self.step = self._beat()
        return [RegistrationLost(lost)]

    def _refused(self, error: ErrorCode, pause: float, now: float) -> list[Effect]:
        """One that says it is no controller, and renews no lease, has resigned: its term is free.

        Who has resigned lately itself leaves it to the others, anew: of two that are cut off from the rest, but not from each
        other and the store, neither may take over from the other before the rest has seen a lease that nobody renews.
        """
        resigned = error is ErrorCode.NOT_CONTROLLER and self._connected_to is not None and self._is_silent(now)
        if resigned and self._resignation.leaves_the_lease(now):
            self._resignation.begin(now)
        self.step = self._take(self.controller_epoch, now) if resigned else Wait(pause)
        return self._leave() if self._connected_to is not None else []

    def waited(self) -> list[Effect]:
        """The time of a :class:`Wait` is up."""
        if isinstance(self.step, Wait):
            alive = self._connected_to is not None or self.leads is not None
            self.step = self._beat() if self.step.until_poked and alive else ReadLease()
        return []
