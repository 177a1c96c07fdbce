"""A matrix as a page: one heat map for each measure, then every number. HTML that needs nothing else and has no script."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from minikafka_chaos.matrix.measures import wilson
from minikafka_chaos.matrix.report import (
    MatrixReport,
    MeasuredShare,
    ReportedAxis,
    ReportedCell,
    ReportedMeasure,
    interval,
    percent,
    zero_means,
)

FILE_NAME = "matrix.html"
HEATS = (0.01, 0.05, 0.10, 0.25, 0.50, 0.75)
"""Above each of these shares the next colour begins: finer where things are rare."""
ROW_HEAD_SHARE = 0.36
"""Of a heat map's width: the heads of its rows, where they are long."""
ROW_HEAD_LETTERS_MAX = 14
LETTER_PX = 8
"""Heads of rows that take so many letters together have their own width, so that none of them breaks on a phone."""


def page(report: MatrixReport) -> str:
    """The page of a matrix."""
    style = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Durability matrix: {escape(report.name)}</title><style>{style}</style></head><body><main>",
            *_head(report),
            *itertools.chain.from_iterable(_heat_maps(report, measure) for measure in report.measures),
            *_key(),
            *_numbers(report),
            *_faults(report),
            *_settings(report),
            "</main></body></html>\n",
        ]
    )


def _head(report: MatrixReport) -> Iterator[str]:
    last = report.first_seed + report.seeds - 1
    yield f"<h1>Durability matrix: {escape(report.name)}</h1>"
    possible = sum(cell.impossible is None for cell in report.cells)
    yield (
        f'<p class="soft">{possible:,} combinations of settings, {report.seeds:,} seeds each ({report.first_seed} to {last}), '
        f"on the {escape(report.ground)} ground</p>"
    )
    if report.description:
        yield f"<p>{escape(report.description)}</p>"
    yield (
        "<p>Each number is the share of runs that showed it. A seed draws the same faults in every combination, and every "
        "verdict is found from what clients were told and from the replicas' logs.</p>"
    )
    yield f'<p class="note">{escape(zero_means(report.seeds, wilson(0, report.seeds).high))}</p>'


# -- heat maps -----------------------------------------------------------------------------------------------------------


def _heat_maps(report: MatrixReport, measure: ReportedMeasure) -> Iterator[str]:
    yield f'<section id="{measure.name}"><h2>{escape(measure.title)}</h2>'
    yield f'<p class="note">{escape(measure.meaning)}</p><div class="blocks">'
    columns = [axis for axis in report.axes if axis.side == "Columns"]
    if len(columns) > 1:
        # The first of them makes blocks: beside each other on a wide screen, below each other on a narrow one.
        for value in columns[0].values:
            yield from _block(report, measure, {columns[0].name: value}, columns[1:])
    else:
        yield from _block(report, measure, {}, columns)
    yield "</div></section>"


def _block(
    report: MatrixReport, measure: ReportedMeasure, fixed: dict[str, str], columns: Sequence[ReportedAxis]
) -> Iterator[str]:
    rows = [axis for axis in report.axes if axis.side == "Rows"]
    cells = {tuple(cell.values): cell for cell in report.cells}
    across = list(itertools.product(*(axis.values for axis in columns)))
    title = ", ".join(f"{name}: {value}" for name, value in fixed.items())
    top = (
        f'<span class="soft">across: {escape(", then ".join(axis.name for axis in columns))}</span>' if columns else ""
    )
    yield f'<div class="block"><h3>{escape(title)} {top}</h3><table class="heat">'
    yield f"<colgroup>{_widths(rows, len(across))}</colgroup><thead>"
    yield from _column_heads(rows, columns, across)
    yield "</thead><tbody>"
    down = list(itertools.product(*(axis.values for axis in rows)))
    known = [values for values in down if _possible(report, cells, rows, values, columns, across, fixed)]
    before: tuple[str, ...] = ()
    for index, values in enumerate(known):
        first = index > 0 and values[:1] != before[:1]
        yield f"<tr{' class=first' if first else ''}>{''.join(_row_heads(known, index, before))}"
        for column in across:
            chosen = {**fixed, **_named(rows, values), **_named(columns, column)}
            yield _cell(cells[tuple(chosen[axis.name] for axis in report.axes)], measure)
        yield "</tr>"
        before = values
    yield "</tbody></table></div>"


