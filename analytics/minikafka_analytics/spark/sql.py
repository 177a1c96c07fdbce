"""SQL over frames by name, as `SparkSession.sql` has it, with frames that many queries read named once.

PySpark makes a view of each frame for each query and drops it again: ninety commands of an analysis, each planned by itself, for
twenty-five different frames.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SqlName:
    """A name that stands in SQL as it is; a `str` would be quoted."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


_heard: ContextVar[list[str] | None] = ContextVar("heard", default=None)
_views: WeakKeyDictionary[DataFrame, SqlName] = WeakKeyDictionary()


def name(frame: DataFrame) -> None:
    """Make a view of a frame that queries will read, until it is forgotten."""
    view = SqlName(f"minikafka_{uuid.uuid4().hex}")
    frame.createOrReplaceTempView(view.name)
    _views[frame] = view


def forget(frames: Iterable[DataFrame]) -> None:
    """Drop the views of these frames."""
    for frame in frames:
        if view := _views.pop(frame, None):
            frame.sparkSession.catalog.dropTempView(view.name)


def query(text: str, **parts: Any) -> DataFrame:
    """The rows that SQL gives; each `{name}` in it is a frame, of which there is one at least, or a literal."""
    from pyspark.sql import DataFrame

    frames = {key: part for key, part in parts.items() if isinstance(part, DataFrame)}
    if (texts := _heard.get()) is not None:
        texts.append(rendered(text, {key: key if key in frames else literal(part) for key, part in parts.items()}))
    views: Any = {key: _views.get(frame, frame) for key, frame in frames.items()}
    return next(iter(frames.values())).sparkSession.sql(text, **{**parts, **views})


@contextmanager
def heard() -> Iterator[list[str]]:
    """The SQL of the queries that are made in a `with` block, for people: frames by their names, literals as they are."""
    texts: list[str] = []
    token = _heard.set(texts)
    try:
        yield texts
    finally:
        _heard.reset(token)


def rendered(text: str, parts: dict[str, str]) -> str:
    """SQL with its parts put in, without the margin it has in the source."""
    return inspect.cleandoc(text).format_map(parts)


def literal(value: object) -> str:
    """A literal of SQL."""
    return "'" + value.replace("'", "\\'") + "'" if isinstance(value, str) else str(value)
