"""What the next AlterPartition request holds (R10, KIP-497)."""

from __future__ import annotations

import pytest
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.replication import isr_requests
from minikafka.replication.isr import AlterPartitionAnswer, IsrProposal
from minikafka.replication.isr_requests import IsrRequests

OK = AlterPartitionAnswer(ErrorCode.NONE, 0, 1, (1,))


def proposal(partition: int, partition_epoch: int = 0) -> IsrProposal:
    return IsrProposal(TopicPartition("t", partition), b"i" * 16, 0, partition_epoch, ((1, 1),), 0)


def never(asked: IsrProposal, answer: AlterPartitionAnswer | None) -> bool:
    del asked, answer
    return False


def test_one_request_at_a_time_with_all_that_has_come_meanwhile() -> None:
    """Simulator bug isr-change-overlooked."""
    requests = IsrRequests()
    assert requests.next_request() == []
    requests.propose(proposal(0))
    first = requests.next_request()
    assert first == [proposal(0)]
    requests.propose(proposal(1))
    requests.propose(proposal(2))
    assert requests.next_request() == [] and len(requests) == 2
    assert not requests.answered(first, [OK], never)
    assert requests.next_request() == [proposal(1), proposal(2)]


def test_many_go_out_in_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller takes 25,000 rows, and works on a request without a pause."""
    monkeypatch.setattr(isr_requests, "PROPOSALS_MAX", 2)
    requests = IsrRequests()
    for partition in range(3):
        requests.propose(proposal(partition))
    first = requests.next_request()
    assert first == [proposal(0), proposal(1)]
    assert not requests.answered(first, [OK, OK], never)
    assert requests.next_request() == [proposal(2)]


def test_the_latest_proposal_of_a_partition_is_sent() -> None:
    requests = IsrRequests()
    requests.propose(proposal(0, 4))
    requests.propose(proposal(0, 5))
    assert requests.next_request() == [proposal(0, 5)]


def test_each_leader_gets_its_answer_or_none_when_the_outcome_is_unknown() -> None:
    """Simulator bug isr-change-asked-once."""
    heard: list[tuple[int, AlterPartitionAnswer | None]] = []

    def take(asked: IsrProposal, answer: AlterPartitionAnswer | None) -> bool:
        heard.append((asked.topic_partition.partition, answer))
        return answer is None

    requests = IsrRequests()
    for partition in (0, 1):
        requests.propose(proposal(partition))
    batch = requests.next_request()
    assert requests.answered(batch, None, take), "both are to be asked for again"
    assert heard == [(0, None), (1, None)]
    assert requests.next_request() == batch
    refused = AlterPartitionAnswer(ErrorCode.INELIGIBLE_REPLICA)
    assert not requests.answered(batch, [OK, refused], take)
    assert heard[2:] == [(0, OK), (1, refused)]
    assert requests.next_request() == []


def test_a_newer_proposal_is_not_replaced_by_what_is_asked_again() -> None:
    requests = IsrRequests()
    requests.propose(proposal(0, 4))
    batch = requests.next_request()
    requests.propose(proposal(0, 5))
    requests.answered(batch, None, lambda *_: True)
    assert requests.next_request() == [proposal(0, 5)]
