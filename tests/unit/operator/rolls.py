"""Clusters that are rolled, and pods that do not get ready, for the tests of ``rollout.py``."""

from __future__ import annotations

from typing import Any

from minikafka_operator.actions import ReplacePod

from .world import NAMES, World, settled

CHANGE = {"config": {"num.partitions": "7"}}
THREE = ([0, 1, 2], [0, 1, 2])


def rolling(**spec: Any) -> World:
    """A settled cluster of three whose settings have just changed."""
    world = settled(**spec)
    world.wait(100)
    world.edit(**CHANGE)
    return world


def replaced(world: World) -> list[str]:
    return [action.name for action in world.plan().actions if isinstance(action, ReplacePod)]


CRASHING = {"name": "broker", "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}


def crash(world: World, *brokers: int) -> None:
    """Brokers that end as soon as they are started."""
    for name in map(NAMES.pod, brokers):
        world.stop(name)
        world.pods[name]["status"]["containerStatuses"] = [dict(CRASHING)]


def run_unready(world: World, *brokers: int) -> None:
    """Brokers that run and do not become ready: with a listener that nobody can reach, say."""
    for name in map(NAMES.pod, brokers):
        world.stop(name)
