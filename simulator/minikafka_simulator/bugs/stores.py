"""Bugs in the two cluster stores."""

from __future__ import annotations

from minikafka_simulator.bugs.bug import Bug, SourcePatch

DATABASE, STORE = "metadata/database.py", "kubernetes/store.py"

STORES = (
    Bug("sqlite-commit-unfenced", "SQLite: a commit of an old controller epoch is written", "R15", DATABASE,
        "            if held is None or held.epoch != controller_epoch:\n", "            if held is None:\n"),
    Bug("sqlite-changes-latest", "SQLite: who missed several commits hears of the last one only", "R15", DATABASE,
        'WHERE revision > ? ORDER BY rowid", (since,))', 'WHERE revision > ? ORDER BY rowid", (max(since, revision - 1),))'),
    Bug("sqlite-lease-to-anybody", "SQLite: the lease is taken whatever its epoch is by now", "R15", DATABASE,
        "            if (held.epoch if held else 0) != expected_epoch:\n                return None\n"
        "            taken = Lease(holder, expected_epoch + 1, 0, host, port)\n",
        "            taken = Lease(holder, (held.epoch if held else 0) + 1, 0, host, port)\n"),
    Bug("sqlite-renew-for-anybody", "SQLite: an old controller renews the lease of its successor", "R15", DATABASE,
        "            if held is None or held.epoch != lease.epoch:\n", "            if held is None:\n"),
    Bug("kubernetes-commit-unfenced", "Kubernetes: a commit of an old controller epoch is written", "R15", STORE,
        "            check_epoch(document, controller_epoch)\n            wanted =", "            wanted =",
        also=(SourcePatch(STORE,
                   "            return document.controller_epoch == controller_epoch and document.revision == target\n",
                   "            return document.revision == target\n"),)),
    Bug("kubernetes-seal-nothing", "Kubernetes: a new controller leaves the document unsealed", "R15", STORE,
        "        if taken is None or not await self._seal(taken.epoch):\n", "        if taken is None:\n",
        also=(SourcePatch(STORE,
                   "        target = -1\n",
                   "        target = -1\n"
                   "        await self.write(lambda d: replace(d, controller_epoch=controller_epoch), lambda _: False)\n"),)),
    Bug("kubernetes-lost-is-refused", "Kubernetes: a write whose answer is lost counts as not made, and all goes on", "R15",
        STORE,
        "    async def write(self, change: Callable[[Document], Document], done: Callable[[Document], bool]) -> Document:\n",
        "    async def write(self, change: Callable[[Document], Document], done: Callable[[Document], bool]) -> Document:\n"
        "        try:\n"
        "            return await self._written(change, lambda _: False)\n"
        "        except (ApiError, ApiUnreachable):\n"
        "            return self.document\n\n"
        "    async def _written(self, change: Callable[[Document], Document], done: Callable[[Document], bool]) -> Document:\n"),
    Bug("kubernetes-lease-of-others", "Kubernetes: another's Lease is taken for the own one", "R15", STORE,
        "    async def _write_lease(self, term: str, next_lease: Callable[[Object | None], Lease | None]) -> Lease | None:\n",
        "    async def _write_lease(self, term: str, next_lease: Callable[[Object | None], Lease | None]) -> Lease | None:\n"
        "        taken = await self._written_lease(term, next_lease)\n"
        "        value = await self._find_lease()\n"
        "        return taken if value is None or taken is not None else leases.from_object(value)\n\n"
        "    async def _written_lease(self, term: str, next_lease: Callable[[Object | None], Lease | None]) -> Lease | None:\n"),
    Bug("kubernetes-drop-events", "Kubernetes: the events of a watch are dropped", "client-go's Reflector", STORE,
        "    async def _took_event(self, event: WatchEvent) -> None:\n",
        "    async def _took_event(self, event: WatchEvent) -> None:\n        return\n"),
    Bug("kubernetes-show-nothing", "Kubernetes: the objects of topics are never written", "level-triggered controllers",
        "kubernetes/topic_reconciler.py",
        '        """Raises StoreError, and what nobody expected."""\n',
        '        """Raises StoreError, and what nobody expected."""\n        return\n'),
    Bug("kubernetes-tend-nothing", "Kubernetes: no controller begins to tend topics' objects", "level-triggered controllers",
        "server/controller_role.py", "self._renew_loop, self._reconcile_loop", "self._renew_loop"),
)  # fmt: skip
