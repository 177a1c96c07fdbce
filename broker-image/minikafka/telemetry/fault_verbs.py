"""Every fault that can be made on purpose, and every verb that undoes one: a row of `RULES` for each.

All that is known of a verb in general is in its row. Scenario documents are checked against it, the grounds and the
controller's budget decide by it, the analysis and its report name it by it, and `docs/reference/faults.md` is generated
from it. How a fault is made is the ground's own.

Pure declarations: nothing but the standard library is imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import NamedTuple

VERBS_CLIENT = "minikafka-chaos-"
"""How the `client.id` of the clients begins by which verbs ask brokers."""
GROUNDS = ("processes", "simulation", "kubernetes")
"""Where faults are made."""


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

    @property
    def kind(self) -> str:
        """The verb in snake_case, as the analysis has it."""
        return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", self.value).lower()

    @property
    def rule(self) -> Rule:
        """Its row."""
        return RULES[self]

    @property
    def plain_name(self) -> str:
        """Return what reports call it."""
        return self.rule.name or self.kind.replace("_", " ")


class Serving(Enum):
    """What a fault does to its target as a server."""

    GOES_ON = "it serves, perhaps badly"
    STOPS = "it does not serve; its process goes on"
    GIVES_UP = "it does not serve; its process may end by itself"
    ENDS = "it does not serve; its process is ended, and on Kubernetes its container"


class Lost(Enum):
    """What of a broker's data a fault destroys."""

    NOTHING = "nothing"
    UNFLUSHED = "what was not flushed, which takes an unflushed volume"
    VOLUME = "all"


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
    makes_ready: bool = False
    """Whether a broker is ready when it is done, unless the step says otherwise (`waitFor`)."""
    may_be_negative: bool = False
    """Whether `millis` may be."""
    serving: Serving = Serving.GOES_ON
    lost: Lost = Lost.NOTHING
    name: str = ""
    """What reports call it; empty: the words of the verb."""
    means: str = ""
    """What happened, as reports say it beside the name."""
    lacks: Mapping[str, str] = MappingProxyType({})
    """Ground -> why it cannot be made there."""

    @property
    def lasts(self) -> bool:
        """Return whether it goes on until it is undone: then it may have a duration."""
        return bool(self.undone)

    @property
    def takes_out(self) -> bool:
        """Return whether it leaves its targets unable to serve."""
        return self.serving is not Serving.GOES_ON

    @property
    def leaves_damage(self) -> bool:
        """Return whether the target is in trouble until something heals it, however short the action was."""
        return self.lasts or self.lost is not Lost.NOTHING

    @property
    def is_of_links(self) -> bool:
        """Return whether it disturbs the links between the target and its peers."""
        return self.peers and self.lasts


_DEAD = frozenset((Verb.KILL, Verb.TERMINATE, Verb.POWER_LOSS))
_LINKS = frozenset((Verb.CUT, Verb.DELAY, Verb.LOSS))
_STARTED = "the broker is started"
_JOINED = "the links are as they should be again"
_NO_TIME = "an fsync takes no time there (the seed decides how long the work of a disk thread takes as a whole)"
_NO_DELAY = (
    "the network agent drops packets, which every kernel with nftables can; it does not make them late, which takes netem in the "
    "nodes' kernel"
)
_NO_DISK = "the broker's image has no injection point that the agent may reach"

