"""How Spark is told where folders are: those of this machine by `file://`, or through the driver (`file_server.py`); those in
stores (`stores.py`) by their own names.

Hadoop's client of WebHDFS takes some names for encoded ones and decodes them (`%`, `+`, `;`; HDFS-14323), and Hadoop expands
patterns in names. So there names are spelt in letters that neither minds, the others as `~` and their bytes in hexadecimal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from minikafka_analytics.storage.stores import Place, StorePath, in_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

PREFIX_SETTING: Final = "spark.minikafka.files"
"""Of a Spark session: what stands before a path that driver and executors read; without it `file://`."""
HERE: Final = "file://"
_OF_PATTERNS: Final = r"[]{}*?\\"
_LOOK_FOR_PATTERNS: Final = "__globPaths__"
"""Spark's own option for the paths of tables, which no user of Spark has written as a pattern."""
_SPELT = re.compile(r"[^A-Za-z0-9/._=-]")
_ESCAPE = re.compile(rb"~([0-9A-F]{2})")


def encoded(path: str) -> str:
    """A path as it is spelt where it is served."""
    return _SPELT.sub(lambda found: "".join(f"~{byte:02X}" for byte in os.fsencode(found[0])), path)


def decoded(path: str) -> str:
    """The path of what `encoded` spelt."""
    return os.fsdecode(_ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), os.fsencode(path)))


def prefix(spark: SparkSession) -> str:
    """Return what stands before a path in this session."""
    return str(spark.conf.get(PREFIX_SETTING, HERE))


def uri(spark: SparkSession, path: Place) -> str:
    """A folder for what Hadoop does not look for patterns in."""
    if isinstance(path, StorePath):
        return str(path)
    where = prefix(spark)
    return f"{where}{path if where == HERE else encoded(str(path))}"


def read_as(spark: SparkSession, path: Place) -> str:
    """Return what Spark calls a file in `_metadata.file_path`."""
    if isinstance(path, StorePath):
        return path.listed_as()
    java: Any = spark.sparkContext._jvm
    named = f"file:{path}" if prefix(spark) == HERE else uri(spark, path)
    return str(java.org.apache.hadoop.fs.Path(named).toUri().toString())


def reader(spark: SparkSession, paths: Iterable[Place]) -> tuple[DataFrameReader, list[str]]:
    """A reader, and these paths for it, in which Hadoop finds no pattern to expand.

    Letters of patterns are escaped. But where it looks for patterns Hadoop takes what stands before a colon in a name for a
    scheme (HADOOP-14217), so where a path has both Spark is told not to look. That is not for all, for then it takes as many
    paths as the square of those that have letters of patterns.
    """
    plain = [uri(spark, path) for path in paths]
    if any(":" in name.partition("://")[2] and _has_pattern(name) for name in plain):
        return spark.read.option(_LOOK_FOR_PATTERNS, "false"), plain
    return spark.read, [
        "".join("\\" + letter if letter in _OF_PATTERNS else letter for letter in name) for name in plain
    ]


def _has_pattern(name: str) -> bool:
    return any(letter in name for letter in _OF_PATTERNS)


def with_names(rows: DataFrame, where: Place, *columns: str) -> DataFrame:
    """Columns that Spark made of names in paths below `where` (`run=.../file=...`), with the names as they are.

    Spark decodes what is percent-encoded in them; where they are served that is left to do, below the other spelling.
    """
    from pyspark.sql import functions as F

    if in_store(where) or prefix(rows.sparkSession) == HERE:
        return rows
    plain = {}
    for name in columns:
        on_disk = F.url_decode(F.translate(F.col(name), "~", "%"))
        plain[name] = F.url_decode(F.replace(on_disk, F.lit("+"), F.lit("%2B")))  # a plus is itself in a name
    return rows.withColumns(plain)
