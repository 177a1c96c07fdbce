"""MiniKafkaCluster: three brokers for a test, and the verbs that break them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.grounds.processes import ProcessesGround
from minikafka_chaos.session.errors import VerbRefused
from minikafka_chaos.session.hooks import are_on
from minikafka_chaos.session.session import ChaosSession
from minikafka_chaos.session.settings import Setting, as_text

from minikafka.local.clients_listener import (
    authority_of,
    listener_settings,
    own_security,
    security_of,
    users_of,
    with_listener,
)
from minikafka.local.cluster import TIED_BROKER_COMMAND, LocalCluster
from minikafka.local.errors import BadRequest
from minikafka.local.forks import call_in_children, close_quietly
from minikafka.local.layout import BROKERS_MAX, HOOKS, INTER_BROKER
from minikafka.local.scratch import ScratchFolder
from minikafka.testing.threads_ground import ThreadsGround

SETTINGS = {HOOKS: "true", "offsets.topic.num.partitions": "4", "auto.create.topics.enable": "false"}
"""Of every cluster for tests, where they differ from those of `minikafka up`: fifty partitions of offsets take long to make, and
a topic that a misspelt name has made hides the mistake."""


CLUSTER = "cluster"
"""The brokers' own folder, in that of the cluster."""
CA = "ca.pem"


class MiniKafkaCluster(ChaosSession):
    """Brokers 1 to N, which start at once, and end with `close`, or with this program, however it ends.

    Args:
        brokers: how many.
        settings: of the brokers, by Kafka's names; a number, True or False may stand for its text.
        tls: whether clients need TLS; the authority's certificate is in `ca_path`.
        users: who may log in, by SASL PLAIN: passwords by name; without it nobody has to.
        in_process: brokers are threads of this process, with their data in memory, and start in a tenth of a second;
            otherwise they are processes with files, and die by a real kill -9. `close` writes that data to a `folder`.
        folder: where data, event logs and the journal go; a temporary folder when none is given, which `close` removes, or,
            where this program is killed, the next cluster.

    Raises:
        VerbRefused: the cluster cannot be so.
        ToolTrouble: it did not start.
    """

    def __init__(
        self,
        brokers: int = 3,
        settings: Mapping[str, Setting] | None = None,
        *,
        tls: bool = False,
        users: Mapping[str, str] | None = None,
        in_process: bool = False,
        folder: Path | str | None = None,
    ) -> None:
        if type(brokers) is not int or not 1 <= brokers <= BROKERS_MAX:
            raise VerbRefused(f"brokers: {brokers!r} is not a whole number from 1 to {BROKERS_MAX}")
        if type(in_process) is not bool:
            raise VerbRefused(f"in_process: {in_process!r} is not True or False")
        if not isinstance(folder, str | os.PathLike | None):
            raise VerbRefused(f"folder: {folder!r} is not a path")
        values = {**SETTINGS, **as_text("settings", {} if settings is None else settings)}
        hooks = are_on(values)
        if in_process and not hooks:
            raise VerbRefused(f"{HOOKS}: brokers in this process always have hooks")
        try:
            self._listener = listener_settings(tls, users)
            secured = with_listener(values, self._listener)
        except BadRequest as error:
            raise VerbRefused(str(error)) from error
        values = {**values, **self._listener} if in_process else secured
        if folder is not None and (Path(folder) / CLUSTER).exists():
            raise VerbRefused(f"folder: {folder} has a cluster already: name another, or none")
        self._scratch = None
        if folder is None:
            self._scratch = ScratchFolder(Path(tempfile.gettempdir()), "minikafka-test-")
            folder = self._scratch.path
        place = Path(folder).absolute()
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise VerbRefused(f"folder: {place}: {error.strerror}") from error
        self._owner = os.getpid()
        self._lifeline = os.pipe()
        call_in_children(self._close_lifeline)
        ground = self._launched(place, brokers, values, in_process)
        super().__init__(ground, place, hooks)
        if (authority := authority_of(self._listener)) is not None:
            (place / CA).write_text(authority)

    def _launched(
        self, place: Path, brokers: int, values: Mapping[str, str], in_process: bool
    ) -> ThreadsGround | ProcessesGround:
        ground: ThreadsGround | ProcessesGround
        if in_process:
            ground = ThreadsGround(place / CLUSTER, own_security(self._listener))
        else:
            local = LocalCluster(place / CLUSTER, TIED_BROKER_COMMAND, self._lifeline[0])
            ground = ProcessesGround(local.data, cluster=local, first_id=1)
        try:
            if isinstance(ground, ThreadsGround):
                ground.launch(brokers, values)
            else:
                ground.launch(brokers, values, proxied=[INTER_BROKER], fault_files=True)
        except BaseException as error:
            ground.down()
            self._let_go()
            if isinstance(error, ToolTrouble) and str(error).startswith("config: "):
                raise VerbRefused(str(error)) from error
            raise
        return ground

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, for a client's `bootstrap.servers`."""
        return self.ground.address

    @property
    def ca_path(self) -> Path | None:
        """The certificate, in PEM, that clients are to trust; None without TLS."""
        return None if authority_of(self._listener) is None else self.folder / CA

    def client_config(self, user: str | None = None) -> dict[str, Any]:
        """Return what a client of confluent-kafka needs: addresses, TLS and login, the first user's where none is named."""
        names = users_of(self._listener)
        if user is not None and user not in names:
            raise VerbRefused(f"user: {user!r} is not one of this cluster, which has {', '.join(names) or 'none'}")
        security = security_of(self._listener, user or next(iter(names), None))
        return {"bootstrap.servers": self.bootstrap, **security.librdkafka()}

    def close(self) -> None:
        """End the brokers, at once. Safe to call twice, and in a child by fork, whose brokers they are not."""
        if os.getpid() != self._owner:
            return
        super().close()
        if isinstance(self.ground, ProcessesGround):
            self.ground.crash()
        self.ground.down()
        if isinstance(self.ground, ThreadsGround) and self._scratch is None:
            self.ground.write_disks()
        self._let_go()

    def _close_lifeline(self) -> None:
        for end in self._lifeline:
            close_quietly(end)
        self._lifeline = (-1, -1)

    def _let_go(self) -> None:
        self._close_lifeline()
        if self._scratch is not None:
            self._scratch.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
