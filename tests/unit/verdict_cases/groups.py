"""What groups of consumers processed and committed (rule Groups)."""

from __future__ import annotations

from tests.unit.verdict_cases.builder import MEMBER, Case, Run

OTHER = MEMBER + 1


def _sent(count: int = 4) -> Run:
    return Run().acked_many(count)


def _reads(run: Run, first: int, end: int, member: int = MEMBER) -> Run:
    """The member is placed at `first`, and is given the values below `end`."""
    run.assign(first, member)
    return run.poll([(offset, f"v{offset}") for offset in range(first, end)], process=member)


def _at_least_once() -> Run:
    """The member dies between its work and its commit; the next one does the last two again."""
    run = _reads(_sent().join(), 0, 4).process(0, 2).commit(2).process(2, 4)
    return _reads(run.join(OTHER), 2, 4, OTHER).process(2, 4, OTHER).commit(4, OTHER).final_many(0, 4)


def _at_most_once() -> Run:
    """The member dies between its commit and its work; the next one goes on behind it."""
    run = _reads(_sent().join(), 0, 4).commit(4).process(0, 1)
    return run.join(OTHER).assign(4, OTHER).final_many(0, 4)


def _unknown_commit_was_taken() -> Run:
    """Nobody was told that the commit was taken; where the next member begins tells it."""
    run = _reads(_sent().join(), 0, 4).commit(4, kind="info")
    return run.join(OTHER).assign(4, OTHER).final_many(0, 4)


def _unknown_commit_was_not_taken() -> Run:
    run = _reads(_sent().join(), 0, 4).process(0, 4).commit(4, kind="info")
    return _reads(run.join(OTHER), 0, 4, OTHER).process(0, 4, OTHER).commit(4, OTHER).final_many(0, 4)


def _began_late() -> Run:
    """auto.offset.reset=latest at the group's very beginning: what was there before is not its work."""
    return _reads(_sent().join(), 2, 4).process(2, 4).commit(4).final_many(0, 4)


def _reset_to_latest() -> Run:
    """Its offsets had expired, and it went on at the end."""
    run = _reads(_sent(2).join(), 0, 2).process(0, 2).commit(2).acked_many(3, 2)
    return run.assign(5, MEMBER).final_many(0, 5)


def _reset_to_earliest() -> Run:
    run = _reads(_sent(2).join(), 0, 2).process(0, 2).commit(2)
    return _reads(run, 0, 2).process(0, 2).commit(2).final_many(0, 2)


def _rewound_once() -> Run:
    """It began again at 0, committed on its way, and went on from there: it went back once."""
    run = _reads(_sent().join(), 0, 4).process(0, 4).commit(4)
    run = _reads(run, 0, 2).process(0, 2).commit(2)
    return _reads(run.join(OTHER), 2, 4, OTHER).process(2, 4, OTHER).commit(4, OTHER).final_many(0, 4)


def _two_groups() -> Run:
    """Each group has its own work."""
    run = _reads(_sent().join(), 0, 4).process(0, 4).commit(4)
    return _reads(run.join(OTHER, "h"), 0, 4, OTHER).process(0, 2, OTHER).commit(4, OTHER).final_many(0, 4)


def _two_members() -> Run:
    """A partition each; the group goes on where the other one was."""
    run = Run().acked_many(2).acked_many(2, partition=1)
    for value in run.history:
        if value["partition"] == 1:
            value["value"] = value["value"].replace("v", "w")
    run.join().join(OTHER).assign(0, MEMBER).assign(0, OTHER, 1)
    run.line(MEMBER, "process", "ok", offset=0, value="v0").line(MEMBER, "process", "ok", offset=1, value="v1")
    run.line(OTHER, "process", "ok", partition=1, offset=0, value="w0").commit(2).commit(1, OTHER, partition=1)
    run.assign(1, MEMBER, 1).line(MEMBER, "process", "ok", partition=1, offset=1, value="w1").commit(2, partition=1)
    return run.final(["v0", "v1"]).final(["w0", "w1"], partition=1)


def _deleted_before_read() -> Run:
    """The log start passed what the group had not read."""
    run = _reads(_sent().join(), 0, 1).process(0, 1).commit(1).start_moved(3)
    run = _reads(run, 3, 4).process(3, 4).commit(4)
    return run.topic().alike(4, 3).final_many(3, 4)


def _not_to_the_end() -> Run:
    """What it has not come to is no anomaly; that the run did not wait for it is a problem."""
    return _reads(_sent().join(), 0, 2).process(0, 2).commit(2).final_many(0, 4).problem("group g was not at the end")


