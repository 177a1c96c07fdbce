"""Whether a cluster's owner allows chaos. The controller and the network agents ask here: they must never judge differently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HOW_TO_ALLOW = "its owner has to set spec.chaos.allowed: true"


def allows_chaos(cluster: Mapping[str, Any]) -> bool:
    """Return whether its owner allows that brokers are taken away on purpose; what was allowed may be taken back at any time.

    Args:
        cluster: a MiniKafkaCluster as the API server gives it. Only the boolean true allows: not "true", and not 1.
    """
    return ((cluster.get("spec") or {}).get("chaos") or {}).get("allowed") is True
