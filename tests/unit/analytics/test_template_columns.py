"""The page's template reads columns that `report.schema` declares, also in branches that no rendered report comes to.

Whether Spark's answers have the same columns is held wherever a report is made: the tests' fixture refuses one with a key more
or less than the closed schema. So a column that is renamed in one of the three places alone is noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from jinja2 import Environment, FileSystemLoader, nodes
from minikafka_analytics.report.columns import Schema, many, record
from minikafka_analytics.report.page import TEMPLATES
from minikafka_analytics.report.schema import DOCUMENT, RUN

ADDED = {"plots": {}, "shown_faults": {}, "resources_shown": {}}
"""What `page.page` adds to a run; of what is in it nothing is said here, as {} says nothing."""
ARGUMENTS: Mapping[str, Schema] = {
    "run": {**RUN, "properties": RUN["properties"] | ADDED},
    "report": {**DOCUMENT, "properties": DOCUMENT["properties"] | {"runs": many(RUN)}},
}
SAME_ROWS = ("selectattr", "rejectattr", "sort", "list", "unique", "reverse")
"""Filters that leave rows as they are."""


class TemplateColumns:
    """Follows which column each name of a template stands for, and collects names that no record has."""

    def __init__(self, source: str) -> None:
        self.unknown: set[str] = set()
        self.read = 0
        tree = Environment(loader=FileSystemLoader(TEMPLATES)).parse(source)
        for macro in tree.find_all(nodes.Macro):
            known = {arg.name: ARGUMENTS[arg.name] for arg in macro.args if arg.name in ARGUMENTS}
            self._walk(macro.body, known)
        self._walk([node for node in tree.body if not isinstance(node, nodes.Macro)], dict(ARGUMENTS))

    def _walk(self, body: list[Any], known: dict[str, Schema]) -> None:
        for node in body:
            match node:
                case nodes.For():
                    rows, inner = self._column(node.iter, known), dict(known)
                    for name in node.target.find_all(nodes.Name) if isinstance(node.target, nodes.Tuple) else ():
                        inner.pop(name.name, None)
                    if isinstance(node.target, nodes.Name):
                        inner[node.target.name] = rows.get("items", {})
                    self._walk([*filter(None, [node.test]), *node.body, *node.else_], inner)
                case nodes.Assign(target=nodes.Name(name=name)):
                    known[name] = self._column(node.node, known)
                case nodes.Expr():
                    self._column(node, known)
                case _:
                    self._walk(list(node.iter_child_nodes()), known)

    def _column(self, node: nodes.Node, known: Mapping[str, Schema]) -> Schema:
        """The schema of an expression's value; {} where nothing is known of it."""
        inner = [self._column(each, known) for each in node.iter_child_nodes()]
        match node:
            case nodes.Name():
                return known.get(node.name, {})
            case nodes.Getattr():
                return self._field(inner[0], node.attr)
            case nodes.Getitem():
                return inner[0] if isinstance(node.arg, nodes.Slice) else inner[0].get("items", {})
            case nodes.List():
                return many(inner[0]) if inner else {}
            case nodes.Add():  # of two lists: their rows have the fields of either
                fields = [each.get("items", {}).get("properties", {}) for each in inner]
                return many(record("", **fields[0], **{k: v for k, v in fields[1].items() if k not in fields[0]}))
            case nodes.Filter():
                return self._filtered(node, inner[0] if inner else {})
        return {}

    def _filtered(self, node: nodes.Filter, rows: Schema) -> Schema:
        named = [each.value for each in node.kwargs if each.key == "attribute"]
        named += node.args[:1] if node.name in ("selectattr", "rejectattr") else []
        column = rows.get("items", {})
        for attribute in (each.value for each in named if isinstance(each, nodes.Const)):
            for name in attribute.split("."):
                column = self._field(column, name)
        if node.name == "map":
            return many(column)
        return rows if node.name in SAME_ROWS else {}

    def _field(self, column: Schema, name: str) -> Schema:
        fields = column.get("properties")
        if fields is None:
            return {}
        self.read += 1
        if name not in fields:
            self.unknown.add(f"{name}: {column.get('description') or 'a record'}: has {', '.join(sorted(fields))}")
        found: Schema = fields.get(name, {})
        return found


@pytest.mark.parametrize(("template", "least"), [("parts.html.j2", 200), ("report.html.j2", 5)])
def test_each_name_is_a_column(template: str, least: int) -> None:
    found = TemplateColumns((TEMPLATES / template).read_text(encoding="utf-8"))
    assert sorted(found.unknown) == []
    assert found.read > least


@pytest.mark.parametrize(
    "source",
    [
        "{% macro m(run) %}{{ run.fautls }}{% endmacro %}",
        "{% macro m(run) %}{% if run.faults and false %}{{ run.faults[0].partitions[0].gpa }}{% endif %}{% endmacro %}",
        "{% macro m(run) %}{% for row in run.gaps[:3] if row.lenght %}{% endfor %}{% endmacro %}",
        "{% macro m(run) %}{% for row in run.stalls|sort(attribute='secs') %}{% endfor %}{% endmacro %}",
        "{% macro m(run) %}{% set w = run.faults|selectattr('worst.gapp')|list %}{% endmacro %}",
        "{% macro m(run) %}{% set f = run.figures %}{{ f.longest }}{% endmacro %}",
        "{% macro m(run) %}{% for row in run.partitions + [run.counts] %}{{ row.sended }}{% endfor %}{% endmacro %}",
        "{{ report.runs|map(attribute='idd')|join }}",
    ],
)
def test_a_name_that_is_no_column_is_noticed(source: str) -> None:
    assert len(TemplateColumns(source).unknown) == 1
