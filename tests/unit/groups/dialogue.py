"""A conversation with a group coordinator: people join, speak, fall silent; the test owns the clock and the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from minikafka.groups.config import GroupConfig
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.offsets_log import Done, GroupRecord
from minikafka.groups.records import CommittedOffset
from minikafka.groups.requests import (
    CommitRequest,
    GroupProtocol,
    JoinRequest,
    JoinResult,
    MemberIdentity,
    SyncRequest,
    SyncResult,
)
from minikafka.groups.timers import Now
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

GROUP = "bank"
WALL_CLOCK_START_MS = 1_700_000_000_000


def subscription(*topics: str) -> bytes:
    """``ConsumerProtocolSubscription`` v0."""
    out = b"\0\0" + len(topics).to_bytes(4, "big")
    for topic in topics:
        out += len(topic).to_bytes(2, "big") + topic.encode()
    return out + b"\xff\xff\xff\xff"


RANGE = (GroupProtocol("range", subscription("ledger")),)
LEDGER = TopicPartition("ledger", 0)


class Waiting:
    """A request that may be answered later."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def __call__(self, *answer: Any) -> None:
        assert not self.answers, f"answered twice: {self.answers} and {answer}"
        self.answers.append(answer[0] if len(answer) == 1 else answer)

    @property
    def waits(self) -> bool:
        return not self.answers

    @property
    def answer(self) -> Any:
        assert self.answers, "still waiting"
        return self.answers[0]

    @property
    def error(self) -> ErrorCode:
        error = self.answer if isinstance(self.answer, ErrorCode) else self.answer.error
        assert isinstance(error, ErrorCode)
        return error

    @property
    def joined(self) -> JoinResult:
        assert isinstance(self.answer, JoinResult)
        assert self.answer.error is ErrorCode.NONE, self.answer
        return self.answer

    @property
    def synced(self) -> SyncResult:
        assert isinstance(self.answer, SyncResult)
        assert self.answer.error is ErrorCode.NONE, self.answer
        return self.answer


