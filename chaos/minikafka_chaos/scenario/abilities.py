"""Which ground cannot do what, and why: one table, for the grounds themselves, for refusals, and for docs/reference/faults.md."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from minikafka_chaos.scenario.verbs import Verb

_NO_TIME = "a flush takes no time there"
_NO_DELAY = (
    "the network agent drops packets, which every kernel with nftables can; it does not make them late, which takes netem in the "
    "nodes' kernel"
)
_NO_DISK = "the broker's image has no injection point that the agent may reach"


LACKS: Mapping[str, Mapping[Verb, str]] = MappingProxyType(
    {
        "processes": MappingProxyType({}),
        "simulation": MappingProxyType(
            {
                Verb.SLOW_FSYNC: _NO_TIME,
            }
        ),
        "kubernetes": MappingProxyType(
            {
                Verb.DELAY: _NO_DELAY,
                Verb.SLOW_FSYNC: _NO_DISK,
                Verb.FAILING_FSYNC: _NO_DISK,
                Verb.DISK_FULL: _NO_DISK,
                Verb.CLOCK_STEP: "the clock is the node's, which other pods share",
                Verb.STORE_OUTAGE: "the store is the Kubernetes API, which others share",
            }
        ),
    }
)
"""Ground -> verb -> reason."""
