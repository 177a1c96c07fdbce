"""Lands the JSON lines of runs as typed Parquet, and reads them back.

A run is written while brokers are being killed, so a file may end in the middle of a line, hold a line of another program,
or be missing. None of that stops the landing: a line that is not what the contract says is kept, as text, in the column
`malformed`, and counted; everything that can be read is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minikafka_analytics.run_folder import RunFolder
from minikafka_analytics.schemas import EVENT_FIELDS, EVENTS, INTS, METRICS_READ, SAMPLES, UP, Landed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

A_TIME = "line.time BETWEEN 0 AND 1e11"  # unix seconds up to the year 5138: milliseconds are no time of a run
PLAIN_LABELS = r"""^\{"[^"\\]*":"[^"\\]*"(?:,"[^"\\]*":"[^"\\]*"){0,30}+\}$"""
# A parser of JSON for each of a scrape's hundreds of samples takes longer than all else that is done to them.
A_LABEL = r"""'"([^"\\]*)":"([^"\\]*)"'"""
# `str_to_map` would load ICU's collation tables, which takes longer than all labels do.
LABELS = (
    f"IF(label RLIKE r'{PLAIN_LABELS}', "
    f"map_from_arrays(regexp_extract_all(label, r{A_LABEL}, 1), regexp_extract_all(label, r{A_LABEL}, 2)), "
    "from_json(label, 'MAP<STRING, STRING>'))"
)
OF_NO_TEXT = "'-', '{', '[', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'"
PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")  # Spark escapes other names of folders
LONGEST_MALFORMED_TEXT = 500  # characters kept of a line that cannot be read: enough to recognise it


def land(spark: SparkSession, runs: Sequence[RunFolder], table: Landed, out: Path) -> DataFrame:
    """Writes `out/<table>/run=<id>/` for each run, and gives the table as read back from there."""
    found, folder = typed(spark, runs, table), out / table.name
    if len(runs) == 1 and PLAIN_NAME.fullmatch(runs[0].id):
        # Where `partitionBy` would write it, without finding the folder of each row.
        found.drop("run").write.mode("overwrite").parquet(str(folder / f"run={runs[0].id}"))
    else:
        found.write.mode("overwrite").partitionBy("run").parquet(str(folder))
    return load(spark, runs, table, out)


def load(spark: SparkSession, runs: Sequence[RunFolder], table: Landed, out: Path) -> DataFrame:
    """The landed table, only these runs of it, with the schema declared rather than guessed from the files."""
    wanted = [run.id for run in runs]
    frame = spark.read.schema(schema_of(table)).parquet(str(out / table.name))
    return frame.where(frame["run"].isin(wanted))


def schema_of(table: Landed) -> str:
    """The landed schema as DDL, in the order of the Parquet columns."""
    return ", ".join(f"`{name}` {kind}" for name, kind in _landed(table).items())


def _landed(table: Landed) -> dict[str, str]:
    columns = {"seq": "BIGINT", "time": "DOUBLE", "at": "TIMESTAMP", **table.columns}
    if table is EVENTS:
        columns |= {name: "ARRAY<INT>" if kind is INTS else kind for name, kind in EVENT_FIELDS.items()}
    return {**columns, "malformed": "STRING", "run": "STRING"}


def typed(spark: SparkSession, runs: Sequence[RunFolder], table: Landed) -> DataFrame:
    """The lines of one table of all runs, parsed and typed, not yet written."""
    parsed = _lines(spark, runs, table).selectExpr(
        "run",
        "place",
        "text",
        f"from_json(text, '{table.line}, _corrupt STRING', map('mode', 'PERMISSIVE', "
        "'columnNameOfCorruptRecord', '_corrupt', 'allowSingleQuotes', 'false', 'allowNonNumericNumbers', 'false')) AS line",
    )
    a_time = A_TIME if table.timed else f"(line.time IS NULL OR {A_TIME})"
    bad = f"line IS NULL OR line._corrupt IS NOT NULL OR NOT coalesce({a_time} AND {table.must}, false) {_not_whole(table)}"
    # garbage would make the Parquet files unreadable to others than Spark
    malformed = f"IF({{bad}}, left(make_valid_utf8(text), {LONGEST_MALFORMED_TEXT}), NULL) AS malformed"
    seq = "coalesce(line.seq, place) AS seq" if "seq BIGINT" in table.line else "place AS seq"
    if table.typed:
        return _typed(parsed, table, seq, malformed.format(bad=bad))
    parsed = parsed.selectExpr("*", f"{bad} AS bad")
    common = [
        "run",
        seq,
        "IF(bad, NULL, line.time) AS time",
        "IF(bad, NULL, timestamp_micros(CAST(line.time * 1e6 AS BIGINT))) AS at",
        malformed.format(bad="bad"),
    ]
    if table is SAMPLES:
        frame = _samples(parsed, common)
    elif table is EVENTS:
        fields = [f"{_event_field(name, kind)} AS {name}" for name, kind in EVENT_FIELDS.items()]
        frame = parsed.selectExpr(*common, *_columns(table), *fields)
    else:
        frame = parsed.selectExpr(*common, *_columns(table, without={"body"}), "IF(bad, NULL, text) AS body")
    return frame.select(*_landed(table))


def _typed(parsed: DataFrame, table: Landed, seq: str, malformed: str) -> DataFrame:
    """The tables with most lines: each line's object is taken apart once, for Spark copies it with every projection."""
    columns = [
        "line.seq IS NOT NULL AS numbered" if name == "numbered" else f"line.`{name}` AS `{name}`"
        for name in table.columns  # what is malformed is left out by its own column
    ]
    flat = parsed.selectExpr("run", seq, "line.time AS told", *columns, malformed)
    kept = [f"`{name}`" for name in _landed(table) if name not in ("time", "at")]
    times = [
        "IF(malformed IS NULL, told, NULL) AS time",
        "IF(malformed IS NULL, timestamp_micros(CAST(told * 1e6 AS BIGINT)), NULL) AS at",
    ]
    return flat.selectExpr(*kept, *times).select(*_landed(table))


