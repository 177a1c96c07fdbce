"""Which expressions of Strimzi's Grafana dashboards have data here: makes docs/reference/strimzi-dashboards.md.

    python -m tools.strimzi_dashboards --dashboards FOLDER --prometheus URL --namespace NAMESPACE --cluster CLUSTER

FOLDER holds Strimzi's examples/metrics/grafana-dashboards (they are not part of this project). The Prometheus has the rules of
charts/minikafka-monitoring and scrapes a cluster under load, with at least one consumer group, the operator and its clusters.
"""

from __future__ import annotations

import argparse
import json
import re
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tools.wrap import wrapped

PAGE = Path(__file__).parents[1] / "docs/reference/strimzi-dashboards.md"
DASHBOARDS = ("strimzi-kafka", "strimzi-kafka-exporter", "strimzi-kraft", "strimzi-operators")
HAS_DATA = "has data"

REASONS = (
    (r"jvm_", "no JVM: brokers and operator are Python"),
    (
        r"raftchannelmetrics|raftmetrics_(append|fetch)_records|raftmetrics_current_vote",
        "no Raft: a store with a lease",
    ),
    (r'kind="(KafkaConnect|KafkaMirrorMaker2|KafkaBridge|KafkaConnector|KafkaRebalance)"', "no such resource here"),
    (r'kind="KafkaNodePool"', "no node pools: a cluster has one set of brokers"),
    (r'kind="KafkaUser"', "no metric counts users"),
    (r'kind="KafkaTopic"', "counted by the controller: kafka_controller_kafkacontroller_globaltopiccount"),
    (r"locked_total", "nothing is locked: one worker for each cluster"),
    (r"periodical_total", "periodical looks are not told from others"),
    (r"certificate", "no metric says when a certificate ends"),
)
"""Why an expression without data has none. One that no reason fits is a gap."""


class Row(NamedTuple):
    """One expression of a dashboard, in its place."""

    dashboard: str
    expression: str
    outcome: str


def variables(namespace: str, cluster: str) -> dict[str, str]:
    """Return what is chosen at the top of the dashboards. All, as Grafana puts it, where there is a choice."""
    return {
        "kubernetes_namespace": namespace,
        "strimzi_cluster_name": cluster,
        "kafka_broker": ".*",
        "kafka_topic": ".+",
        "kafka_partition": ".*",
        "kraft_node": ".*",
        "consumergroup": ".*",
        "topic": ".*",
    }


def filled_in(expression: str, chosen: dict[str, str]) -> str:
    """The expression as Grafana sends it. Longer names first: one begins another."""
    for name in sorted(chosen, key=len, reverse=True):
        expression = expression.replace(f"${name}", chosen[name])
    return expression


def expressions(page: Any) -> Iterator[str]:
    """Every expression of a dashboard's panels, in their order."""
    if isinstance(page, dict):
        if isinstance(page.get("expr"), str):
            yield " ".join(page["expr"].split())
        for value in page.values():
            yield from expressions(value)
    elif isinstance(page, list):
        for value in page:
            yield from expressions(value)


def rows(folder: Path, has_data: Callable[[str], bool], chosen: dict[str, str]) -> list[Row]:
    """All of them, with what came of asking."""
    found = []
    for name in DASHBOARDS:
        page = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        for expression in expressions(page["panels"]):
            outcome = HAS_DATA if has_data(filled_in(expression, chosen)) else reason(expression)
            found.append(Row(name, expression, outcome))
    return found


def reason(expression: str) -> str:
    """Return why it has no data."""
    return next((why for pattern, why in REASONS if re.search(pattern, expression)), "GAP: it should have data")


def page_of(found: list[Row]) -> str:
    """The whole page."""
    lines = [
        "# Strimzi's dashboards on MiniKafka",
        "",
        "For anyone who has Strimzi's Grafana dashboards: which of their panels have data on MiniKafka, and why others have not.",
        "",
        "The expressions of Strimzi's Grafana dashboards (strimzi-kafka-operator, examples/metrics), asked of a",
        "Prometheus with the rules of `charts/minikafka-monitoring` and a cluster under load. Made by `python -m",
        "tools.strimzi_dashboards`; do not edit. `tests/integration/monitoring` asks those that have data again.",
        "",
        "| dashboard | expressions | have data |",
        "|---|---:|---:|",
    ]
    for name in DASHBOARDS:
        mine = [row for row in found if row.dashboard == name]
        lines.append(f"| {name} | {len(mine)} | {sum(row.outcome == HAS_DATA for row in mine)} |")
    lines.append(f"| all | {len(found)} | {sum(row.outcome == HAS_DATA for row in found)} |")
    for name in DASHBOARDS:
        lines += ["", f"## {name}", "", "| expression | outcome |", "|---|---|"]
        for row in found:
            if row.dashboard == name:
                lines.append(f"| `{row.expression.replace('|', '&#124;')}` | {row.outcome} |")
    return "\n".join([*lines, ""])


def read_page(text: str) -> list[Row]:
    """The rows of a page that :func:`page_of` made."""
    found, name = [], ""
    for line in text.splitlines():
        if line.startswith("## "):
            name = line[3:]
        elif match := re.fullmatch(r"\| `(.+)` \| (.+) \|", line):
            found.append(Row(name, match[1].replace("&#124;", "|"), match[2]))
    return found


def main() -> None:
    """The command of the module's docstring."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.strimzi_dashboards", description="Strimzi's dashboards on MiniKafka"
    )
    parser.add_argument("--dashboards", type=Path, required=True)
    parser.add_argument("--prometheus", required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--cluster", required=True)
    options = parser.parse_args()

    def has_data(expression: str) -> bool:
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"{options.prometheus}/api/v1/query?{query}", timeout=30) as answer:
            return bool(json.load(answer)["data"]["result"])

    found = rows(options.dashboards, has_data, variables(options.namespace, options.cluster))
    PAGE.write_text(wrapped(page_of(found)), encoding="utf-8")
    for name in DASHBOARDS:
        mine = [row for row in found if row.dashboard == name]
        print(f"{name}: {sum(row.outcome == HAS_DATA for row in mine)} of {len(mine)} have data")


if __name__ == "__main__":
    main()
