"""Every bug that can be planted, by its name."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka_simulator.bugs.bug import Bug
from minikafka_simulator.bugs.catalogue import BUG_SEEDS
from minikafka_simulator.bugs.crashes import CRASHES

from tests.adversary.chaos_bugs import CHAOS
from tests.adversary.core_bugs import CORE
from tests.adversary.judge_bugs import JUDGING
from tests.adversary.network_bugs import NETWORK
from tests.adversary.security_bugs import SECURITY
from tests.adversary.shell_bugs import SHELL
from tests.specification.mistakes import MISTAKES

NUMBERED = (*CORE, *SHELL, *JUDGING, *CHAOS, *NETWORK, *SECURITY)
"""A letter for the part and a number."""

_known = {bug.patches for bug in (*NUMBERED, *BUG_SEEDS.values())}
BUGS: Mapping[str, Bug] = {
    bug.name: bug
    for bug in (
        *NUMBERED,
        *(bug for bug in (*CRASHES, *(mistake.bug for mistake in MISTAKES)) if bug.patches not in _known),
    )
}
"""Those of `make crashes` and of the specification, too, that are neither under a number nor a simulator bug."""
