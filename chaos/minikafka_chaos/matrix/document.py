"""A durability matrix as a document: axes of settings, the mix of faults, and the experiment that both are put into.

It keeps to the same conventions as a scenario (`minikafka_chaos.scenario.scenario`), and its `experiment` is a
scenario's spec without steps: what happens is drawn from `faults`, by the seed.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from minikafka.config import BROKER_KEYS
from pydantic import Field, ValidationError, model_validator

from minikafka_chaos.errors import BadScenario
from minikafka_chaos.scenario.document import ConfigEntry, Name, Part, as_config
from minikafka_chaos.scenario.document_files import as_json, one_document, read_text
from minikafka_chaos.scenario.document_lines import explain
from minikafka_chaos.scenario.overrides import apply
from minikafka_chaos.scenario.scenario import Metadata, Mode, Scenario, ScenarioSpec, TopicSpec
from minikafka_chaos.scenario.steps import Step

API_VERSION = "minikafka.dev/v1alpha1"
CELLS_MAX = 1000
"""Of one matrix: more than anyone reads."""
MIN_ISR = "min.insync.replicas"
SPEC_FIELDS = [field.alias or name for name, field in ScenarioSpec.model_fields.items()]


class AxisValue(Part):
    """One value of an axis: `set` are fields of the experiment or settings of the brokers, as `chaos run --set` takes them."""

    name: Annotated[str, Field(pattern=r"^[^,=\s][^,=]*$", max_length=40)]
    set: Annotated[list[ConfigEntry], Field(min_length=1)]


class Axis(Part):
    """What is varied. `rows` axes are read down the side of the heat map, `columns` axes along its top."""

    name: Annotated[str, Field(pattern=r"^[^,=\s][^,=]*$", max_length=40)]
    side: Literal["Rows", "Columns"] = "Rows"
    values: Annotated[list[AxisValue], Field(min_length=1)]

    @model_validator(mode="after")
    def _values_have_names_of_their_own(self) -> Self:
        _refuse_repeated(f"axis {self.name}", [value.name for value in self.values])
        for value in self.values:
            _refuse_repeated(f"axis {self.name}: {value.name}: set", [entry.name for entry in value.set])
        return self

    @property
    def settings(self) -> set[str]:
        """Return what its values set."""
        return {entry.name for value in self.values for entry in value.set}


class FaultMix(Part):
    """Steps that a seed may draw; `weight` says how often beside the others."""

    name: Name
    weight: Annotated[int, Field(ge=1, le=1000)] = 1
    description: str = ""
    steps: Annotated[list[Step], Field(min_length=1)]


class MatrixSpec(Part):
    """The whole matrix. Seeds are `firstSeed` and the `seeds - 1` after it; `--seeds` overrides how many."""

    description: str = ""
    first_seed: Annotated[int, Field(ge=0)] = 1
    seeds: Annotated[int, Field(ge=1, le=1_000_000)] = 200
    unavailable_after_millis: Annotated[int, Field(ge=1, le=3_600_000)] = 5_000
    """A trial counts as unavailable when no send was acknowledged for longer than this."""
    axes: Annotated[list[Axis], Field(min_length=1)]
    faults: Annotated[list[FaultMix], Field(min_length=1)]
    experiment: ScenarioSpec

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        _refuse_repeated("axes", [axis.name for axis in self.axes])
        _refuse_repeated("faults", [mix.name for mix in self.faults])
        if self.experiment.steps:
            raise ValueError("experiment.steps: a matrix has its steps in faults")
        if self.experiment.expect:
            raise ValueError("experiment.expect: a matrix counts what is found and expects nothing")
        if self.experiment.workload.mode is not Mode.STEADY:
            raise ValueError("experiment.workload.mode: a matrix counts a steady load; allowed: Steady")
        cells = math.prod(len(axis.values) for axis in self.axes)
        if cells > CELLS_MAX:
            raise ValueError(f"axes: {cells:,} cells, allowed: at most {CELLS_MAX:,}")
        for axis, other in itertools.combinations(self.axes, 2):
            if both := axis.settings & other.settings:
                raise ValueError(f"axes: {axis.name} and {other.name} both set {min(both)}")
        return self


def _refuse_repeated(where: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{where}: the name {name} is used twice")


class MatrixDocument(Part):
    """The document."""

    api_version: Literal["minikafka.dev/v1alpha1"]
    kind: Literal["DurabilityMatrix"]
    metadata: Metadata
    spec: MatrixSpec


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of settings: a value for each axis, in the order of the axes."""

    number: int
    values: tuple[str, ...]
    name: str
    """`acks=all, min ISR=2`: what `--cell` takes."""
    settings: tuple[str, ...]
    """What it sets, as `chaos run --set` takes it."""
    calm: Scenario
    """The experiment with these settings, without any faults."""
    impossible: str | None
    """Why there is no such cluster: it would be that of another cell."""


