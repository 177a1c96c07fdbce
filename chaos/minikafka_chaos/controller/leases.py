"""The disruption Lease of a cluster, which whoever takes brokers away on purpose holds: rolls of the operator, and chaos.

It is not renewed: its duration is as long as the disruption may last, and who ends sooner gives it back. So it holds while
its holder's process is away, and always ends.
"""

from __future__ import annotations

from typing import Final

from minikafka_operator.disruption import Hold

from minikafka_chaos.controller.kinds import Object

PREFIX: Final = "experiment/"
MARGIN_SECONDS: Final = 2400
"""Beyond the experiment's deadline: what its faults may take to expire, and then some."""


def identity(experiment: Object) -> str:
    """How an experiment is called as a holder: its name for people, its uid because a name is no identity."""
    metadata = experiment["metadata"]
    return f"{PREFIX}{metadata['name']}/{metadata['uid']}"


def is_experiment(hold: Hold) -> bool:
    """Whether the holder is an experiment."""
    return hold.holder.startswith(PREFIX)


def experiment_name(hold: Hold) -> str:
    """Its name."""
    return hold.holder.removeprefix(PREFIX).partition("/")[0]
