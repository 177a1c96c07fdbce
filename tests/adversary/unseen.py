"""Why the simulator alone does not see some of the audit's bugs."""

UNSEEN = {
    "m10": "a new term raises the partition epoch as well, and a proposal with an old one is refused for that",
    "m15": "the producer state is rebuilt after a truncation, and that removes the snapshots too",
    "m17": "the simulated disk shows torn and missing bytes, never a whole batch in a wrong place",
    "m29": "a simulated broker has one log directory",
    "m32": "recovery drops epochs that begin beyond the end of the log, and reads those of what was not flushed from the records",
    "s04": "the controller compares broker epochs itself, and refuses the member (KIP-903)",
    "s05": "the controller compares the epoch of the clean stop with that of the last registration, which is later",
    "s12": "only whole processes have it, and nobody else commits in the moment between the two operations",
}
"""By name of the bug."""
