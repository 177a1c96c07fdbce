"""The files of the dashboards, charts/minikafka-monitoring/files/dashboards/*.json; ``make docs`` writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from tools.dashboards import chaos, cluster, operators, partition


def _text(module: Any) -> str:
    built = json.loads(json.dumps(module.build().build(), cls=JSONEncoder))
    built["schemaVersion"] = built.get("schemaVersion") or 41
    _number(built)
    return json.dumps(built, indent=2, sort_keys=True) + "\n"


def _number(page: dict[str, object]) -> None:
    """Give each panel an id, in their order: links to a panel are by id, and Grafana would give it anew at each load."""
    panels = page["panels"]
    assert isinstance(panels, list)
    for number, panel in enumerate(panels, 1):
        panel["id"] = number


PAGES: dict[str, Callable[[], str]] = {
    "chaos": partial(_text, chaos),
    "cluster": partial(_text, cluster),
    "operator": partial(_text, operators),
    "partition": partial(_text, partition),
}
"""Name of the file -> what makes it."""
