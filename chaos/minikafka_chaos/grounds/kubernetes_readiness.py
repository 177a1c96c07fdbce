"""Whether a broker's pod tells of the broker that runs now: what the kubelet says may be older than the fault that ended it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from minikafka.agent.faults import HOLDING
from minikafka_kube.instants import instant

from minikafka_chaos.grounds.kubernetes_api import Namespace, Object

CONTAINER: Final = "broker"
METRICS_PORT: Final = 9404
READY_PATH: Final = "/readyz"
ASK_SECONDS_MAX: Final = 5.0
"""As long as the kubelet's own probe waits."""


def broker_container(pod: Object | None) -> Object:
    """The status of the broker's container; empty while there is none."""
    statuses = ((pod or {}).get("status") or {}).get("containerStatuses") or []
    return next((each for each in statuses if each["name"] == CONTAINER), {})


def has_secured_metrics(pod: Object) -> bool:
    """Return whether the broker in a pod serves its metrics by TLS and for a token: as the kubelet asks, so it is."""
    containers = (pod.get("spec") or {}).get("containers") or []
    broker: Object = next((each for each in containers if each["name"] == CONTAINER), {})
    asked: Object = (broker.get("readinessProbe") or {}).get("httpGet") or {}
    return asked.get("scheme") == "HTTPS"


def says_ready(namespace: Namespace, name: str, pod: Object) -> bool:
    """Return whether the broker in a pod answers now that it is ready. One that does not answer is not.

    The API server takes any certificate, as the kubelet does, and passes on no token; there is none to be had for it.
    """
    try:
        namespace.page(f"https:{name}" if has_secured_metrics(pod) else name, METRICS_PORT, READY_PATH, ASK_SECONDS_MAX)
    except OSError:
        return False
    return True


class Ends:
    """When each broker was last ended on purpose, by the clock of its node, which is the kubelet's clock, too."""

    def __init__(self) -> None:
        self._at: dict[int, float] = {}

    def note(self, broker: int, faults: Iterable[Mapping[str, Any]]) -> None:
        """Take down what an agent tells of its faults, of which the last that ended the broker counts."""
        for fault in faults:
            if fault["verb"] in HOLDING:
                self._at[broker] = max(float(fault["at"]), self._at.get(broker, -math.inf))

    def runs_again(self, broker: int, pod: Object | None) -> bool:
        """Return whether a container runs in the pod that was started since the broker was ended; any, where it was not."""
        running = (broker_container(pod).get("state") or {}).get("running")
        if running is None:
            return False
        if broker not in self._at:
            return True
        started = instant(running.get("startedAt"))
        # Written in whole seconds. What was ended within its first second was never ready.
        return started is not None and started.timestamp() >= math.floor(self._at[broker])
