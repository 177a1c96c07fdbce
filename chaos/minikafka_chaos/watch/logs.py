"""How the log of a replica grows, is cut and is copied, as far as its leader epochs can be told from outside. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from minikafka_chaos.watch.state import UNKNOWN_EPOCH, EpochStart, ReplicaKey, WatchedReplica

if TYPE_CHECKING:
    from minikafka_chaos.watch.fold import Draft


class LogRules:
    """Changes log ends of replicas in a draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def end_at(self, key: ReplicaKey, end: int) -> None:
        """Its log ends there now, wherever it did before."""
        log_end = self._draft.state.replica(key).log_end
        if log_end is None or end > log_end:
            self.grow(key, end)
        elif end < log_end:
            self.cut(key, end)

    def grow(self, key: ReplicaKey, end: int) -> None:
        """Its log reaches up to there, or further."""
        replica = self._draft.state.replica(key)
        begin = replica.log_start if replica.log_end is None else replica.log_end
        if replica.log_end is not None and end <= begin:
            return
        epochs = _joined(replica.epochs, tuple(self._written(key, replica, begin, end)))
        end = max(end, begin)
        cut_end = replica.cut_end if replica.cut_end is not None and replica.cut_end > end else None
        self._draft.put(key, replace(replica, log_end=end, epochs=epochs, cut_end=cut_end))

    def cut(self, key: ReplicaKey, end: int, before: int | None = None) -> None:
        """Its log ends there; what it had above is gone. `before`: where it ended, if that is known."""
        self._draft.put(key, cut_at(self._draft.state.replica(key), end, before))

    def begin_epoch(self, key: ReplicaKey, leader_epoch: int, start: int) -> None:
        """It leads, and what it appends from there on has this epoch.

        It cuts nothing, for who becomes leader never does: where its log is longer, it was seen to append already.
        """
        self.grow(key, start)
        replica = self._draft.state.replica(key)
        kept = tuple(each for each in replica.epochs if each.offset < start)
        self._draft.put(key, replace(replica, epochs=_joined(kept, (EpochStart(leader_epoch, start),))))

    def start_at(self, key: ReplicaKey, start: int) -> None:
        """Its log begins there now: older records were deleted."""
        replica = self._draft.state.replica(key)
        if start == replica.log_start:
            return
        below = [each for each in replica.epochs if each.offset <= start][-1:]
        above = [each for each in replica.epochs if each.offset > start]
        epochs = tuple([EpochStart(each.leader_epoch, start) for each in below] + above)
        end = replica.log_end if replica.log_end is None else max(replica.log_end, start)
        self._draft.put(key, replace(replica, log_start=start, epochs=epochs, log_end=end))

    def _written(self, key: ReplicaKey, replica: WatchedReplica, begin: int, end: int) -> Iterator[EpochStart]:
        """Yield the epochs of what is new: a leader's own; what a follower has copied from whom it followed."""
        if end <= begin:
            return
        if replica.following is None:
            yield EpochStart(replica.epochs[-1].leader_epoch if replica.epochs else UNKNOWN_EPOCH, begin)
            return
        source = self._draft.state.replica(ReplicaKey(*key.topic_partition, replica.following))
        yield EpochStart(source.epoch_at(begin), begin)
        yield from (each for each in source.epochs if begin < each.offset < end)


def cut_at(replica: WatchedReplica, end: int, before: int | None = None) -> WatchedReplica:
    """Return the replica with its log cut; `before` is where it ended, else what was seen of it."""

    def at_most(offset: int | None) -> int | None:
        return None if offset is None else min(offset, end)

    before = max(replica.log_end or 0, replica.cut_end or 0) if before is None else before
    return replace(
        replica,
        log_end=end,
        cut_end=before if before > end else None,
        epochs=tuple(each for each in replica.epochs if each.offset < end),
        log_start=min(replica.log_start, end),
        high_watermark=at_most(replica.high_watermark),
        flushed=at_most(replica.flushed),
        remote_end=at_most(replica.remote_end),
    )


def _joined(epochs: tuple[EpochStart, ...], added: tuple[EpochStart, ...]) -> tuple[EpochStart, ...]:
    found = list(epochs)
    for each in added:
        if not found or found[-1].leader_epoch != each.leader_epoch:
            found.append(each)
    return tuple(found)
