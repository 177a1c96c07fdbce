"""A change of one partition's state: elections, ISR and ELR bookkeeping, epochs (Kafka's ``PartitionChangeBuilder``).

Every change of a partition goes through :func:`change`, so that the rules which tie leader, ISR, ELR and the two epochs
together stand in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from minikafka.metadata.image import NO_LEADER, RECOVERED, RECOVERING, PartitionState


class Election(Enum):
    """Which leader is wanted."""

    ONLINE = "online"
    """Keep the leader if it is fit, else the first fit replica in assignment order (R14)."""
    PREFERRED = "preferred"
    """The first replica of the assignment if it is fit."""
    UNCLEAN = "unclean"
    """Like ONLINE, and a replica that is not in sync when there is no other: records may be lost."""


class PartitionAssignment(NamedTuple):
    """Where a partition lives, and the move that is under way (KIP-455)."""

    replicas: tuple[int, ...]
    """The target first, then what will leave."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """The new state, and how its leader was found: None when no election took place, else whether it was a clean one."""

    state: PartitionState
    clean: bool | None = None


@dataclass(frozen=True, slots=True)
class ChangeRules:
    """Decides on a partition by what holds for its topic."""

    min_isr: int
    is_active: Callable[[int], bool]
    elr_enabled: bool = True

    def fit(self, isr: Collection[int], elr: Collection[int], replica: int) -> bool:
        """May lead without loss: in the ISR, or in the ELR when the ISR is empty, and active (KIP-966)."""
        return (replica in isr or (not isr and replica in elr)) and self.is_active(replica)

    def elect(
        self, old: PartitionState, isr: tuple[int, ...], elr: tuple[int, ...], election: Election
    ) -> tuple[int, bool]:
        """Choose (leader, clean) by R14; ``NO_LEADER`` when nobody may lead."""
        fit = [r for r in old.replicas if self.fit(isr, elr, r)]
        if election is Election.PREFERRED and old.replicas[0] in fit:
            return old.replicas[0], True
        if old.leader in fit:
            return old.leader, True
        if fit:
            return fit[0], True
        if self.elr_enabled and old.leader == NO_LEADER and not isr and not elr and len(old.last_known_elr) == 1:
            last = old.last_known_elr[0]
            if last in old.replicas and self.is_active(last):
                return last, False
        if election is Election.UNCLEAN:
            for replica in old.replicas:
                if self.is_active(replica):
                    return replica, False
        return NO_LEADER, True

    def next_elr(
        self, old: PartitionState, isr: Collection[int], uncleanly_stopped: Collection[int]
    ) -> tuple[int, ...]:
        """The ELR that goes with a target ISR: who left it since it fell below the minimum, and lost nothing (KIP-966)."""
        if not self.elr_enabled or self.enough(old, isr):
            return ()
        candidates = dict.fromkeys((*old.elr, *old.isr))
        return tuple(r for r in candidates if r not in isr and r not in uncleanly_stopped and r in old.replicas)

    def enough(self, old: PartitionState, isr: Collection[int]) -> bool:
        """Whether an ISR of this size lets the high watermark advance."""
        return len(isr) >= min(self.min_isr, len(old.replicas))

    def last_known_leader(self, old: PartitionState, isr: Collection[int], leader: int) -> tuple[int, ...]:
        """Who led last, noted when the ISR empties and kept until somebody leads again (Kafka keeps it in LastKnownElr).

        When nobody led even before that (it began under ``trust_isr``), the last member of the ISR stands for it. Who leaves the
        replicas deletes its log: if it comes back, it is another (found by simulation; Kafka keeps it). A member of the ELR
        stands for it then.
        """
        if not self.elr_enabled or leader != NO_LEADER:
            return ()
        if isr:
            last = old.last_known_elr
        elif old.leader != NO_LEADER:
            last = (old.leader,)
        else:
            last = old.last_known_elr or old.isr[:1]
        return tuple(r for r in last if r in old.replicas) or tuple(r for r in old.elr if r in old.replicas)[:1]


def finish_reassignment(
    assignment: PartitionAssignment, isr: tuple[int, ...]
) -> tuple[PartitionAssignment, tuple[int, ...]] | None:
    """Assignment and ISR without the leaving replicas, once every replica of the target is in sync; None until then.

    Every one, not only the arriving ones: else a smaller assignment could end with fewer copies than it names.
    """
    replicas, adding, removing = assignment
    target = tuple(r for r in replicas if r not in removing)
    if not (adding or removing) or not set(target) <= set(isr):
        return None
    return PartitionAssignment(target), tuple(r for r in isr if r in target)


def change_min_isr(old: PartitionState, rules: ChangeRules, before: int | None) -> PartitionChange | None:
    """The change that goes with another ``min.insync.replicas``; None when its effective value stays (KIP-966).

    Two things would lose records otherwise. When the minimum falls, an ISR that was too small may be large enough: it then
    commits without the eligible leader replicas, so they must not stay eligible. And a leader that has not heard of a higher
    minimum must not get its ISR shrunk below it: the new partition epoch refuses its requests until it knows.

    Args:
        before: the minimum until now; None when that is not known.
    """
    size = len(old.replicas)
    if before is not None and min(before, size) == min(rules.min_isr, size):
        return None
    return change(old, rules) or PartitionChange(replace(old, partition_epoch=old.partition_epoch + 1))


def change(
    old: PartitionState,
    rules: ChangeRules,
    *,
    isr: tuple[int, ...] | None = None,
    election: Election = Election.ONLINE,
    uncleanly_stopped: Collection[int] = (),
    recovered: bool = False,
    assignment: PartitionAssignment | None = None,
) -> PartitionChange | None:
    """The change that brings a partition to the target ISR with a fit leader (R12: in a new leader epoch); None: nothing changes.

    Args:
        isr: the wanted ISR; None keeps it.
        uncleanly_stopped: replicas known to have lost records, which leave ISR and ELR (KIP-966).
        recovered: the leader confirms that an unclean election's recovery is over.
        assignment: the wanted replicas; None keeps them. A move that the target ISR completes is completed.
    """
    target = old.isr if isr is None else isr
    target = tuple(r for r in target if r not in uncleanly_stopped)
    wanted = assignment or PartitionAssignment(old.replicas, old.adding, old.removing)
    wanted, target = finish_reassignment(wanted, target) or (wanted, target)
    base = old
    if wanted != (old.replicas, old.adding, old.removing):
        base = replace(old, replicas=wanted.replicas, adding=wanted.adding, removing=wanted.removing)
    elr = rules.next_elr(base, target, uncleanly_stopped)
    leader, clean = rules.elect(base, target, elr, election)
    last_known = rules.last_known_leader(base, target, leader)
    recovery = RECOVERED if recovered else old.recovery_state
    if leader != NO_LEADER and leader not in target:
        target = (leader,)
        if leader in elr:
            elr = () if rules.enough(base, target) else tuple(r for r in elr if r != leader)
        else:
            elr, recovery = (), RECOVERING
    if not target and not rules.elr_enabled:
        target = old.isr  # without ELR an empty ISR is never written: somebody must remember who was last
    new = replace(base, isr=target, elr=elr, last_known_elr=last_known, leader=leader, recovery_state=recovery)
    if new == old:
        return None
    if leader != old.leader or not set(old.replicas) <= set(new.replicas):
        new = replace(new, leader_epoch=old.leader_epoch + 1)  # a replica that left must not be led by the old term
    new = replace(new, partition_epoch=old.partition_epoch + 1)
    return PartitionChange(new, clean if leader not in (old.leader, NO_LEADER) else None)
