"""The life of a classic consumer group, as one table.

::

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable
      ^            |  ^                    |                |
      '------------'  '--------------------'----------------'
    (nobody came back)   (someone joins, leaves or goes silent)

========================  ===============================================================================
Empty                     no members; offsets may still be here, and expire (KIP-211)
PreparingRebalance        joins wait until every known member has asked to join, or time is up;
                          heartbeats are told REBALANCE_IN_PROGRESS; commits of the old generation are taken
CompletingRebalance       the leader computes the assignment; syncs wait for it; commits are refused
Stable                    everybody has an assignment
Dead                      gone: deleted, expired, or another broker is its coordinator now
========================  ===============================================================================

Source: the states of Kafka's ``ClassicGroup``.
"""

from __future__ import annotations

from enum import Enum


class GroupState(Enum):
    """The value is the name on the wire (DescribeGroups, ListGroups)."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}
"""From each state, the states that may follow."""
