"""A committed offset counts when it is replicated: it is a record of ``__consumer_offsets`` like any other (R16, R18)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from minikafka.metadata.image import PartitionState, TopicState
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode

from tests.unit.wire.client import Client, answered
from tests.unit.wire.stage import Stage

OFFSETS = TopicState(
    "__consumer_offsets",
    UUID(int=9),
    (PartitionState((1, 2), (1, 2), 1, leader_epoch=3, partition_epoch=5),),
    {"cleanup.policy": "compact"},
)


def commit(client: Client, offset: int) -> Any:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"name": "t", "partitions": [partition]}]
    values = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
    return client.send(ApiKey.OFFSET_COMMIT, values, 8)


async def known(client: Client) -> int:
    """The committed offset that the coordinator tells; -1: none."""
    answer = await client.ask(
        ApiKey.OFFSET_FETCH,
        {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}], "require_stable": False},
        7,
    )
    assert ErrorCode(int(answer.error_code)) is ErrorCode.NONE
    return int(answer.topics[0].partitions[0].committed_offset)


async def test_it_is_answered_and_told_when_the_followers_have_it(stage: Stage) -> None:
    """R16, KIP-98: before that a new coordinator might not know it, and the group would read the same records twice."""
    await stage.start()
    await stage.partition(PartitionState((1,), (1,), 1, leader_epoch=3, partition_epoch=5))
    await stage.took(stage.peer.decide_topic(OFFSETS))
    client, other, follower = await stage.client(), await stage.client(), await stage.follower()
    answer = commit(client, 42)
    await stage.until(lambda: stage.broker.replicas.get("__consumer_offsets", 0).log.log_end_offset == 1)
    await stage.still_waits(answer)
    assert await known(other) == -1
    await answered(follower.fetch(OFFSETS.topic_id, 1, stage.peer.me))
    row = (await answered(answer)).topics[0].partitions[0]
    assert ErrorCode(int(row.error_code)) is ErrorCode.NONE
    assert await known(other) == 42
