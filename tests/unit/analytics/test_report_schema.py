"""The schema of report.json notices what a reader would stumble over. Every report of these tests is held to it (conftest)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from conftest import hold_to_schema
from minikafka_analytics.report import document
from minikafka_analytics.report.columns import MomentColumn, many, maybe, moment, since
from minikafka_analytics.report.figures import FIGURES, figures
from minikafka_analytics.report.run import SECTIONS
from minikafka_analytics.report.schema import MOST_RECORDS, RUN, SCRAPE_COVERAGE, STALL, schema


@pytest.fixture
def empty() -> dict[str, Any]:
    """The smallest report there is: no run could be told of."""
    return document.report([], {}, "0.0.0")


@pytest.mark.slow
def test_it_is_a_schema() -> None:
    for closed in (False, True):
        jsonschema.Draft202012Validator.check_schema(schema(closed))


def test_a_key_that_it_does_not_name_is_noticed(empty: dict[str, Any]) -> None:
    hold_to_schema(empty)
    with pytest.raises(jsonschema.ValidationError, match="'more' was unexpected"):
        hold_to_schema(empty | {"more": 1})
    jsonschema.Draft202012Validator(schema()).validate(empty | {"more": 1})  # keys are added to a version


@pytest.mark.parametrize(
    ("key", "value"), [("schema", "minikafka.report/v0"), ("runs", [{}]), ("asked", None), ("generated_at", 1.0)]
)
def test_a_value_of_another_kind_is_noticed(empty: dict[str, Any], key: str, value: object) -> None:
    with pytest.raises(jsonschema.ValidationError):
        hold_to_schema(empty | {key: value})


def test_a_key_that_is_missing_is_noticed(empty: dict[str, Any]) -> None:
    for key in empty:
        with pytest.raises(jsonschema.ValidationError):
            hold_to_schema({name: value for name, value in empty.items() if name != key})


def test_moments_become_seconds_since_the_run_began_however_deep_they_are() -> None:
    stall = {"began": 103.0, "ended": None, "seconds": 5.0, "topic": "t"}
    assert since(many(STALL), [stall], 100.0) == [stall | {"began": 3.0}]
    events = {"events": [{"slowest": 1.5, "examples": [{"time": 101.0, "until": 104.0, "topic": None}]}], "skew": 0.1}
    found = since(SCRAPE_COVERAGE, events, 100.0)
    assert found["events"][0]["examples"] == [{"time": 1.0, "until": 4.0, "topic": None}]
    assert (found["events"][0]["slowest"], found["skew"]) == (1.5, 0.1), "durations stay"
    assert since(maybe(moment()), None, 100.0) is None
    assert since(MOST_RECORDS, None, 100.0) is None


def test_sections_are_sorted_by_columns_that_they_have() -> None:
    for name, section in SECTIONS.items():
        assert set(section.order) <= set(RUN["properties"][name]["items"]["properties"]), name


def columns(schema: dict[str, Any], name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every column below, with its name."""
    yield name, schema
    for inner, column in schema.get("properties", {}).items():
        yield from columns(column, inner)
    if "items" in schema:
        yield from columns(schema["items"], name)


def test_what_is_named_like_a_moment_is_one() -> None:
    for name, column in columns(RUN):
        if "number" in column.get("type", ()):
            named = re.fullmatch(r"(.+_)?at|began|ended|struck|time|until|last_seen|\w+_from", name) is not None
            assert named == isinstance(column, MomentColumn), name


def test_a_figure_that_nothing_tells_of_is_unknown() -> None:
    """Seconds and counts are told apart by their columns."""
    nothing: dict[str, Any] = {
        "counts": {"lost": 0},
        "gaps": [],
        "faults": [],
        "throughput": {"whole_run": None},
        "exposure": {"one_broker": None, "committed_on_no_disk": None},
    }
    found = figures(nothing, {"truncated_records": 0, "unclean_elections": 0})
    jsonschema.validate(found, RUN["properties"]["figures"])
    assert {name for name, value in found.items() if value is not None} == {
        "lost",
        "truncated_records",
        "unclean_elections",
    }
    assert {name for name, figure in FIGURES.items() if figure.is_seconds} == {
        *("longest_gap", "re_elected", "re_acknowledged", "full_isr", "latency_p50", "latency_p99")
    }
