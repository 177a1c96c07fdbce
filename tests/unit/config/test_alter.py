"""IncrementalAlterConfigs on a set of overrides (KIP-339)."""

import pytest
from minikafka.config import TOPIC_KEYS, Alteration, AlterOperation, ConfigError, altered

SET, DELETE, APPEND, SUBTRACT = AlterOperation
IN_FORCE = {"cleanup.policy": "delete"}


def after(current: dict[str, str], *changes: tuple[str, AlterOperation, str | None]) -> dict[str, str]:
    return altered(current, [Alteration(*change) for change in changes], TOPIC_KEYS, IN_FORCE)


def test_set_and_delete() -> None:
    current = {"retention.ms": "1", "segment.bytes": "2048"}
    assert after(current, ("retention.ms", SET, "2"), ("segment.bytes", DELETE, None)) == {"retention.ms": "2"}
    assert current == {"retention.ms": "1", "segment.bytes": "2048"}
    assert after({}, ("retention.ms", DELETE, None)) == {}


def test_append_begins_with_what_is_in_force() -> None:
    assert after({}, ("cleanup.policy", APPEND, "compact")) == {"cleanup.policy": "delete,compact"}
    assert after({"cleanup.policy": "compact"}, ("cleanup.policy", APPEND, "compact")) == {"cleanup.policy": "compact"}


def test_subtract() -> None:
    assert after({"cleanup.policy": "compact, delete"}, ("cleanup.policy", SUBTRACT, "delete")) == {
        "cleanup.policy": "compact"
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([("retention.ms", APPEND, "1")], "not a list"),
        ([("foo", APPEND, "1")], "not a list"),
    ],
)
def test_impossible_changes(changes: list[tuple[str, AlterOperation, str | None]], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        after({}, *changes)
