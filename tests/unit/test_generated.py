"""The table of generated files has all of them, and the command finds and mends what is not as declared.

That they are as declared is `make check`'s to say.
"""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import referencing
import yaml
from minikafka.telemetry.marked_page import replaced

from tools.generated import ROOT, TABLE, Producer, bring_up_to_date

MEASURED = {"docs/internals/specification.md"}
"""Pages whose marked parts are what a run of `make spec` found."""
BEGIN, END = "<!-- begin rows: written by a command, do not edit -->", "<!-- end rows -->"


def fail() -> str:
    raise ValueError("R5: no test names it")


def test_what_differs_is_named_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "docs/page.md"
    page.parent.mkdir()
    page.write_text(f"By hand.\n{BEGIN}\n\nold\n\n{END}\nBy hand, too.\n")
    table: dict[str, Producer] = {
        "docs/page.md": {"rows": lambda: "new"},
        "crds/a.yaml": lambda: "a: 1\n",
        "docs/internals/rules.md": fail,
    }
    unmade = "docs/internals/rules.md cannot be made: R5: no test names it"
    stale = [f"{name} is not what is declared: run make docs" for name in ("docs/page.md", "crds/a.yaml")]
    assert bring_up_to_date(tmp_path, table, write=False) == [*stale, unmade]
    assert not (tmp_path / "crds").exists()
    assert bring_up_to_date(tmp_path, table, write=True) == [unmade]
    assert capsys.readouterr().out.splitlines() == ["wrote docs/page.md", "wrote crds/a.yaml"]
    assert page.read_text() == f"By hand.\n{BEGIN}\n\nnew\n\n{END}\nBy hand, too.\n"
    assert bring_up_to_date(tmp_path, table, write=True) == [unmade]
    assert capsys.readouterr().out == "", "what is as declared is left alone"
    (tmp_path / "crds/a.yaml").write_text("a: 2\n")
    assert bring_up_to_date(tmp_path, table, write=False) == [stale[1], unmade]


@pytest.mark.parametrize("page", ["# empty\n", f"{BEGIN}\nno end\n"])
def test_a_page_without_its_part_cannot_be_made(page: str, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(page)
    with pytest.raises(ValueError, match="the page has no lines"):
        replaced(page, "rows", "new")
    for write in (False, True):
        (told,) = bring_up_to_date(tmp_path, {"page.md": {"rows": str}}, write=write)
        assert told.startswith("page.md cannot be made: the page has no lines")
    assert (tmp_path / "page.md").read_text() == page


@pytest.mark.slow
def test_the_schema_of_a_matrix_finds_what_is_in_the_scenarios() -> None:
    texts = {
        name: (ROOT / "docs/reference" / name).read_text() for name in ("matrix.schema.json", "scenario.schema.json")
    }
    schemas = {name: referencing.Resource.from_contents(json.loads(text)) for name, text in texts.items()}
    registry = referencing.Registry().with_resources(schemas.items())
    matrix = jsonschema.Draft202012Validator(schemas["matrix.schema.json"].contents, registry=registry)
    for path in (ROOT / "chaos/matrices").glob("*.yaml"):
        document = yaml.safe_load(path.read_text())
        matrix.validate(document)
        document["spec"]["experiment"]["workload"]["acks"] = "Leeder"
        with pytest.raises(jsonschema.ValidationError, match="'Leeder' is not one of"):
            matrix.validate(document)


def test_the_table_has_every_file_that_is_generated() -> None:
    """A file that a row made, and none makes any more, would stay as it is for ever."""
    said = {
        str(path.relative_to(ROOT))
        for folder in ("docs", "crds", "chaos/scenarios", "charts", "deploy")
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and not path.is_symlink()
        and "by `make docs`; do not edit" in path.read_text(errors="replace")
    }
    whole_folders = ("crds", "charts/minikafka-monitoring/files/dashboards")
    said |= {str(path.relative_to(ROOT)) for folder in whole_folders for path in (ROOT / folder).iterdir()}
    parts = {name for name, producer in TABLE.items() if not callable(producer)}
    schemas = {name for name in TABLE if name.endswith((".schema.json", ".openapi.json"))}
    assert said == set(TABLE) - parts - schemas
    there = (path for kind in ("schema", "openapi") for path in (ROOT / "docs").rglob(f"*.{kind}.json"))
    assert schemas == {str(path.relative_to(ROOT)) for path in there}
    marked = {
        str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md") if "<!-- begin " in path.read_text()
    }
    assert marked == parts | MEASURED
