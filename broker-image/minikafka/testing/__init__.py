"""A cluster for tests of clients and services, whose brokers die on command: `MiniKafkaCluster`, and a plugin of pytest.

The plugin's fixture is `minikafka_cluster` (`minikafka.testing.plugin`); whoever uses unittest, or nothing, makes a
`MiniKafkaCluster`. What cannot be is refused with `VerbRefused`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minikafka_chaos.errors import ToolTrouble
    from minikafka_chaos.session.errors import VerbRefused
    from minikafka_chaos.verdict.verdict import Outcome, Verdict

    from minikafka.testing.cluster import MiniKafkaCluster

__all__ = ["MiniKafkaCluster", "Outcome", "ToolTrouble", "VerbRefused", "Verdict"]

_WHERE = {
    "MiniKafkaCluster": "minikafka.testing.cluster",
    "Outcome": "minikafka_chaos.verdict.verdict",
    "VerbRefused": "minikafka_chaos.session.errors",
    "ToolTrouble": "minikafka_chaos.errors",
    "Verdict": "minikafka_chaos.verdict.verdict",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for only then: pytest loads the plugin of this package for every project that has it installed."""
    if name not in _WHERE:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(_WHERE[name]), name)
