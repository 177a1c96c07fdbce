"""Which faults there are in a random schedule, how many and how long: what a seed does not decide."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Profile:
    """A mixture of faults; names may stand several times. ``pause_between`` is the mean time between two, in seconds."""

    name: str
    faults: tuple[str, ...]
    pause_between: float


PROFILES = (
    Profile(
        "everything",
        (
            "kill", "kill_leader", "kill_leader", "kill_controller", "kill_all", "power_loss", "power_loss", "power_loss",
            "pause", "pause", "cut", "cut", "isolate", "slow_network", "bounce", "shut_down", "store_outage", "elect",
            "flip", "stale_metadata", "delete_records", "bounce_unheard", "forget_controller",
        ),
        0.45,
    ),
    Profile("churn", ("isolate", "elect", "flip", "flip", "stale_metadata", "kill_leader", "bounce", "pause", "cut"), 0.25),
    Profile(
        "control",
        (
            "slow_network", "stale_metadata", "cut", "store_outage", "kill_controller", "pause", "kill",
            "bounce_unheard", "unregister", "forget_controller",
        ),
        0.3,
    ),
    Profile(
        "power",
        (
            "power_loss", "power_loss_on_return", "power_loss_in_recovery", "bounce", "shut_down", "isolate", "elect",
        ),
        0.4,
    ),
    Profile(
        "admin",
        (
            "alter_min_isr", "alter_min_isr", "raise_min_isr_unheard", "roll_min_isr", "reassign", "reassign", "kill",
            "remake_topic", "remake_topic", "remake_topic",
            "kill_leader", "kill_leader", "pause", "pause", "isolate", "shut_down", "stale_metadata", "kill_controller",
        ),
        0.3,
    ),
    Profile(
        "names",
        (
            "remake_topic", "remake_topic", "remake_topic", "power_loss", "power_loss", "delete_records", "kill",
            "kill_leader", "shut_down", "stale_metadata",
        ),
        0.25,
    ),
    Profile("minority", ("kill", "kill_leader", "kill_leader", "kill_controller", "bounce", "shut_down"), 0.8),
)  # fmt: skip
"""Each run has one of these: some mistakes only show when one kind of trouble is dense."""

PIPELINED_SHARE = 0.25
"""The share of runs that have a producer with several batches in flight."""

UNCLEAN_SHARE = 0.05
"""The share of runs whose topic allows unclean elections."""

UNFLUSHED_SHARE = 0.1
"""The share of runs whose brokers have a small unflushed volume."""

UNHEARD_SHARE = 0.8
"""The share of flips of a leader of which a third replica hears late."""

SECONDS_USUAL = 8.0
"""Virtual seconds of faults, unless something else is asked for."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a seed does not decide; times in virtual seconds."""

    seconds: float = SECONDS_USUAL
    settle: float = 12.0
    profiles: tuple[Profile, ...] = PROFILES
    unknown_commit: float = 0.01
    pipelined: float = PIPELINED_SHARE
    unclean: float = UNCLEAN_SHARE
    small_volume: float = UNFLUSHED_SHARE
    unheard: float = UNHEARD_SHARE
    passing: bool = True
    """Whether a topic that is deleted and made anew holds records."""
    gentle: float = 0.7
    """The share of runs in which one broker at a time is down."""
    steps: int | None = None
    """Heal after this many events instead of after ``seconds``."""
    strikes_max: int | None = None
    """No more strikes than this; all that came before the first missing one is as without the limit."""
    skip: frozenset[int] = frozenset()
    """Numbers (from 1) of strikes to leave out; all that came before the first of them is as with it."""
