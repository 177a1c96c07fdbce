"""Every bug that can be planted, by its name."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka_simulator.bugs.bug import Bug

from tests.adversary.chaos_bugs import CHAOS
from tests.adversary.core_bugs import CORE
from tests.adversary.judge_bugs import JUDGING
from tests.adversary.network_bugs import NETWORK
from tests.adversary.security_bugs import SECURITY
from tests.adversary.shell_bugs import SHELL

BUGS: Mapping[str, Bug] = {bug.name: bug for bug in (*CORE, *SHELL, *JUDGING, *CHAOS, *NETWORK, *SECURITY)}
