"""What a test that failed is told of its cluster: what was done to it, step by step, and what became of the records."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from minikafka_chaos.record.journal import read_journal
from minikafka_chaos.verdict.report_table import print_verdict
from rich.console import Console

if TYPE_CHECKING:
    from minikafka.testing.cluster import MiniKafkaCluster

COLUMNS = 110


def report(cluster: MiniKafkaCluster, began: float) -> str:
    """All since `began` (unix seconds). Heals the cluster, for the verdict."""
    brokers = ", ".join(f"{each.id} {each.condition}" for each in cluster.status())
    lines = [f"brokers: {brokers}; bootstrap {cluster.bootstrap}", *_done(cluster, began)]
    text = io.StringIO()
    console = Console(file=text, width=COLUMNS, color_system=None)
    if cluster.topics:
        print_verdict(console, cluster.verdict())
    return "\n".join([*lines, f"journal, events and logs: {cluster.folder}", text.getvalue().rstrip()])


def _done(cluster: MiniKafkaCluster, began: float) -> Iterator[str]:
    for line in read_journal(cluster.journal.path):
        if line["time"] >= began and line["kind"] == "action" and line["phase"] == "end":
            yield f"  +{line['time'] - began:7.3f} s  {_words(line)}"


def _words(line: Mapping[str, Any]) -> str:
    role = f" ({line['role']})" if line.get("role") else ""
    more = line.get("parameters") or line.get("to")
    failed = "" if line.get("ok") else f": {line.get('detail')}"
    return f"{line['fault']} {line['target']}{role}{f' {more}' if more else ''}{failed}"
