"""For each rule of one partition's replication a mistake that breaks it, of which the specification must refuse a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from minikafka_simulator.bugs.bug import Bug
from minikafka_simulator.bugs.catalogue import BUG_SEEDS

from tests.adversary.core_bugs import CORE

LEADER = "replication/leader.py"


class Mistake(NamedTuple):
    """What breaks a rule, and a schedule in which it does."""

    rule: str
    bug: Bug
    seed: int
    usual: bool = False
    """Whether it is one of the simulator's usual schedules, or one without what the specification does not have."""


def _seed(rule: str, name: str, seed: int, usual: bool = False) -> Mistake:
    return Mistake(rule, BUG_SEEDS[name], seed, usual)


def _new(rule: str, mistake: str, file: str, old: str, new: str, seed: int, usual: bool = False) -> Mistake:
    return Mistake(rule, Bug(f"specification-{rule.lower()}", mistake, rule, file, old, new), seed, usual)


MISTAKES = (
    _seed("R2", "no-epoch-fencing", 6),
    _seed("R3", "read-to-log-end", 1),
    _new("R4", "a leader's high watermark follows its own log end", LEADER,
         "            if remote.leo < new and self.counts_for_high_watermark(replica, remote, now):\n",
         "            if False:\n", 1, True),
    _new("R5", "a leader takes what it sends for what its follower has", LEADER,
         "        remote.note_fetch(fetch_offset, log.log_end_offset,",
         "        remote.note_fetch(log.log_end_offset, log.log_end_offset,", 1, True),
    Mistake("R6", next(bug for bug in CORE if bug.name == "m05"), 1, True),
    _new("R8", "a follower at the leader's log end leaves the ISR when nothing is sent", LEADER,
         "        return self.leo == leader_leo or now - self.last_caught_up <= lag_time_max\n",
         "        return now - self.last_caught_up <= lag_time_max / 20\n", 1, True),
    _new("R9", "a follower joins the ISR wherever its log ends", LEADER,
         "        if remote.leo < self.partition.high_watermark or remote.leo < self.start_offset:\n            return False\n",
         "", 3, True),
    _new("R10", "a change of the ISR alone takes no new partition epoch", "controller/change.py",
         "    new = replace(new, partition_epoch=old.partition_epoch + 1)\n",
         "    new = replace(new, partition_epoch=old.partition_epoch + (new.leader != old.leader))\n", 1),
    _seed("R11", "drop-leaderless-hw", 8, True),
    _seed("R12", "no-epoch-at-become-leader", 1, True),
    _seed("R13", "truncate-to-hw", 2, True),
    _new("R14", "whoever lives is elected", "controller/change.py",
         "        return (replica in isr or (not isr and replica in elr)) and self.is_active(replica)\n",
         "        return self.is_active(replica)\n", 3),
    _seed("R16", "hw-under-min-isr", 5),
    _new("R17", "a flush leaves the records in memory", "log/flushing.py",
         "                    steps.append(segment.data.fsync)\n",
         "                    steps.append(lambda: None)\n", 3, True),
    _new("R18", "a batch that comes again is appended again", "log/producer_state.py",
         "        if state is None:\n            return None\n        if epoch == known_epoch:\n",
         "        return None\n        if epoch == known_epoch:\n", 1),
    _seed("KIP-966", "keep-uncleanly-stopped", 5),
    _seed("KAFKA-14704", "hw-on-divergence", 2, True),
)  # fmt: skip

NOT_COVERED: Mapping[str, str] = {
    "R1": "where replicas are placed concerns the brokers and racks of a cluster; the specification begins with the replicas",
    "R7": "how long a fetch waits is a matter of time, of which the specification has none",
    "R15": "who is the controller is decided by the lease in the store; here there are only the words that it writes",
}
"""Rules that one partition's replication does not have, and why."""
