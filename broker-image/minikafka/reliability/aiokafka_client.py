"""The client library aiokafka, or one line that says how to get it."""

from __future__ import annotations

try:
    import aiokafka
    import aiokafka.admin
    import aiokafka.errors
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"AsyncReliableConsumer needs the extra 'reliability': pip install 'minikafka[reliability]' ({error})",
        name=error.name,
    ) from error

__all__ = ["aiokafka"]