def _named(axes: Sequence[ReportedAxis], values: Sequence[str]) -> dict[str, str]:
    return {axis.name: value for axis, value in zip(axes, values, strict=True)}


def _possible(
    report: MatrixReport,
    cells: dict[tuple[str, ...], ReportedCell],
    rows: Sequence[ReportedAxis],
    values: Sequence[str],
    columns: Sequence[ReportedAxis],
    across: Sequence[Sequence[str]],
    fixed: dict[str, str],
) -> bool:
    """Return whether any cell of a row is possible; the others are named below."""
    found = ({**fixed, **_named(rows, values), **_named(columns, column)} for column in across)
    return any(cells[tuple(chosen[axis.name] for axis in report.axes)].impossible is None for chosen in found)


def _widths(rows: Sequence[ReportedAxis], columns: int) -> str:
    """Heads as wide as their longest value or word where that is narrow, else a share of the whole."""
    wanted = [max(map(len, (*axis.values, *axis.name.split()))) for axis in rows]
    total = sum(wanted)
    if total <= ROW_HEAD_LETTERS_MAX:
        heads = "".join(f'<col style="width:{width * LETTER_PX + 6}px">' for width in wanted)
        return heads + "<col>" * columns
    return (
        "".join(f'<col style="width:{100 * ROW_HEAD_SHARE * width / total:.1f}%">' for width in wanted)
        + "<col>" * columns
    )


def _column_heads(
    rows: Sequence[ReportedAxis], columns: Sequence[ReportedAxis], across: Sequence[Sequence[str]]
) -> Iterator[str]:
    for level, axis in enumerate(columns):
        heads = []
        if level == len(columns) - 1:
            heads += [f'<th class="axis">{escape(row.name)}</th>' for row in rows]
        elif rows:
            heads.append(f'<th class="axis" colspan="{len(rows)}"></th>')
        for values, group in itertools.groupby(across, key=lambda column: column[: level + 1]):
            named = f"{axis.name} {values[-1]}"
            heads.append(f'<th colspan="{len(list(group))}" title="{escape(named)}">{escape(values[-1])}</th>')
        yield f"<tr>{''.join(heads)}</tr>"
    if not columns:
        yield f"<tr>{''.join(f'<th class=axis>{escape(row.name)}</th>' for row in rows)}<th></th></tr>"


def _row_heads(rows: Sequence[tuple[str, ...]], index: int, before: tuple[str, ...]) -> Iterator[str]:
    values = rows[index]
    for level, value in enumerate(values):
        if before[: level + 1] != values[: level + 1]:
            same = sum(row[: level + 1] == values[: level + 1] for row in rows[index:])
            yield f'<th rowspan="{same}" scope="rowgroup">{escape(value)}</th>'


def _cell(cell: ReportedCell, measure: ReportedMeasure) -> str:
    if cell.impossible is not None:
        return f'<td class="left" title="{escape(f"{cell.name}: {cell.impossible}")}">·</td>'
    measured = cell.measures[measure.name]
    return f'<td class="{heat(measured)}" title="{escape(_tip(cell, measured))}">{escape(percent(measured.share))}</td>'


def heat(measured: MeasuredShare) -> str:
    """The class of a cell's colour: `none`, `zero`, `h1` to `h7`."""
    if measured.share is None:
        return "none"
    if not measured.number:
        return "zero"
    return f"h{1 + sum(measured.share > limit for limit in HEATS)}"


def _tip(cell: ReportedCell, measured: MeasuredShare) -> str:
    if measured.share is None:
        return f"{cell.name}: cannot be told"
    drawn = ", ".join(f"{name} {number}" for name, number in measured.by_faults.items())
    text = f"{cell.name}: {measured.number} of {measured.trials} ({interval(measured)} %)"
    return text + (f"; {drawn}" if drawn else "")


