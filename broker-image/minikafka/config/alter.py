"""What IncrementalAlterConfigs does to a set of overrides (KIP-339)."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from minikafka.config.keys import ConfigError, ConfigType, Key
from minikafka.config.refusals import shown_value


class AlterOperation(IntEnum):
    """``config_operation`` on the wire (``AlterConfigOp.OpType``)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    """One change. ``value`` is None only for DELETE."""

    name: str
    operation: AlterOperation
    value: str | None


def altered(
    current: Mapping[str, str], changes: Iterable[Alteration], keys: Mapping[str, Key[Any]], in_force: Mapping[str, str]
) -> dict[str, str]:
    """The overrides after ``changes``. A list not yet overridden is appended to what is ``in_force``, as in Kafka.

    Raises :class:`ConfigError` for an addition to what is no list. Each key is changed once, all but DELETE have a value: the
    request was looked at before. Whether keys and values are allowed is for ``validate_topic_overrides`` and
    ``validate_dynamic`` to say of the result.
    """
    result = dict(current)
    for name, operation, value in changes:
        if operation == AlterOperation.DELETE:
            result.pop(name, None)
            continue
        assert value is not None, name
        if operation == AlterOperation.SET:
            result[name] = value
            continue
        key = keys.get(name)
        if key is None or key.type is not ConfigType.LIST:
            raise ConfigError(
                f"{name}={shown_value(name, value)}: not a list that could be added to; allowed: SET, DELETE"
            )
        items = [item.strip() for item in result.get(name, in_force.get(name, "")).split(",") if item.strip()]
        given = [item.strip() for item in value.split(",") if item.strip()]
        if operation == AlterOperation.APPEND:
            items += [item for item in given if item not in items]
        else:
            items = [item for item in items if item not in given]
        result[name] = ",".join(items)
    return result
