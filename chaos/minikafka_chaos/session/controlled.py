"""A cluster of processes with a control port: what `minikafka up --control` starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from minikafka.local.cluster import LocalCluster
from minikafka.local.errors import ClusterError
from minikafka.local.layout import INTER_BROKER, ClusterInfo

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.grounds.processes import ProcessesGround
from minikafka_chaos.session.control import ControlServer
from minikafka_chaos.session.errors import VerbRefused
from minikafka_chaos.session.hooks import are_on
from minikafka_chaos.session.session import ChaosSession


def session_of(data: Path, ground: ProcessesGround | None = None) -> ChaosSession:
    """A session with the cluster that `minikafka up` made there. Raises ToolTrouble where there is none."""
    if ground is None:
        ground = ProcessesGround(data)
        ground.attach()
    return ChaosSession(ground, data, are_on(ground.cluster.record.config), durable=True)


class ControlledCluster:
    """`LocalCluster`'s `up` and `down`, and a control port between the two."""

    def __init__(self, cluster: LocalCluster, host: str, port: int, token: str | None) -> None:
        self._cluster = cluster
        self._ground = ProcessesGround(cluster.data, cluster=cluster)
        self._where = host, port, token
        self._server: ControlServer | None = None

    @property
    def url(self) -> str:
        assert self._server is not None, "it is up"
        return self._server.url

    @property
    def token(self) -> str | None:
        assert self._server is not None, "it is up"
        return self._server.token

    @property
    def exists(self) -> bool:
        """Whether the data directory has a cluster."""
        return self._cluster.exists

    def up(self, **asked: Any) -> ClusterInfo:
        """Start the cluster, with a proxy between its brokers and injected faults; then open the port.

        Raises ClusterError; then nothing is left running, and where the port cannot be had nothing was begun.
        """
        host, port, token = self._where
        try:
            self._server = ControlServer(host, port, self._cluster.data, token)
        except VerbRefused as error:
            raise ClusterError(str(error)) from error
        try:
            info = self._ground.take_up(**asked, proxied=[INTER_BROKER], faults=True)
            self._server.start(session_of(self._cluster.data, self._ground))
        except BaseException as error:
            self.down()
            if isinstance(error, ToolTrouble):
                raise ClusterError(str(error)) from error
            raise
        return info

    def down(self) -> list[int]:
        """Close the port, and shut the brokers down; the ids of those that had to be killed."""
        if self._server is not None:
            self._server.close()
        return self._ground.down()
