"""Hooks for tests of clients: what is refused, what counts, and that every injected answer can be said in every version."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from minikafka.protocol import messages
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.server.api import load_handlers
from minikafka.server.hooks import HookError, Hooks, parse
from minikafka.server.injected_answers import COLD
from minikafka.telemetry.events import EventLog
from minikafka_chaos.session.errors import VerbRefused
from minikafka_chaos.session.hooks import BrokerHooks

from tests.unit.server.in_process import running

HANDLERS = load_handlers()


def told() -> tuple[Hooks, list[tuple[str, dict[str, Any]]]]:
    events: list[tuple[str, dict[str, Any]]] = []
    declared = EventLog(None, 1)

    def emit(name: str, **fields: Any) -> None:
        declared.emit(name, **fields)
        events.append((name, fields))

    return Hooks(emit), events


@pytest.mark.parametrize(
    ("action", "given", "words"),
    [
        ("explode", {}, "action: 'explode' is not one of"),
        ("error", {"api": "Produce", "millis": "3"}, "millis: error does not take it"),
        ("error", {"api": "CreateTopics", "code": "UNKNOWN_SERVER_ERROR"}, "api: 'CreateTopics' is not one of"),
        ("error", {"api": "Produce", "code": "NONE"}, "code: 'NONE' is not"),
        ("error", {"api": "Produce"}, "code: '' is not"),
        ("error", {"api": "Heartbeat", "code": "NOT_COORDINATOR", "topic": "t"}, "topic: Heartbeat is about no topic"),
        ("error", {"api": "Produce", "code": "NOT_COORDINATOR", "partition": "0"}, "partition: needs a topic"),
        ("error", {"api": "Produce", "code": "NOT_COORDINATOR", "count": "0"}, "count: '0' is not a whole number"),
        ("delay", {"api": "Produce"}, "millis: delay needs it"),
        ("delay", {"api": "Produce", "millis": "700000"}, "millis: '700000' is not a whole number"),
        ("observe", {"api": "Nonsense"}, "api: 'Nonsense' is not one of"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(action: str, given: dict[str, str], words: str) -> None:
    with pytest.raises(HookError, match=words) as refused:
        parse(action, given)
    assert "\n" not in str(refused.value)


def test_an_error_comes_after_so_many_requests_and_so_often() -> None:
    hooks, events = told()
    hooks.order({"action": "error", "api": "Produce", "code": "NOT_ENOUGH_REPLICAS", "topic": "t", "partition": "0",
                 "after": "1", "count": "2"})  # fmt: skip
    asked = [hooks.errors(ApiKey.PRODUCE, [("t", 0), ("t", 1), ("u", 0)]) for _ in range(4)]
    refused = {("t", 0): ErrorCode.NOT_ENOUGH_REPLICAS}
    assert asked == [{}, refused, refused, {}]
    assert [name for name, _ in events] == ["hook_set", "error_injected", "error_injected"]
    assert hooks.errors(ApiKey.FETCH, [("t", 0)]) == {}


def test_requests_that_do_not_fit_are_not_counted() -> None:
    hooks, _ = told()
    hooks.order({"action": "error", "api": "Produce", "code": "NOT_ENOUGH_REPLICAS", "topic": "t", "count": "1"})
    assert hooks.errors(ApiKey.PRODUCE, [("u", 0)]) == {}
    assert hooks.errors(ApiKey.PRODUCE, [("t", 3)])


def test_delays_add_up_and_clearing_ends_them_but_no_observation() -> None:
    hooks, events = told()
    for millis in ("30", "20"):
        hooks.order({"action": "delay", "api": "Metadata", "millis": millis})
    hooks.order({"action": "observe", "api": "Metadata"})
    assert hooks.delay(ApiKey.METADATA) == 0.05
    hooks.order({"action": "clear"})
    assert hooks.delay(ApiKey.METADATA) == 0
    assert hooks.sets("observe", ApiKey.METADATA)
    assert events[-1] == ("hooks_cleared", {"records": 2})


TOPIC_ID = UUID(int=7)
PARTITION = SimpleNamespace(partition_index=3)
TOPIC = SimpleNamespace(name="t", topic_id=TOPIC_ID, partitions=(PARTITION,), partition_indexes=(3,))
GROUP = SimpleNamespace(group_id="g", topics=(TOPIC,))
REQUEST = SimpleNamespace(
    topics=(TOPIC,), groups=(GROUP,), coordinator_keys=("g",), key="g", group_id="g", member_id="m"
)

NAMES_ONLY = SimpleNamespace(topics=(SimpleNamespace(name="t", partitions=(PARTITION,)),))
"""No version of ListOffsets knows topics by id."""


def codes(answer: Any) -> set[int]:
    if isinstance(answer, tuple | list):
        return {code for each in answer for code in codes(each)}
    if not hasattr(answer, "__dataclass_fields__"):
        return set()
    own = {int(answer.error_code)} if hasattr(answer, "error_code") else set()
    return own | {code for name in answer.__dataclass_fields__ for code in codes(getattr(answer, name))}


@pytest.mark.parametrize("key", COLD, ids=lambda key: key.api_name)
def test_every_version_of_an_answer_says_the_injected_error(key: ApiKey) -> None:
    spec, _ = HANDLERS[key]
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    for version in range(spec.min_version, spec.max_version + 1):
        request = NAMES_ONLY if key is ApiKey.LIST_OFFSETS else REQUEST
        body = messages.encode_response(key, version, COLD[key].answer(request, version, code))
        assert code in codes(messages.decode_response(key, version, body)), version


async def test_hooks_that_are_off_are_refused_by_the_broker(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        metrics = cluster.brokers[1]._metrics
        assert metrics is not None
        hooks = BrokerHooks(f"http://127.0.0.1:{metrics.port}/metrics")
        for ask in (lambda: hooks.order(action="clear"), lambda: hooks.requests("Produce")):
            with pytest.raises(VerbRefused, match="hooks are off"):
                await asyncio.to_thread(ask)
