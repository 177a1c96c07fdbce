"""The CustomResourceDefinitions of chaos, made from the models of scenarios and of `api`; ``make docs`` writes them."""

from __future__ import annotations

from typing import Any, Final

from minikafka_kube.api.part import rule
from minikafka_kube.api.schema import structural
from minikafka_kube.crds import by_file, column, definition

from minikafka_chaos.controller.api import Experiment, Schedule

MODELS: Final = "chaos/minikafka_chaos (scenario.py, steps.py, controller/api.py)"
_AGE: Final = column("Age", ".metadata.creationTimestamp", "date")

_RULES: Final[dict[tuple[str, ...], list[dict[str, str]]]] = {
    ("steps", "items"): [
        rule(
            "[has(self.wait), has(self.send), has(self.fault), has(self.member)].filter(x, x).size() == 1",
            "spec.steps[]: each step has exactly one of wait, send, fault, member",
        ),
    ],
    ("steps", "items", "fault"): [
        rule(
            "has(self.verb) != (has(self.oneOf) && size(self.oneOf) > 0)",
            "spec.steps[].fault: give exactly one of verb and oneOf",
        ),
    ],
}
"""What the scenario's own models say in Python, said again for the API server, by where it stands in the spec's schema."""


def experiment_definition() -> dict[str, Any]:
    """The CRD of ChaosExperiment."""
    schema = structural(Experiment)
    _add_rules(schema["properties"]["spec"])
    return definition(
        "ChaosExperiment",
        "chaosexperiments",
        "mkx",
        Experiment,
        [
            column("Phase", ".status.phase"),
            column("Fault", ".status.faultNow", description="The faults that are on"),
            column("Verdict", ".status.verdict"),
            column("Lost", ".status.lost", "integer", "Acknowledged records that are gone"),
            column("Worst gap", ".status.worstGap", description="Longest time without an acknowledgement"),
            column("Report", ".status.report.path", description="Spark's report, on the claim for runs"),
            _AGE,
            column("Cluster", ".status.cluster", priority=1),
            column("Claim", ".status.runsClaim", priority=1),
            column("Told", '.status.conditions[?(@.type=="Accepted")].message', priority=1),
            column("Summary", ".status.summary", description="The verdict, or why there is none", priority=1),
        ],
        schema=schema,
    )


def schedule_definition() -> dict[str, Any]:
    """The CRD of ChaosSchedule."""
    schema = structural(Schedule)
    _add_rules(schema["properties"]["spec"]["properties"]["templates"]["items"]["properties"]["spec"])
    return definition(
        "ChaosSchedule",
        "chaosschedules",
        "mkxs",
        Schedule,
        [
            column("Suspend", ".spec.suspend", "boolean"),
            column("Accepted", '.status.conditions[?(@.type=="Accepted")].status', description="False: Told says why"),
            column("Active", ".status.active", description="The experiment that goes on"),
            column("Last", ".status.lastScheduleTime", "date"),
            column("Made", ".status.made", "integer", "Experiments made"),
            column("Missed", ".status.missed", "integer", "Times at which none was made"),
            column("Verdict", ".status.lastVerdict", description="Of the experiment that ended last"),
            column("Next", ".status.nextScheduleTime", description="None while it is suspended, or not accepted"),
            _AGE,
            column("Cron", ".spec.cron", priority=1),
            column("Told", '.status.conditions[?(@.type=="Accepted")].message', priority=1),
        ],
        schema=schema,
    )


def _add_rules(spec: dict[str, Any]) -> None:
    for path, added in _RULES.items():
        node = spec
        for name in path:
            node = node["items"] if name == "items" else node["properties"][name]
        node.setdefault("x-kubernetes-validations", []).extend(added)


def documents() -> dict[str, dict[str, Any]]:
    """The CRDs by file name."""
    return by_file(experiment_definition(), schedule_definition())
