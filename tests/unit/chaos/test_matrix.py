"""Durability matrices: the document, its cells, what is counted and how sure that is, the results file, table and page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from minikafka_chaos.errors import BadScenario, ToolTrouble
from minikafka_chaos.matrix import page, report, table
from minikafka_chaos.matrix.document import Matrix, load_matrix, parse_matrix
from minikafka_chaos.matrix.measures import Measure, Z, summary, wilson
from minikafka_chaos.matrix.results import FILE_NAME, Results, document_digest
from minikafka_chaos.matrix.trials import Trial, TrialTask
from minikafka_chaos.scenario import library
from rich.console import Console

NAMES = ("durability", "five-ways")


def axis(name: str, setting: str, *values: str, side: str = "Rows") -> dict[str, Any]:
    return {
        "name": name,
        "side": side,
        "values": [{"name": value, "set": [{"name": setting, "value": value}]} for value in values],
    }


def document(**changes: Any) -> dict[str, Any]:
    calm = {"name": "calm", "wait": {"conditions": [{"type": "Elapsed", "seconds": 1}]}}
    kill = {"name": "strike", "fault": {"verb": "Kill", "target": {"type": "Any"}}}
    return {
        "apiVersion": "minikafka.dev/v1alpha1",
        "kind": "DurabilityMatrix",
        "metadata": {"name": "test"},
        "spec": {
            "axes": [
                axis("acks", "workload.acks", "All", "Leader"),
                axis("RF", "topics.t.replicationFactor", "1", "2"),
                axis("min ISR", "min.insync.replicas", "1", "2"),
                axis("unclean", "unclean.leader.election.enable", "false", "true", side="Columns"),
            ],
            "faults": [{"name": "none", "steps": [calm]}, {"name": "kill", "weight": 3, "steps": [calm, kill]}],
            "experiment": {"topics": [{"name": "t"}], "workload": {"topic": "t"}},
            **changes,
        },
    }


def matrix(**changes: Any) -> Matrix:
    return parse_matrix(json.dumps(document(**changes)))


def trial(cell: int = 0, seed: int = 1, **figures: Any) -> Trial:
    made: dict[str, Any] = {
        "cell": cell,
        "seed": seed,
        "faults": "kill",
        "verdict": "Passed",
        "told": True,
        "sent": 100,
        "acknowledged": 90,
        "failed": 0,
        "unknown": 10,
        "unknown_but_there": 4,
        "lost": 0,
        "duplicated": 0,
        "divergent": 0,
        "longest_gap_s": 0.5,
        "errors": {},
    }
    return Trial(**{**made, **figures})


# -- the document --------------------------------------------------------------------------------------------------------


def test_cells_are_all_combinations_and_each_is_a_scenario_with_its_settings() -> None:
    made = matrix()
    assert len(made.cells) == 16
    cell = made.cell("unclean=true, RF=2,min ISR=2, acks=Leader")
    assert cell.values == ("Leader", "2", "2", "true")
    scenario = made.scenario(cell, 1)
    assert scenario.spec.workload.acks.kafka == "1"
    assert scenario.spec.topics[0].replication_factor == 2
    config = {entry.name: entry.value for entry in scenario.spec.cluster.config}
    assert config == {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}
    assert [step.name for step in scenario.spec.steps] == ["calm", "strike"]


def test_more_in_sync_replicas_than_replicas_are_no_cell_and_say_why() -> None:
    made = matrix()
    impossible = [cell for cell in made.cells if cell.impossible is not None]
    assert {cell.values[1:3] for cell in impossible} == {("1", "2")}
    assert impossible[0].impossible == "min.insync.replicas 2 is above the replication factor 1, and counts as 1"
    assert len(made.possible) == 12
    with pytest.raises(BadScenario, match=r"impossible: min\.insync\.replicas 2 is above"):
        made.cell("acks=All,RF=1,min ISR=2,unclean=true")


def test_a_topics_own_minimum_counts_before_the_brokers() -> None:
    topics = [{"name": "t", "replicationFactor": 2, "config": [{"name": "min.insync.replicas", "value": "3"}]}]
    axes = [axis("acks", "workload.acks", "All")]
    experiment = {"topics": topics, "workload": {"topic": "t"}}
    with pytest.raises(BadScenario, match=r"every cell is impossible: min\.insync\.replicas 3 is above"):
        matrix(axes=axes, experiment=experiment)


@pytest.mark.slow
def test_a_seed_draws_the_same_faults_in_every_cell_and_heavier_ones_more_often() -> None:
    made = matrix()
    drawn = [made.drawn(seed) for seed in range(1, 1001)]
    again = matrix()
    assert drawn == [again.drawn(seed) for seed in range(1, 1001)]
    assert 650 < drawn.count(1) < 850


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"axes": []}, "spec.axes: List should have at least 1 item"),
        ({"axes": [axis("a", "workload.acks", "All"), axis("a", "rounds", "1")]}, "axes: the name a is used twice"),
        ({"axes": [axis("a", "workload.acks", "All", "All")]}, "axis a: the name All is used twice"),
        (
            {"axes": [axis("a", "workload.acks", "All"), axis("b", "workload.acks", "Leader")]},
            "axes: a and b both set workload.acks",
        ),
        (
            {"axes": [{"name": "a", "values": [{"name": "v", "set": [{"name": "rounds", "value": "1"}] * 2}]}]},
            "axis a: v: set: the name rounds is used twice",
        ),
        ({"axes": [axis("a", "workload.acks", "Some")]}, "cell a=Some: spec.workload.acks: 'Some' is not"),
        ({"axes": [axis("a", "no.such.key", "1")]}, "cell a=1: spec: cluster.config: no.such.key"),
        ({"axes": [axis("a", "topics.u.partitions", "1")]}, "nothing is named u"),
        ({"axes": [axis("a,b", "rounds", "1")]}, "spec.axes.0.name"),
        ({"seeds": 0}, "spec.seeds: Input should be greater than or equal to 1"),
        ({"sides": 0}, "spec.sides: unknown field; did you mean seeds?"),
        ({"faults": []}, "spec.faults: List should have at least 1 item"),
        ({"faults": [{"name": "f", "steps": []}]}, "spec.faults.0.steps: List should have at least 1 item"),
    ],
)
def test_bad_documents_are_told_in_a_line_with_the_field(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(BadScenario) as refused:
        matrix(**changes)
    assert told in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        (
            "steps",
            [{"name": "x", "wait": {"conditions": [{"type": "FullIsr", "topic": "t"}]}}],
            "has its steps in faults",
        ),
        ("expect", [{"verdict": "Passed"}], "counts what is found and expects nothing"),
        ("workload", {"topic": "t", "mode": "Scripted"}, "counts a steady load; allowed: Steady"),
    ],
)
def test_an_experiment_of_a_matrix_has_neither_steps_nor_expectations(field: str, value: Any, told: str) -> None:
    with pytest.raises(BadScenario, match=told):
        matrix(experiment={"topics": [{"name": "t"}], "workload": {"topic": "t"}, field: value})


def test_too_many_cells_are_refused() -> None:
    axes = [axis(name, "workload.keys", *map(str, range(1, 12))) for name in "abc"]
    with pytest.raises(BadScenario, match="1,331 cells, allowed: at most 1,000"):
        matrix(axes=axes)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_matrices_that_come_along_are_right(name: str) -> None:
    made = load_matrix(library.matrix_path(name))
    assert made.name == name
    assert len(made.possible) == {"five-ways": 5, "durability": 180}[name]


@pytest.mark.slow
def test_the_two_have_the_same_faults_and_load() -> None:
    first, second = (load_matrix(library.matrix_path(name)).spec for name in NAMES)
    assert first.faults == second.faults
    assert first.experiment == second.experiment
    assert first.unavailable_after_millis == second.unavailable_after_millis


def test_an_unknown_matrix_is_told_with_those_there_are() -> None:
    with pytest.raises(BadScenario, match="no matrix of that name; allowed: a file, or durability, five-ways"):
        library.matrix_path("durabilty")


# -- what is counted -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "trials"), [(0, 200), (200, 200), (1, 10), (5, 10), (30, 200), (1, 1), (999, 1000)])
def test_wilsons_interval_ends_where_the_score_test_just_holds(number: int, trials: int) -> None:
    """Its definition: the shares p for which |found - p| <= z * sqrt(p * (1 - p) / n)."""
    found = wilson(number, trials)
    assert found.share == number / trials
    assert 0 <= found.low <= found.share <= found.high <= 1
    for end in {found.low, found.high} - {0.0, 1.0}:
        assert (found.share - end) ** 2 == pytest.approx(Z**2 * end * (1 - end) / trials)


def test_none_of_200_is_up_to_two_percent() -> None:
    assert wilson(0, 200).low == 0.0
    assert wilson(0, 200).high == pytest.approx(0.01885, abs=1e-5)
    assert wilson(200, 200) == (200, 200, pytest.approx(1 - wilson(0, 200).high), 1.0)


def test_no_trials_say_nothing() -> None:
    assert wilson(0, 0) == (0, 0, 0.0, 1.0)
    assert wilson(0, 0).share is None


def test_trials_are_counted_by_what_they_could_tell() -> None:
    untold = {"told": False, "verdict": "Inconclusive"}
    trials = [
        trial(seed=1),
        trial(seed=2, lost=7, longest_gap_s=5.1, faults="blackout"),
        trial(seed=3, **untold, longest_gap_s=20.0),
        trial(seed=4, **untold, duplicated=2),
    ]
    found = summary(trials, 5.0)
    assert found.shares[Measure.LOSS][:2] == (1, 2)
    assert found.shares[Measure.DUPLICATION][:2] == (1, 3)  # one that was found was found
    assert found.shares[Measure.UNAVAILABILITY][:2] == (2, 4)
    assert found.shares[Measure.DIVERGENCE][:2] == (0, 2)
    assert found.first_seeds == {Measure.LOSS: 2, Measure.DUPLICATION: 4, Measure.UNAVAILABILITY: 2}
    assert dict(found.by_faults[Measure.LOSS]) == {"blackout": 1}
    assert (found.lost_records, found.acknowledged) == (7, 360)
    assert found.unacknowledged_share == 0.1
    assert found.unknown_gone_share == 0.6


def test_without_acknowledgements_there_is_neither_loss_nor_unavailability_to_tell() -> None:
    found = summary([trial(acknowledged=0, unknown=100, unknown_but_there=80)], 5.0)
    assert found.shares[Measure.LOSS].share is None
    assert found.shares[Measure.UNAVAILABILITY].share is None
    assert found.shares[Measure.DUPLICATION].share == 0.0
    assert found.unknown_gone_share == 0.2


# -- results on disk -------------------------------------------------------------------------------------------------------

HEADER = {"name": "test", "document": "1", "code": "2"}


def test_results_go_on_where_they_were_and_a_torn_line_is_done_again(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    with Results(path, HEADER) as results:
        results.add(trial(0, 1))
        results.add(trial(0, 2, lost=3))
    with path.open("a") as file:
        file.write('{"cell": 0, "seed": 3, "ver')
    with Results(path, HEADER) as results:
        assert results.trials == {TrialTask(0, 1): trial(0, 1), TrialTask(0, 2): trial(0, 2, lost=3)}
        results.add(trial(0, 3))
    assert len(path.read_text().splitlines()) == 4
    with Results(path, HEADER) as results:
        assert set(results.trials) == {TrialTask(0, 1), TrialTask(0, 2), TrialTask(0, 3)}


@pytest.mark.parametrize("field", HEADER)
def test_results_of_another_matrix_or_of_other_code_are_not_mixed(tmp_path: Path, field: str) -> None:
    path = tmp_path / FILE_NAME
    with Results(path, HEADER) as results:
        results.add(trial())
    before = path.read_text()
    with pytest.raises(BadScenario, match=f"results of another matrix .{field} .*; give another --out"):
        Results(path, {**HEADER, field: "other"}).__enter__()
    assert path.read_text() == before


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text("no json\n")
    with pytest.raises(BadScenario, match="not the results of a matrix"):
        Results(path, HEADER).__enter__()


def test_two_runs_cannot_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    with Results(path, HEADER), pytest.raises(ToolTrouble, match="another run of this matrix goes on"):
        Results(path, HEADER).__enter__()


def test_how_many_seeds_are_asked_for_does_not_make_another_document() -> None:
    def digest(**changes: Any) -> str:
        return document_digest(matrix(**changes).document.model_dump(mode="json", by_alias=True))

    assert digest() == digest(seeds=7, description="other words")
    assert digest() != digest(unavailableAfterMillis=1)


# -- report, table, page ---------------------------------------------------------------------------------------------------


@pytest.fixture
def result() -> report.MatrixReport:
    made = matrix()
    trials = [
        trial(cell.number, seed, lost=int(seed % (3 + cell.number) == 0))
        for cell in made.possible
        for seed in range(1, 41)
    ]
    header = {"ground": "simulation", "document": "1", "code": "2"}
    return report.report(made, range(1, 41), trials, header, {"none": "the processes ground cannot Cut <it>"})


def test_the_report_is_valid_by_its_own_schema(result: report.MatrixReport) -> None:
    again = report.MatrixReport.model_validate_json(result.model_dump_json())
    assert again == result
    cell = next(cell for cell in result.cells if cell.impossible is None)
    loss = cell.measures["loss"]
    assert (loss.number, loss.trials, loss.share, loss.first_seed) == (13, 40, 0.325, 3)
    assert (loss.low, loss.high) == tuple(round(each, 6) for each in wilson(13, 40)[2:])
    assert sum(mix.seeds for mix in result.faults) == 40


def test_the_table_names_every_cell_and_what_was_left_out(result: report.MatrixReport) -> None:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    table.print_report(console, result)
    text = console.export_text()
    assert sum(line.startswith("│") for line in text.splitlines()) == 12
    assert "32% (20.1 to 48.0)" in text
    assert "0 of 40 trials is compatible with up to 8.8 % of them" in text
    assert "left out: 4 cells, because min.insync.replicas 2 is above the replication factor 1" in text
    assert "left out: faults none" in text


def test_the_page_has_a_heat_map_of_each_measure_and_needs_nothing_else(result: report.MatrixReport) -> None:
    html = page.page(result)
    assert html.count('<table class="heat">') == len(Measure)
    assert html.count('class="h') >= 12
    assert "cannot Cut &lt;it&gt;" in html
    assert "<script" not in html and "http" not in html.replace("http-equiv", "")
    for measure in Measure:
        assert f'id="{measure.value}"' in html


@pytest.mark.parametrize(
    ("share", "told"),
    [(None, "–"), (0.0, "0"), (0.001, "<1%"), (0.011, "1%"), (0.5, "50%"), (0.995, ">99%"), (1.0, "100%")],
)
def test_nothing_but_nothing_is_told_as_0(share: float | None, told: str) -> None:
    assert report.percent(share) == told
