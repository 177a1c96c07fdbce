"""Consumers that lose nothing: they commit only what was processed, retry in order, and keep apart what cannot be processed.

`ReliableConsumer` works with confluent-kafka, `AsyncReliableConsumer` with aiokafka (the extra `reliability`). What both do is
decided in `minikafka.reliability.work`, which does no I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minikafka.reliability.aiokafka_consumer import AsyncReliableConsumer
    from minikafka.reliability.confluent_consumer import ReliableConsumer
    from minikafka.reliability.record import ConsumedRecord, PoisonRecord
    from minikafka.reliability.retries import RetryPolicy
    from minikafka.reliability.work import DeadLetterNotWritten

__all__ = [
    "AsyncReliableConsumer",
    "ConsumedRecord",
    "DeadLetterNotWritten",
    "PoisonRecord",
    "ReliableConsumer",
    "RetryPolicy",
]

_WHERE = {
    "AsyncReliableConsumer": "aiokafka_consumer",
    "DeadLetterNotWritten": "work",
    "PoisonRecord": "record",
    "ConsumedRecord": "record",
    "ReliableConsumer": "confluent_consumer",
    "RetryPolicy": "retries",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for only then: who uses one client library need not have the other."""
    if name not in _WHERE:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
