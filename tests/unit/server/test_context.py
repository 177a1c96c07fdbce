"""What every part of a broker has at hand: lines for the operator, and no flood of them."""

from __future__ import annotations

import pytest
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.replication.clock import Clock
from minikafka.server.context import WARN_AGAIN_SECONDS, WARNED_KEYS_MAX, BrokerContext

from tests.unit.server.in_process import context


class Scene:
    def __init__(self) -> None:
        self.now = 0.0
        self.context: BrokerContext = context()
        self.context.clock = Clock(lambda: self.now, lambda: 0, lambda *_: None)
        self.lines: list[str] = []
        self.context.warn = self.lines.append  # type: ignore[method-assign]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_retry_loop_does_not_fill_the_disk(scene: Scene) -> None:
    assert [scene.context.warn_rarely("store", "store: away") for _ in range(100)] == [True] + [False] * 99
    scene.context.warn_rarely("disk", "disk: full")
    scene.now += WARN_AGAIN_SECONDS
    assert scene.context.warn_rarely("store", "store: still away")
    assert scene.lines == ["store: away", "disk: full", "store: still away"]


def test_what_was_told_of_whom_does_not_grow_for_ever(scene: Scene) -> None:
    for number in range(3 * WARNED_KEYS_MAX):
        scene.context.bad_request(f"host-{number}", "nonsense")
    assert len(scene.context._warned) <= WARNED_KEYS_MAX + 1


def test_a_mistake_is_told_with_its_place(scene: Scene) -> None:
    for _ in range(2):
        try:
            raise LookupError("a mistake")
        except LookupError as error:
            scene.context.handler_failed(error)
    (line,) = scene.lines
    assert line.startswith("internal error: LookupError('a mistake') at ")
    assert f" at {__name__}:" in line, "where the checkout lies is nobody's business"


def test_an_override_that_is_not_allowed_is_invalid_config(scene: Scene) -> None:
    with pytest.raises(KafkaError, match=r"retention\.ms") as refused:
        scene.context.check_topic_configs({"retention.ms": "soon"})
    assert refused.value.code is ErrorCode.INVALID_CONFIG