def _key() -> Iterator[str]:
    limits = [0.0, *HEATS, 1.0]
    yield '<ul class="key"><li><i class="zero"></i>none found</li>'
    for number, (low, high) in enumerate(itertools.pairwise(limits), 1):
        yield f'<li><i class="h{number}"></i>{"above " if low == 0 else f"{low * 100:g} to "}{0 if low == 0 else high * 100:g}'
        yield f"{f' to {high * 100:g}' if low == 0 else ''} %</li>"
    yield "<li>– cannot be told</li><li>· no combination of its own</li></ul>"


# -- numbers -------------------------------------------------------------------------------------------------------------


def _numbers(report: MatrixReport) -> Iterator[str]:
    yield '<h2 id="numbers">Every number</h2>'
    yield (
        f'<p class="note">Trials that show it, of those that could tell; Wilson\'s {report.confidence:.0%} interval in percent.'
        " Trials are independent draws; the records of one trial are not, so that the shares on the right have none.</p>"
    )
    heads = "".join(f"<th>{escape(axis.name)}</th>" for axis in report.axes)
    heads += "".join(f'<th class="r">{escape(measure.title)}</th>' for measure in report.measures)
    heads += '<th class="r">sends not acknowledged</th><th class="r">lost of acknowledged</th><th class="r">unknown and gone</th>'
    yield f'<div class="scroll"><table class="all"><thead><tr>{heads}</tr></thead><tbody>'
    for cell in report.cells:
        if cell.impossible is not None:
            continue
        values = "".join(f"<td>{escape(value)}</td>" for value in cell.values)
        figures = "".join(f'<td class="r">{_counted(cell.measures[each.name])}</td>' for each in report.measures)
        lost = f"{cell.lost_records:,} of {cell.acknowledged:,}" if cell.acknowledged else "–"
        shares = f"{cell.unacknowledged_share * 100:.1f} %", lost, f"{cell.unknown_gone_share * 100:.1f} %"
        yield f"<tr>{values}{figures}{''.join(f'<td class=r>{each}</td>' for each in shares)}</tr>"
    yield "</tbody></table></div>"
    reasons = sorted({cell.impossible for cell in report.cells if cell.impossible})
    for reason in reasons:
        number = sum(cell.impossible == reason for cell in report.cells)
        yield f'<p class="note">Left out: {number} combinations, because {escape(reason)}.</p>'


def _counted(measured: MeasuredShare) -> str:
    if measured.share is None:
        return "–"
    return f'{measured.number} of {measured.trials} <span class="soft">({interval(measured)})</span>'


def _faults(report: MatrixReport) -> Iterator[str]:
    yield '<h2 id="faults">The faults</h2><p class="note">Each seed draws one of these. The shares above are shares of this mix: '
    yield "another mix has others.</p>"
    yield '<div class="scroll"><table class="all">'
    yield '<thead><tr><th>faults</th><th class="r">seeds</th><th>what happens</th></tr></thead>'
    for mix in report.faults:
        text = f"{mix.description} (left out: {mix.left_out})" if mix.left_out else mix.description
        yield f'<tr><td>{escape(mix.name)}</td><td class="r">{mix.seeds:,}</td><td class="wrap">{escape(text)}</td></tr>'
    yield "</table></div>"


def _settings(report: MatrixReport) -> Iterator[str]:
    yield '<h2 id="settings">The settings</h2><div class="scroll"><table class="all"><thead>'
    yield "<tr><th>axis</th><th>value</th><th>sets</th></tr></thead>"
    for axis in report.axes:
        for value, settings in zip(axis.values, axis.settings, strict=True):
            text = ", ".join(f"{name}={setting}" for name, setting in settings.items())
            yield f'<tr><td>{escape(axis.name)}</td><td>{escape(value)}</td><td class="wrap">{escape(text)}</td></tr>'
    yield "</table></div>"
    yield (
        f'<p class="note">Made by `minikafka chaos matrix` from the document {report.document_digest} with the code '
        f"{report.code_digest}: the same document, seeds and code give the same numbers on the simulation ground.</p>"
    )