class Matrix:
    """A document and the cells that it spans. Raises BadScenario for cells that are no scenario."""

    def __init__(self, document: MatrixDocument) -> None:
        self.document = document
        self.spec = document.spec
        self._experiment = _plain(document.spec.experiment)
        self.cells = list(self._all_cells())
        self.possible = [cell for cell in self.cells if cell.impossible is None]
        self._scenarios: dict[tuple[int, int], Scenario] = {}
        self._check_faults()

    def _all_cells(self) -> Iterator[Cell]:
        axes = self.spec.axes
        for number, values in enumerate(itertools.product(*(axis.values for axis in axes))):
            name = ", ".join(f"{axis.name}={value.name}" for axis, value in zip(axes, values, strict=True))
            settings = tuple(f"{entry.name}={entry.value}" for value in values for entry in value.set)
            calm = self._made(settings, [], name)
            yield Cell(number, tuple(value.name for value in values), name, settings, calm, why_impossible(calm.spec))

    def _check_faults(self) -> None:
        """Steps name brokers, topics and partitions: every mix is tried once with each of the clusters that there are."""
        seen = set()
        for cell in self.possible:
            spec = cell.calm.spec
            shape = (spec.cluster.brokers, tuple((topic.name, topic.partitions) for topic in spec.topics))
            if shape not in seen:
                seen.add(shape)
                for mix in range(len(self.spec.faults)):
                    self.scenario(cell, mix)

    def scenario(self, cell: Cell, mix: int) -> Scenario:
        """Return what is run in a cell when a seed draws the mix of this number. Raises BadScenario."""
        key = (cell.number, mix)
        if key not in self._scenarios:
            faults = self.spec.faults[mix]
            where = f"{cell.name}, faults {faults.name}"
            self._scenarios[key] = self._made(cell.settings, [_plain(step) for step in faults.steps], where)
        return self._scenarios[key]

    def _made(self, settings: Sequence[str], steps: list[Any], where: str) -> Scenario:
        document: dict[str, Any] = {
            "apiVersion": API_VERSION,
            "kind": "ChaosExperiment",
            "metadata": {"name": self.name},
            "spec": copy.deepcopy(self._experiment),
        }
        try:
            apply(document, settings, SPEC_FIELDS)
            document["spec"]["steps"] = steps
            return Scenario.model_validate_json(json.dumps(document))
        except BadScenario as error:
            raise BadScenario(f"cell {where}: {error}") from error
        except ValidationError as error:
            raise BadScenario(f"cell {where}: {explain(error, Scenario)}") from error

    @property
    def name(self) -> str:
        return self.document.metadata.name

    def drawn(self, seed: int) -> int:
        """The number of the mix of faults that a seed draws: the same in every cell."""
        weights = [mix.weight for mix in self.spec.faults]
        return random.Random(f"faults of seed {seed}").choices(range(len(weights)), weights)[0]

    def cell(self, name: str) -> Cell:
        """The cell of this name; blanks after commas and the order of axes do not matter. Raises BadScenario."""
        wanted = {part.strip() for part in name.split(",")}
        for cell in self.cells:
            if wanted == set(cell.name.split(", ")):
                if cell.impossible is not None:
                    raise BadScenario(f"--cell {name}: impossible: {cell.impossible}")
                return cell
        known = "; ".join(f"{axis.name}={'|'.join(value.name for value in axis.values)}" for axis in self.spec.axes)
        raise BadScenario(f"--cell {name}: no such cell; allowed: one value of each axis, separated by commas: {known}")


def load_matrix(path: Path) -> Matrix:
    """Read a matrix file. Raises BadScenario: one line that names the file, the line, the field and what is allowed."""
    return parse_matrix(read_text(path), str(path))


def parse_matrix(text: str, origin: str = "matrix") -> Matrix:
    """Like `load_matrix`, from text."""
    found, lines = one_document(text, origin, "matrix")
    try:
        document = MatrixDocument.model_validate_json(as_json(found, origin))
    except ValidationError as error:
        raise BadScenario(explain(error, MatrixDocument, lines, origin)) from error
    try:
        matrix = Matrix(document)
    except BadScenario as error:
        raise BadScenario(f"{origin}: {error}") from error
    if not matrix.possible:
        raise BadScenario(f"{origin}: spec.axes: every cell is impossible: {matrix.cells[0].impossible}")
    return matrix


def _plain(part: Part) -> dict[str, Any]:
    """A part of a document as it was written."""
    return part.model_dump(mode="json", by_alias=True, exclude_unset=True)


def why_impossible(spec: ScenarioSpec) -> str | None:
    """Return why these settings are none that a cluster can have; None when they are.

    A minimum of more in-sync replicas than there are replicas: a leader counts min(min.insync.replicas, replication factor),
    as Kafka's does (Partition.effectiveMinIsr), so that the cell would measure another one's settings under a wrong name.
    """
    brokers = as_config(spec.cluster.config)
    for topic in spec.topics:
        wanted = (
            as_config(topic.config).get(MIN_ISR) or brokers.get(MIN_ISR) or BROKER_KEYS[MIN_ISR].default_text or "1"
        )
        factor = replication_factor(topic)
        if int(wanted) > factor:
            return f"{MIN_ISR} {wanted} is above the replication factor {factor}, and counts as {factor}"
    return None


def replication_factor(topic: TopicSpec) -> int:
    """The fewest replicas that a partition of the topic has."""
    return min((len(assigned.replicas) for assigned in topic.replica_assignments), default=topic.replication_factor)
