"""One class name, one meaning: a name that occurs in two modules means the same in both, or is one of a document's fields."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = (
    "broker-image/minikafka",
    "kube/minikafka_kube",
    "operator/minikafka_operator",
    "chaos/minikafka_chaos",
    "analytics/minikafka_analytics",
)

OBJECT = "objects and scenarios: a CRD or a scenario names it"
TWICE = {
    "AgentError": "of either agent, beside a broker or on a node: a verb was not done",
    "ApiError": "an error status of the API server; brokers and operator have clients of their own",
    "BadRequest": "what was asked for is wrong, and nothing was done: both agents, and local clusters",
    "Clock": "where the time comes from",
    "ClusterReference": OBJECT,
    "ClusterSpec": OBJECT,
    "ConfigEntry": "a configuration key and its value: as DescribeConfigs answers it, and in a scenario",
    "GroupState": "the state of a consumer group: the table of states, and a condition of a scenario",
    "Kind": "a kind of Kubernetes object; brokers and operator have clients of their own",
    "Listeners": "the listeners of a broker, and of a MiniKafkaCluster's spec",
    "Load": "producers that send all the time: what a ground has to offer, and the one with threads",
    "Log": "the log: of a partition, and the section of broker settings about it",
    "NotNow": "of either agent: it cannot be done as things are now",
    "Part": "what all parts of a document's model have in common; objects and scenarios",
    "PartitionState": "the controller's word on one partition: in the image, and as the operator reads it",
    "Pod": "a broker's pod, as far as the operator or the network agent has to know it",
    "ReplicaStatus": "one replica as its own broker tells it: behind the gauges, and read from them",
    "Replication": "how records are replicated: the section of broker settings, and of a MiniKafkaCluster's spec",
    "Script": "single records, sent one step at a time: what a ground has to offer, and the one with real clients",
    "Terms": "what a run's verdict has to respect: as the verifier writes it, and as Spark reads it",
    "Timer": "something that will happen, unless it is cancelled before",
    "TopicSpec": OBJECT,
    "TopicState": "the controller's word on one topic: in the image, and as the operator reads it",
    "TopicStatus": OBJECT,
    "UnflushedVolume": OBJECT,
    "Wait": "nothing is to be done until some time",
}
"""Names that may occur in more than one module, and what each means wherever it does."""


@cache
def public_classes() -> Counter[str]:
    """In how many modules each public class name is declared at the top."""
    return Counter(
        node.name
        for source in SOURCES
        for path in sorted((ROOT / source).rglob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def test_no_other_name_means_two_things() -> None:
    """Otherwise: a name of its own for the new one; or a line above, when both mean the same."""
    assert sorted(name for name, times in public_classes().items() if times > 1 and name not in TWICE) == []


def test_each_line_is_needed() -> None:
    assert sorted(name for name in TWICE if public_classes()[name] < 2) == []


def test_all_packages_are_looked_at() -> None:
    assert {"Broker", "ApiServer", "ClusterReconciler", "ExperimentReconciler", "MetricRange"} <= set(public_classes())
