"""Who may join the in-sync replicas, and what an ISR change counts for while its outcome is not known (R9, R10)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from minikafka.metadata.image import PartitionState
from minikafka.protocol.errors import ErrorCode
from minikafka.server import membership

from tests.unit.wire.client import LATEST, LEADER, Client, produced
from tests.unit.wire.peer import altered
from tests.unit.wire.stage import TOPIC_ID, Stage

ALONE = PartitionState((1, 2), (1,), 1, leader_epoch=3, partition_epoch=5)
ISR_OF_TWO = replace(ALONE, isr=(1, 2), partition_epoch=6)


async def lead_alone(stage: Stage) -> tuple[Client, Client]:
    """Broker 1 is the only one in sync, with one record: (client, follower)."""
    await stage.start()
    await stage.partition(ALONE)
    client, follower = await stage.client(), await stage.follower()
    assert await produced(client.produce(b"a", acks=LEADER)) == (ErrorCode.NONE, 0)
    return client, follower


async def test_a_follower_that_has_caught_up_joins(stage: Stage) -> None:
    """R9, KIP-903: with the broker epoch of the fetch in the request; counted for the high watermark from its sending on."""
    client, follower = await lead_alone(stage)
    await stage.has(follower, 1)
    asked, partition_epoch, isr = await stage.peer.asked_to_alter()
    assert (partition_epoch, isr) == (5, [(1, stage.broker.broker_epoch), (2, 2)])
    answer = client.produce(b"b")
    await stage.until(lambda: stage.broker.replicas.get("t", 0).log.log_end_offset == 2)
    await stage.still_waits(answer)
    altered(asked, (1, 2), 6)
    await stage.still_waits(answer)
    await stage.has(follower, 2)
    assert await produced(answer) == (ErrorCode.NONE, 1)


async def test_not_by_what_its_last_incarnation_had(stage: Stage) -> None:
    """KIP-903: the broker was restarted since its fetch. What it had then it may have lost; its next fetch counts."""
    _, follower = await lead_alone(stage)
    await stage.took(stage.peer.is_known(epoch=2, fenced=True))
    assert (await stage.has(follower, 1)).error is ErrorCode.NONE, "a fenced broker may follow, not join (KIP-841)"
    await stage.took(stage.peer.is_known(epoch=12))
    await stage.has(follower, 1, stage.peer.me._replace(broker_epoch=12))
    _, _, isr = await stage.peer.asked_to_alter()
    assert isr == [(1, stage.broker.broker_epoch), (2, 12)], "the first that was asked for"


async def test_not_as_an_incarnation_this_broker_has_not_heard_of(stage: Stage) -> None:
    """KIP-903: a fetch that is quicker than the metadata; nobody here knows whether that incarnation is fenced."""
    _, follower = await lead_alone(stage)
    await stage.has(follower, 1, stage.peer.me._replace(broker_epoch=12))
    await stage.took(stage.peer.decide("unrelated", 1))
    assert stage.broker.replicas.get("t", 0).leader.isr.pending is None
    await stage.took(stage.peer.is_known(epoch=12))
    _, _, isr = await stage.peer.asked_to_alter()
    assert isr[1] == (2, 12)


async def unknown(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> tuple[Client, Client, list[tuple[int, int]]]:
    """An ISR change was asked for, and the connection closed before the answer; the follower is fenced since."""
    monkeypatch.setattr(membership, "RETRY_SECONDS", 0.001)
    client, follower = await lead_alone(stage)
    await stage.has(follower, 1)
    _, _, isr = await stage.peer.asked_to_alter()
    stage.peer.hang_up()
    await stage.took(stage.peer.is_known(epoch=2, fenced=True))
    return client, follower, isr


async def test_an_unknown_outcome_keeps_the_larger_set_in_force(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """R10, KAFKA-12684: the controller may have written it, and may elect that follower."""
    client, _, _ = await unknown(stage, monkeypatch)
    assert await produced(client.produce(b"b", acks=LEADER)) == (ErrorCode.NONE, 1)
    waiting = client.produce(b"c")
    await stage.until(lambda: stage.broker.replicas.get("t", 0).log.log_end_offset == 3)
    await stage.still_waits(waiting)
    other = await stage.client()
    assert (await stage.sees(other, 1)).end_offset == -1
    assert await other.list_offset(LATEST) == (ErrorCode.NONE, 1)


async def test_an_unknown_outcome_is_asked_for_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """R10: the very same change, without a fetch in between, until the controller says what became of it."""
    client, follower, isr = await unknown(stage, monkeypatch)
    again, partition_epoch, isr_again = await stage.peer.asked_to_alter()
    assert (partition_epoch, isr_again) == (5, isr)
    altered(again, (1, 2), 6)
    await stage.partition(ISR_OF_TWO)
    answer = client.produce(b"b")
    await stage.has(follower, 2)
    assert await produced(answer) == (ErrorCode.NONE, 1)
    assert stage.broker.replicas.get("t", 0).leader.isr.committed == (1, 2)


async def test_a_controller_that_is_none_any_more_has_refused_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R10: NOT_CONTROLLER may come from one that wrote the change and lost its lease before it could say so."""
    monkeypatch.setattr(membership, "RETRY_SECONDS", 0.001)
    client, follower = await lead_alone(stage)
    await stage.has(follower, 1)
    asked, _, isr = await stage.peer.asked_to_alter()
    await stage.took(stage.peer.is_known(epoch=2, fenced=True))
    asked.answer.set_result({"error_code": ErrorCode.NOT_CONTROLLER, "topics": []})
    again, partition_epoch, isr_again = await stage.peer.asked_to_alter()
    assert (partition_epoch, isr_again) == (5, isr)
    answer = client.produce(b"b")
    await stage.until(lambda: stage.broker.replicas.get("t", 0).log.log_end_offset == 2)
    await stage.still_waits(answer)
    altered(again, (1, 2), 6)
    await stage.has(follower, 2)
    assert await produced(answer) == (ErrorCode.NONE, 1)


async def test_a_refusal_puts_the_smaller_set_in_force(stage: Stage) -> None:
    """R10, KIP-497: only when the controller says that nothing was applied."""
    client, follower = await lead_alone(stage)
    await stage.has(follower, 1)
    asked, _, _ = await stage.peer.asked_to_alter()
    await stage.took(stage.peer.is_known(epoch=2, fenced=True))
    answer = client.produce(b"b")
    await stage.until(lambda: stage.broker.replicas.get("t", 0).log.log_end_offset == 2)
    await stage.still_waits(answer)
    row = {"partition_index": 0, "error_code": ErrorCode.INELIGIBLE_REPLICA, "leader_id": 1, "leader_epoch": 3}
    topics = [{"topic_id": TOPIC_ID, "partitions": [row]}]
    asked.answer.set_result({"error_code": 0, "topics": topics})
    assert await produced(answer) == (ErrorCode.NONE, 1)


async def test_a_leader_that_was_replaced_meanwhile_asks_no_more(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """R10, R12: its change died with its term."""
    await unknown(stage, monkeypatch)
    await stage.partition(replace(ISR_OF_TWO, leader=2, leader_epoch=4, partition_epoch=7))
    sender, alterations = stage.broker.alter_sender, stage.peer.alterations

    def idle() -> bool:
        """One may have been sent before; its answer changes nothing."""
        while not alterations.empty():
            alterations.get_nowait().answer.set_result({"error_code": ErrorCode.NOT_CONTROLLER, "topics": []})
        return sender._task is None

    await stage.until(idle)
    await stage.took(stage.peer.decide("unrelated", 1))
    assert sender._task is None and alterations.empty()
