"""Rolls take turns with chaos: who takes brokers away holds the Lease of :mod:`~minikafka_kube.disruption_lease`."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from minikafka_kube.disruption_lease import given_back, hold_of, taken
from minikafka_kube.kinds import LEASE
from minikafka_kube.names import MANAGER
from minikafka_kube.observed import ObservedCluster

from minikafka_operator.actions import WriteDisruptionLease
from minikafka_operator.conditions import ClusterReason
from minikafka_operator.rollout.order import Roll

HOLD_SECONDS: Final = 600
"""Longer than one broker takes to be replaced; taken anew with each while the roll goes on."""
RENEW_SECONDS: Final = 300
LOOK_AGAIN_SECONDS: Final = 5.0
"""While somebody else has the turn. Nobody tells when it ends."""


def yielding(observed: ObservedCluster, decision: Roll) -> Roll:
    """The same roll, or one that waits because somebody else takes brokers away now; also while it would wait for a broker that
    the other has taken.
    """
    hold = hold_of(observed.find(LEASE, observed.names.disruption))
    paused = decision.blocked is ClusterReason.ROLLOUT_PAUSED
    if not decision.outdated or paused or not hold.by_other(MANAGER, observed.now):
        return decision
    message = f"{hold.holder} holds Lease {observed.names.disruption}, and takes brokers away on purpose"
    return Roll(decision.outdated, (), ClusterReason.DISRUPTION_LEASE_HELD, message, LOOK_AGAIN_SECONDS)


def holding(observed: ObservedCluster, decision: Roll) -> list[WriteDisruptionLease]:
    """The Lease is taken before the first broker is, and given back when none is left to be replaced and all are ready."""
    lease = observed.find(LEASE, observed.names.disruption)
    hold = hold_of(lease)
    mine = hold.holder == MANAGER
    if decision.replace:
        if mine and hold.until - observed.now > timedelta(seconds=RENEW_SECONDS):
            return []
        desired = taken(lease, observed.names, observed.cluster, MANAGER, HOLD_SECONDS, observed.now)
        return [WriteDisruptionLease(desired, lease is None, "brokers are to be replaced")]
    over = not decision.outdated and all(pod.ready for pod in observed.brokers.values())
    if mine and over and lease is not None:
        return [WriteDisruptionLease(given_back(lease), False, "no broker is left to be replaced")]
    return []