def _no_final_reader() -> Run:
    return _reads(_sent().join(), 0, 4).commit(4).process(0, 4)


def _worked_without_membership() -> Run:
    """A reader that is in no group has nothing to keep to."""
    return _reads(_sent(), 0, 4).process(0, 2).process(0, 2).commit(4).assign(0, MEMBER).final_many(0, 4)


def _before_the_claim() -> Run:
    """What was told before the only claim's beginning is no evidence."""
    run = _reads(_sent(2).join(), 0, 2).commit(2)
    run.claim("NoAcknowledgedRecordLost", since=run.now)
    run.acked_many(2, 2).assign(2, MEMBER).process(2, 4).commit(4)
    return run.final_many(0, 4)


def _with_letters(*offsets: int, group: str = "g", done_to: int = 4) -> Run:
    """A group that has processed v0 and v1, is told to be at `done_to`, and has these dead letters in the end."""
    run = _reads(_sent().join(), 0, done_to).process(0, 2).commit(done_to).final_many(0, 4)
    return run.dead_letters(*offsets, group=group)


def _letter_before_its_commit() -> Run:
    """The member dies between a dead letter and its commit; the next one finds it there, and goes on."""
    run = _reads(_sent().join(), 0, 3).process(0, 2).commit(2)
    run = _reads(run.join(OTHER), 2, 4, OTHER).process(3, 4, OTHER).commit(4, OTHER)
    return run.final_many(0, 4).dead_letters(2)


def _processed_and_letter() -> Run:
    """Two members had the partition for a moment, and it went well for one of them."""
    run = _reads(_sent().join(), 0, 4).process(0, 4).commit(4).final_many(0, 4)
    return run.dead_letters(3)


CASES = (
    Case("group-at-least-once", _at_least_once, "Passed", {"reprocessed": 2}),
    Case("group-at-most-once", _at_most_once, "Failed", {"unprocessed": 3}),
    Case("group-commit-untold-and-taken", _unknown_commit_was_taken, "Failed", {"unprocessed": 4}),
    Case("group-commit-untold-and-not-taken", _unknown_commit_was_not_taken, "Passed", {"reprocessed": 4}),
    Case("group-that-began-late", _began_late, "Passed"),
    Case("group-reset-to-latest", _reset_to_latest, "Failed", {"unprocessed": 3}),
    Case("group-reset-to-earliest", _reset_to_earliest, "Failed", {"rewound": 1, "reprocessed": 2}),
    Case("group-that-went-back-once", _rewound_once, "Failed", {"rewound": 1, "reprocessed": 4}),
    Case("two-groups", _two_groups, "Failed", {"unprocessed": 2}),
    Case("two-members-of-a-group", _two_members, "Passed"),
    Case("group-whose-records-were-deleted", _deleted_before_read, "Passed"),
    Case("group-not-at-its-end", _not_to_the_end, "Inconclusive"),
    Case("group-without-a-final-reader", _no_final_reader, "Inconclusive"),
    Case("work-without-a-group", _worked_without_membership, "Passed"),
    Case("group-before-the-claim", _before_the_claim, "Passed"),
    Case("dead-letters", lambda: _with_letters(2, 3), "Passed"),
    Case("dead-letter-before-its-commit", _letter_before_its_commit, "Passed"),
    Case("dead-letter-of-what-was-processed", _processed_and_letter, "Passed"),
    Case("dead-letter-missing", lambda: _with_letters(3), "Failed", {"unprocessed": 1}),
    Case("dead-letter-not-yet-due", lambda: _with_letters(done_to=2), "Passed"),
    Case("dead-letter-twice", lambda: _with_letters(2, 3, 3, 3), "Failed", {"duplicate-dead-letter": 1}),
    Case(
        "dead-letters-of-another-group",
        lambda: _with_letters(2, 3, 3, group="h"),
        "Failed",
        {"unprocessed": 2, "duplicate-dead-letter": 1},
    ),
    Case(
        "dead-letters-of-nobody",
        lambda: _with_letters().line(9, "dead_letter", "ok", offset=2, value="v2"),
        "Failed",
        {"unprocessed": 2},
    ),
    Case(
        "dead-letter-without-its-value",
        lambda: _sent().line(9, "dead_letter", "ok", offset=0).final_many(0, 4),
        "Error",
    ),
    Case("join-without-a-group", lambda: _sent().line(MEMBER, "join", "ok").final_many(0, 4), "Error"),
    Case(
        "process-without-its-value",
        lambda: _sent().line(MEMBER, "process", "ok", offset=0).final_many(0, 4),
        "Error",
    ),
)
