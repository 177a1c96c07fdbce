"""A client's connection: requests in, answers out in the order of the requests.

Produce and Fetch are handled where they are read, without a task. Every other request becomes a task; those of one
connection run one after the other, as a client that pipelines them expects (Kafka mutes a connection meanwhile; here the
hot requests behind a slow one are worked on, and only their answers wait).
"""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from minikafka.controller.heartbeats import Heartbeats
from minikafka.protocol import wire
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.fetch import PartitionData
from minikafka.protocol.produce import PartitionResult
from minikafka.protocol.wire import MANY_ROWS, MalformedRequest, RequestHeader
from minikafka.quotas.rates import milliseconds
from minikafka.security.distinguished_name import distinguished_name
from minikafka.security.principal import ANONYMOUS, mapped, user
from minikafka.security.tls_stream import tls_reason
from minikafka.server.answering import answer_request
from minikafka.server.api import fetch, produce
from minikafka.server.authentication import Door
from minikafka.server.deadlines import Deadlines
from minikafka.server.quotas import ClientIdentity
from minikafka.server.request_context import STRICT_SINCE
from minikafka.server.throttling import Muting
from minikafka.server.unsent import UnsentHere, bytes_of
from minikafka.transport.framing import FrameProtocol
from minikafka.transport.request_memory import RequestMemory
from minikafka.transport.turn import ASKED_BY, Turn

if TYPE_CHECKING:
    from minikafka.server.services import Services

PRODUCE, FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)
PRODUCE_VERSION_MIN = produce.SPEC.min_version

NodeEndpoints = list[tuple[int, str, int, str | None]]
"""(id, host, port, rack) of each broker that an answer names."""

BEHIND_BYTES_MAX = 1 << 16
"""Of the requests of one connection that wait for the one that is worked on; those after them are left where they are."""

LARGE_REQUEST_BYTES = 1 << 10
"""From which on clients' requests are begun one in each round of the event loop, on whatever connections they come."""

_BEHIND, _KEPT, _TURN = "behind", "kept", "rows"

PIPELINE_MAX = 1000
"""Requests of one connection that may be unanswered; over it nothing more is read until some are."""


class Slot:
    """The place of one answer in the order of a connection."""

    __slots__ = ("api_key", "kept_bytes", "out", "parked", "ready", "size", "started")

    def __init__(self, api_key: int, started: float, size: int) -> None:
        self.api_key = api_key
        self.started = started
        self.size = size
        self.out: list[Any] | None = None
        self.kept_bytes = 0
        self.parked = 0.0
        """When its handler had done what it could, and the answer began to wait (for others, for those before it); 0: never."""
        self.ready: float
        """When the answer was there, but not its turn; 0: it never waited for that. Set where ``parked`` is."""

    @property
    def uncharged_seconds(self) -> float:
        """For how long it has been worked on since it was read; 0 once it waits: the end of its round has charged that."""
        return 0.0 if self.parked else time.perf_counter() - self.started


