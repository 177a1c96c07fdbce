"""How members of consumer groups reach the coordinator of a broker: by Kafka's requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minikafka.groups.records import NO_EPOCH, CommittedOffset
from minikafka.groups.requests import (
    CommitRequest,
    FetchResult,
    JoinedMember,
    JoinRequest,
    JoinResult,
    LeaveResult,
    MemberIdentity,
    SyncRequest,
    SyncResult,
)
from minikafka.protocol import messages
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.cluster.gate import Gate

OFFSET_COMMIT, OFFSET_FETCH = (ApiKey.OFFSET_COMMIT, 8), (ApiKey.OFFSET_FETCH, 7)
JOIN_GROUP, HEARTBEAT = (ApiKey.JOIN_GROUP, 7), (ApiKey.HEARTBEAT, 4)
LEAVE_GROUP, SYNC_GROUP = (ApiKey.LEAVE_GROUP, 4), (ApiKey.SYNC_GROUP, 5)
"""API keys and the versions that are asked in."""


class Coordinator:
    """What members ask of a broker's coordinator; the answer comes to ``reply``, later."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def join(self, request: JoinRequest, reply: Callable[[JoinResult], None]) -> None:
        def answered(answer: messages.Entity) -> None:
            members = tuple(JoinedMember(m.member_id, m.group_instance_id, bytes(m.metadata)) for m in answer.members)
            reply(
                JoinResult(
                    _error(answer),
                    answer.member_id,
                    answer.generation_id,
                    answer.protocol_type,
                    answer.protocol_name,
                    answer.leader,
                    members,
                )
            )

        values = {
            "group_id": request.group_id,
            "session_timeout": request.session_timeout_ms,
            "rebalance_timeout": request.rebalance_timeout_ms,
            "member_id": request.member_id,
            "group_instance_id": request.group_instance_id,
            "protocol_type": request.protocol_type,
            "protocols": [{"name": p.name, "metadata": p.metadata} for p in request.protocols],
        }
        self._gate.ask(JOIN_GROUP, values, answered)

    def sync(self, request: SyncRequest, reply: Callable[[SyncResult], None]) -> None:
        def answered(answer: messages.Entity) -> None:
            reply(SyncResult(_error(answer), answer.protocol_type, answer.protocol_name, bytes(answer.assignment)))

        values = {
            "group_id": request.group_id,
            "generation_id": request.generation,
            "member_id": request.member_id,
            "group_instance_id": request.group_instance_id,
            "protocol_type": request.protocol_type,
            "protocol_name": request.protocol_name,
            "assignments": [{"member_id": name, "assignment": share} for name, share in request.assignments.items()],
        }
        self._gate.ask(SYNC_GROUP, values, answered)

    def commit(self, request: CommitRequest, reply: Callable[[Mapping[TopicPartition, ErrorCode]], None]) -> None:
        def answered(answer: messages.Entity) -> None:
            reply({TopicPartition(t.name, p.partition_index): _error(p) for t in answer.topics for p in t.partitions})

        topics: dict[str, list[dict[str, Any]]] = {}
        for (topic, index), committed in request.offsets.items():
            topics.setdefault(topic, []).append(
                {
                    "partition_index": index,
                    "committed_offset": committed.offset,
                    "committed_leader_epoch": committed.leader_epoch,
                    "committed_metadata": committed.metadata,
                }
            )
        values = {
            "group_id": request.group_id,
            "generation_id_or_member_epoch": request.generation,
            "member_id": request.member_id,
            "group_instance_id": request.group_instance_id,
            "topics": [{"name": topic, "partitions": rows} for topic, rows in topics.items()],
        }
        self._gate.ask(OFFSET_COMMIT, values, answered)

    def heartbeat(self, group: str, member_id: str, generation: int, reply: Callable[[ErrorCode], None]) -> None:
        values = {
            "group_id": group,
            "generation_id": generation,
            "member_id": member_id,
            "group_instance_id": None,
        }
        self._gate.ask(HEARTBEAT, values, lambda answer: reply(_error(answer)))

    def fetch(self, group: str, wanted: Sequence[TopicPartition], reply: Callable[[FetchResult], None]) -> None:
        def answered(answer: messages.Entity) -> None:
            found = {
                TopicPartition(topic.name, row.partition_index): None
                if row.committed_offset < 0
                else CommittedOffset(row.committed_offset, getattr(row, "committed_leader_epoch", NO_EPOCH))
                for topic in answer.topics
                for row in topic.partitions
            }
            reply(FetchResult(_error(answer), found))

        topics: dict[str, list[int]] = {}
        for topic, index in wanted:
            topics.setdefault(topic, []).append(index)
        rows = [{"name": topic, "partition_indexes": indexes} for topic, indexes in topics.items()]
        self._gate.ask(OFFSET_FETCH, {"group_id": group, "topics": rows, "require_stable": False}, answered)

    def leave(self, group: str, member: MemberIdentity, reply: Callable[[LeaveResult], None]) -> None:
        def answered(answer: messages.Entity) -> None:
            reply(LeaveResult(_error(answer), tuple((member, _error(row)) for row in answer.members)))

        who = {"member_id": member.member_id, "group_instance_id": member.group_instance_id}
        self._gate.ask(LEAVE_GROUP, {"group_id": group, "members": [who]}, answered)


def _error(answer: messages.Entity) -> ErrorCode:
    return ErrorCode(int(answer.error_code))
