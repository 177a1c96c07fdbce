"""Dead letters of the load's group: which records cannot be processed, and what their topic holds when all is over.

A group with such records has reliable members (`minikafka.reliability`), or members that are meant to be wrong.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from minikafka.reliability.dead_letters import DeadLetter, NotADeadLetter
from minikafka.reliability.record import ConsumedRecord
from minikafka.reliability.retries import RetryPolicy

from minikafka_chaos.load.load import DEAD_LETTER_PROCESS, unique_part
from minikafka_chaos.record.history import HistoryWriter

ONCE, UNCHECKED, AFTER_COMMIT = "Once", "Unchecked", "AfterCommit"
"""How a member writes a dead letter: before its record's offset is committed, unless it is there; before that, without a look
whether it is there; after its record's offset is committed."""

BEFORE_COMMIT, BEFORE_DEAD_LETTER = "BeforeCommit", "BeforeDeadLetter"
"""When a member dies: between its work, or a dead letter, and the commit of that; or when a record cannot be processed and
nothing of that is written."""

RETRIES = RetryPolicy(attempts_max=2, backoff_seconds=0.05)
COMMIT_S = 0.25
"""How often members commit: often, so that a crash takes few records."""


def is_poison(value: str, every: int) -> bool:
    """Tell whether a record cannot be processed: one of `every`, by a checksum of its value; of 0 none."""
    return every > 0 and zlib.crc32(value.encode()) % every == 0


def record_dead_letters(records: Iterable[ConsumedRecord], group: str, history: HistoryWriter) -> list[str]:
    """Write what dead-letter topics hold of a group into its history; a line for each record that is no dead letter."""
    problems = []
    history.join(DEAD_LETTER_PROCESS, group)
    for record in records:
        try:
            letter = DeadLetter.parse(record)
        except NotADeadLetter as reason:
            problems.append(f"{record.place} is no dead letter: {reason}")
            continue
        if letter.group == group:
            origin = letter.record
            history.dead_letter(DEAD_LETTER_PROCESS, *origin.partition, origin.offset, unique_part(origin.value))
    return problems