RULES: dict[Verb, Rule] = {
    Verb.START: Rule(
        "Start a broker that is dead; waits until it is ready (`waitFor: Nothing` does not).",
        undoes=_DEAD,
        makes_ready=True,
    ),
    Verb.KILL: Rule(
        "Crash the process: nothing that was written is lost. Several targets die at one moment: all are frozen before the "
        "first dies.",
        _STARTED,
        serving=Serving.ENDS,
        name="kill -9",
        means="the process died at once; what it had written stayed",
    ),
    Verb.TERMINATE: Rule(
        "Shut the broker down cleanly.",
        _STARTED,
        serving=Serving.ENDS,
        name="clean stop",
        means="the broker was asked to stop, and did",
    ),
    Verb.RESTART: Rule(
        "Terminate and Start, one broker after the other.",
        makes_ready=True,
        serving=Serving.ENDS,
        name="clean restart",
        means="the broker was asked to stop, and was started again",
    ),
    Verb.PAUSE: Rule(
        "Let the process hang; its connections stay open.",
        "the broker is resumed",
        serving=Serving.STOPS,
        means="the process stood still (SIGSTOP) with its connections open",
    ),
    Verb.RESUME: Rule("Let a paused broker go on.", undoes=frozenset((Verb.PAUSE,))),
    Verb.CUT: Rule(
        "Let nothing pass between the target and its peers, and tell nobody. One way (`direction`): what the target sends "
        "(Outbound) or what it is sent (Inbound).",
        _JOINED,
        takes=("direction",),
        peers=True,
        serving=Serving.STOPS,
        name="network cut",
        means="the broker could not reach its peers",
    ),
    Verb.DELAY: Rule(
        "Let what passes arrive later, by `millis` and up to `jitterMillis` more each way.",
        _JOINED,
        needs=("millis",),
        takes=("jitterMillis", "direction"),
        peers=True,
        name="slow network",
        means="what went between the broker and its peers came late",
        lacks={"kubernetes": _NO_DELAY},
    ),
    Verb.LOSS: Rule(
        "Lose `percent` of the segments, as TCP shows it: what is lost is sent again after a timeout that doubles (0.2 s at "
        "first), and what was sent after it waits.",
        _JOINED,
        needs=("percent",),
        takes=("direction",),
        peers=True,
        name="lossy network",
        means="a part of what went between the broker and its peers had to be sent again",
    ),
    Verb.HEAL: Rule(
        "End every Cut, Delay and Loss between the target and its peers, and nothing else (by hand, `heal` ends every fault).",
        peers=True,
        undoes=_LINKS,
    ),
    Verb.WIPE_UNFLUSHED: Rule(
        "Lose what a dead broker had not flushed. `mode`: All of it; a part, so that each log ends at a byte that the seed "
        "chooses (Torn); or a part, and Garbage follows.",
        takes=("mode",),
        lost=Lost.UNFLUSHED,
        name="loss of unflushed records",
    ),
    Verb.WIPE_VOLUME: Rule(
        "Lose a dead broker's disk.",
        lost=Lost.VOLUME,
        name="disk loss",
        means="the process died and its data directory was gone",
    ),
    Verb.POWER_LOSS: Rule(
        "Kill and WipeUnflushed.",
        _STARTED,
        takes=("mode",),
        serving=Serving.ENDS,
        lost=Lost.UNFLUSHED,
        means="the process died at once, and what it had not flushed was gone",
    ),
    Verb.SLOW_FSYNC: Rule(
        "Let every fsync take `millis` longer.",
        "fsync is as fast as the disk again",
        needs=("millis",),
        means="every fsync took longer",
        lacks={"simulation": _NO_TIME, "kubernetes": _NO_DISK},
    ),
    Verb.FAILING_FSYNC: Rule(
        "Let every fsync fail with EIO. What a broker does about that it cannot take back: its process ends (exit code 3) at "
        "the first fsync, and undoing starts it again.",
        "fsync works again, and a broker that gave up is started",
        serving=Serving.GIVES_UP,
        means="every fsync failed, which ends the process at the first",
        lacks={"kubernetes": _NO_DISK},
    ),
    Verb.DISK_FULL: Rule(
        "Let every write fail with ENOSPC: the disk is full. Logs go offline and come back by themselves when there is room; a "
        "broker that cannot flush what it took ends its process.",
        "there is room again, and a broker that gave up is started",
        serving=Serving.GIVES_UP,
        name="full disk",
        means="the disk took no writes",
        lacks={"kubernetes": _NO_DISK},
    ),
    Verb.CLOCK_STEP: Rule(
        "Set the broker's clock forward by `millis`, or back (negative). Its monotonic clock goes on as it did, and its event "
        "log keeps true time, so that a run can be read.",
        "the clock is right again",
        needs=("millis",),
        may_be_negative=True,
        name="wrong clock",
        means="the broker's wall clock was off",
        lacks={"kubernetes": "the clock is the node's, which other pods share"},
    ),
    Verb.STORE_OUTAGE: Rule(
        "Let the cluster store take no writes (in the simulation: answer nothing): no election, no change of an ISR, no "
        "renewal of the controller's lease.",
        "the store takes writes again",
        everywhere=True,
        means="the cluster store took no writes",
        lacks={"kubernetes": "the store is the Kubernetes API, which others share"},
    ),
    Verb.RECOVER: Rule(
        "Undo what an earlier step did (`step`), or, with a target, whatever state a broker's process is in: resume the "
        "paused, start the dead.",
        undoes=_DEAD | {Verb.PAUSE},
        makes_ready=True,
    ),
}

TOGETHER: Mapping[frozenset[Verb], str] = MappingProxyType(
    {
        frozenset((Verb.KILL, Verb.WIPE_UNFLUSHED)): Verb.POWER_LOSS.plain_name,
        frozenset((Verb.KILL, Verb.WIPE_VOLUME)): Verb.WIPE_VOLUME.plain_name,
        frozenset((Verb.KILL, Verb.WIPE_UNFLUSHED, Verb.WIPE_VOLUME)): Verb.WIPE_VOLUME.plain_name,
        frozenset((Verb.POWER_LOSS, Verb.WIPE_VOLUME)): Verb.WIPE_VOLUME.plain_name,
        frozenset(
            (Verb.TERMINATE, Verb.WIPE_VOLUME)
        ): f"{Verb.WIPE_VOLUME.plain_name} after a {Verb.TERMINATE.plain_name}",
    }
)
"""What faults that struck one after the other are called as one."""


def verbs(holds: Callable[[Rule], object]) -> frozenset[Verb]:
    """The verbs whose row has a property."""
    return frozenset(verb for verb, rule in RULES.items() if holds(rule))


TAKE_OUT = verbs(lambda rule: rule.takes_out)
"""Verbs that leave their targets unable to serve."""
ENDING = verbs(lambda rule: rule.serving is Serving.ENDS)
"""Verbs that end the process of a broker. Of those that only keep it from serving the process stays."""
UNDOING = verbs(lambda rule: rule.undoes)
"""Verbs that only end something."""

LACKS: Mapping[str, Mapping[Verb, str]] = MappingProxyType(
    {
        ground: MappingProxyType({verb: rule.lacks[ground] for verb, rule in RULES.items() if ground in rule.lacks})
        for ground in GROUNDS
    }
)
"""Ground -> verb that it cannot make -> reason."""
