"""What a run is to be judged by, as its journal says: whether that can be understood, and what it says is there.

The claims themselves are judged from Spark's columns (`evidence.bases`); here the one line that tells them is looked at, which
is small, so that a line that is half understood is no verdict.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

CLAIMS = ("NoAcknowledgedRecordLost", "NoDivergence", "NoDuplicates", "NoReordering", "AckGapAtMost")
LATEST = 1e11  # unix seconds


class Terms(NamedTuple):
    """`present`: there is such a line. `understood`: it is as docs/reference/verdicts.md says. `files`: its evidence."""

    present: bool
    understood: bool
    files: Sequence[str] = ()


def read(text: str | None) -> Terms:
    """The terms of a run from the last line of kind claims in its journal; `text` is None without one."""
    if text is None:
        return Terms(False, True)
    try:
        line = json.loads(text)
    except RecursionError:
        return Terms(True, False)
    lists = [line.get("claims"), line.get("problems"), line.get("files", [])]
    if not all(isinstance(each, list) for each in lists) or not all(_claim(each) for each in lists[0]):
        return Terms(True, False)
    if not all(isinstance(each, str) for each in [*lists[1], *lists[2]]):
        return Terms(True, False)
    return Terms(True, True, lists[2])


def _claim(line: Any) -> bool:
    if not isinstance(line, dict) or line.get("type") not in CLAIMS or not isinstance(line.get("name"), str):
        return False
    since, limit = line.get("since"), line.get("limit_millis")
    if since is not None and line["type"] != "NoAcknowledgedRecordLost":
        return False
    a_time = isinstance(since, int | float) and not isinstance(since, bool) and 0 <= since <= LATEST
    if since not in (None, "never") and not a_time:
        return False
    a_limit = isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0
    return line["type"] != "AckGapAtMost" or a_limit
