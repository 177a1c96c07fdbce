"""A matrix on the terminal."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from minikafka_chaos.matrix.measures import wilson
from minikafka_chaos.matrix.report import MatrixReport, MeasuredShare, ReportedCell, interval, percent, zero_means


def print_report(console: Console, report: MatrixReport) -> None:
    """The table of all cells, what was left out, and what the numbers mean."""
    table = Table(title=f"{escape(report.name)} on {report.ground}, seeds {report.first_seed} to {_last(report)}")
    for axis in report.axes:
        table.add_column(escape(axis.name))
    table.add_column("trials", justify="right")
    for measure in report.measures:
        table.add_column(escape(measure.title.lower()), justify="right", no_wrap=True)
    table.add_column("not acked", justify="right")
    before: list[str] = []
    for cell in report.cells:
        if cell.impossible is None:
            values = [escape(value) for value in cell.values]
            table.add_row(*_changed(values, before), str(cell.trials), *_figures(report, cell), _not_acked(cell))
            before = values
    console.print(table)
    console.print(
        f"Shares of trials in percent, with Wilson's {report.confidence:.0%} interval; [dim]–[/] cannot be told. "
        "Not acked: share of all sends that were refused or got no answer."
    )
    console.print(zero_means(report.seeds, wilson(0, report.seeds).high))
    for reason, number in Counter(cell.impossible for cell in report.cells if cell.impossible).items():
        console.print(f"left out: {number} cell{'s' if number > 1 else ''}, because {escape(reason)}")
    for mix in report.faults:
        if mix.left_out is not None:
            console.print(f"left out: faults {mix.name} ({mix.seeds} seeds): {escape(mix.left_out)}")


def _last(report: MatrixReport) -> int:
    return report.first_seed + report.seeds - 1


def _changed(values: list[str], before: list[str]) -> list[str]:
    """The values of a row without those that it has in common with the one above, from the left."""
    for index, value in enumerate(values):
        if before[index : index + 1] != [value]:
            return [""] * index + values[index:]
    return values


def _figures(report: MatrixReport, cell: ReportedCell) -> list[str]:
    return [_figure(cell.measures[measure.name]) for measure in report.measures]


def _figure(measured: MeasuredShare) -> str:
    if measured.share is None:
        return "[dim]–[/]"
    colour = "green" if not measured.number else "red" if measured.share >= 0.1 else "yellow"
    return f"[{colour}]{percent(measured.share)}[/] [dim]({interval(measured)})[/]"


def _not_acked(cell: ReportedCell) -> str:
    return f"{cell.unacknowledged_share * 100:.1f}"
