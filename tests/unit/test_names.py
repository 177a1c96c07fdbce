"""Hold names to the field's words, and each to one meaning.

A class name that occurs in two modules means the same in both, or is one of a document's fields. A word that says neither
who does something nor what is done to what is in no name at all.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (
    "broker-image/minikafka",
    "kube/minikafka_kube",
    "operator/minikafka_operator",
    "chaos/minikafka_chaos",
    "simulator/minikafka_simulator",
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
def parsed(path: Path) -> ast.Module:
    """Parse a module, once for all tests here."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def public_classes() -> Counter[str]:
    """In how many modules each public class name is declared at the top."""
    return Counter(
        name
        for source in SOURCES
        for path in sorted((ROOT / source).rglob("*.py"))
        for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE)
    )


def test_no_other_name_means_two_things() -> None:
    """Otherwise: a name of its own for the new one; or a line above, when both mean the same."""
    assert sorted(name for name, times in public_classes().items() if times > 1 and name not in TWICE) == []


def test_each_line_is_needed() -> None:
    assert sorted(name for name in TWICE if public_classes()[name] < 2) == []


def test_all_packages_are_looked_at() -> None:
    assert {"Broker", "ApiServer", "ClusterReconciler", "ExperimentReconciler", "MetricRange"} <= set(public_classes())


INSTEAD = {
    "told": "what was done (reported, described, answered with), or what it holds (facts, message, problem)",
    "telling": "what it writes to (ReportingLedger), or what it makes (excerpt)",
    "trouble": "problem, failure or error",
    "troubles": "problems, failures or errors",
    "blindness": "scrape_gaps, scrape_coverage",
    "aftermath": "fault_impact",
    "ambushes": "TargetedFaults",
    "asker": "a client: WireClient",
    "curious": "ApiProber",
    "people": "who they are: KubectlUser",
    "turns": "disruption_lease",
    "its": "the noun: x_class for its_x, _has_all_fields for _has_its_fields",
}
"""Words that no name has, and what to say instead."""

KEPT = {
    ("chaos/minikafka_chaos/errors.py", "ToolTrouble"),  # minikafka.testing offers it
    ("chaos/minikafka_chaos/grounds/processes.py", "_as_tool_trouble"),
    ("chaos/minikafka_chaos/experiment/reasons.py", "TOLD"),  # the reason of an Event
    ("chaos/minikafka_chaos/matrix/trials.py", "told"),  # a field of the results' lines
    ("chaos/minikafka_chaos/scenario/probes.py", "TOLD"),  # a word of scenarios
}
"""Names that stay, for programs and files rely on them."""


def words(name: str) -> set[str]:
    """The words of a name, as in `told_of_it` and in `ToldOfIt`, in small letters."""
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"))


def may_name(path: Path) -> bool:
    """Whether one of the words is anywhere but in comments and strings; parsing all files takes seconds."""
    code = re.sub(
        r'"""(?s:.*?)"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|#.*', "", path.read_text(encoding="utf-8")
    )
    return any(words(name) & INSTEAD.keys() for name in {path.stem, *re.findall(r"[^\W\d]\w*", code)})


def names_in(path: Path) -> Iterator[str]:
    """Yield all names that a module declares: its own, and those of classes, functions, parameters and variables."""
    yield path.stem
    for node in ast.walk(parsed(path)):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_names_have_the_fields_words(source: str) -> None:
    found = [
        f"{where}: {name}: instead of {word!r} say {INSTEAD[word]}"
        for path in sorted((ROOT / source).rglob("*.py"))
        if may_name(path)
        for where in [path.relative_to(ROOT).as_posix()]
        for name in sorted(set(names_in(path)))
        if (where, name) not in KEPT
        for word in sorted(words(name) & INSTEAD.keys())
    ]
    assert found == []


def test_each_name_that_stays_is_there() -> None:
    assert sorted((where, name) for where, name in KEPT if name not in set(names_in(ROOT / where))) == []


def test_words_are_found_in_each_kind_of_name(tmp_path: Path) -> None:
    path = tmp_path / "trouble.py"
    path.write_text(
        "import a as told_by\nclass TellingLedger:\n    async def was_told(self, troubles): self.its_x = 1\n"
        "try:\n    blindness = 1\nexcept E as aftermath:\n    pass\n"
    )
    assert may_name(path)
    found = {word for name in names_in(path) for word in words(name)} & INSTEAD.keys()
    assert found == {"trouble", "told", "telling", "troubles", "its", "blindness", "aftermath"}
