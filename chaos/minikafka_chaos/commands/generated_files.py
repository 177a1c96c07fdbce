"""The generated files of scenarios: schemas of documents, the tables of faults, the list of scenarios, and each story under the
settings that it is told of.

A story is written once, `chaos/scenarios/<story>.yaml`, and told twice; the two files with fixed settings are made from it, so
that each can be run, shown and applied by its name alone. `python -m minikafka_chaos.commands.generated_files --write` makes
them, `--check` fails (exit 1) when one is not what it would be.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from minikafka.telemetry.marked_page import replaced
from pydantic import BaseModel

from minikafka_chaos.matrix.document import MatrixDocument
from minikafka_chaos.matrix.report import MatrixReport
from minikafka_chaos.scenario.fault_tables import ground_table, verb_table
from minikafka_chaos.scenario.page import page
from minikafka_chaos.scenario.scenario import Scenario

COMMAND = "python -m minikafka_chaos.commands.generated_files --write"
FAULTS = "docs/faults.md"
SCHEMAS: dict[str, tuple[str, type[BaseModel]]] = {
    "docs/scenario.schema.json": ("A scenario of MiniKafka", Scenario),
    "docs/matrix.schema.json": ("A durability matrix of MiniKafka", MatrixDocument),
    "docs/matrix-report.schema.json": ("The result of a durability matrix", MatrixReport),
}
"""File -> its title, and the model of the documents that it describes."""
STORIES = "chaos/scenarios"
PAGE = "docs/scenarios.md"

TOLD: dict[str, tuple[str, dict[str, str]]] = {
    "kip-101-data-loss": (
        "minikafka.truncation.mode",
        {"leader-epoch": "leader_epoch", "high-watermark": "high_watermark"},
    ),
    "kip-101-divergence": (
        "minikafka.truncation.mode",
        {"leader-epoch": "leader_epoch", "high-watermark": "high_watermark"},
    ),
    "last-replica-standing": ("minikafka.unclean.shutdown.policy", {"fence": "fence", "trust-isr": "trust_isr"}),
}
"""Story -> the setting that it is about, and the files: suffix of the name -> value of the setting."""


def schema(title: str, model: type[BaseModel]) -> str:
    """The JSON schema of a kind of document, for editors and for who writes or reads such documents by program."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **model.model_json_schema(by_alias=True),
    }
    return json.dumps(document, indent=2) + "\n"


def told(story: str, text: str, setting: str, suffix: str, value: str) -> str:
    """The story with one value of its setting, under a name of its own. ValueError when it does not have both once."""
    name, entry = f"  name: {story}\n", f"{{name: {setting}, value: "
    before, found, rest = text.partition(entry)
    if not found or text.count(name) != 1:
        raise ValueError(f"{story}: needs the lines {name.strip()!r} and '- {entry}...}}'")
    old, brace, after = rest.partition("}")
    if "expect:" in before:
        raise ValueError(f"{story}: cluster.config comes before expect")
    del old
    made = f"# Made from {story}.yaml by `{COMMAND}`; do not edit.\n"
    same = f"# The same: minikafka chaos run {story} --set {setting}={value}\n"
    return made + same + f"{before}{entry}{value}{brace}{after}".replace(name, f"  name: {story}.{suffix}\n")


def files(root: Path) -> dict[Path, str]:
    """Every generated file and what it has to hold."""
    faults = (root / FAULTS).read_text(encoding="utf-8")
    for part, text in (("verbs", verb_table()), ("grounds", ground_table())):
        faults = replaced(faults, part, text)
    found = {root / path: schema(title, model) for path, (title, model) in SCHEMAS.items()}
    found[root / FAULTS] = faults
    for story, (setting, variants) in TOLD.items():
        text = (root / STORIES / f"{story}.yaml").read_text(encoding="utf-8")
        for suffix, value in variants.items():
            found[root / STORIES / f"{story}.{suffix}.yaml"] = told(story, text, setting, suffix, value)
    names = {story: [f"{story}.{suffix}" for suffix in variants] for story, (_, variants) in TOLD.items()}
    found[root / PAGE] = page(root / STORIES, names)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 the files are as they should be (or were written), 1 some are not, 2 bad input."""
    parser = argparse.ArgumentParser(prog="python -m minikafka_chaos.commands.generated_files", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="compare, change nothing")
    what.add_argument("--write", action="store_true", help="write the files anew")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder (default: here)")
    options = parser.parse_args(arguments)
    try:
        wanted = files(options.root)
    except (OSError, ValueError) as error:
        print(f"scenario_files: {error}", file=sys.stderr)
        return 2
    stale = 0
    for path, text in wanted.items():
        if options.write:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is not what it should be: run {COMMAND}", file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
