"""What is checked of disks that have lost power: see ``invariants``, B30 and B33."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from minikafka.log.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINTS, read_offsets
from minikafka.log.epochs import EpochEntry, LeaderEpochCache
from minikafka.log.errors import MalformedCheckpoint
from minikafka.log.log import Log
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.checks.account import Account
from minikafka_simulator.checks.mirror import unrefused

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker


class _Promise(NamedTuple):
    """What a log said of itself when its broker lost power."""

    topic_id: UUID | None
    flushed: int


class DiskChecks:
    """Of one world."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._promises: dict[tuple[int, TopicPartition], _Promise] = {}

    def lost_power(self, broker: SimBroker) -> None:
        """The process is dead, the disk has lost what it loses, and nobody has mended anything yet."""
        if broker.logs is None:
            return
        folder = broker.world.data_dir
        with unrefused(broker.disk):
            if not broker.stopping and broker.disk.exists(f"{folder}/{CLEAN_SHUTDOWN}"):
                self._account.fail(
                    "B33 CleanOnce",
                    f"broker {broker.id} lost power while it ran, and its disk says that it stopped cleanly",
                )
            points = read_offsets(broker.disk, f"{folder}/{RECOVERY_POINTS}")
            for tp, log in broker.logs.logs.items():
                if log.failure is None:
                    self._promises[broker.id, tp] = _Promise(broker.logs.topic_ids.get(tp), log.flushed_offset)
                    self._epochs(broker, tp, log)
                    self._recovery_point(broker, tp, log, points.get(tp, 0))

    def _recovery_point(self, broker: SimBroker, tp: TopicPartition, log: Log, point: int) -> None:
        """Recovery believes what is below the recovery point without reading it."""
        if point > log.flushed_offset:
            self._account.fail(
                "B30 FlushedIsKept",
                f"broker {broker.id} {tp}: flushed up to {log.flushed_offset}, and its recovery point on the disk is {point}",
            )

    def _epochs(self, broker: SimBroker, tp: TopicPartition, log: Log) -> None:
        """The epoch checkpoint does not lag behind what was flushed: recovery trusts it where it does not read records.

        One that was written and not flushed yet may be damaged; recovery notices, and reads all records. Entries are only ever
        cut at the front without a flush: then one that begins earlier stands for it.
        """
        flushed = [entry for entry in log.epochs.entries if entry.start_offset < log.flushed_offset]
        found: Sequence[EpochEntry] | None
        try:
            found = LeaderEpochCache.load(broker.disk, log.directory).entries
        except MalformedCheckpoint:
            found = None
        if found is None and (log.epochs.dirty or log.flush_under_way):
            return
        starts = dict(found or ())
        if found is None or any(starts.get(epoch, start + 1) > start for epoch, start in flushed):
            self._account.fail(
                "B30 FlushedIsKept",
                f"broker {broker.id} {tp}: flushed up to {log.flushed_offset} with epochs {_shown(flushed)}; after the "
                f"power loss the checkpoint has {'no whole line' if found is None else _shown(found)}",
            )

    def started(self, broker: SimBroker) -> None:
        """What was flushed is there (B30)."""
        assert broker.logs is not None
        for broker_id, tp in [key for key in self._promises if key[0] == broker.id]:
            promise, log = self._promises.pop((broker_id, tp)), broker.logs.logs.get(tp)
            same = broker.logs.topic_ids.get(tp) == promise.topic_id
            if log is not None and same and log.log_end_offset < promise.flushed:
                self._account.fail(
                    "B30 FlushedIsKept",
                    f"broker {broker_id} {tp}: flushed up to {promise.flushed}, after the power loss it ends at "
                    f"{log.log_end_offset}",
                )


def _shown(entries: Sequence[EpochEntry]) -> str:
    return ", ".join(f"{epoch} from {start}" for epoch, start in entries) or "none"
