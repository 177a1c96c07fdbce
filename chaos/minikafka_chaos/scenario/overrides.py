"""`--set KEY=VALUE`: a scenario with some of its values changed, before it is validated.

A key that begins with a field of the spec is a path in it: `workload.acks=Leader`, `rounds=3`, `topics.story.partitions=2`
(elements of a list by their name), `topics.story.config.min.insync.replicas=1`. Any other key is a setting of the brokers:
`minikafka.truncation.mode=high_watermark`, the same as `cluster.config.minikafka.truncation.mode=high_watermark`.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from minikafka_chaos.errors import BadScenario
from minikafka_chaos.scenario.document_files import one_value

CONFIG = "config"


def apply(document: Any, settings: Sequence[str], fields: Sequence[str]) -> None:
    """Change the document in place. `fields` are the fields of a spec. Raises BadScenario for what cannot be set."""
    values: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not (key and equals):
            raise BadScenario(f"--set {setting}: must be KEY=VALUE")
        if values.setdefault(key, value) != value:
            raise BadScenario(f"--set {setting}: {key} is given twice, first as {values[key]!r}")
        spec = document.get("spec") if isinstance(document, dict) else None
        if not isinstance(spec, dict):
            raise BadScenario(f"--set {setting}: the document has no spec")
        path = key.split(".")
        if path[0] in fields:
            _set(spec, path, value, setting)
        else:
            _set(spec, ["cluster", CONFIG, *path], value, setting)


def _set(node: dict[str, Any], path: list[str], value: str, setting: str) -> None:
    while len(path) > 1:
        name, *path = path
        if name == CONFIG:
            _set_config(node, ".".join(path), value, setting)
            return
        child = node.setdefault(name, {})
        if isinstance(child, list):
            child = _named(child, path.pop(0), setting)
            if not path:
                raise BadScenario(f"--set {setting}: names a whole element, allowed: one of its fields")
        if not isinstance(child, dict):
            raise BadScenario(f"--set {setting}: {name} has no fields")
        node = child
    node[path[0]] = one_value(value, f"--set {setting}")


def _named(elements: list[Any], name: str, setting: str) -> dict[str, Any]:
    found = {str(each.get("name")): each for each in elements if isinstance(each, dict)}
    if name not in found:
        near = difflib.get_close_matches(name, found, n=1)
        hint = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(found)}"
        raise BadScenario(f"--set {setting}: nothing is named {name}; {hint}")
    return found[name]


def _set_config(node: dict[str, Any], name: str, value: str, setting: str) -> None:
    entries = node.setdefault(CONFIG, [])
    if not isinstance(entries, list):
        raise BadScenario(f"--set {setting}: {CONFIG} is no list of names and values")
    for entry in entries:
        if isinstance(entry, dict) and entry.get("name") == name:
            entry["value"] = value
            return
    entries.append({"name": name, "value": value})