class Lab:
    """One coordinator that owns every partition. `confirming` writes are replicated at once, else by `confirm`."""

    def __init__(self, *, confirming: bool = True, partitions: int = 1, load: bool = True, **config: Any) -> None:
        self.config = GroupConfig(**{"group_initial_rebalance_delay_ms": 0, **config})
        self.seconds = 1000.0
        self.confirming = confirming
        self.log: list[tuple[int, bytes, bytes | None]] = []
        self.under_way: list[Done] = []
        self.rebalances: list[tuple[str, int, int, str]] = []
        self.deleted: list[tuple[str, str]] = []
        self.topics = {topic: name.encode().ljust(16, b".") for topic, name in (("ledger", "one"), ("audit", "two"))}
        """The ids of the topics that there are."""
        ids = self.ids = count(1)
        self.coordinator = GroupCoordinator(
            self.config,
            partitions,
            self._append,
            lambda: f"#{next(ids)}",
            self.topics.get,
            on_rebalanced=lambda *event: self.rebalances.append(event),
            on_deleted=lambda *event: self.deleted.append(event),
        )
        self.coordinator.start(self.now)
        if load:
            for partition in range(partitions):
                self.coordinator.load(partition, (), self.now)

    @property
    def now(self) -> Now:
        return Now(self.seconds, WALL_CLOCK_START_MS + round((self.seconds - 1000) * 1000))

    def _append(self, partition: int, records: Sequence[GroupRecord], done: Done) -> None:
        self.log += [(partition, key, value) for key, value in records]
        if self.confirming:
            done(ErrorCode.NONE, self.now)
        else:
            self.under_way.append(done)

    def confirm(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Decide the oldest write that is under way."""
        self.under_way.pop(0)(error, self.now)

    def delete_group(self, group: str = GROUP) -> Waiting:
        waiting = Waiting()
        self.coordinator.delete_group(group, waiting, self.now)
        return waiting

    def delete_topic(self, topic: str, *, anew: bool = False) -> None:
        """Delete a topic, and have what was committed in it cleaned; or make another of its name."""
        del self.topics[topic]
        if anew:
            self.topics[topic] = f"{next(self.ids)}".encode().ljust(16, b".")
        self.coordinator.topics_deleted(self.now)
        self.coordinator.tick(self.now)

    def records(self, partition: int = 0) -> list[tuple[int, bytes, bytes | None]]:
        """The log of a partition as a new coordinator would read it."""
        rows = [(key, value) for p, key, value in self.log if p == partition]
        return [(offset, key, value) for offset, (key, value) in enumerate(rows)]

    def successor(self, **config: Any) -> Lab:
        """Another broker that has loaded this one's log."""
        other = Lab(load=False, **config)
        other.topics.clear()
        other.topics.update(self.topics)
        other.seconds = self.seconds
        other.coordinator.load(0, self.records(), other.now)
        return other

    def wait(self, seconds: float, meanwhile: Callable[[], object] = lambda: None, every: float = 1.0) -> None:
        """Let time pass, firing what is due when it is due; `meanwhile` is done every second."""
        end = self.seconds + seconds
        next_beat = self.seconds + every
        while True:
            deadline = self.coordinator.next_deadline()
            step = min(end, next_beat, end if deadline is None else max(deadline, self.seconds))
            self.seconds = step
            if deadline is not None and deadline <= step:
                self.coordinator.tick(self.now)
            if step >= next_beat:
                meanwhile()
                next_beat += every
            if step >= end and (self.coordinator.next_deadline() or end + 1) > end:
                return

    # -- what members say ---------------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: tuple[GroupProtocol, ...] = RANGE,
        session: int = 10_000,
        rebalance: int = 60_000,
        version: int = 9,
        client: str = "alice",
        protocol_type: str = "consumer",
        group: str = GROUP,
    ) -> Waiting:
        waiting = Waiting()
        request = JoinRequest(
            group,
            member_id,
            protocol_type,
            protocols,
            session,
            rebalance,
            instance,
            client,
            "/127.0.0.1",
            require_known_member_id=version >= 4 and instance is None,
            may_skip_assignment=version >= 9,
        )
        self.coordinator.join(request, waiting, self.now)
        return waiting

    def enter(self, client: str = "alice", **said: Any) -> Waiting:
        """Join as modern clients do: be given an id, come again with it (KIP-394)."""
        first = self.join(client=client, **said)
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        return self.join(first.answer.member_id, client=client, **said)

    def sync(self, joined: JoinResult, assignments: dict[str, bytes] | None = None, **said: Any) -> Waiting:
        waiting = Waiting()
        request = SyncRequest(
            said.get("group", GROUP),
            said.get("member_id", joined.member_id),
            said.get("generation", joined.generation),
            assignments or {},
            said.get("instance"),
            said.get("protocol_type", joined.protocol_type),
            said.get("protocol_name", joined.protocol_name),
        )
        self.coordinator.sync(request, waiting, self.now)
        return waiting

    def beat(self, joined: JoinResult, instance: str | None = None, generation: int | None = None) -> ErrorCode:
        number = joined.generation if generation is None else generation
        return self.coordinator.heartbeat(GROUP, joined.member_id, instance, number, self.now)

    def leave(self, *members: MemberIdentity | str) -> list[ErrorCode]:
        who = [MemberIdentity(m) if isinstance(m, str) else m for m in members]
        result = self.coordinator.leave(GROUP, who, self.now)
        assert result.error is ErrorCode.NONE
        return [code for _, code in result.members]

    def commit(self, offset: int, by: JoinResult | None = None, at: TopicPartition = LEDGER, **said: Any) -> Waiting:
        """The answer is the error of the one partition."""
        waiting = Waiting()
        committed = CommittedOffset(
            offset,
            said.get("epoch", -1),
            said.get("metadata", ""),
            self.now.unix_ms,
            said.get("expires", -1),
            self.topics.get(at.topic),
        )
        request = CommitRequest(
            said.get("group", GROUP),
            {at: committed},
            said.get("member_id", "" if by is None else by.member_id),
            said.get("instance"),
            said.get("generation", -1 if by is None else by.generation),
        )
        self.coordinator.commit_offsets(request, lambda results: waiting(results[at]), self.now)
        return waiting

    def committed(self, at: TopicPartition = LEDGER, group: str = GROUP) -> int | None:
        result = self.coordinator.fetch_offsets(group, [at])
        assert result.error is ErrorCode.NONE
        found = result.offsets[at]
        return None if found is None else found.offset

    def state(self, group: str = GROUP) -> str:
        return self.coordinator.describe_group(group).state

    # -- whole scenes -------------------------------------------------------------------------------

    def tick(self) -> None:
        self.coordinator.tick(self.now)

    def stable_pair(self) -> tuple[JoinResult, JoinResult]:
        """Two members with an assignment; the first one leads."""
        first = self.enter("alice")
        self.tick()
        second = self.enter("bob")
        again = self.join(first.joined.member_id, client="alice")
        alice, bob = again.joined, second.joined
        waiting = self.sync(bob)
        self.sync(alice, {alice.member_id: b"A", bob.member_id: b"B"})
        assert waiting.synced.assignment == b"B"
        assert self.state() == "Stable"
        return alice, bob

    def stable_one(self, **said: Any) -> JoinResult:
        """One member with an assignment."""
        waiting = self.join(**said) if said.get("instance") else self.enter(**said)
        self.tick()
        member = waiting.joined
        self.sync(member, {member.member_id: b"all"})
        assert self.state() == "Stable"
        return member
