"""Requests of every API in any order, on several connections, to two brokers of this process.

Brokers answer or close, never fail in a way that nobody has foreseen, and go on serving others. They live as long as the process:
what an input leaves behind is there for the next.
"""

from __future__ import annotations

import asyncio
import atexit
import socket
import struct
import time
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from minikafka.protocol import messages
from minikafka.protocol.wire import request_frame
from minikafka.server.api import load_handlers
from minikafka.server.api.spec import ApiSpec
from minikafka.server.observer import BrokerObserver
from minikafka.testing import MiniKafkaCluster

from tests.fuzz.choices import Choices
from tests.fuzz.request_values import request_of
from tests.fuzz.target import Refuted, Target
from tests.interop.raw_client import ConnectionClosed, RawConnection, metadata, produce_request, record_batch

BROKERS: Final = 2
CONNECTIONS: Final = 4
STEPS_MAX: Final = 24
ANSWER_SECONDS_MAX: Final = 5.0
"""To somebody who does nothing odd."""
WAIT_SECONDS: Final = 0.02
"""For answers, between two steps and after the last."""
WITNESS: Final = "witness"
"""A topic that no request names."""
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "socket.request.max.bytes": "1000000",
    "log.segment.bytes": "20000",
}
NO_ANSWER: Final = "Produce with acks=0"
WAITING: Final = frozenset(("JoinGroup", "SyncGroup", NO_ANSWER))
"""May be answered when others have come, or not at all."""


class _Watch(BrokerObserver):
    """Notes what breaks."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def failed(self, error: BaseException) -> None:
        self.errors.append(error)

    def of_loop(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Note what the event loop has nobody to tell."""
        self.errors.append(context.get("exception") or RuntimeError(str(context.get("message"))))


class Brokers:
    """The cluster, watched from inside."""

    def __init__(self) -> None:
        self.cluster = MiniKafkaCluster(BROKERS, SETTINGS, in_process=True)
        self.watch = _Watch()
        for thread in self.cluster.ground._threads.values():  # type: ignore[union-attr]
            assert thread._broker is not None
            thread._broker.context.observer = self.watch
            thread._loop.set_exception_handler(self.watch.of_loop)
        self.cluster.create_topic(WITNESS, partitions=1, replication_factor=BROKERS)
        self.cluster.create_topic("t", partitions=2, replication_factor=BROKERS)
        self.addresses = self.cluster.bootstrap.split(",")

    def check(self) -> None:
        """Raise the first error that nobody had foreseen, and Refuted where a sound client is not served."""
        if self.watch.errors:
            error = self.watch.errors[0]
            self.watch.errors.clear()
            raise error
        for address in self.addresses:
            try:
                self._serves(address)
            except (OSError, ConnectionClosed, AssertionError) as error:
                raise Refuted(f"{address} does not serve: {error!r}") from error

    def _serves(self, address: str) -> None:
        with RawConnection(address, ANSWER_SECONDS_MAX) as connection:
            leader = metadata(connection, [WITNESS]).topics[WITNESS][0].leader
        with RawConnection(self.addresses[leader - 1], ANSWER_SECONDS_MAX) as connection:
            connection.call(produce_request(WITNESS, 0, record_batch([b"v"], timestamp_ms=int(time.time() * 1000))))


@cache
def brokers() -> Brokers:
    """The ones of this process, which start at the first call."""
    return Brokers()


def end_brokers() -> None:
    """End them, if they have been started."""
    if brokers.cache_info().currsize:
        brokers().cluster.close()
        brokers.cache_clear()


atexit.register(end_brokers)


@cache
def _served() -> list[ApiSpec]:
    return [spec for spec, _ in load_handlers().values()]


