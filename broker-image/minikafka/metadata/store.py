"""The cluster store: what ZooKeeper did. Durable records with compare-and-set, a controller lease, watches.

A store holds JSON records under string keys (see :mod:`minikafka.metadata.image`). Only the holder of the controller lease
writes cluster records, and every write carries its controller epoch, so a takeover may be fast because it is always safe:
the moment somebody else holds the lease, the old controller's writes fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from minikafka.metadata.image import ClusterImage, TopicState
from minikafka.quotas.entities import EntityQuotas
from minikafka.security.acls import Acl
from minikafka.security.scram import UserCredential

Wish = TopicState | EntityQuotas | UserCredential | Acl
"""What needs room in the store: a topic, an entity's quotas or a user's credential as they are to be, or an ACL that is new."""

Room = Callable[[Sequence[Wish]], None]
"""Whether there is room for all of these. Raises KafkaError POLICY_VIOLATION when the store might get too full."""


def no_limit(wishes: Sequence[Wish]) -> None:
    """There is room for everything."""
    del wishes


class StoreError(Exception):
    """The store could not be reached or is damaged; nothing is known about a write in flight."""


class FencedControllerError(StoreError):
    """The controller lease is held under a later epoch: this controller is no longer one."""


class StoreWentBackError(StoreError):
    """The store holds an earlier state than this reader has seen: somebody has put a backup of it in its place."""

    def __init__(self, store: str, revision: int, seen: int) -> None:
        super().__init__(
            f"{store} is at revision {revision}, but {seen} was seen already: it was put back to an earlier state"
        )


@dataclass(frozen=True, slots=True)
class Lease:
    """The controller lease. ``epoch`` grows with each new holder; ``renewed`` counts the holder's signs of life."""

    holder: int
    epoch: int
    renewed: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All records at a revision."""

    revision: int
    records: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Changes:
    """Records that changed after a revision, in no particular order; None means removed."""

    revision: int
    records: Mapping[str, Any]


class ClusterStore(Protocol):
    """The operations. All are coroutines: a store may be a file, a socket, a simulation."""

    async def open(self, cluster_id: str | None) -> str:
        """Create or open the store; answers its cluster id. Raises StoreError when it belongs to another cluster."""
        ...

    async def close(self) -> None: ...

    async def snapshot(self) -> Snapshot: ...

    async def changes(self, since: int) -> Changes:
        """Raises StoreWentBackError when the store never was at ``since``: later changes would be mixed into another history."""
        ...

    async def wait(self, since: int, timeout: float) -> None:
        """Return when the revision is past ``since``, or after ``timeout`` seconds, or for no reason at all."""
        ...

    async def commit(self, controller_epoch: int, records: Mapping[str, Any]) -> int:
        """Write records (None removes) in one step under a controller epoch; answers the new revision.

        Raises:
            FencedControllerError: the lease is held under another epoch.
        """
        ...

    async def lease(self) -> Lease | None:
        """The controller lease as it stands, whether or not its holder lives."""
        ...

    async def acquire(self, holder: int, host: str, port: int, expected_epoch: int) -> Lease | None:
        """Take the lease if its epoch is still ``expected_epoch`` (0: never held); its epoch grows by one (R15).

        None: the race is lost. Whether the old holder is dead is the caller's judgement (silence for a session, or a closed
        connection).
        """
        ...

    async def renew(self, lease: Lease) -> Lease:
        """Show a sign of life; raises FencedControllerError when somebody else holds it."""
        ...

    async def allocate(self, counter: str, count: int) -> int:
        """The first of ``count`` numbers never handed out before (producer ids)."""
        ...

    def room(self, image: ClusterImage) -> Room:
        """What there may be beside what is in an image, for as long as that does not change."""
        ...
