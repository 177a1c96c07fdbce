"""One term as the controller, sans I/O (R15): what is decided together, when it counts, and when the term is over.

Requests that arrive while a commit is under way wait for the next one and share it. No answer and no event leaves before the
records behind it are in the store; when the store refuses, whoever waits is told NOT_CONTROLLER and the term is over, for the
image of a controller holds what it decided, written or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from minikafka.controller.brokers import CUT_OFF
from minikafka.controller.controller import Controller
from minikafka.controller.heartbeats import Heartbeats
from minikafka.controller.resignation import ControllerResignation
from minikafka.controller.workspace import Event
from minikafka.metadata.store import FencedControllerError, Lease, StoreError
from minikafka.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")

TICK_SECONDS_MAX = 0.5
"""How late a session may be found to be over."""

RENEWALS_A_SESSION = 3
"""Signs of life in the store, for brokers that get no answer from the controller; each costs a commit."""


# -- effects -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Commit:
    """Write the records under the controller epoch, then call :meth:`ControllerTerm.committed` or ``commit_failed``."""

    controller_epoch: int
    records: Mapping[str, Any]
    events: Sequence[Event]
    """What is to be told once it is written: not before."""


@dataclass(frozen=True, slots=True)
class GiveAnswer:
    """Give an answer: what was decided, or the KafkaError with which it was refused."""

    reply: Callable[[Any], None]
    value: Any

    def give(self) -> None:
        self.reply(self.value)


@dataclass(frozen=True, slots=True)
class Happened:
    """A decision is in the store: everybody may hear of it."""

    event: Event


@dataclass(frozen=True, slots=True)
class Failed:
    """A mistake of this program ends the term."""

    error: Exception


@dataclass(frozen=True, slots=True)
class TermEnded:
    """The term is over, and nothing of it goes on."""

    reason: str


Effect = Commit | GiveAnswer | Happened | Failed | TermEnded


class ControllerTerm:
    """From the lease to the resignation. Times are seconds of the caller's clock.

    Args:
        lease: under which it decides.
        controller: begun with an image that was read after the lease was taken.
        resignation: outlives the term.
    """

    def __init__(
        self, broker_id: int, lease: Lease, controller: Controller, resignation: ControllerResignation
    ) -> None:
        self.broker_id = broker_id
        self.lease = lease
        self.controller = controller
        self.over = False
        self._resignation = resignation
        self._queue: list[tuple[Callable[[Controller], Any], Callable[[Any], None]]] = []
        self._decided: list[GiveAnswer] = []
        self._events: list[Event] = []
        self._committing = False
        self._tick_due: float | None = None
        self._trusts_ends_from = 0.0
        session = controller.config.session_timeout
        self.tick_seconds = min(session / 8, TICK_SECONDS_MAX)
        self.renew_seconds = session / RENEWALS_A_SESSION

    @property
    def epoch(self) -> int:
        """The controller epoch."""
        return self.lease.epoch

    def has_registered(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether this is the live incarnation of a broker, as far as this controller has decided."""
        found = self.controller.image.brokers.get(broker_id)
        return found is not None and found.epoch == broker_epoch

    # -- requests ---------------------------------------------------------------------------------------------------------

    def submit(self, decide: Callable[[Controller], T], reply: Callable[[T | KafkaError], None]) -> list[Effect]:
        """Have something decided with the next batch, and ``reply`` told when it is written."""
        if self.over:
            return [_refused(reply)]
        self._queue.append((decide, reply))
        return []

    @property
    def has_requests(self) -> bool:
        """Whether something waits for a decision."""
        return bool(self._queue)

    def decide(self, now: float, is_over: Callable[[], bool] = lambda: False) -> list[Effect]:
        """Decide on what waits, all of it or until ``is_over``. Nothing is decided during a commit: call again after it."""
        if self.over or self._committing:
            return []
        batch, self._queue = self._queue, []
        for index, (decide, reply) in enumerate(batch):
            try:
                value = decide(self.controller)
            except KafkaError as error:
                value = error
            except Exception as error:
                # It may be half decided, so nothing of it may be written. The client is not told to try the next controller.
                self._queue = batch[index + 1 :] + self._queue
                failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller failed on this")
                return [GiveAnswer(reply, failure), *self.failed(error, now)]
            self._decided.append(GiveAnswer(reply, value))
            if is_over():
                self._queue = batch[index + 1 :] + self._queue
                break
        records, self._events = self.controller.take_changes()
        if not records:
            return self._release()
        self._committing = True
        return [Commit(self.lease.epoch, records, tuple(self._events))]

    def committed(self) -> list[Effect]:
        """The records are in the store: tell what happened, then answer."""
        self._committing = False
        return self._release()

    def commit_failed(self, error: StoreError) -> list[Effect]:
        """The store refused, or its answer was lost."""
        return self.end(str(error))

    def _release(self) -> list[Effect]:
        events, self._events = self._events, []
        decided, self._decided = self._decided, []
        return [*map(Happened, events), *decided]

    # -- time -------------------------------------------------------------------------------------------------------------

    def woke(self, now: float) -> None:
        """A tick is due. When it comes late, this process was paused or had no processor, and cannot know who spoke meanwhile."""
        if self._is_late(now):
            assert self._tick_due is not None
            self.controller.brokers.excuse(now - self._tick_due)
            self._trusts_ends_from = now + self.tick_seconds

    def _is_late(self, now: float) -> bool:
        return self._tick_due is not None and now - self._tick_due > self.tick_seconds

    def strangers(self) -> list[int]:
        """Brokers in session that are not connected: is anybody there? Ask, and tell :meth:`connection_refused`."""
        sessions = self.controller.brokers.sessions
        return [broker for broker, session in sessions.items() if not session.connected and broker != self.broker_id]

    def connection_refused(self, broker_id: int) -> list[Effect]:
        """A stranger's process is gone; one that is merely silent is judged by its session."""
        return self.submit(lambda controller: controller.brokers.connection_refused(broker_id), _nobody)

    def connection_lost(self, lost: Heartbeats, now: float) -> list[Effect]:
        """The connection with a broker's heartbeats has ended: the broker is dead.

        But brokers close it themselves when nobody answers them. So one of an earlier term says nothing; and after this process
        stood still, the broker is a stranger that is asked (:meth:`strangers`).
        """
        if lost.controller_epoch != self.epoch:
            return []
        if self._is_late(now) or now < self._trusts_ends_from:
            return self.submit(lambda c: c.brokers.disconnected(lost.broker_id, lost.broker_epoch), _nobody)
        return self.submit(lambda c: c.brokers.connection_lost(lost.broker_id, lost.broker_epoch), _nobody)

    def tick(self, now: float) -> list[Effect]:
        """Look at the sessions; call it again after :attr:`tick_seconds`."""
        if self.over:
            return []
        self._tick_due = now + self.tick_seconds
        if self._resignation.is_due(self.controller.brokers, now):
            return self.end(CUT_OFF)
        return self.submit(lambda controller: controller.tick(now), _nobody)

    def renewed(self, lease: Lease) -> None:
        """The store knows that this controller lives; have it renewed again after :attr:`renew_seconds`."""
        self.lease = lease

    def renewal_failed(self, error: StoreError) -> list[Effect]:
        """When the store is away, nobody else can take the lease meanwhile either."""
        return self.end(str(error)) if isinstance(error, FencedControllerError) else []

    # -- the end ----------------------------------------------------------------------------------------------------------

    def resign(self, reason: str, now: float) -> list[Effect]:
        """End the term, and leave the lease to the others for a while."""
        self._resignation.begin(now)
        return self.end(reason)

    def failed(self, error: Exception, now: float) -> list[Effect]:
        """A controller that cannot decide must not hold the lease."""
        if self.over:
            return []
        return [Failed(error), *self.resign(f"internal error: {error!r}", now)]

    def end(self, reason: str) -> list[Effect]:
        """Whoever waits learns that this is no controller; of a commit under way nobody here learns the outcome."""
        if self.over:
            return []
        self.over = True
        waiting = [answer.reply for answer in self._decided] + [reply for _, reply in self._queue]
        self._decided, self._queue, self._events = [], [], []
        return [*map(_refused, waiting), TermEnded(reason)]


def _refused(reply: Callable[[Any], None]) -> GiveAnswer:
    return GiveAnswer(reply, KafkaError(ErrorCode.NOT_CONTROLLER, "this broker is no longer the controller"))


def _nobody(answer: object) -> None:
    """Nobody waits for it."""
    del answer
