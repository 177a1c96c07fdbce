"""Tells what is wrong with a document in a line: where in the file, which field, and what was probably meant."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator, Sequence
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

PROBLEMS_MAX = 3

Path = tuple[str | int, ...]


class Lines:
    """Where each field of a YAML document is."""

    def __init__(self, root: yaml.Node) -> None:
        self._lines: dict[Path, int] = {}
        self._walk(root, ())

    def _walk(self, node: yaml.Node, path: Path) -> None:
        self._lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                self._lines[(*path, str(key.value))] = key.start_mark.line + 1
                self._walk(value, (*path, str(key.value)))
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                self._walk(value, (*path, index))

    def of(self, path: Path) -> int:
        """The line of a field; of what it would be in where it is not there."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)


def explain(error: ValidationError, model: type[BaseModel], lines: Lines | None = None, origin: str = "") -> str:
    """The first few things that are wrong: file and line, field, what is wrong, what was given or meant."""
    problems = error.errors()
    sentences = [_sentence(problem, model, lines, origin) for problem in problems[:PROBLEMS_MAX]]
    more = len(problems) - len(sentences)
    return "; ".join(sentences) + (f"; and {more} more" if more > 0 else "")


def _sentence(problem: ErrorDetails, model: type[BaseModel], lines: Lines | None, origin: str) -> str:
    path, owners = _in_document(problem["loc"], model)
    message = problem["msg"].removeprefix("Value error, ")
    given = problem.get("input")
    if problem["type"] == "extra_forbidden":
        names = sorted({_field_name(owner, name) for owner in owners for name in owner.model_fields})
        message = f"unknown field{_meant(str(path[-1]), names)}"
    elif problem["type"] in ("enum", "literal_error"):
        allowed = [word.strip("'") for word in problem["ctx"]["expected"].replace(" or ", ", ").split(", ")]
        near = _meant(str(given), allowed)
        message = f"{given!r} is not allowed{near if near.startswith('; did') else '; allowed: ' + ', '.join(allowed)}"
    elif isinstance(given, str | int | float):
        message += f" (given: {given!r})"
    where = f"{origin}:{lines.of(path)}: " if lines is not None else f"{origin}: " if origin else ""
    field = ".".join(map(str, path))
    return f"{where}{field}: {message}" if field else f"{where}{message}"


def _meant(word: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else f"; allowed: {', '.join(names)}"


def _in_document(loc: Sequence[str | int], model: type[BaseModel]) -> tuple[Path, list[type[BaseModel]]]:
    """The path in the document (pydantic's own steps left out), and the models that its last field may belong to."""
    path: list[str | int] = []
    owners: list[type[BaseModel]] = [model]
    models = owners
    for step in loc:
        if isinstance(step, int):
            path.append(step)
            continue
        fields = [
            field for owner in models for name, field in owner.model_fields.items() if _field_name(owner, name) == step
        ]
        if fields:
            path.append(step)
            owners, models = models, [found for field in fields for found in _models(field.annotation)]
        elif step == loc[-1] and not any(step == owner.__name__ for owner in models):
            path.append(step)
            owners = models
        elif narrowed := [each for each in models if step in (each.__name__, *_tags(each))]:
            models = narrowed
    return tuple(part for part in path if part != "function-after"), owners


def _tags(model: type[BaseModel]) -> Iterator[str]:
    """The words by which a member of a union is known: the values of its `type`."""
    field = model.model_fields.get("type")
    if field is not None:
        yield from (str(getattr(word, "value", word)) for word in get_args(field.annotation))


def _field_name(model: type[BaseModel], name: str) -> str:
    return model.model_fields[name].alias or name


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (Union, types.UnionType) or get_args(annotation):
        for part in get_args(annotation):
            yield from _models(part)
