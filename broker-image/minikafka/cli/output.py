"""How data is printed: JSON in one form for every subcommand, tables for people."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

_WIDTH_MAX = 10_000


def print_json(value: Any) -> None:
    """One JSON document on one line of standard output, flushed."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, separators=(", ", ": ")) + "\n")
    sys.stdout.flush()


def text_or_base64(name: str, raw: bytes | None) -> dict[str, str | None]:
    """Bytes as JSON has them: text, or, when they are not UTF-8, ``NAME_base64`` with NAME null."""
    if raw is None:
        return {name: None}
    try:
        return {name: raw.decode()}
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": base64.b64encode(raw).decode()}


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """A plain table: numbers to the right, ``-`` for None. A column whose name begins with ``#`` holds numbers."""
    table = new_table(columns)
    for row in rows:
        table.add_row(*map(shown, row))
    if title is not None:
        print_rich(title)
    print_rich(table)


def new_table(columns: Sequence[str]) -> Any:
    """A rich table with these columns, without rows."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column.removeprefix("#"), justify="right" if column.startswith("#") else "left", no_wrap=True)
    return table


def shown(cell: object) -> str:
    """A table's cell: ``-`` for None."""
    return "-" if cell is None else str(cell)


def print_rich(*renderables: Any) -> None:
    """Print with colours on a terminal, plain elsewhere. Never cuts anything off: a terminal wraps what is too wide."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(highlight=False, markup=False)
    for renderable in renderables:
        width = Measurement.get(console, console.options.update(max_width=_WIDTH_MAX), renderable).maximum
        console.width = max(width, 1)
        console.print(renderable)


def shown_ids(ids: Iterable[int]) -> str:
    """Broker ids with commas."""
    return ",".join(map(str, ids))
