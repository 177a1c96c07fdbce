"""Clusters of broker processes that end with the process of the tests, however that ends.

pytest-xdist kills workers that do not end in time after a Ctrl-C, and then no fixture brings anything down. Brokers are
detached, and no terminal's Ctrl-C reaches them: they have to notice by themselves.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from minikafka.local.cluster import TIED_BROKER_COMMAND, LocalCluster


@cache
def _lifeline() -> int:
    """Open a pipe; return its reading end. This process alone has the other end, and never closes it."""
    reading, _ = os.pipe()
    return reading


def tied_cluster(data: Path) -> LocalCluster:
    """Make a cluster whose brokers, where this object starts them, do not outlive this process."""
    return LocalCluster(data, TIED_BROKER_COMMAND, _lifeline())
