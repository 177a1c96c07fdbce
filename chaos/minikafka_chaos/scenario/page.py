"""`docs/reference/scenarios.md`: every scenario that comes along, its source, what it shows, where it runs, what is to be found.

All of it is read from the documents: source and subject from annotations, grounds from what each ground lacks, verdicts from
`expect`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from minikafka.telemetry.fault_verbs import LACKS

from minikafka_chaos.scenario.scenario import ExpectSpec, Scenario, load_scenario

TITLE, SOURCE, SHOWS = "minikafka.dev/title", "minikafka.dev/source", "minikafka.dev/shows"
"""Annotations that every scenario of the library has."""
TITLE_CHARACTERS_MAX = 60
"""So that `minikafka chaos list` has a line for each."""
SIMULATION_ONLY = "minikafka.dev/simulation-only"
"""Annotation of a scenario whose expectation other grounds do not meet, though they can run it: why."""

HEAD = """# Scenarios

For anyone who wants to see a story of replication happen: every scenario, where it is from, what
it shows, and the verdict to expect.

Made from the documents in `chaos/scenarios` by `make docs`; do not edit. `minikafka chaos list` has them in short, and
`minikafka chaos run NAME [--set KEY=VALUE] [--ground GROUND]` runs one. The verdict is always found, never told: it comes from
what clients were told and from the replicas' logs ([verdicts.md](verdicts.md)). *Expected* is what the document says
beforehand; a run that finds something else ends with exit code 1. *May come* is what is there with one load and not with
another.

"""


def page(folder: Path, variants: Mapping[str, Sequence[str]]) -> str:
    """The page of the scenarios in `folder`. `told_twice`: story -> the names of the files that are made from it."""
    made = {name for names in variants.values() for name in names}
    paths = [path for path in sorted(folder.glob("*.yaml")) if path.stem not in made]
    scenarios = [load_scenario(path) for path in paths]
    lines = ["| scenario | what it shows | source | grounds | expected |", "|---|---|---|---|---|"]
    for scenario in scenarios:
        files = variants.get(scenario.name, ())
        name = f"`{scenario.name}`" + "".join(f"<br>`{file}`" for file in files)
        row = (name, annotation(scenario, SHOWS), annotation(scenario, SOURCE), _grounds(scenario), _expected(scenario))
        lines.append(f"| {' | '.join(row)} |")
    return HEAD + "\n".join(lines) + "\n"


def annotation(scenario: Scenario, name: str) -> str:
    """An annotation of a scenario; empty when it has none."""
    extra = scenario.metadata.model_extra or {}
    return " ".join(str((extra.get("annotations") or {}).get(name, "")).split())


def missing(scenario: Scenario, ground: str) -> list[str]:
    """What a scenario asks for that a ground lacks: verbs, and on Kubernetes racks of its own, which are the nodes' there."""
    verbs = {verb for step in scenario.spec.steps if step.fault is not None for verb in step.fault.verbs}
    racks = ["racks of its own"] if ground == "kubernetes" and scenario.spec.cluster.racks else []
    return sorted(verb.value for verb in verbs & LACKS[ground].keys()) + racks


def grounds(scenario: Scenario) -> list[str]:
    """Find the grounds where a scenario runs, and meets what it expects."""
    if annotation(scenario, SIMULATION_ONLY):
        return ["simulation"]
    return [ground for ground in LACKS if not missing(scenario, ground)]


def expected_verdicts(scenario: Scenario) -> list[str]:
    """List the verdicts that a scenario expects, under whatever settings, each once."""
    return list(dict.fromkeys(each.verdict.value for each in scenario.spec.expect)) or ["Passed"]


def _grounds(scenario: Scenario) -> str:
    if only := annotation(scenario, SIMULATION_ONLY):
        return f"simulation only: {only}"
    lacks = [f"{ground} has no {', '.join(verbs)}" for ground in LACKS if (verbs := missing(scenario, ground))]
    return ", ".join(grounds(scenario)) + (f" ({'; '.join(lacks)})" if lacks else "")


def _expected(scenario: Scenario) -> str:
    if not scenario.spec.expect:
        return "Passed"
    return "<br>".join(_expectation(expected) for expected in scenario.spec.expect)


def _expectation(expected: ExpectSpec) -> str:
    found = ", ".join(f"{each.count or 'some'} {each.kind}" for each in expected.anomalies)
    notes = ", ".join(expected.may_find)
    when = ", ".join(f"`{entry.name}={entry.value}`" for entry in expected.when)
    what = (
        f"**{expected.verdict.value}**" + (f": {found}" if found else "") + (f" (may come: {notes})" if notes else "")
    )
    return f"{what} with {when}" if when else what
