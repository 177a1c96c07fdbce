"""acks=all over a connection: no answer before every in-sync replica has the record (R4, R16)."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Any

import pytest
from minikafka.metadata.image import TOPIC, PartitionState, TopicState
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode

from tests.interop.raw_client import ProducerState, record_batch
from tests.unit.wire.client import ALL, FOREVER_MS, LEADER, Client, answered, fetched, produced
from tests.unit.wire.stage import TOPIC_ID, Stage

LED = PartitionState((1, 2), (1, 2), 1, leader_epoch=3, partition_epoch=5)
RECORDS = [(b"a",), (b"a", b"b", b"c")]


async def lead(stage: Stage, state: PartitionState = LED, **more: Any) -> tuple[Client, Client]:
    """Broker 1 leads, its follower has all of the empty log: (client, follower)."""
    await stage.start()
    await stage.partition(state, **more)
    client, follower = await stage.client(), await stage.follower()
    assert (await stage.has(follower, 0)).error is ErrorCode.NONE
    return client, follower


@pytest.mark.slow
@pytest.mark.parametrize("values", RECORDS)
async def test_not_before_the_paused_follower_has_it(stage: Stage, values: tuple[bytes, ...]) -> None:
    """R4, R16: answered by the follower's next fetch, whose offset is the acknowledgement; not one record before."""
    client, follower = await lead(stage)
    answer = client.produce(*values, acks=ALL)
    await stage.until(lambda: stage.broker.replicas.get("t", 0).log.log_end_offset == len(values))
    await stage.still_waits(answer)
    for offset in range(len(values)):
        await stage.has(follower, offset)
        await stage.still_waits(answer)
    await stage.has(follower, len(values))
    assert await produced(answer) == (ErrorCode.NONE, 0)


async def test_on_top_of_records_that_wait(stage: Stage) -> None:
    """R16: in order, each when its own last record is committed."""
    client, follower = await lead(stage)
    first, second = client.produce(b"a", b"b"), client.produce(b"c")
    await stage.until(lambda: stage.broker.replicas.get("t", 0).log.log_end_offset == 3)
    await stage.has(follower, 2)
    assert await produced(first) == (ErrorCode.NONE, 0)
    await stage.still_waits(second)
    await stage.has(follower, 3)
    assert await produced(second) == (ErrorCode.NONE, 2)


@pytest.mark.slow
async def test_a_repeated_batch_waits_as_the_first_one_did(stage: Stage) -> None:
    """R16, R18: the producer lost its connection and sends the batch again, which is in the log but not committed."""
    client, follower = await lead(stage)
    producer = ProducerState(7, 0, 0)
    first = client.produce(b"a", b"b", producer=producer)
    again = (await stage.client()).produce(b"a", b"b", producer=producer)
    await stage.still_waits(again)
    await stage.has(follower, 1)
    await stage.still_waits(again)
    await stage.still_waits(first)
    await stage.has(follower, 2)
    assert await produced(first) == await produced(again) == (ErrorCode.NONE, 0)
    assert stage.broker.replicas.get("t", 0).log.log_end_offset == 2


async def test_a_request_is_answered_when_its_last_partition_is(stage: Stage) -> None:
    """R16: one answer for all partitions of a request, whichever of them is committed first."""
    await stage.start()
    await stage.took(stage.peer.decide_topic(TopicState("t", TOPIC_ID, (LED, LED), {})))
    client, follower = await stage.client(), await stage.follower()
    records = [{"index": index, "records": record_batch([b"a"])} for index in (0, 1)]
    topics = [{"name": "t", "partition_data": records}]
    answer = client.send(ApiKey.PRODUCE, {"acks": ALL, "timeout": FOREVER_MS, "topic_data": topics})
    await stage.until(lambda: stage.broker.replicas.get("t", 1).log.log_end_offset == 1)
    await stage.has(follower, 1)
    assert (await stage.sees(await stage.client(), 0)).high_watermark == 1, "partition 0 is committed"
    await stage.still_waits(answer)
    await stage.has(follower, 1, partition=1)
    rows = (await answered(answer)).responses[0].partition_responses
    assert [(row.index, int(row.error_code), row.base_offset) for row in rows] == [(0, 0, 0), (1, 0, 0)]


async def test_one_answer_does_not_overtake_another(stage: Stage) -> None:
    """R18: those of one connection come in the order of its requests, also when a later one could be given at once."""
    client, follower = await lead(stage)
    first = client.produce(b"a")
    second = client.produce(b"b", acks=LEADER)
    await stage.until(lambda: stage.broker.replicas.get("t", 0).log.log_end_offset == 2)
    await stage.still_waits(second)
    await stage.has(follower, 1)
    assert await produced(first) == (ErrorCode.NONE, 0)
    assert await produced(second) == (ErrorCode.NONE, 1)


async def test_acks_of_the_leader_do_not_wait(stage: Stage) -> None:
    """R16: acks=1 is answered by the append."""
    client, _ = await lead(stage)
    assert await produced(client.produce(b"a", acks=LEADER)) == (ErrorCode.NONE, 0)


