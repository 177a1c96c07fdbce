"""Makes the Grafana dashboards of the chart minikafka-monitoring.

python -m tools.dashboards --write     writes charts/minikafka-monitoring/files/dashboards/*.json
python -m tools.dashboards --check     exit code 1 when one is not what it would be
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from tools.dashboards import chaos, cluster, operators, partition

FOLDER = Path(__file__).parents[2] / "charts/minikafka-monitoring/files/dashboards"
PAGES = {"cluster": cluster, "partition": partition, "chaos": chaos, "operator": operators}


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tools.dashboards", description="The Grafana dashboards.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="compare, change nothing")
    what.add_argument("--write", action="store_true", help="make them")
    options = parser.parse_args()
    stale = 0
    for name, module in PAGES.items():
        built = json.loads(json.dumps(module.build().build(), cls=JSONEncoder))
        built["schemaVersion"] = built.get("schemaVersion") or 41
        _number(built)
        text = json.dumps(built, indent=2, sort_keys=True) + "\n"
        path = FOLDER / f"{name}.json"
        if options.write:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is not what is declared: run python -m tools.dashboards --write", file=sys.stderr)
            stale = 1
    return stale


def _number(page: dict[str, object]) -> None:
    """An id for each panel, in their order: links to a panel are by id, and Grafana would give it anew at each load."""
    panels = page["panels"]
    assert isinstance(panels, list)
    for number, panel in enumerate(panels, 1):
        panel["id"] = number


if __name__ == "__main__":
    sys.exit(main())