class ClientConnection(FrameProtocol):
    """One accepted connection."""

    def __init__(self, services: Services, listener: str) -> None:
        context, config = services.context, services.context.config
        super().__init__(context.channels.accept(listener))
        self.services = services
        self.stats = context.stats
        self.listener = listener
        self.inter_broker = listener == config.inter_broker_listener
        """Whether brokers talk to each other here. Elsewhere nobody is believed to be one."""
        self.max_frame_bytes = config.socket_request_max_bytes
        self.client_host = ""
        self.descriptor = -1
        self.principal = ANONYMOUS
        security = config.security(listener)
        self.memory: RequestMemory | None = services.request_memory
        """None: who is known to be a broker is not kept from what clients have used up."""
        self.door = None if security.mechanisms is None else Door(self, security)
        """Where clients have to log in."""
        self.slots: deque[Slot] = deque()
        self._cold: deque[tuple[Slot, RequestHeader, bytes]] = deque()
        self._cold_task: asyncio.Task[None] | None = None
        self._has_turn = False
        """The request that waits for a turn may be served."""
        self._in_turn: set[asyncio.Task[None]] = set()
        """What goes on when it has one."""
        self._kept_back_since = 0.0
        """Since when the next request waits for a quota."""
        self._takes_answers = asyncio.Event()
        self._takes_answers.set()
        self.unsent = UnsentHere(self, services.unsent)
        self._at_work: Slot | None = None
        """The answer that is made in :meth:`_run_cold`."""
        self.waiting_fetch = fetch.WaitingFetch(context.clock.now)
        self.muting = Muting(self, context.clock.now)
        self.last_active = time.perf_counter()
        """When a request came, or an answer left."""
        self._turn = Turn(context.clock.now)
        self._busy_since = 0.0
        self._charged_before = 0.0
        self.metered: ClientIdentity | None = None
        """Whose request quota the time of this round is for."""
        self._queued_bytes = 0
        self.deadlines = Deadlines(self)
        self._ends = False
        self.heartbeats_of: Heartbeats | None = None
        """Set when a broker's heartbeats come over this connection."""

    # -- life -----------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if isinstance(peer, tuple) else ""
        own = transport.get_extra_info("socket")
        self.descriptor = -1 if own is None else own.fileno()
        if not self.services.connections.opened(self):
            transport.close()
            return
        super().connection_made(transport)
        if self.loop is not None:
            self.deadlines.begin(self.loop)

    @property
    def is_let_in(self) -> bool:
        """Whether it has come through TLS and logged in, where it has to."""
        return (self.tls is None or self.tls.established) and (self.door is None or self.door.is_open)

    def cut(self, limit: str) -> None:
        """Close it for a limit, and tell."""
        self.services.connections.cut(self, limit)
        self.close()

    def blocked(self) -> None:
        assert self.loop is not None
        self.deadlines.blocked(self.loop)
        self._look_at_answers()

    def unblocked(self) -> None:
        self.deadlines.unblocked()
        self.last_active = time.perf_counter()
        self._look_at_answers()
        self.unsent.taken()

    def _look_at_answers(self) -> None:
        """Work on requests while there is room for their answers; on that for which the others wait in any case."""
        self.unsent.look_again()
        is_first = bool(self._cold and self.slots and self._cold[0][0] is self.slots[0])
        if self.is_blocked or (self.unsent.keeps_much and not is_first):
            self._takes_answers.clear()
        else:
            self._takes_answers.set()

    def closed(self) -> None:
        for task in (self._cold_task, *self._in_turn):
            if task is not None:
                task.cancel()
        self.deadlines.stop()
        self.unsent.closed()
        if self.memory is not None:
            self.memory.gone(self)
        self._queued_bytes = 0
        if self.door is not None:
            self.door.closed()
        self.waiting_fetch.give_up()
        self.muting.stop()
        self.slots.clear()
        self.services.connections.closed(self)

    def established(self) -> None:
        """With TLS, and no SASL, it is the certificate that says who it is."""
        security = self.services.context.config.security(self.listener)
        if self.door is not None:
            return
        if self.tls is None or security.tls is None or security.tls.client_auth == "none":
            self._is_known()
            return
        certificate = self.tls.peer_certificate
        if certificate is None:  # where it was only requested: to show none must not be worth more than to show one
            self.authenticated(ANONYMOUS)
            return
        try:
            subject = distinguished_name(certificate)
        except ValueError as error:
            self.refused(f"the subject of the certificate cannot be read: {error}")
            self.close()
            return
        name = mapped(security.principal_rules, subject)
        if name is None:
            self.refused("no rule of ssl.principal.mapping.rules fits the certificate", user(subject))
            self.close()
            return
        self.authenticated(user(name))

    def authenticated(self, principal: str) -> None:
        """It is known who it is. Who is no broker is served as a client, also where brokers connect."""
        self.principal = principal
        brokers = self.services.context.config.security(self.listener).brokers
        if brokers is not None and principal not in brokers and not self.services.authorization.enabled:
            self.inter_broker = False
        self._is_known()

    def _is_known(self) -> None:
        """It is known who it is, or never will be."""
        if self.memory is not None and self.serves_brokers_only:
            self.memory.gone(self)
            self.memory = None

    @property
    def is_broker(self) -> bool:
        """Whether this is a broker, and may do what brokers do."""
        return self.inter_broker and (
            not self.services.authorization.enabled or self.services.authorization.is_broker(self)
        )

    def client(self, header: RequestHeader) -> ClientIdentity:
        """Return whose quotas a request counts for."""
        return ClientIdentity(self.principal, header.client_id or "")

    def handshake_failed(self, error: ssl.SSLError) -> None:
        self.refused(f"TLS: {tls_reason(error)}")

    def refused(self, reason: str, principal: str | None = None) -> None:
        """Tell that this client is not let in."""
        self.services.context.not_let_in(self.client_host, self.listener, reason, principal)

    def unreadable(self, file: Any, error: OSError) -> None:
        self.services.reporter.file_failed(file, error)

    def bad_frame(self, size: int) -> None:
        self.services.context.bad_request(
            self.client_host,
            f"a request of {size} bytes; socket.request.max.bytes allows 0 to {self.max_frame_bytes}",
        )

    # -- requests ---------------------------------------------------------------------------------------------------------

    def frame_received(self, frame: memoryview) -> bool:
        started = self.last_active = time.perf_counter()
        self.begin_round(started)
        try:
            if self.door is not None and self.door.takes(frame):
                return False
            header = wire.read_header(frame)
            slot = Slot(header.api_key, started, len(frame))
            self.slots.append(slot)
            if header.api_key == PRODUCE and header.api_version >= PRODUCE_VERSION_MIN:
                is_taken = produce.serve(self, frame, header, slot)
            elif header.api_key == FETCH:
                is_taken = fetch.serve(self, frame, header, slot)
            else:
                is_taken = self._cold_request(frame, header, slot)
            if not is_taken:
                self.slots.pop()
                return True
            if slot.out is None:
                slot.parked, slot.ready = time.perf_counter(), 0.0
        except MalformedRequest as error:
            self.services.context.bad_request(self.client_host, str(error))
            self.close()
            return False
        except Exception as error:  # a mistake of ours: the client sees a closed connection, the operator a line
            self.services.context.handler_failed(error)
            self.close()
            return False
        if len(self.slots) > PIPELINE_MAX:
            self.pause()
        return False

    def turn_is_over(self) -> bool:
        return self._turn.is_over

    def may_go_on(self, client: ClientIdentity, api_key: int, longest: float = math.inf) -> bool:
        """Whether a request may be worked on. If not its frame is to be left: over other connections, too, too much was used.

        Who may be a broker waits for nobody else: its heartbeats and fetches would, too, and it would lose its session.

        Args:
            client: who asks.
            api_key: of the request.
            longest: seconds after which a request is to be answered all the same. Its connection is muted then.
        """
        if self.is_broker:
            return True
        seconds = self.services.quotas.wait(client, api_key, self.muting.take_waited())
        now = self.services.context.clock.now()
        left = self._kept_back_since + longest - now if self._kept_back_since else longest
        if seconds <= 0 or left <= 0:
            self._kept_back_since = 0.0
            self.muting.mute(milliseconds(seconds))
            return True
        self._kept_back_since = self._kept_back_since or now
        self.muting.mute(max(milliseconds(min(seconds, left)), 1))
        return False

    def rows_max(self, most: int) -> int:
        """How many rows a Produce or Fetch may have to be served at once, of so many that are allowed: others have turns, too."""
        if self.is_broker:
            return most
        has_turn, self._has_turn = self._has_turn, False
        return most if has_turn else MANY_ROWS

    def wait_for_turn(self, rows_max: int) -> None:
        """Hold the frame of a request that has more rows until it has a turn. Raises MalformedRequest where it had one."""
        if rows_max > MANY_ROWS:
            raise MalformedRequest(f"more than {rows_max:,} rows in a request")
        self.hold_frames(_TURN)
        self.in_turn(self._take_turn)

    def _take_turn(self) -> None:
        self._has_turn = True
        self.release_frames(_TURN)

    def in_turn(self, go_on: Callable[[], None]) -> None:
        """Call this when it is its user's turn, unless the connection is closed before."""
        task = asyncio.ensure_future(self._go_on_in_turn(go_on))
        self._in_turn.add(task)
        task.add_done_callback(self._in_turn.discard)

    async def _go_on_in_turn(self, go_on: Callable[[], None]) -> None:
        ASKED_BY.set(self.asked_by)
        await self.services.turn_queue.first()
        try:
            go_on()
        except Exception as error:  # a mistake of ours, as in `frame_received`
            self.services.context.handler_failed(error)
            self.close()

    def begin_round(self, now: float) -> None:
        """Measure, from now to the end of the round, the time for which this connection has the event loop."""
        if not self._busy_since:
            self._busy_since = now
            self._charged_before = self.services.quotas.charged_seconds
            self._turn.begin()

    def begin(self, api_key: int, size: int) -> Slot:
        """The place of an answer that is made outside of the handlers."""
        slot = Slot(api_key, time.perf_counter(), size)
        self.slots.append(slot)
        slot.ready = 0.0
        return slot

    def close_after_answers(self) -> None:
        """Close once the answers that are due have left."""
        self.stop_reading("closing")
        if self.slots:
            self._ends = True
        else:
            self.close()

    def admits(self, size: int) -> bool:
        if self._cold_task is not None:  # as for one that is here
            self.hold_frames(_BEHIND)
            return False
        return self.memory is None or self.memory.admits(self, size)

    def give_back(self, size: int) -> None:
        if self.memory is not None:
            self.memory.give_back(self, size)

    def pause(self) -> None:
        """Read nothing more until an answer has left."""
        self.stop_reading("unanswered")

    @property
    def is_waiting(self) -> bool:
        """Whether a Fetch is parked here."""
        return self.waiting_fetch.is_waiting

    def batch_received(self) -> None:
        self.services.replicas.flush_ready()
        if self._busy_since:
            seconds = time.perf_counter() - self._busy_since
            self.stats.handler_seconds += seconds
            self._busy_since = 0.0
            if self.metered is not None:
                quotas = self.services.quotas
                quotas.spent(self.metered, seconds - (quotas.charged_seconds - self._charged_before))
                self.metered = None

    @property
    def is_next(self) -> bool:
        """Whether no other answer is sent before the one that is made."""
        return bool(self.slots) and self.slots[0] is self._at_work

    @property
    def queued_requests(self) -> int:
        """Requests that wait for the one that is worked on."""
        return len(self._cold)

    def answer(self, slot: Slot, out: list[Any]) -> None:
        """Fill a slot; send every answer at the front of the line that is ready. An empty list answers nothing."""
        if self.socket is None:
            return  # who waited for others is answered when its connection has gone, and what it had is counted no more
        slot.out = out
        slots = self.slots
        if not slots or slots[0].out is None:
            slot.ready = time.perf_counter()
            slot.parked = slot.parked or slot.ready
            self._keep(slot, out)
            return
        parts: list[Any] = []
        kept_bytes = 0
        now = self.last_active = time.perf_counter()
        stats = self.stats
        while slots and slots[0].out is not None:
            first = slots.popleft()
            assert first.out is not None
            parts += first.out
            kept_bytes += first.kept_bytes
            times = stats.observe_request(first.api_key, now - first.started, first.size)
            if first.parked:
                ready = first.ready or now
                times.response_queued += now - ready
                times.remote += ready - first.parked
        if self._mute and len(slots) <= PIPELINE_MAX // 2:
            self.go_on_reading("unanswered")
        if parts:
            self.send(parts)
            if self.is_blocked:
                self.unsent.not_taken(bytes_of(parts))
        if kept_bytes:
            self._kept_no_more(kept_bytes)
        if self._at_work is not None or not self._takes_answers.is_set():
            self._look_at_answers()
        if self._ends and not slots:
            self.close()

    def _keep(self, slot: Slot, out: list[Any]) -> None:
        """Count an answer that waits for one before it. While they are too large nothing more is worked on."""
        slot.kept_bytes = bytes_of(out)
        self.unsent.keep(slot.kept_bytes)
        if self.unsent.keeps_much:
            self._look_at_answers()
            self.hold_frames(_KEPT)

    def _kept_no_more(self, size: int) -> None:
        self.unsent.kept_no_more(size)
        if _KEPT in self._held and not self.unsent.keeps_much and self.loop is not None:
            self.loop.call_soon(self.release_frames, _KEPT)  # later: this may be the handler of another connection

    # -- for the handlers of Produce and Fetch ----------------------------------------------------------------------------

    def new_leaders(self, failed: Iterable[PartitionResult | PartitionData]) -> NodeEndpoints | None:
        """KIP-951: where the leaders are that this broker is not."""
        leaders = {part.current_leader[0] for part in failed if part.current_leader is not None}
        return self.services.metadata.endpoints_of(leaders, self.listener) if leaders else None

    def count_errors(self, api_key: int, codes: Iterable[int]) -> None:
        for code in codes:
            self.stats.count_error(api_key, code)

    # -- everything else ------------------------------------------------------------------------------------------------

    def _cold_request(self, frame: memoryview, header: RequestHeader, slot: Slot) -> bool:
        """Whether it is taken: one that waits for long must not keep with it what others need to be served (``memory``)."""
        if self._cold_task is not None and self._queued_bytes + slot.size > BEHIND_BYTES_MAX:
            self.hold_frames(_BEHIND)
            return False
        self._cold.append((slot, header, bytes(frame[header.end :])))
        self._queued_bytes += slot.size
        if self.memory is not None:
            self.memory.take(self, slot.size)
        if self._cold_task is None:
            self._cold_task = asyncio.ensure_future(self._run_cold())
        return True

    async def _run_cold(self) -> None:
        turn = Turn(self.services.context.clock.now)
        ASKED_BY.set(self.asked_by)
        try:
            while self._cold:
                self._look_at_answers()
                await self._takes_answers.wait()
                await self.muting.wait()
                await self._wait_for_quotas(self._cold[0][1])
                slot, header, body = self._cold.popleft()
                self._at_work = slot
                if not self.is_broker and (
                    slot.size > LARGE_REQUEST_BYTES or self.services.had_much(self.asked_by, slot.api_key)
                ):
                    await self.services.turn_queue.first()
                self.services.context.stats.times_of(slot.api_key).queued += time.perf_counter() - slot.started
                slot.parked = 0.0
                answer = await self._answer_cold(header, body)
                self.answer(slot, [answer])
                if self._queued_bytes:  # not of a connection that is gone
                    self._queued_bytes -= slot.size
                    if self.memory is not None:
                        self.memory.give_back(self, slot.size)
                if self._cold:
                    await self.services.turn_queue.pass_on(turn)
        except MalformedRequest as error:
            self.services.context.bad_request(self.client_host, str(error))
            self.close()
        except Exception as error:  # a mistake of ours: the client sees a closed connection, the operator a line
            self.services.context.handler_failed(error)
            self.close()
        finally:
            self._cold_task = self._at_work = None
            if _BEHIND in self._held and self.loop is not None:
                self.loop.call_soon(self.release_frames, _BEHIND)

    @property
    def asked_by(self) -> str:
        """Who shares turns, and threads, with nobody else; all who have not logged in are one."""
        if self.door is not None and not self.door.is_open:
            return ""
        return self.client_host if self.principal == ANONYMOUS else self.principal

    @property
    def serves_brokers_only(self) -> bool:
        """Whether clients have a listener of their own, and this is the other one."""
        return self.is_broker and len(self.services.context.config.listeners) > 1

    @property
    def has_quotas(self) -> bool:
        """Whether quotas may count here. Not for who has not logged in: that is nobody's use, and no login waits for it."""
        return self.services.metadata.image.quotas.is_set and (self.door is None or self.door.is_open)

    async def _wait_for_quotas(self, header: RequestHeader) -> None:
        """Wait as in :meth:`may_go_on`."""
        while self.has_quotas and not self.is_broker:
            client, key = self.client(header), header.api_key
            mutates = header.api_version < STRICT_SINCE.get(key, 0)
            seconds = self.services.quotas.wait(client, key, self.muting.take_waited(), mutates)
            if seconds <= 0:
                return
            self.muting.mute(max(milliseconds(seconds), 1))
            await self.muting.wait()

    async def _answer_cold(self, header: RequestHeader, body: bytes) -> bytes:
        return await answer_request(self, header, body)
