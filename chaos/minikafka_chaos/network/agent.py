"""The verbs of the network agent: each is a fault of one pod's network, the end of one, or a look.

Nothing is remembered here: what is in force is in the kernel, under names that follow from the fault's id, with the time at
which the kernel ends it. So a verb that is repeated does its work once, and an agent that was started anew knows as much.
"""

from __future__ import annotations

import fcntl
import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minikafka_chaos.network import rules
from minikafka_chaos.network.errors import BadRequest, NoProcess, NotNow
from minikafka_chaos.network.namespaces import Entered
from minikafka_chaos.network.nft import Nft
from minikafka_chaos.network.pods import ApiReader, Get, Pod, PodLookup
from minikafka_chaos.network.rules import InstalledFault, LinkDirection, LinkFault, LinkVerb, Peer

SECONDS_MAX = 3600.0
"""No fault lasts longer, as no gate does (`minikafka.agent.gate`)."""
RELEASE_TRIES = 5

_ID = re.compile(rf"[A-Za-z0-9._-]{{1,{rules.ID_MAX}}}")

Namespaces = Callable[[str], AbstractContextManager[Entered]]
"""The network namespace of a pod, by its uid. Raises BadRequest, NotNow."""


@dataclass(frozen=True)
class Ask:
    """Which pod a verb is about, in the caller's words."""

    namespace: str
    pod: str
    uid: str