def _not_whole(table: Landed) -> str:
    """What Spark's parser lets pass, and no line of evidence may be: words or a second object behind the first, bytes that are
    no text, a number or an object where a string belongs."""
    if not table.judged:
        return ""
    texts = "|".join(table.texts)
    # What `from_json` made text of begins like a number, an object or an array, or is true or false; only a line with such a text
    # is searched, for that takes longer than its parsing.
    firsts = (f"left(line.{name}, 1) IN ({OF_NO_TEXT}) OR line.{name} IN ('true', 'false')" for name in table.texts)
    doubtful = f"coalesce({' OR '.join(firsts)}, false)"
    not_text = f'OR ({doubtful} AND text RLIKE \'"({texts})"[ \\t]*:[ \\t]*[^"n \\t]\')' if table.texts else ""
    # An object whose one closing brace is the last letter has nothing behind it; the others are read a second time.
    one = "(instr(text, '}') = length(text) OR coalesce(json_array_length(concat('[', text, ']')) = 1, false))"
    # `is_valid_utf8` looks its method up for each line where expressions are interpreted.
    return f"OR NOT {one} OR try_validate_utf8(text) IS NULL {not_text}"


def _lines(spark: SparkSession, runs: Sequence[RunFolder], table: Landed) -> DataFrame:
    """Non-empty lines with the run's id and their order in the file: one read, however many runs and files there are.

    A file is read whole by its path, whatever is in its name, and its path tells the run.
    """
    from pyspark.sql import functions as F

    files = [(run, path) for run in runs for path in run.files(table.name)]
    if not files:
        return spark.sql("SELECT '' AS run, CAST(0 AS BIGINT) AS place, '' AS text WHERE false")
    text = spark.read.text([_literally(path) for _, path in files]).where("trim(value) <> ''")
    place, line = F.monotonically_increasing_id().alias("place"), F.col("value").alias("text")
    if len(runs) == 1:  # without a file's path, which would be made for each line
        return text.select(F.lit(runs[0].id).alias("run"), place, line)
    lines = text.select(F.col("_metadata.file_path").alias("path"), place, line)
    java: Any = spark.sparkContext._jvm
    to_uri = java.org.apache.hadoop.fs.Path  # how Spark names the file in `_metadata`
    names = [{"path": to_uri(f"file:{path}").toUri().toString(), "run": run.id} for run, path in files]
    # As text, for a table that is made of Python's rows starts a Python worker.
    named = spark.sql(
        "SELECT inline(from_json(:files, 'ARRAY<STRUCT<path: STRING, run: STRING>>'))", {"files": json.dumps(names)}
    )
    return lines.join(F.broadcast(named), "path").select("run", "place", "text")


def _literally(path: Path) -> str:
    """A path in which Hadoop finds no pattern to expand."""
    return "file://" + "".join("\\" + letter if letter in r"[]{}*?\\" else letter for letter in str(path))


def _columns(table: Landed, without: frozenset[str] | set[str] = frozenset()) -> list[str]:
    return [
        f"IF(bad, NULL, {_cast('line.' + name, name, kind)}) AS {name}"
        for name, kind in table.columns.items()
        if name not in without
    ]


def _cast(expression: str, name: str, kind: str) -> str:
    if kind == "STRING":
        return expression
    if name in {"broker", "process"}:  # 2, "2" and "broker-2" are the same broker
        return f"CAST(regexp_extract({expression}, '(-?[0-9]+)$', 1) AS {kind})"
    return f"CAST({expression} AS {kind})"


def _event_field(name: str, kind: str) -> str:
    found = f"get_json_object(line.fields, '$.{name}')"
    if kind is INTS:  # written as 2 or as [2, 3]
        return (
            f"IF(bad OR {found} IS NULL, NULL, "
            f"transform(regexp_extract_all({found}, '(-?[0-9]+)', 1), each -> CAST(each AS INT)))"
        )
    return f"IF(bad, NULL, CAST({found} AS {kind}))"


def _samples(parsed: DataFrame, common: list[str]) -> DataFrame:
    """One row a sample of a metric that is read, and one row `up` a scrape: 1 when it was answered, 0 when it was not."""
    read = ", ".join(f"'{metric}'" for metric in METRICS_READ)
    up = (
        f"array(array('{UP}', IF(line.error IS NULL, '{{}}', to_json(map('error', line.error))), "
        "IF(line.error IS NULL, '1', '0')))"
    )
    each = (
        parsed.selectExpr(
            *common,
            f"IF(bad, NULL, {_cast('line.broker', 'broker', 'INT')}) AS broker",
            f"explode(IF(bad, array(array(NULL, NULL, NULL)), concat({up}, "
            f"filter(coalesce(line.samples, array()), each -> get(each, 0) IN ({read}))))) AS sample",
        )
        .selectExpr("*", "get(sample, 1) AS label")
        .selectExpr("*", f"{LABELS} AS labels")
    )
    return each.selectExpr(
        "run",
        "seq",
        "time",
        "at",
        "malformed",
        "broker",
        "get(sample, 0) AS metric",
        "labels",
        "labels['topic'] AS topic",
        "CAST(labels['partition'] AS INT) AS partition",
        "CAST(get(sample, 2) AS DOUBLE) AS value",
    )
