"""Simulator bugs: one mistake each, of Kafka or its kin, that `minikafka simulate --bug NAME` plants in its process.

They measure the checker: a simulator that does not find these would not find their cousins either (docs/internals/simulation.md
has the table). Production has no switch for them: each is a change of its source.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from minikafka_simulator.bugs.bug import Bug
from minikafka_simulator.bugs.crashes import CRASHES
from minikafka_simulator.bugs.disks import DISKS
from minikafka_simulator.bugs.groups import GROUPS
from minikafka_simulator.bugs.in_process import planted
from minikafka_simulator.bugs.membership import MEMBERSHIP
from minikafka_simulator.bugs.replication import REPLICATION
from minikafka_simulator.bugs.rules import RULES
from minikafka_simulator.bugs.server import SERVER
from minikafka_simulator.bugs.stores import STORES
from minikafka_simulator.bugs.writing import WRITING

BUG_SEEDS: Mapping[str, Bug] = {
    bug.name: bug for bug in (*REPLICATION, *MEMBERSHIP, *GROUPS, *DISKS, *STORES, *SERVER, *WRITING, *RULES)
}

CRASH_BUGS: Mapping[str, Bug] = {bug.name: bug for bug in CRASHES}
"""Those that `make crashes` plants and looks for: a schedule of the simulator rarely meets the moment that shows them."""


def with_bug_seed(name: str | None) -> AbstractContextManager[None]:
    """Run the block with this simulator bug in the process, or with production's code as it is. KeyError: there is none such."""
    return nullcontext() if name is None else planted(BUG_SEEDS[name])