@dataclass(frozen=True)
class NetworkAgent:
    """The agent of one node. `folder` is where it notes which pods it has touched; nothing depends on that but tidiness."""

    node: str
    folder: Path
    nft: Nft
    namespaces: Namespaces
    server: ApiReader

    # -- verbs ---------------------------------------------------------------------------------------------------------

    def make(
        self,
        ask: Ask,
        fault_id: str,
        verb: LinkVerb,
        seconds: float,
        *,
        peers: Sequence[str],
        clients: bool,
        direction: LinkDirection,
        percent: int = 100,
    ) -> dict[str, Any]:
        """Make a fault: in force when this returns. Raises BadRequest, NotNow."""
        if not _ID.fullmatch(fault_id):
            raise BadRequest(f"--id: allowed: 1 to {rules.ID_MAX} letters, digits, dots, dashes and underscores")
        if math.isnan(seconds) or not 0 < seconds <= SECONDS_MAX:
            raise BadRequest(f"--seconds {seconds:g}: allowed: more than 0, at most {SECONDS_MAX:g}")
        if not 1 <= percent <= 100:
            raise BadRequest(f"--percent {percent}: allowed: 1 to 100")

        async def look(get: Get) -> tuple[Pod, tuple[Peer, ...]]:
            cluster = PodLookup(get, ask.namespace, self.node)
            target = await cluster.target(ask.pod, ask.uid)
            return target, await cluster.peers(target, peers, clients)

        target, found = self.server.run(look)
        fault = LinkFault(fault_id, verb, seconds, found, direction, percent)
        commands = rules.installing(fault)
        with self._alone_in(target.uid) as where:
            before = self._fault(where, fault_id)
            if before is None:
                self._note(target.uid)
                self.nft.apply(where, commands)
            elif before.digest != fault.digest:
                raise BadRequest(f"--id {fault_id}: it was another fault; allowed: an id of its own for each")
            made = self._fault(where, fault_id)
        if made is None:
            raise NotNow(f"{fault_id} was installed, and is not there")
        return {**made.answer(), "repeated": before is not None}

    def heal(self, ask: Ask, peers: Sequence[str], clients: bool) -> dict[str, Any]:
        """End every fault of the links between a pod and these peers; faults of its other links go on."""
        names = {*peers, *([rules.CLIENTS] if clients else [])}
        if not names:
            raise BadRequest("--peer, --clients: at least one of them is needed")
        return self._undone(ask, lambda where: self._released(where, names))

    def recover(self, ask: Ask, fault_id: str | None = None) -> dict[str, Any]:
        """End all faults of a pod, or one. Of a pod that is not there any more nothing is left."""

        def undo(where: Entered) -> list[InstalledFault]:
            mine = [each for each in self._faults(where) if fault_id is None or each.key == rules.key_of(fault_id)]
            self._remove(where, mine)
            return [each for each in mine if not each.is_over]

        return self._undone(ask, undo)

    def state(self, ask: Ask) -> dict[str, Any]:
        """The faults of a pod that are in force."""
        if self._there(ask) is not None:
            try:
                with self.namespaces(ask.uid) as where:
                    found = self._faults(where)
                return {"gone": False, "faults": [each.answer() for each in found if not each.is_over]}
            except NoProcess:
                pass
        return {"gone": True, "faults": []}

    # -- tidiness ------------------------------------------------------------------------------------------------------

    def touched(self) -> set[str]:
        """The uids of pods in which something may be left."""
        return {path.name for path in self._marks.iterdir()} if self._marks.is_dir() else set()

    def forget(self, uid: str) -> None:
        """The pod is gone, and its network with it."""
        (self._marks / uid).unlink(missing_ok=True)

    def left_over(self, uid: str) -> dict[str, bool]:
        """Return whether each fault that a pod has names of is over. Raises NotNow, NoProcess."""
        with self.namespaces(uid) as where:
            return {each.key: each.is_over for each in self._faults(where)}

    def tidy(self, uid: str, keys: Collection[str]) -> None:
        """Remove what is left of those that are over, and the table with the last. Raises NotNow, NoProcess."""
        with self._alone_in(uid) as where:
            self._remove(where, [each for each in self._faults(where) if each.is_over and each.key in keys])
            if not self._faults(where):
                self.forget(uid)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _there(self, ask: Ask) -> Pod | None:
        async def look(get: Get) -> Pod | None:
            return await PodLookup(get, ask.namespace, self.node).there(ask.pod, ask.uid)

        found: Pod | None = self.server.run(look)
        return found

    def _undone(self, ask: Ask, undo: Callable[[Entered], list[InstalledFault]]) -> dict[str, Any]:
        """Undoing asks for no permission: who has forbidden chaos meanwhile wants it to end."""
        if self._there(ask) is not None:
            try:
                with self._alone_in(ask.uid) as where:
                    return {"recovered": [each.id for each in undo(where)], "gone": False}
            except NoProcess:
                pass
        return {"recovered": [], "gone": True}

    def _released(self, where: Entered, names: Collection[str]) -> list[InstalledFault]:
        for left in reversed(range(RELEASE_TRIES)):
            found = self._faults(where)
            hit = [each for each in found if any(element.peer in names for element in each.elements)]
            elements = [element for each in hit for element in each.elements if element.peer in names]
            if not elements:
                return []
            try:
                self.nft.apply(where, rules.releasing(elements))
            except NotNow:  # the kernel has ended one of them since they were listed
                if not left:
                    raise
                continue
            return hit
        raise AssertionError("the last try returns or raises")

    def _remove(self, where: Entered, found: Sequence[InstalledFault]) -> None:
        if found:
            self.nft.apply(where, rules.removing(found))
        if self.nft.listing(where) and not self._faults(where):
            self.nft.apply(where, rules.dropping_table())

    def _faults(self, where: Entered) -> list[InstalledFault]:
        return rules.read(self.nft.listing(where))

    def _fault(self, where: Entered, fault_id: str) -> InstalledFault | None:
        key = rules.key_of(fault_id)
        return next((each for each in self._faults(where) if each.key == key), None)

    @property
    def _marks(self) -> Path:
        return self.folder / "pods"

    def _note(self, uid: str) -> None:
        self._marks.mkdir(parents=True, exist_ok=True)
        (self._marks / uid).touch()

    @contextmanager
    def _alone_in(self, uid: str) -> Iterator[Entered]:
        """A pod's namespace, while no other verb changes anything. There are few verbs, and each is short."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.namespaces(uid) as where, (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield where
