"""Tells by which settings a run was made, and in which of them several differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Record = dict[str, Any]

LONGEST_SETTING = 200  # characters of one value in the table of settings


def settings_of(scenario: Record, workloads: list[Record]) -> dict[str, str]:
    """List everything that the scenario fixed and the clients used, as dotted names, in the document's order."""
    flat: dict[str, str] = {}
    for key in ("ground", "seed"):
        if scenario.get(key) is not None:
            flat[key] = str(scenario[key])
    document = scenario.get("scenario") or {}
    spec = document.get("spec", document) if isinstance(document, dict) else {}
    for part in ("cluster", "topics", "workload", "rounds", "recovery"):
        if spec.get(part) is not None:
            _flatten(part, spec[part], flat)
    for row in workloads[:1]:
        _flatten("client", json.loads(row["settings"]), flat)
    return flat


def _flatten(name: str, value: object, into: dict[str, str]) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _flatten(f"{name}.{key}", inner, into)
    elif isinstance(value, list) and value and all(isinstance(entry, dict) and "name" in entry for entry in value):
        for entry in value:  # a list of named objects stands for a map (Kubernetes' API conventions)
            rest = {key: inner for key, inner in entry.items() if key != "name"}
            plain = rest["value"] if set(rest) == {"value"} else rest
            _flatten(f"{name}.{entry['name']}", plain, into)
    elif value not in (None, [], {}):
        text = value if isinstance(value, str) else json.dumps(value)
        into[name] = text if len(text) <= LONGEST_SETTING else text[: LONGEST_SETTING - 1] + "…"


def differing(settings: Sequence[dict[str, str]]) -> list[str]:
    """Name the settings that not all runs have alike."""
    names = list(dict.fromkeys(name for each in settings for name in each))
    return [name for name in names if len({each.get(name) for each in settings}) > 1]
