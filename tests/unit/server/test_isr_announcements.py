"""How ISR changes reach the controller: batched, one request at a time (R10)."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.types import TopicPartition
from minikafka.replication.isr import AlterPartitionAnswer, IsrProposal
from minikafka.server import membership
from minikafka.server.membership import AlterPartitionSender

from tests.unit.server.in_process import context

OK = AlterPartitionAnswer(ErrorCode.NONE, 0, 1, (1,))
DEADLINE = 30.0


def proposal(partition: int, partition_epoch: int = 0) -> IsrProposal:
    return IsrProposal(TopicPartition("t", partition), b"i" * 16, 0, partition_epoch, ((1, 1),), 0)


class Controller:
    """Takes requests and answers each when the test says so."""

    def __init__(self) -> None:
        self.requests: list[list[IsrProposal]] = []
        self.arrived = asyncio.Event()
        self.in_flight = 0
        self.most_in_flight = 0
        self.answers: asyncio.Queue[list[AlterPartitionAnswer] | Exception | None] = asyncio.Queue()

    async def alter_partitions(self, proposals: list[IsrProposal]) -> list[AlterPartitionAnswer] | None:
        self.requests.append(proposals)
        self.arrived.set()
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            answer = await self.answers.get()
        finally:
            self.in_flight -= 1
        if isinstance(answer, Exception):
            raise answer
        return answer


class Leader:
    """The replicas' side: what came back for which proposal; asks again as long as told to."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, AlterPartitionAnswer | None]] = []
        self.again: deque[bool] = deque()
        self.troubles: deque[Exception] = deque()

    def isr_answered(self, asked: IsrProposal, answer: AlterPartitionAnswer | None) -> bool:
        if self.troubles:
            raise self.troubles.popleft()
        self.heard.append((asked.topic_partition.partition, answer))
        return self.again.popleft() if self.again else False


class Wire:
    def __init__(self) -> None:
        self.controller, self.leader = Controller(), Leader()
        self.context = context()
        self.sender = AlterPartitionSender(self.context, self.controller.alter_partitions, self.leader.isr_answered)

    async def asked(self) -> None:
        """A request has arrived."""
        async with asyncio.timeout(DEADLINE):
            await self.controller.arrived.wait()

    async def idle(self) -> None:
        """All is answered, or the sender was stopped."""
        task = self.sender._task
        if task is not None:
            done, _ = await asyncio.wait({task}, timeout=DEADLINE)
            assert done


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    monkeypatch.setattr(membership, "RETRY_SECONDS", 0.001)
    return Wire()


async def test_a_storm_of_changes_is_two_requests(wire: Wire) -> None:
    """R10: what comes up while a request is under way goes with the next one; never two requests at a time."""
    wire.sender.propose(proposal(0))
    await wire.asked()
    for partition in range(1, 500):
        wire.sender.propose(proposal(partition))
    wire.controller.answers.put_nowait([OK])
    wire.controller.answers.put_nowait([OK] * 499)
    await wire.idle()
    assert [len(request) for request in wire.controller.requests] == [1, 499]
    assert wire.controller.most_in_flight == 1
    assert wire.leader.heard == [(partition, OK) for partition in range(500)]


async def test_one_proposal_for_a_partition(wire: Wire) -> None:
    """R10, KIP-497: a later one takes the place of one that has not been sent."""
    wire.sender.propose(proposal(0))
    await wire.asked()
    wire.sender.propose(proposal(1, partition_epoch=1))
    wire.sender.propose(proposal(1, partition_epoch=2))
    wire.controller.answers.put_nowait([OK])
    wire.controller.answers.put_nowait([OK])
    await wire.idle()
    assert wire.controller.requests[1] == [proposal(1, partition_epoch=2)]


@pytest.mark.parametrize("outcome", [None, KafkaError(ErrorCode.NOT_CONTROLLER)])
async def test_an_unknown_outcome_is_asked_again(wire: Wire, outcome: Exception | None) -> None:
    """R10, KAFKA-12684: the very same proposal, after a pause, for as long as the leader wants it."""
    wire.leader.again.extend([True, False])
    wire.sender.propose(proposal(0))
    wire.controller.answers.put_nowait(outcome)
    wire.controller.answers.put_nowait([OK])
    await wire.idle()
    assert wire.controller.requests == [[proposal(0)], [proposal(0)]]
    assert wire.leader.heard == [(0, None), (0, OK)]


async def test_a_newer_proposal_is_not_overwritten_by_the_repeated_one(wire: Wire) -> None:
    """R10, KIP-497: the leader has changed its mind meanwhile."""
    wire.leader.again.append(True)
    wire.sender.propose(proposal(0))
    await wire.asked()
    wire.sender.propose(proposal(0, partition_epoch=7))
    wire.controller.answers.put_nowait(None)
    wire.controller.answers.put_nowait([OK])
    await wire.idle()
    assert wire.controller.requests[1] == [proposal(0, partition_epoch=7)]


async def test_what_nobody_expected_is_an_unknown_outcome(wire: Wire) -> None:
    """A leader whose proposal is never answered keeps it pending, and could never change its ISR again."""
    wire.sender.propose(proposal(0))
    wire.leader.again.append(True)
    await wire.asked()
    wire.controller.answers.put_nowait(IndexError("a mistake"))
    wire.controller.answers.put_nowait([OK])
    await wire.idle()
    assert wire.leader.heard == [(0, None), (0, OK)]
    assert wire.context.health.problems() == {}, "over, now that it went well"


async def test_a_leader_that_fails_on_its_answer_keeps_none_from_another(wire: Wire) -> None:
    wire.sender.propose(proposal(0))
    await wire.asked()
    wire.controller.arrived.clear()
    for partition in (1, 2):
        wire.sender.propose(proposal(partition))
    wire.controller.answers.put_nowait([OK])
    await wire.asked()
    wire.leader.troubles.append(KeyError("a mistake"))
    wire.controller.answers.put_nowait([OK, OK])
    wire.controller.answers.put_nowait([OK])
    await wire.idle()
    assert wire.leader.heard == [(0, OK), (2, OK), (1, OK)]


async def test_it_stops_with_its_broker(wire: Wire) -> None:
    """R10: nothing is sent after the end."""
    wire.sender.stop()
    wire.sender.propose(proposal(0))
    await wire.asked()
    wire.sender.stop()
    await wire.idle()
    assert wire.leader.heard == []
