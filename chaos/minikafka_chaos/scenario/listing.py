"""The scenarios that come along, each in a line: what it shows, where it runs, what is expected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from minikafka.telemetry.fault_verbs import LACKS

from minikafka_chaos.scenario import library
from minikafka_chaos.scenario.page import TITLE, annotation, expected_verdicts, grounds
from minikafka_chaos.scenario.scenario import Scenario
from minikafka_chaos.scenario.variants import STORY_OF, VARIANTS

HEADER = ("SCENARIO", "WHAT IT SHOWS", "GROUNDS", "EXPECTED")


class Listed(NamedTuple):
    """A scenario in the list."""

    scenario: Scenario
    title: str
    """Of a variant: its setting."""
    grounds: list[str]
    expected: list[str]
    """Verdicts: of a variant its own, else those of all settings that the scenario is told with."""
    variant_of: str | None

    def as_json(self) -> dict[str, object]:
        """Make the row for programs."""
        spec = self.scenario.spec
        return {
            "name": self.scenario.name,
            "title": self.title,
            "grounds": self.grounds,
            "expected": self.expected,
            "variantOf": self.variant_of,
            "description": spec.description,
            "steps": len(spec.steps),
        }


def scenarios() -> Iterator[Listed]:
    """Read every scenario of the library, sorted by name, each followed by its variants."""
    for name in library.names():
        scenario = library.find(name)
        story = STORY_OF.get(name)
        title, expected = annotation(scenario, TITLE), expected_verdicts(scenario)
        if story is not None:
            setting, values = VARIANTS[story]
            title = f"with {setting}={values[name.removeprefix(f'{story}.')]}"
            expected = [scenario.spec.expected.verdict.value] if scenario.spec.expected is not None else expected
        yield Listed(scenario, title, grounds(scenario), expected, story)


def table(listed: Iterable[Listed]) -> str:
    """Lay the scenarios out for people, a line each, variants indented."""
    rows = [HEADER]
    for each in listed:
        indent = "  " if each.variant_of else ""
        where = "all" if len(each.grounds) == len(LACKS) else ", ".join(each.grounds)
        rows.append((indent + each.scenario.name, indent + each.title, where, ", ".join(each.expected)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
