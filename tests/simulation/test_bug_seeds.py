"""The checker is measured: simulator bugs are put in, and must be found, by an invariant that speaks of what went wrong.

docs/internals/simulation.md has the whole table, with the mistakes that take hundreds of schedules.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from minikafka_simulator.bugs.catalogue import BUG_SEEDS
from minikafka_simulator.checks.invariants import INVARIANTS
from minikafka_simulator.commands.docs import caught_by
from minikafka_simulator.schedules.runs import first_violation

from tests.forms import in_full

SCHEDULES_MAX = 120

PAGE = Path(__file__).parents[2] / "docs/internals/simulation.md"

LOST_BEFORE_ELECTED = {"B4 ValidHighWatermark", "B5 LeaderCompleteness", "B6 LeaderCandidateCompleteness"}
STUCK = {"L2 full ISR", "B8 LogMatching"}
OF_ANOTHER_TERM = {"B12 ValidFetcherState"}

GROUPS = {"G1 CommittedOffsets", "G2 OneOwner", "G3 FencedGeneration", "G4 MemoryIsLog"}

QUICK = {
    "truncate-to-hw": LOST_BEFORE_ELECTED,
    "no-epoch-at-become-leader": {"B13 epochs"},
    "no-epoch-fencing": OF_ANOTHER_TERM,
    "stale-fetch-answer": {"E1 no exception", *STUCK, *OF_ANOTHER_TERM},
    "hw-on-divergence": {"B14 offsets"},
    "committed-isr-for-hw": {"B2 WeakIsr", *LOST_BEFORE_ELECTED},
    "fall-back-on-unknown": {"B7 ReplicationQuorumSuperset", *LOST_BEFORE_ELECTED},
    "accept-fenced": {"B9 ValidControllerState"},
    "restart-unnoticed": {"B9 ValidControllerState", *LOST_BEFORE_ELECTED},
    "keep-uncleanly-stopped": LOST_BEFORE_ELECTED,
    "hw-under-min-isr": LOST_BEFORE_ELECTED,
    "drop-leaderless-hw": {"B17 restored high watermark"},
    "hasty-shrink": {"B18 NoHastyShrink"},
    "leader-flushes-late": {"B19 FlushedBeforeCommitted"},
    "follower-flushes-late": {"B19 FlushedBeforeCommitted"},
    "dedupe-on-leader-only": {"A3 duplicate", "B16 producer state", "B22 ProducerState"},
    "lagging-end-offset": {"A14 end offset monotone"},
    "keep-deleted-log": {"E1 no exception", "B25 OwnLogsOnly"},
    "keep-stray-log": {"E1 no exception", "B25 OwnLogsOnly"},
    "topic-by-name": {
        "B20 DeletedByRequest",
        "B6 LeaderCandidateCompleteness",
        "B2 WeakIsr",
        "E1 no exception",
        "B13 epochs",
        "B7 ReplicationQuorumSuperset",
        "B25 OwnLogsOnly",
        *OF_ANOTHER_TERM,
        *STUCK,
    },
    "tell-nobody": {"B24 Purgatory"},
    "follow-old-leader": {"B25 OwnLogsOnly", *OF_ANOTHER_TERM, *STUCK},
    "read-to-log-end": {"A18 uncommitted read"},
    "acknowledge-early": {"A15 ack-offset"},
    "acknowledge-duplicates": {"A15 ack-offset"},
    "refused-when-unknown": {"B7 ReplicationQuorumSuperset", *LOST_BEFORE_ELECTED},
    "expired-is-done": {"A15 ack-offset"},
    "forget-parked-fetch": {"B8 LogMatching", "B24 Purgatory"},
    "forget-acknowledgement": {"B24 Purgatory"},
    "isr-change-asked-once": STUCK,
    "isr-change-overlooked": STUCK,
    "fetch-names-no-epoch": {"B2 WeakIsr", "B3 StrongIsr", *LOST_BEFORE_ELECTED, *STUCK},
    "fetch-waits-for-lost": STUCK,
    "fetch-backs-off-forever": STUCK,
    "fetch-drops-others": {"E1 no exception", *STUCK},
    "ignore-failed-fsync": {"B3 StrongIsr", *STUCK},
    "keep-role-offline": {"B2 WeakIsr", *STUCK},
    "stay-offline": STUCK,
    "fetcher-stands-still": STUCK,
    "never-ask-for-offsets": STUCK,
    "checkpoint-log-ends": {"B3 StrongIsr", "B14 offsets", *LOST_BEFORE_ELECTED},
    "retain-to-log-end": {"B14 offsets", "B20 DeletedByRequest", "E1 no exception"},
    "ready-while-offline": STUCK,
    "forget-unflushed-limit": {"E1 no exception"},
    "sqlite-commit-unfenced": {"B13 epochs"},
    "sqlite-changes-latest": {"L4 bounded", "B9 ValidControllerState", *STUCK},
    "sqlite-renew-for-anybody": {"L1 leader", "B28 OneController", "B13 epochs", *STUCK},
    "kubernetes-seal-nothing": {"B13 epochs"},
    "kubernetes-drop-events": STUCK,
    "kubernetes-show-nothing": {"L6 TopicObjects"},
    "kubernetes-tend-nothing": {"L6 TopicObjects"},
    "kubernetes-lost-is-refused": {"B7 ReplicationQuorumSuperset", "B26 ToldWhenWritten"},
    "kubernetes-lease-of-others": {"B13 epochs", *STUCK},
    "answer-before-commit": {*STUCK, "B7 ReplicationQuorumSuperset", *LOST_BEFORE_ELECTED},
    "tell-before-commit": {"B26 ToldWhenWritten"},
    "tell-of-failed-commit": {"B28 OneController", "B26 ToldWhenWritten"},
    "outlive-refused-commit": {"B7 ReplicationQuorumSuperset", "B13 epochs", *STUCK},
    "keep-last-image": {"B13 epochs", *STUCK},
    "snapshot-before-lease": {"B12 ValidFetcherState", "A19 acknowledged-unwritten", "A15 ack-offset", "B13 epochs"},
    "take-part-unregistered": {"B13 epochs", "B27 UnfencedWhenReady", *LOST_BEFORE_ELECTED},
    "ready-at-once": {"B27 UnfencedWhenReady"},
    "remember-one-batch": {"B16 producer state"},
    "restart-remembers-one-batch": {"B16 producer state"},
    "wait-for-first-partition": {"A15 ack-offset"},
    "lose-partition-error": {"A19 acknowledged-unwritten", "A20 unreadable"},
    "trust-headers": {"A19 acknowledged-unwritten"},
    "trust-records": {"A20 unreadable"},
    "trust-compressed-records": {"A20 unreadable"},
    "clean-marker-stays": {"B33 CleanOnce"},
    "sqlite-lease-to-anybody": {"B39 LeaseAsExpected"},
    "keep-lost-registration": {"L1 leader", *STUCK},
    "ready-after-loss": {"B27 UnfencedWhenReady"},
    "group-load-to-hw": GROUPS,
    "group-load-beginning": GROUPS,
    "group-forget-generation": GROUPS,
    "group-share-early": GROUPS,
    "group-store-nothing": GROUPS,
    "group-any-generation": GROUPS,
    "group-forget-late": GROUPS,
    "group-shares-of-anybody": {"L5 groups"},
}
"""Mistakes found within a few schedules, and the invariants that find them."""

ONE_OF_EACH = (
    "acknowledge-early",
    "accept-fenced",
    "checkpoint-log-ends",
    "clean-marker-stays",
    "committed-isr-for-hw",
    "dedupe-on-leader-only",
    "forget-acknowledgement",
    "forget-parked-fetch",
    "group-forget-generation",
    "group-shares-of-anybody",
    "group-store-nothing",
    "hasty-shrink",
    "hw-on-divergence",
    "kubernetes-show-nothing",
    "lagging-end-offset",
    "leader-flushes-late",
    "no-epoch-at-become-leader",
    "no-epoch-fencing",
    "retain-to-log-end",
    "answer-before-commit",
    "read-to-log-end",
    "ready-at-once",
    "remember-one-batch",
    "sqlite-lease-to-anybody",
    "stale-fetch-answer",
    "tell-before-commit",
    "truncate-to-hw",
    "trust-headers",
    "trust-records",
)
"""Of those, one for each invariant that finds any, in `make test`; each takes a schedule, which is a second of CPU time."""

SLOW = {
    "lease-for-clients",  # the cluster never begins to work, which takes 200,000 events to tell
    "offsets-by-name",
    "serve-any-term",
    "append-later-epoch",
    "join-at-hw",
    "min-isr-keeps-elr",
    "min-isr-keeps-epoch",
    "own-min-isr",
    "one-shot-truncation",
    "forget-epoch-on-empty",
    "out-of-range-drops-all",
    "no-partition-epoch",
    "accept-rebooted",
    "trust-old-positions",
    "shrink-without-leader",
    "keep-lost-lease",
    "group-commit-early",
    "kubernetes-commit-unfenced",
    "group-keep-deposed",
    "group-answer-loading",
    "group-show-unwritten",
    "answers-out-of-order",
    "parked-fetch-holds-back",
    "keep-closed-log",
    "hear-old-incarnation",
}
"""Mistakes that need a rare constellation; `python -m minikafka_simulator.commands.docs` searches for them."""


@pytest.fixture(scope="module")
def measured() -> dict[str, int]:
    """The seed that caught each mistake when the page was written; schedules may have changed since."""
    return caught_by(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [*ONE_OF_EACH, *in_full(name for name in QUICK if name not in ONE_OF_EACH)])
def test_the_mistake_is_caught(name: str, measured: dict[str, int]) -> None:
    seed = measured.get(name, 1)
    caught = first_violation(range(seed, seed + 1), name) or first_violation(range(1, SCHEDULES_MAX + 1), name)
    assert caught is not None, f"{name} was not found in {SCHEDULES_MAX} schedules"
    assert caught.result.invariant in QUICK[name]
    assert caught.result.trace[-1].split(maxsplit=1)[1] == f"VIOLATION {caught.result.violation}"


def test_every_mistake_has_its_place() -> None:
    assert set(QUICK) | SLOW == set(BUG_SEEDS) and not set(QUICK) & SLOW


def test_expected_invariants_are_declared() -> None:
    assert set().union(*QUICK.values()) <= set(INVARIANTS)
