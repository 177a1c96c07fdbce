"""The files of this repository that are made from what is declared elsewhere, and who makes each.

``python -m tools.generated --write`` (``make docs``) makes those that differ, ``--check`` (``make check``) names them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from minikafka.authorization.docs import authorization_page
from minikafka.config.docs import configuration_page
from minikafka.server.api.docs import apis_page
from minikafka.telemetry.docs import anomaly_tables, events_page, metrics_page
from minikafka.telemetry.marked_page import replaced
from minikafka_analytics.report.schema import schema as report_schema
from minikafka_chaos.controller import crds as chaos_crds
from minikafka_chaos.matrix.document import MatrixDocument
from minikafka_chaos.matrix.report import MatrixReport
from minikafka_chaos.scenario import fault_tables, variants
from minikafka_chaos.scenario.page import page as scenarios_page
from minikafka_chaos.scenario.scenario import Scenario
from minikafka_chaos.session.docs import openapi_page, verb_table
from minikafka_kube.crds import as_text
from minikafka_operator import crds as operator_crds
from minikafka_simulator.commands.docs import bug_table, invariant_table
from pydantic import BaseModel

from tests.adversary import results as planted_bugs
from tests.bill import page as bill
from tests.suites import results as suites
from tools import rules_map
from tools.dashboards.pages import PAGES
from tools.lab_settings import settings_table
from tools.supply import licences
from tools.wrap import wrapped

ROOT = Path(__file__).resolve().parents[1]
SCENARIOS = Path("chaos/scenarios")

Text = Callable[[], str]
Producer = Text | Mapping[str, Text]
"""Makes a whole file; or, by name, the marked parts of a page that people write."""
ALLOWED_TO_FAIL = (OSError, ValueError)
"""What a producer raises when there is nothing right that it could make: the message says why."""


def schema(title: str, model: type[BaseModel]) -> str:
    """Make the JSON schema of a kind of document, for editors and for who writes or reads such documents by program."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **model.model_json_schema(by_alias=True),
    }
    return json.dumps(document, indent=2) + "\n"


def matrix_schema() -> str:
    """Make the schema of a matrix, which has a scenario in it: what is the same is in the scenario's schema only, beside it."""
    document = json.loads(schema("A durability matrix of MiniKafka", MatrixDocument))
    scenario = json.loads(schema("", Scenario))["$defs"]
    shared = [name for name, definition in document["$defs"].items() if scenario.get(name) == definition]
    for name in shared:
        del document["$defs"][name]
    text = json.dumps(document, indent=2)
    for name in shared:
        text = text.replace(f'"#/$defs/{name}"', f'"scenario.schema.json#/$defs/{name}"')
    return text + "\n"


def _variant(story: str, suffix: str) -> str:
    return variants.variant(story, (ROOT / SCENARIOS / f"{story}.yaml").read_text(encoding="utf-8"), suffix)


def _crds(module: Any) -> dict[str, Producer]:
    return {
        f"crds/{name}": partial(as_text, definition, module.MODELS) for name, definition in module.documents().items()
    }


TABLE: dict[str, Producer] = {
    "docs/internals/adversary.md": planted_bugs.current_page,
    "docs/reference/apis.md": apis_page,
    "docs/reference/authorization.md": authorization_page,
    "docs/reference/commands.md": {"settings": settings_table},
    "docs/reference/configuration.md": configuration_page,
    "docs/reference/control.openapi.json": openapi_page,
    "docs/reference/events.md": events_page,
    "docs/reference/faults.md": {"verbs": fault_tables.verb_table, "grounds": fault_tables.ground_table},
    "docs/reference/licences.md": licences.current_page,
    "docs/reference/matrix-report.schema.json": partial(schema, "The result of a durability matrix", MatrixReport),
    "docs/reference/matrix.schema.json": matrix_schema,
    "docs/reference/metrics.md": metrics_page,
    "docs/reference/report.schema.json": lambda: json.dumps(report_schema(), indent=1) + "\n",
    "docs/internals/rules.md": rules_map.current_page,
    "docs/reference/scenario.schema.json": partial(schema, "A scenario of MiniKafka", Scenario),
    "docs/reference/scenarios.md": lambda: scenarios_page(ROOT / SCENARIOS, variants.NAMES),
    "docs/internals/simulation.md": {"simulator bugs": bug_table, "invariants": invariant_table},
    "docs/internals/tests.md": lambda: bill.page(bill.load()),
    "docs/reference/suites.md": suites.current_page,
    "docs/reference/testing.md": {"verbs": verb_table},
    "docs/reference/verdicts.md": {"anomalies": anomaly_tables},
    **{
        str(SCENARIOS / f"{story}.{suffix}.yaml"): partial(_variant, story, suffix)
        for story, (_, values) in variants.VARIANTS.items()
        for suffix in values
    },
    **{f"charts/minikafka-monitoring/files/dashboards/{name}.json": make for name, make in PAGES.items()},
    **_crds(operator_crds),
    **_crds(chaos_crds),
}
"""Path -> what makes the file."""


def made(path: Path, producer: Producer) -> str:
    """Make the text that a file has to hold."""
    if not isinstance(producer, Mapping):
        text = producer()
        return wrapped(text) if path.suffix == ".md" else text
    page = path.read_text(encoding="utf-8")
    for part, make in producer.items():
        page = replaced(page, part, make())
    return page


def bring_up_to_date(root: Path, table: Mapping[str, Producer], *, write: bool) -> list[str]:
    """Write the files that differ, or only find them; a line for each that is not as it should be when this returns."""
    wrong = []
    for name, producer in table.items():
        path = root / name
        try:
            text = made(path, producer)
        except ALLOWED_TO_FAIL as error:
            wrong.append(f"{name} cannot be made: {error}")
            continue
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if write:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
        else:
            wrong.append(f"{name} is not what is declared: run make docs")
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 all files are as declared (or were written), 1 some are not, 2 bad input."""
    parser = argparse.ArgumentParser(prog="python -m tools.generated", description="The generated files.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="compare, change nothing")
    what.add_argument("--write", action="store_true", help="write those that differ")
    options = parser.parse_args(arguments)
    wrong = bring_up_to_date(ROOT, TABLE, write=options.write)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
