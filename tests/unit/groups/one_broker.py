"""A broker of one, with its group service, its log and its disk, and members that speak to it by requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid4, uuid5

from minikafka.groups.config import GroupConfig
from minikafka.groups.placement import OFFSETS_TOPIC
from minikafka.protocol import messages
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import RecordBatch, iterate_batches
from minikafka.server.api import load_handlers
from minikafka.server.group_service import GroupService
from minikafka.server.machine import Machine
from minikafka.server.services import Services
from minikafka.transport.turn import TurnQueue

from .dialogue import subscription

BY_NAME = {spec.name: (spec, handler) for spec, handler in load_handlers().values()}
PARTITIONS = 4
BROKER_ID = 7


def id_of(topic: str) -> UUID:
    """The id of a topic."""
    return uuid5(NAMESPACE_DNS, topic)


class OneBroker:
    """A broker that leads every partition of ``__consumer_offsets``, with its log in memory."""

    context = SimpleNamespace(clock=Machine.clock)
    yielding = Services.yielding
    turn_queue = TurnQueue(Machine.clock.now)

    def __init__(self, log: dict[int, list[bytes]] | None = None, **config: Any) -> None:
        self.log: dict[int, list[bytes]] = {} if log is None else log
        self.topics = {"ledger": 2, OFFSETS_TOPIC: PARTITIONS}
        self.made_anew: dict[str, UUID] = {}
        """Topics that have another id than at first."""
        self.topic_error: Exception | None = None
        self.append_error = ErrorCode.NONE
        self.read_error: Exception | None = None
        self.hold: list[Callable[[ErrorCode], None]] | None = None
        self.hold_commit: list[Callable[[ErrorCode], None]] | None = None
        self.events: list[str] = []
        self.warnings: list[str] = []
        self.groups = GroupService(
            config=GroupConfig(**{"group_initial_rebalance_delay_ms": 0, **config}),
            offsets_partitions=50,
            log=self,
            ensure_offsets_topic=self._ensure,
            partition_count=lambda topic: self.topics.get(topic, 0),
            topic_id=lambda topic: self._id_of(topic).bytes if topic in self.topics else None,
            partition_leader=lambda _topic, partition: BROKER_ID if partition in self.log_leaders else -1,
            endpoint_of=lambda broker, listener: ("host", 9092) if (broker, listener) == (BROKER_ID, "PLAIN") else None,
            clock=Machine.clock,
            new_id=lambda: str(uuid4()),
            emit=lambda event, **fields: self.events.append(event),
            warn=self.warnings.append,
        )
        self.log_leaders: set[int] = set()
        self.metadata = SimpleNamespace(
            name_of=lambda topic_id: next((name for name in self.topics if id_of(name) == topic_id), None),
            id_of=lambda name: id_of(name) if name in self.topics else None,
        )

    def _id_of(self, topic: str) -> UUID:
        return self.made_anew.get(topic, id_of(topic))

    def make_anew(self, topic: str) -> None:
        """Delete a topic, and make another of its name."""
        self.made_anew[topic] = uuid4()
        self.groups.topics_deleted()

    def lead(self) -> None:
        for partition in range(PARTITIONS):
            self.log_leaders.add(partition)
            self.groups.host.on_leadership_change(partition, True)

    def append(self, topic: str, partition: int, batch: bytearray, done: Callable[[ErrorCode], None]) -> None:
        assert topic == OFFSETS_TOPIC
        if self.append_error is ErrorCode.NONE:
            self.log.setdefault(partition, []).append(bytes(batch))
        if self.hold is not None:
            self.hold.append(done)
        else:
            done(self.append_error)

    def read(self, topic: str, partition: int) -> Iterator[RecordBatch]:
        for batch in self.log.get(partition, []):
            yield from iterate_batches(batch)
        if self.read_error is not None:
            raise self.read_error

    def when_committed(self, topic: str, partition: int, done: Callable[[ErrorCode], None]) -> None:
        if self.hold_commit is not None:
            self.hold_commit.append(done)
        else:
            done(ErrorCode.NONE)

    async def _ensure(self) -> None:
        if self.topic_error is not None:
            raise self.topic_error
        self.topics[OFFSETS_TOPIC] = PARTITIONS
        self.lead()

    async def ask(self, name: str, version: int, **values: Any) -> Any:
        """A request over the wire format and back."""
        spec, handler = BY_NAME[name]
        request = messages.decode_request(spec.key, version, messages.encode_request(spec.key, version, values))
        ctx: Any = SimpleNamespace(api_version=version, client_id="alice", client_host="127.0.0.1", listener="PLAIN")
        services: Any = self
        answer = await handler(services, ctx, request)
        return messages.decode_response(spec.key, version, messages.encode_response(spec.key, version, answer))


@asynccontextmanager
async def one_broker(*, leads: bool = True, **config: Any) -> AsyncIterator[OneBroker]:
    broker = OneBroker(**config)
    if leads:
        broker.lead()
    try:
        yield broker
    finally:
        broker.groups.stop()


def versions(name: str) -> list[int]:
    spec = BY_NAME[name][0]
    return list(range(spec.min_version, spec.max_version + 1))


def error_of(answer: Any) -> ErrorCode:
    return ErrorCode(answer.error_code.value)


PROTOCOLS = [{"name": "range", "metadata": subscription("ledger")}]


async def member(broker: OneBroker, version: int = 9, instance: str | None = None, group: str = "bank") -> Any:
    """Join, as a client of that version does."""
    said = {
        "group_id": group,
        "session_timeout": 10_000,
        "rebalance_timeout": 60_000,
        "member_id": "",
        "group_instance_id": instance,
        "protocol_type": "consumer",
        "protocols": PROTOCOLS,
    }
    answer = await broker.ask("JoinGroup", version, **said)
    if error_of(answer) is ErrorCode.MEMBER_ID_REQUIRED:
        answer = await broker.ask("JoinGroup", version, **said | {"member_id": answer.member_id})
    assert error_of(answer) is ErrorCode.NONE
    return answer


async def stable(broker: OneBroker, instance: str | None = None) -> Any:
    joined = await member(broker, instance=instance)
    await broker.ask(
        "SyncGroup",
        5,
        group_id="bank",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": joined.member_id, "assignment": b"all"}],
    )
    return joined