async def test_a_time_out_is_no_success(stage: Stage) -> None:
    """R16: REQUEST_TIMED_OUT, and no offset: the record is appended and may be committed later."""
    client, follower = await lead(stage)
    assert await produced(client.produce(b"a", timeout_ms=1)) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    await stage.has(follower, 1)
    assert (await stage.sees(await stage.client(), 0)).end_offset == 1, "as it was here"


async def test_a_fetch_by_who_is_no_replica_acknowledges_nothing(stage: Stage) -> None:
    """R5: a broker that is not assigned, or an earlier incarnation of one that is (KIP-903)."""
    client, follower = await lead(stage)
    answer = client.produce(b"a")
    await stage.until(lambda: stage.broker.replicas.get("t", 0).log.log_end_offset == 1)
    stranger, earlier = stage.peer.me._replace(replica=3), stage.peer.me._replace(broker_epoch=1)
    assert (await stage.has(follower, 1, stranger)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await stage.has(follower, 1, earlier)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await stage.has(follower, 1, leader_epoch=2)).error is ErrorCode.FENCED_LEADER_EPOCH
    assert (await stage.has(follower, 1, last_epoch=2)).diverging != (-1, -1), "its last record is of another term"
    await stage.still_waits(answer)
    await stage.has(follower, 1, leader_epoch=3, last_epoch=3)
    assert await produced(answer) == (ErrorCode.NONE, 0)


async def leadership_moves(stage: Stage) -> None:
    await stage.partition(replace(LED, leader=2, isr=(2,), leader_epoch=4, partition_epoch=6))


async def the_topic_is_deleted(stage: Stage) -> None:
    await stage.took(stage.peer.decide(TOPIC + "t", None))


async def the_topic_is_made_anew(stage: Stage) -> None:
    await stage.partition(replace(LED, leader_epoch=0, partition_epoch=0), topic_id=type(TOPIC_ID)(int=8))


async def the_replica_moves_away(stage: Stage) -> None:
    await stage.partition(PartitionState((2, 3), (2,), 2, leader_epoch=4, partition_epoch=6))


async def nobody_leads(stage: Stage) -> None:
    await stage.partition(replace(LED, leader=-1, isr=(), elr=(1,), leader_epoch=4, partition_epoch=6))


async def the_registration_is_lost(stage: Stage) -> None:
    """The controller has fenced this broker, which learns it from its next heartbeat."""
    stage.peer.forget()
    await stage.until(lambda: len(stage.peer.registrations) == 2)


async def the_disk_refuses(stage: Stage) -> None:
    """What another client sends cannot be written; the broker resigns before anybody relies on it again."""
    segment = stage.broker.replicas.get("t", 0).log.segments.active
    segment.data = FullDisk(segment.data)
    other = await stage.client()
    assert (await produced(other.produce(b"too much", acks=LEADER)))[0] is ErrorCode.KAFKA_STORAGE_ERROR


class FullDisk:
    """A file to which nothing can be added."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def append(self, data: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


ENDS = [
    leadership_moves,
    the_topic_is_deleted,
    the_topic_is_made_anew,
    the_replica_moves_away,
    nobody_leads,
    the_registration_is_lost,
    the_disk_refuses,
]


@pytest.mark.parametrize("ends", ENDS)
async def test_who_waits_is_told_when_leadership_ends(stage: Stage, ends: Any) -> None:
    """R16: NOT_LEADER_OR_FOLLOWER at once, not the time-out; the outcome is not this broker's to know, so no offset."""
    client, _ = await lead(stage)
    answer = client.produce(b"a")
    await stage.until(lambda: stage.broker.replicas.get("t", 0).log.log_end_offset == 1)
    await stage.still_waits(answer)
    await ends(stage)
    assert await produced(answer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("who", ["consumer", "follower"])
async def test_a_fetch_that_waits_is_answered_when_leadership_ends(stage: Stage, ends: Any, who: str) -> None:
    """R7, R12: nobody waits at a broker that leads no more; a consumer looks for the new leader at once."""
    consumer, follower = await lead(stage)
    if who == "consumer":
        waiting = consumer.fetch(TOPIC_ID, 0, wait=True)
    else:
        waiting = follower.fetch(TOPIC_ID, 0, stage.peer.me, wait=True, leader_epoch=3)
    await stage.still_waits(waiting)
    await ends(stage)
    error = (await fetched(waiting)).error
    assert error in {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }, error.name


async def test_the_minimum_of_replicas(stage: Stage) -> None:
    """R16: refused before the append when too few are in sync; after it when too few are left."""
    client, follower = await lead(
        stage, replace(LED, isr=(1,), partition_epoch=4), configs={"min.insync.replicas": "2"}
    )
    assert await produced(client.produce(b"a")) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert (await stage.has(follower, 0)).high_watermark == 0
    assert stage.broker.replicas.get("t", 0).log.log_end_offset == 0


async def test_a_broker_that_must_end_tells_nobody_anything_more(stage: Stage) -> None:
    """After a failed fsync what it reads back may be anything: the end of its process is too late to hang up."""
    client, follower = await lead(stage)
    answer = client.produce(b"a")
    await stage.until(lambda: stage.broker.replicas.get("t", 0).log.log_end_offset == 1)
    stage.broker.fail("its disk failed")
    asked = follower.fetch(TOPIC_ID, 1, stage.peer.me)
    for waiting in (answer, asked):
        with pytest.raises(ConnectionError):
            await answered(waiting)