class Client:
    """One connection, and how many answers are due on it."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), ANSWER_SECONDS_MAX)
        self._received = bytearray()
        self._due = 0
        self._asked: list[str] = []
        self._may_wait = False
        """Whether an answer may wait for somebody else: a member of the group, or the rest of a request."""
        self.is_open = True

    def ask(self, frame: bytes, name: str) -> None:
        """Send a request."""
        self._may_wait = self._may_wait or name in WAITING
        self._due += 1
        self._asked.append(name)
        self._send(frame)

    def send_anything(self, data: bytes) -> None:
        """Send bytes that need not be a request, or not a whole one."""
        self._may_wait = True
        self._send(data)

    def _send(self, data: bytes) -> None:
        try:
            self._socket.settimeout(ANSWER_SECONDS_MAX)
            self._socket.sendall(data)
        except OSError:
            self.close()

    def hear(self, seconds: float) -> None:
        """Take in what comes within a time, or until nothing is due."""
        until = time.monotonic() + seconds
        while self.is_open and self._due > 0 and (left := until - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                piece = self._socket.recv(1 << 16)
            except TimeoutError:
                return
            except OSError:
                piece = b""
            if not piece:
                self.close()
            self._received += piece
            self._take_answers()

    def _take_answers(self) -> None:
        while len(self._received) >= 4:
            size = 4 + int(struct.unpack_from(">i", self._received)[0])
            if len(self._received) < size:
                return
            del self._received[:size]
            self._due -= 1

    def settle(self) -> None:
        """Wait for what is due. Raises Refuted where a broker neither answers nor closes."""
        self.hear(WAIT_SECONDS if self._may_wait else ANSWER_SECONDS_MAX)
        if self.is_open and self._due > 0 and not self._may_wait:
            raise Refuted(f"{self._due} of {self._asked} were not answered in {ANSWER_SECONDS_MAX} s")

    def close(self) -> None:
        """Hang up."""
        self._socket.close()
        self.is_open = False


def send_requests(data: bytes) -> None:
    """Do what the input says, step by step, and see that all is well afterwards."""
    there, choices = brokers(), Choices(data)
    clients: dict[int, Client] = {}
    try:
        for _ in range(STEPS_MAX):
            if not choices.left:
                break
            which = choices.number() % CONNECTIONS
            if which not in clients or not clients[which].is_open:
                clients[which] = Client(there.addresses[which % BROKERS])
            _step(clients[which], choices)
        for client in clients.values():
            client.settle()
    finally:
        for client in clients.values():
            client.close()
    there.check()


def _step(client: Client, choices: Choices) -> None:
    how = choices.number() % 16
    if how == 0:
        client.close()
    elif how == 1:
        client.send_anything(choices.piece())
    elif how == 2:
        frame, _ = _request(choices)
        client.send_anything(frame[: choices.number(2) % len(frame)])
    elif how == 3:
        client.send_anything(_disturbed(_request(choices)[0], choices))
    else:
        client.ask(*_request(choices))
        if how >= 12:
            client.hear(WAIT_SECONDS)


def _request(choices: Choices) -> tuple[bytes, str]:
    """A request, and its name: with NO_ANSWER behind it where there will be none."""
    spec = choices.one_of(_served())
    version = spec.min_version + choices.number() % (spec.max_version - spec.min_version + 1)
    values = request_of(messages.request_type(spec.key, version), choices)
    try:
        body = messages.encode_request(spec.key, version, values)
    except TypeError:  # this version has no null there
        body = b""
    frame = request_frame(spec.key, version, 7, "fuzz", body, messages.is_flexible(spec.key, version))
    return frame, NO_ANSWER if values.get("acks") == 0 else spec.name


def _disturbed(sound: bytes, choices: Choices) -> bytes:
    frame = bytearray(sound)
    for _ in range(1 + choices.number() % 3):
        frame[4 + choices.number(2) % (len(frame) - 4)] = choices.number()
    return bytes(frame)


def steps() -> Iterator[bytes]:
    """Make a request of each API, and one after the other."""
    for api in range(len(_served())):
        for version in (0, 255):
            for fill in (1, 2, 9, 77):
                yield bytes((fill, 15, api, version)) + bytes((fill,)) * 60


TARGETS = (Target("broker", send_requests, steps, (), tested=0, bytes_max=1024),)
