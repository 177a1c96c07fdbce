"""The result of a matrix as a document: `matrix.json`, from which table and page are made. Its schema is published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from minikafka_chaos.matrix.document import Matrix
from minikafka_chaos.matrix.measures import CONFIDENCE, MEASURES, CellSummary, summary
from minikafka_chaos.matrix.trials import Trial

FILE_NAME = "matrix.json"
Ratio = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MeasuredShare(_Part):
    """A measure in one cell: `number` of the `trials` that could tell show it; `share` is null when none could tell."""

    number: Count
    trials: Count
    share: Ratio | None
    low: Ratio
    high: Ratio
    first_seed: int | None
    """The first seed that shows it."""
    by_faults: dict[str, int]
    """Mix of faults -> how many of those trials drew it."""


class ReportedCell(_Part):
    """One combination of settings. An impossible one has its reason, and no figures."""

    name: str
    values: list[str]
    """One for each axis, in the order of the axes."""
    impossible: str | None
    trials: Count
    measures: dict[str, MeasuredShare]
    acknowledged: Count
    lost_records: Count
    """Acknowledged records that were gone, of all trials; how many a trial loses depends on its load."""
    unacknowledged_share: Ratio
    """Of all sends: refused, or without an answer."""
    unknown_gone_share: Ratio
    """Of the sends without an outcome, those that are not in the log: with acks=0 all that can be said."""


class ReportedAxis(_Part):
    """An axis and its values."""

    name: str
    side: Literal["Rows", "Columns"]
    values: list[str]
    settings: list[dict[str, str]]
    """What each value sets."""


class ReportedFaults(_Part):
    """A mix of faults, and how many of the seeds drew it."""

    name: str
    description: str
    weight: int
    seeds: Count
    left_out: str | None
    """Why its seeds were not run on this ground."""


class ReportedMeasure(_Part):
    """What is measured, in words."""

    name: str
    title: str
    meaning: str


class MatrixReport(_Part):
    """All of a matrix's result. The same document, seeds and code give the same report on the simulation ground."""

    kind: Literal["DurabilityMatrixReport"] = "DurabilityMatrixReport"
    name: str
    description: str
    ground: str
    document_digest: str
    code_digest: str
    first_seed: int
    seeds: Count
    confidence: Ratio = CONFIDENCE
    """Of the intervals `low` to `high` (Wilson's score interval, two-sided)."""
    unavailable_after_millis: int
    axes: list[ReportedAxis]
    faults: list[ReportedFaults]
    measures: list[ReportedMeasure]
    cells: list[ReportedCell]


def report(
    matrix: Matrix, seeds: range, trials: Sequence[Trial], header: dict[str, str], left_out: dict[str, str]
) -> MatrixReport:
    """Count the trials of these seeds. `left_out`: mixes of faults that the ground cannot do, and why."""
    spec = matrix.spec
    limit_s = spec.unavailable_after_millis / 1000
    of_cell: dict[int, list[Trial]] = {}
    for trial in trials:
        of_cell.setdefault(trial.cell, []).append(trial)
    drawn = Counter(spec.faults[matrix.drawn(seed)].name for seed in seeds)
    return MatrixReport(
        name=matrix.name,
        description=" ".join(spec.description.split()),
        ground=header["ground"],
        document_digest=header["document"],
        code_digest=header["code"],
        first_seed=seeds.start,
        seeds=len(seeds),
        unavailable_after_millis=spec.unavailable_after_millis,
        axes=[
            ReportedAxis(
                name=axis.name,
                side=axis.side,
                values=[value.name for value in axis.values],
                settings=[{entry.name: entry.value for entry in value.set} for value in axis.values],
            )
            for axis in spec.axes
        ],
        faults=[
            ReportedFaults(
                name=mix.name,
                description=" ".join(mix.description.split()),
                weight=mix.weight,
                seeds=drawn[mix.name],
                left_out=left_out.get(mix.name),
            )
            for mix in spec.faults
        ],
        measures=[
            ReportedMeasure(
                name=measure.value, title=definition.title, meaning=definition.meaning.format(limit=f"{limit_s:g} s")
            )
            for measure, definition in MEASURES.items()
        ],
        cells=[
            _cell(cell.name, cell.values, cell.impossible, summary(of_cell.get(cell.number, []), limit_s))
            for cell in matrix.cells
        ],
    )


def _cell(name: str, values: Sequence[str], impossible: str | None, counted: CellSummary) -> ReportedCell:
    measures = {
        measure.value: MeasuredShare(
            number=share.number,
            trials=share.trials,
            share=_rounded(share.share),
            low=round(share.low, 6),
            high=round(share.high, 6),
            first_seed=counted.first_seeds.get(measure),
            by_faults=dict(sorted(counted.by_faults[measure].items())),
        )
        for measure, share in counted.shares.items()
    }
    return ReportedCell(
        name=name,
        values=list(values),
        impossible=impossible,
        trials=counted.trials,
        measures={} if impossible else measures,
        acknowledged=counted.acknowledged,
        lost_records=counted.lost_records,
        unacknowledged_share=round(counted.unacknowledged_share, 6),
        unknown_gone_share=round(counted.unknown_gone_share, 6),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


# -- in words ------------------------------------------------------------------------------------------------------------


def percent(share: float | None) -> str:
    """A share for people: nothing but 0 is `0`, nothing but all is `100%`."""
    if share is None:
        return "–"
    if share in (0, 1):
        return "100%" if share else "0"
    if share < 0.01:
        return "<1%"
    return ">99%" if share > 0.99 else f"{share * 100:.0f}%"


def interval(measured: MeasuredShare) -> str:
    """Wilson's interval for people: `0 to 1.9`, in percent."""
    return f"{measured.low * 100:.1f} to {measured.high * 100:.1f}"


def zero_means(trials: int, high: float) -> str:
    """Return what 0 of N says, and what it does not."""
    return (
        f"0 of {trials:,} trials is compatible with up to {high * 100:.2g} % of them (95 % confidence, Wilson): fewer than that "
        "under these faults and this load, not never."
    )
