"""What APIs need for which none of the usual rules will do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minikafka.authorization.rules import Answer, ClientAccess, Need, Screened
from minikafka.protocol.error_answers import committed_nothing, coordinators, identified, offsets
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.metadata_rows import NULLABLE_NAME, is_malformed
from minikafka.replication.replicas import INTERNAL_TOPICS
from minikafka.security.acls import Operation, ResourceType

READ = Need(Operation.READ, ResourceType.TOPIC)
WRITE = Need(Operation.WRITE, ResourceType.TOPIC)
DESCRIBE = Need(Operation.DESCRIBE, ResourceType.TOPIC)
DESCRIBE_SETTINGS = Need(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC)
DESCRIBE_GROUP = Need(Operation.DESCRIBE, ResourceType.GROUP)
CREATE = Need(Operation.CREATE, ResourceType.TOPIC, "on demand")
_CREATE_ANY = Need(Operation.CREATE, ResourceType.CLUSTER, "or", refuses=False)

# -- Metadata ---------------------------------------------------------------------------------------------------------------

METADATA_NEEDS = (DESCRIBE, _CREATE_ANY, CREATE)


def metadata(access: ClientAccess, request: Any) -> Screened:
    """Whether a topic exists is told only to who may describe it: all others are answered alike.

    Who may describe one that is not there, and not make it, is refused where it would be made.
    """
    asked = request.topics
    if asked is None or (access.version == 0 and not asked):
        return Screened(request, lambda answer: {**answer, "topics": _describable(access, answer["topics"])})
    if access.version >= NULLABLE_NAME and any(is_malformed(row, access.version) for row in asked):
        return Screened(request)  # its handler refuses all of it
    creates = access.creates_on_demand and getattr(request, "allow_auto_topic_creation", True)
    left, refused = [], {}
    for row in asked:
        topic_id = getattr(row, "topic_id", None)
        name = row.name if topic_id is None else access.metadata.name_of(topic_id)
        if name is None or _may_know(access, name, creates):
            left.append(row)
        else:
            shown = {"name": name, "is_internal": False} if topic_id is None else {"name": None, "topic_id": topic_id}
            refused[name] = {"error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED, **shown, "partitions": []}
    if not left:  # an empty list asks for brokers only, but in the first version for everything
        nothing = replace(request, topics=() if access.version else None)
        return Screened(nothing, lambda answer: {**answer, "topics": list(refused.values())})
    rest = replace(request, topics=tuple(left))
    return Screened(rest, lambda answer: {**answer, "topics": [*answer["topics"], *refused.values()]})


def _may_know(access: ClientAccess, name: str, creates: bool) -> bool:
    if not access.may(DESCRIBE, name):
        return False
    if not creates or access.metadata.id_of(name) is not None or name in INTERNAL_TOPICS:
        return True
    return access.could(_CREATE_ANY) or access.may(CREATE, name)


def _describable(access: ClientAccess, topics: Any) -> list[Answer]:
    return [topic for topic in topics if access.could(DESCRIBE, topic["name"])]


# -- groups -----------------------------------------------------------------------------------------------------------------

MANY_GROUPS = 8


def offset_fetch(access: ClientAccess, request: Any) -> Screened:
    """The group, and each topic."""
    if access.version < MANY_GROUPS:
        if not access.may(DESCRIBE_GROUP, request.group_id):
            refused = offsets(request, access.version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
            return Screened(None, lambda _: refused)
        rest, hidden = _without_hidden(access, request)
        return Screened(rest, lambda answer: _with_hidden(access, answer, hidden))
    left, groups = [], []
    hidden_of: dict[str, list[Answer]] = {}
    for group in request.groups:
        if access.may(DESCRIBE_GROUP, group.group_id):
            rest, hidden = _without_hidden(access, group)
            left.append(rest)
            hidden_of.setdefault(group.group_id, []).extend(hidden)
        else:
            groups.append(
                {"group_id": group.group_id, "error_code": ErrorCode.GROUP_AUTHORIZATION_FAILED, "topics": []}
            )

    def finish(answer: Answer) -> Answer:
        shown = [_with_hidden(access, group, hidden_of[group["group_id"]]) for group in answer.get("groups", ())]
        return {**answer, "groups": [*shown, *groups]}

    return Screened(replace(request, groups=tuple(left)) if left else None, finish)


def _without_hidden(access: ClientAccess, group: Any) -> tuple[Any, list[Answer]]:
    """A group with the topics that may be told of, and the answer's rows for the others."""
    if group.topics is None:
        return group, []
    left, hidden = [], []
    for row in group.topics:
        topic_id = getattr(row, "topic_id", None)
        name = access.metadata.name_of(topic_id) if topic_id is not None else getattr(row, "name", None)
        if name is None or access.may(DESCRIBE, name):
            left.append(row)
        else:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            rows = [committed_nothing(index, code) for index in row.partition_indexes]
            hidden.append({**identified(row), "partitions": rows})
    return replace(group, topics=tuple(left)), hidden


