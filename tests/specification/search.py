"""Takes steps by chance with Quint's simulator, in the specification as it is and with a mistake in it."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.specification.judge import SPECIFICATION, QuintFailed, quint
from tests.specification.weakened import Weakened

INVARIANTS = (
    "HwWithinLog", "LeaderCompleteness", "CandidateCompleteness", "StrongIsr", "LogMatching", "OneLeader",
    "ReplicationQuorumSuperset",
)  # fmt: skip
WITNESSES = ("Commits", "Elects", "Eligible")
STEPS = 100


class Search(NamedTuple):
    """What came of it: the invariants that do not hold, in how many runs; and how many of these got anywhere."""

    broken: tuple[str, ...]
    runs: int
    witnessed: dict[str, int]


def searched(runs: int, seed: int, weakened: Weakened | None = None) -> Search:
    """Runs of 100 steps each, until an invariant does not hold. Raises QuintFailed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in ("partition.qnt", "chance.qnt"):
            shutil.copy(SPECIFICATION / file, folder)
        if weakened is not None:
            file = folder / "partition.qnt"
            file.write_text(weakened.applied(file.read_text(encoding="utf-8")), encoding="utf-8")
        run = quint(
            "run", "chance.qnt", "--backend=typescript", f"--max-samples={runs}", f"--max-steps={STEPS}", f"--seed={seed}",
            "--invariant=safe", "--invariants", *INVARIANTS, "--witnesses", *WITNESSES, "--verbosity=1", folder=folder,
        )  # fmt: skip
    return understood(run.stdout + run.stderr, runs)


def understood(said: str, runs: int) -> Search:
    """What Quint's output says. Raises QuintFailed when it came to no verdict."""
    if "[ok] No violation found" not in said and "[violation] Found an issue" not in said:
        raise QuintFailed(said)
    counts = re.findall(r"(\w+) was witnessed in (\d+) trace\(s\) out of (\d+)", said)
    witnessed = {name: (int(count), int(of)) for name, count, of in counts}
    explored = max((of for _, of in witnessed.values()), default=runs)
    broken = tuple(name for name in re.findall(r"❌ (\w+)", said) if name != "safe")
    return Search(broken, explored, {name: count for name, (count, _) in witnessed.items()})
