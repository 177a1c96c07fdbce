"""What can be done to brokers: every verb with what it does, what it needs to know, and what undoes it.

Declared once: documents are checked against this table, `docs/reference/faults.md` is generated from it, and each ground
says beside it which verbs it lacks, and why (:mod:`minikafka_chaos.scenario.abilities`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Verb(StrEnum):
    """The verbs of fault steps; see `RULES`."""

    START = "Start"
    KILL = "Kill"
    TERMINATE = "Terminate"
    RESTART = "Restart"
    PAUSE = "Pause"
    RESUME = "Resume"
    CUT = "Cut"
    DELAY = "Delay"
    LOSS = "Loss"
    HEAL = "Heal"
    WIPE_UNFLUSHED = "WipeUnflushed"
    WIPE_VOLUME = "WipeVolume"
    POWER_LOSS = "PowerLoss"
    SLOW_FSYNC = "SlowFsync"
    FAILING_FSYNC = "FailingFsync"
    DISK_FULL = "DiskFull"
    CLOCK_STEP = "ClockStep"
    STORE_OUTAGE = "StoreOutage"
    RECOVER = "Recover"


class Rule(NamedTuple):
    """What holds for one verb. `undone` says how it ends; empty for what leaves nothing to undo."""

    does: str
    undone: str = ""
    needs: tuple[str, ...] = ()
    """Names of the parameters (in documents) that have to be given."""
    takes: tuple[str, ...] = ()
    """Names of further parameters."""
    peers: bool = False
    """Whether it is about the links between the target and its peers."""
    everywhere: bool = False
    """Whether it is about the whole cluster, and has no target."""
    undoes: frozenset[Verb] = frozenset()
    """The verbs whose effect it ends on the brokers that it is done to."""

    @property
    def lasts(self) -> bool:
        """Whether it goes on until it is undone: then it may have a duration."""
        return bool(self.undone)


_DEAD = frozenset((Verb.KILL, Verb.TERMINATE, Verb.POWER_LOSS))
_LINKS = frozenset((Verb.CUT, Verb.DELAY, Verb.LOSS))
_STARTED = "the broker is started"
_JOINED = "the links are as they should be again"

RULES: dict[Verb, Rule] = {
    Verb.START: Rule(
        "Start a broker that is dead; waits until it is ready (`waitFor: Nothing` does not).", undoes=_DEAD
    ),
    Verb.KILL: Rule(
        "Crash the process: nothing that was written is lost. Several targets die at one moment: all are frozen before the "
        "first dies.",
        _STARTED,
    ),
    Verb.TERMINATE: Rule("Shut the broker down cleanly.", _STARTED),
    Verb.RESTART: Rule("Terminate and Start, one broker after the other."),
    Verb.PAUSE: Rule("Let the process hang; its connections stay open.", "the broker is resumed"),
    Verb.RESUME: Rule("Let a paused broker go on.", undoes=frozenset((Verb.PAUSE,))),
    Verb.CUT: Rule(
        "Let nothing pass between the target and its peers, and tell nobody. One way (`direction`): what the target sends "
        "(Outbound) or what it is sent (Inbound).",
        _JOINED,
        takes=("direction",),
        peers=True,
    ),
    Verb.DELAY: Rule(
        "Let what passes arrive later, by `millis` and up to `jitterMillis` more each way.",
        _JOINED,
        needs=("millis",),
        takes=("jitterMillis", "direction"),
        peers=True,
    ),
    Verb.LOSS: Rule(
        "Lose `percent` of the segments, as TCP shows it: what is lost is sent again after a timeout that doubles (0.2 s at "
        "first), and what was sent after it waits.",
        _JOINED,
        needs=("percent",),
        takes=("direction",),
        peers=True,
    ),
    Verb.HEAL: Rule("End every Cut, Delay and Loss between the target and its peers.", peers=True, undoes=_LINKS),
    Verb.WIPE_UNFLUSHED: Rule(
        "Lose what a dead broker had not flushed. `mode`: All of it; a part, so that each log ends at a byte that the seed "
        "chooses (Torn); or a part, and Garbage follows.",
        takes=("mode",),
    ),
    Verb.WIPE_VOLUME: Rule("Lose a dead broker's disk."),
    Verb.POWER_LOSS: Rule("Kill and WipeUnflushed.", _STARTED, takes=("mode",)),
    Verb.SLOW_FSYNC: Rule(
        "Let every fsync take `millis` longer.", "fsync is as fast as the disk again", needs=("millis",)
    ),
    Verb.FAILING_FSYNC: Rule(
        "Let every fsync fail with EIO. What a broker does about that it cannot take back: its process ends (exit code 3) at "
        "the first fsync, and undoing starts it again.",
        "fsync works again, and a broker that gave up is started",
    ),
    Verb.DISK_FULL: Rule(
        "Let every write fail with ENOSPC: the disk is full. Logs go offline and come back by themselves when there is room; a "
        "broker that cannot flush what it took ends its process.",
        "there is room again, and a broker that gave up is started",
    ),
    Verb.CLOCK_STEP: Rule(
        "Set the broker's clock forward by `millis`, or back (negative). Its monotonic clock goes on as it did, and its event "
        "log keeps true time, so that a run can be read.",
        "the clock is right again",
        needs=("millis",),
    ),
    Verb.STORE_OUTAGE: Rule(
        "Let the coordination store take no writes (in the simulation: answer nothing): no election, no change of an ISR, no "
        "renewal of the controller's lease.",
        "the store takes writes again",
        everywhere=True,
    ),
    Verb.RECOVER: Rule(
        "Undo what an earlier step did (`step`), or, with a target, whatever state a broker's process is in: resume the "
        "paused, start the dead.",
        undoes=_DEAD | {Verb.PAUSE},
    ),
}


def lasting() -> list[Verb]:
    """The verbs that may have a duration."""
    return [verb for verb, rule in RULES.items() if rule.lasts]