def _with_hidden(access: ClientAccess, group: Answer, hidden: list[Answer]) -> Answer:
    """A group's answer: without topics that nobody asked for and this client may not be told of, with what was refused."""
    if group["error_code"]:
        return group
    shown = []
    for topic in group["topics"]:
        name = topic["name"] if topic.get("name") is not None else access.metadata.name_of(topic.get("topic_id"))
        if name is None or access.could(DESCRIBE, name):
            shown.append(topic)
    return {**group, "topics": [*shown, *hidden]}


COORDINATOR_NEEDS = {
    0: DESCRIBE_GROUP,
    1: Need(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
}
"""By type of key. For others there are no coordinators."""
MANY_KEYS = 4


def find_coordinator(access: ClientAccess, request: Any) -> Screened:
    """Each key, by its type."""
    need = COORDINATOR_NEEDS.get(getattr(request, "key_type", 0))
    if need is None:
        return Screened(request)
    if access.version < MANY_KEYS:
        if access.may(need, request.key):
            return Screened(request)
        refused = coordinators(request, access.version, need.error)
        return Screened(None, lambda _: refused)
    left: list[str] = []
    denied: list[str] = []
    for key in dict.fromkeys(request.coordinator_keys):
        (left if access.may(need, key) else denied).append(key)
    rest = replace(request, coordinator_keys=tuple(left)) if left or not denied else None
    refused = replace(request, coordinator_keys=tuple(denied))
    rows = coordinators(refused, access.version, need.error)["coordinators"]
    return Screened(rest, lambda answer: {"coordinators": [*answer.get("coordinators", ()), *rows]})


LIST_GROUPS_NEEDS = (
    Need(Operation.DESCRIBE, ResourceType.CLUSTER, "or", refuses=False),
    Need(Operation.DESCRIBE, ResourceType.GROUP, refuses=False),
)


def list_groups(access: ClientAccess, request: Any) -> Screened:
    """All to who may have the cluster described, else those that may be."""
    every, one = LIST_GROUPS_NEEDS
    if access.could(every):
        return Screened(request)

    def finish(answer: Answer) -> Answer:
        groups = [group for group in answer["groups"] if access.could(one, group["group_id"])]
        return {**answer, "groups": groups}

    return Screened(request, finish)


# -- topics and producers -----------------------------------------------------------------------------------------------------


def created_settings(access: ClientAccess, request: Any) -> Screened:
    """What a new topic is like is told to who may have its settings described (KIP-525)."""

    def finish(answer: Answer) -> Answer:
        return {**answer, "topics": [_created(access, topic) for topic in answer["topics"]]}

    return Screened(request, finish)


def _created(access: ClientAccess, topic: Answer) -> Answer:
    if topic["error_code"] or access.could(DESCRIBE_SETTINGS, topic["name"]):
        return topic
    hidden = ("num_partitions", "replication_factor", "configs")
    shown = {field: value for field, value in topic.items() if field not in hidden}
    return {**shown, "topic_config_error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED}


_IDEMPOTENT_WRITE = Need(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
_TRANSACTION = Need(Operation.WRITE, ResourceType.TRANSACTIONAL_ID)
PRODUCER_NEEDS = (
    Need(Operation.WRITE, ResourceType.TOPIC, "or", refuses=False),
    _IDEMPOTENT_WRITE,
    _TRANSACTION,
)


def init_producer_id(access: ClientAccess, request: Any) -> Screened:
    """Who may write to any topic may do it idempotently (KIP-679)."""
    if request.transactional_id is not None:
        need = _TRANSACTION
        allowed = access.may(need, request.transactional_id)
    else:
        need = _IDEMPOTENT_WRITE
        allowed = access.could(need) or access.could_any(WRITE)
        if not allowed:
            access.refuse(need)
    if allowed:
        return Screened(request)
    return Screened(None, lambda _: {"error_code": need.error, "producer_id": -1, "producer_epoch": -1})
