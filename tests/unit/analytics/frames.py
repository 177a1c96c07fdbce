"""Tables of a few rows for Spark, made of JSON: rows that Python makes go through a Python worker, which takes seconds."""

from __future__ import annotations

import json
from typing import Any


def frame(spark: Any, schema: str, *rows: dict[str, Any]) -> Any:
    """A table of rows that may leave columns out."""
    array = f"from_json(:rows, 'ARRAY<STRUCT<{schema}>>', map('mode', 'FAILFAST'))"
    return spark.sql(f"SELECT inline({array})", {"rows": json.dumps(rows)})


def shape(spark: Any, schema: str) -> list[tuple[str, str]]:
    """Name and type of the columns of a schema."""
    found: list[tuple[str, str]] = frame(spark, schema).dtypes
    return found
