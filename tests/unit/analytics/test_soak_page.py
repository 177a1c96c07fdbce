"""The page of a soak: half an hour and 311 faults are read on one page that is not long, not large and not crowded."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import pytest
from minikafka_analytics.report import charts
from minikafka_analytics.report.page import MOST_FAULTS, MOST_ROWS, TEMPLATES
from soak_run import FAULTS, LOST, faults, write_soak

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

LARGEST_BYTES = 1_000_000
MOST_BEFORE_PLOTS = 60  # rows of tables
SMALLEST_TYPE = 11  # pixels


class Soak(NamedTuple):
    html: str
    run: dict[str, Any]


@pytest.fixture(scope="module")
def soak(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Soak:
    from minikafka_analytics.analyze import analyze

    folder = tmp_path_factory.mktemp("soak")
    write_soak(folder)
    paths = analyze([folder], folder)
    (run,) = json.loads(paths.json.read_text(encoding="utf-8"))["runs"]
    return Soak(paths.html.read_text(encoding="utf-8"), run)


def test_it_is_not_large(soak: Soak) -> None:
    assert len(soak.run["faults"]) == FAULTS
    assert len(soak.html.encode()) <= LARGEST_BYTES
    assert soak.html.count('<svg class="plot"') == 4 + 2 * charts.MOST_PARTITIONS


def test_plots_come_after_few_rows(soak: Soak) -> None:
    before = soak.html.split('<svg class="plot"')[0]
    assert 2 * MOST_FAULTS < before.count("<tr") <= MOST_BEFORE_PLOTS


def test_faults_are_summed_up_by_kind_first(soak: Soak) -> None:
    struck = faults()
    kinds = {row["name"]: row for row in soak.run["fault_kinds"]}
    names = {"Kill": "kill -9", "PowerLoss": "power loss", "Pause": "pause", "Terminate": "clean stop"}
    assert {name: row["faults"] for name, row in kinds.items()} == {
        name: sum(fault.verb == verb for fault in struck) for verb, name in names.items()
    }
    pauses = sorted(fault.ended + 0.3 - fault.began for fault in struck if fault.verb == "Pause")
    told = kinds["pause"]["full_isr"]
    assert told["of"] == len(pauses)
    assert told["max"] == pytest.approx(pauses[-1], abs=2e-3)
    assert told["p50"] == pytest.approx(pauses[-(-len(pauses) // 2) - 1], abs=2e-3)
    assert soak.html.index('<table class="kinds">') < soak.html.index("The faults that took longest")


def test_what_a_table_leaves_out_is_counted(soak: Soak) -> None:
    assert f"The first {charts.MOST_LOST} of {LOST}; report.json has" in soak.html
    assert f"The slowest {MOST_FAULTS} of {FAULTS}; report.json has all." in soak.html
    changes = sum(not change["first"] for change in soak.run["isr_changes"])
    later = sum(term["previous_leader"] is not None for term in soak.run["elections"])
    back = sum(not row["clean"] for row in soak.run["returns"])
    for among in (changes, later, back, len(soak.run["truncations"])):
        assert f"The first {MOST_ROWS} of {among:,}; report.json has all." in soak.html
    for table in re.findall(r"<table.*?</table>", soak.html, re.DOTALL):
        assert table.count("<tr") <= MOST_ROWS + 4


def test_no_type_is_smaller_than_can_be_read_on_a_phone(soak: Soak) -> None:
    """Words in a plot are not scaled (test_plots), so their size is what the style says; `em` is of 12.5 pixels at least."""
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8")
    sizes = [float(size) for size in re.findall(r"font(?:-size)?: (?:\d+ )?([\d.]+)px", style)]
    assert len(sizes) > 10
    assert min(sizes) >= SMALLEST_TYPE
    assert min(float(size) for size in re.findall(r"font-size: ([\d.]+)em", style)) * 12.5 >= SMALLEST_TYPE
    assert not re.findall(r"font-size=|style=\"[^\"]*font", soak.html)


def test_lost_records_lead_to_their_moments(soak: Soak) -> None:
    for number in range(1, charts.MOST_LOST + 1):
        assert f'<a href="#A-lost-{number}"' in soak.html
        assert soak.html.count(f'<svg class="mark" id="A-lost-{number}"') == 1


def test_ids_are_of_one_thing_each(soak: Soak) -> None:
    ids = re.findall(r' id="([^"]+)"', soak.html)
    assert len(ids) == len(set(ids))
