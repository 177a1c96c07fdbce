"""Answers that are an injected error, for the APIs beside Produce and Fetch: a row for each, in every version of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.error_answers import by_partition, by_topic, coordinators, joined, offsets, whole
from minikafka.protocol.errors import ErrorCode


class ColdApi(NamedTuple):
    """An API whose answer can be an injected error: which topics it is about, and how its answer says so."""

    topics: Callable[[Any], Iterable[Any]]
    answer: Callable[[Any, int, ErrorCode], dict[str, Any]]


def _named(request: Any) -> Iterable[Any]:
    return request.topics or ()


def _of_groups(request: Any) -> Iterable[Any]:
    groups = getattr(request, "groups", None) or (request,)
    return [topic for group in groups for topic in group.topics or ()]


def no_topics(request: Any) -> Iterable[Any]:
    del request
    return ()


COLD: Mapping[ApiKey, ColdApi] = {
    ApiKey.LIST_OFFSETS: ColdApi(_named, by_partition),
    ApiKey.METADATA: ColdApi(_named, by_topic),
    ApiKey.OFFSET_COMMIT: ColdApi(_named, by_partition),
    ApiKey.OFFSET_FETCH: ColdApi(_of_groups, offsets),
    ApiKey.FIND_COORDINATOR: ColdApi(no_topics, coordinators),
    ApiKey.JOIN_GROUP: ColdApi(no_topics, joined),
    ApiKey.HEARTBEAT: ColdApi(no_topics, whole),
    ApiKey.LEAVE_GROUP: ColdApi(no_topics, whole),
    ApiKey.SYNC_GROUP: ColdApi(no_topics, whole),
    ApiKey.INIT_PRODUCER_ID: ColdApi(no_topics, whole),
}
"""Beside Produce and Fetch, the APIs whose answer can be an injected error."""
