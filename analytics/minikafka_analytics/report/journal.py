"""Reads what the journal of a run says to a report: the scenario, and the verifier's words."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

Record = dict[str, Any]


def words(journal: Iterable[Record]) -> list[Record]:
    """Give the scenario and the verifier's words, in their order. What is not as their writers write it counts as not told."""
    lines = [_line(row["body"]) for row in sorted(journal, key=lambda row: row["seq"])]
    return [line for line in lines if line.get("kind") != "verdict" or isinstance(line.get("verdict"), str)]


def _line(body: str) -> Record:
    try:
        line: Record = json.loads(body)
    except RecursionError:
        return {}
    if "claims" in line:
        claims = line["claims"] if isinstance(line["claims"], list) else []
        line["claims"] = [
            each
            for each in claims
            if isinstance(each, dict) and all(isinstance(each.get(name), str) for name in ("claim", "detail"))
        ]
    if "counts" in line:
        counts = line["counts"] if isinstance(line["counts"], dict) else {}
        line["counts"] = {
            name: count
            for name, count in counts.items()
            if name not in ("anomalies", "errors") or isinstance(count, dict)
        }
    document = line.get("scenario")
    if isinstance(document, dict) and not isinstance(document.get("spec", {}), dict):
        line["scenario"] = {name: each for name, each in document.items() if name != "spec"}
    elif document is not None and not isinstance(document, dict):
        del line["scenario"]
    return line
