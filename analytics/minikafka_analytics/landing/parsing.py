"""Lines of a run's files as typed rows of the tables in `schemas`: the one place that says which line is bad, and why.

A run is written while brokers are being killed, so a file may end in the middle of a line, hold a line of another program,
or be missing. None of that stops anything: a line that is not what the contract says is marked, and everything that can be read
is read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from minikafka_analytics.landing.run_folder import RunFolder
from minikafka_analytics.landing.schemas import EVENT_FIELDS, EVENTS, INTS, METRICS_READ, SAMPLES, UP, Landed, Reason
from minikafka_analytics.storage.paths import read_as, reader
from minikafka_analytics.storage.stores import Place, below

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
HALF_A_PAIR = (
    r"(instr(text, r'\u') > 0 AND "
    r"regexp_replace(text, r'\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}', '') RLIKE r'\\u[dD][89a-fA-F]')"
)
"""Half a surrogate pair, which JSON can say and no text has: what is left of its escapes without backslashes and whole pairs."""
OF_NO_TEXT = "'-', '{', '[', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'"
A_TIMESTAMP = "timestamp_micros(CAST({} * 1e6 AS BIGINT))"
LONGEST_TEXT = 500  # characters kept of a line that cannot be read: enough to recognise it
PART_BITS = 33
"""Of `monotonically_increasing_id`: the bits above are the number of the part, those below count its lines."""
FILE_BITS = 48  # above the places of 32,768 parts of a file: lines of several files of a table keep an order


class Source(NamedTuple):
    """A file of a run. `place`: which it is among the run's files of its table, for the order of lines in several of them."""

    run: str
    name: str
    path: Place
    place: int


def sources(run: RunFolder, table: Landed) -> list[Source]:
    """The files of a run that are landed as this table, each named as in the run's folder."""
    found = enumerate(run.files(table.name))
    return [Source(run.id, below(path, run.path), path, place) for place, path in found]


def columns_of(table: Landed) -> dict[str, str]:
    """Name and SQL type of what is landed, in the order of the Parquet columns; `run` and `file` are the names of folders."""
    columns = {"seq": "BIGINT", "time": "DOUBLE", "at": "TIMESTAMP", **table.columns}
    if table is EVENTS:
        columns |= {name: "ARRAY<INT>" if kind is INTS else kind for name, kind in EVENT_FIELDS.items()}
    return columns


def typed(spark: SparkSession, files: Sequence[Source], table: Landed) -> DataFrame:
    """Every line of these files as a row: the table's columns, `run`, `place` (of the line in its file), and whether it is `bad`.

    Of a bad line the other columns mean nothing. A scrape is as many rows as it has samples.
    """
    parsed = _parsed(_lines(spark, files), table)
    seq = "coalesce(line.seq, nth) AS seq" if "seq BIGINT" in table.line else "nth AS seq"
    bad = f"{_bad(table)} AS bad"
    if table.typed:
        return _typed(parsed, table, seq, bad)
    common = ["run", "place", "bad", seq, "line.time AS time", f"{A_TIMESTAMP.format('line.time')} AS at"]
    parsed = parsed.selectExpr("*", bad)
    if table is SAMPLES:
        frame = _samples(parsed, common)
    elif table is EVENTS:
        fields = [f"{_event_field(name, kind)} AS {name}" for name, kind in EVENT_FIELDS.items()]
        frame = parsed.selectExpr(*common, *_columns(table), *fields)
    else:
        frame = parsed.selectExpr(*common, *_columns(table, without={"body"}), "text AS body")
    return frame.select(*columns_of(table), "run", "place", "bad")


def refused(spark: SparkSession, source: Source, table: Landed, places: tuple[int, int]) -> DataFrame:
    """The bad lines of one file: (line, reason, text). `places`: the first and the last that is bad; no other is parsed.

    `line` counts from 1, `reason` is one of `schemas.Reason`, and `text` is cut.
    """
    text, (first, last) = _text(spark, [source]), places
    parsed = _parsed(text.where(f"place BETWEEN {first} AND {last} AND trim(text) <> ''"), table)
    return parsed.where(_bad(table)).selectExpr(
        f"{_number(text, last)} AS line",
        f"{_reason(table)} AS reason",
        # garbage would make the Parquet files unreadable to others than Spark
        f"left(make_valid_utf8(text), {LONGEST_TEXT}) AS text",
    )


def _number(text: DataFrame, last: int) -> str:
    """Return what makes a line's number of its place. Where Spark reads a file in several parts, their lines are counted."""
    from pyspark.sql import functions as F

    if not last >> PART_BITS:
        return "place + 1"
    counted = text.groupBy(F.expr(f"shiftright(place, {PART_BITS})").alias("part")).agg(F.count("*").alias("lines"))
    lines = {row["part"]: row["lines"] for row in counted.collect()}
    before = accumulate((lines.get(part, 0) for part in range(max(lines))), initial=1)
    cases = " ".join(f"WHEN {part} THEN {number}" for part, number in enumerate(before))
    return f"place % {1 << PART_BITS}L + CASE shiftright(place, {PART_BITS}) {cases} END"


def _parsed(lines: DataFrame, table: Landed) -> DataFrame:
    return lines.selectExpr(
        "*",
        f"from_json(text, '{table.line}, _corrupt STRING', map('mode', 'PERMISSIVE', "
        "'columnNameOfCorruptRecord', '_corrupt', 'allowSingleQuotes', 'false', 'allowNonNumericNumbers', 'false')) AS line",
    )


def _bad(table: Landed) -> str:
    """The condition that makes a line a bad one."""
    a_time = A_TIME if table.timed else f"(line.time IS NULL OR {A_TIME})"
    return f"(line IS NULL OR line._corrupt IS NOT NULL OR NOT coalesce({a_time} AND {table.must}, false) {_not_whole(table)})"


def _reason(table: Landed) -> str:
    """Return which of `schemas.Reason` a bad line is; asked of bad lines only."""
    objects = "json_array_length(concat('[', text, ']'))"
    more_opened = "length(replace(text, '}', '')) > length(replace(text, '{', ''))"
    another_type = f"line._corrupt IS NOT NULL {_not_text(table)}"
    return (
        f"CASE WHEN try_validate_utf8(text) IS NULL OR {HALF_A_PAIR} THEN '{Reason.NOT_TEXT}' "
        f"WHEN {objects} IS NULL AND ltrim(text) LIKE '{{%' AND {more_opened} THEN '{Reason.TRUNCATED}' "
        f"WHEN coalesce({objects}, 0) <> 1 OR NOT ltrim(text) LIKE '{{%' THEN '{Reason.FOREIGN}' "
        f"WHEN {another_type} THEN '{Reason.WRONG_TYPE}' ELSE '{Reason.OUT_OF_BOUNDS}' END"
    )


def _typed(parsed: DataFrame, table: Landed, seq: str, bad: str) -> DataFrame:
    """The tables with most lines: each line's object is taken apart once, for Spark copies it with every projection."""
    columns = [
        "line.seq IS NOT NULL AS numbered" if name == "numbered" else f"line.`{name}` AS `{name}`"
        for name in table.columns
    ]
    flat = parsed.selectExpr("run", "place", seq, "line.time AS time", *columns, bad)
    kept = (*columns_of(table), "run", "place", "bad")
    return flat.selectExpr(*(f"{A_TIMESTAMP.format('time')} AS at" if name == "at" else f"`{name}`" for name in kept))


def _not_whole(table: Landed) -> str:
    """What Spark's parser lets pass, and no line of evidence may be: words or a second object behind the first, bytes that are
    no text, a number or an object where a string belongs. Of other tables' lines, which are longer, a second object is looked for
    by how writers begin one."""
    if not table.judged:
        one = "(right(rtrim(text), 1) = '}' AND (instr(substr(text, 2), '{\"time\":') = 0"
        one += " OR coalesce(json_array_length(concat('[', text, ']')) = 1, false)))"
        return f"OR NOT {one} OR try_validate_utf8(text) IS NULL"
    # An object whose one closing brace is the last letter has nothing behind it; the others are read a second time.
    one = "(instr(text, '}') = length(text) OR coalesce(json_array_length(concat('[', text, ']')) = 1, false))"
    # `is_valid_utf8` looks its method up for each line where expressions are interpreted.
    return f"OR NOT {one} OR try_validate_utf8(text) IS NULL OR {HALF_A_PAIR} {_not_text(table)}"


def _not_text(table: Landed) -> str:
    """A number or an object where a string belongs, which Spark's parser makes text of."""
    if not table.texts:
        return ""
    texts = "|".join(table.texts)
    # What `from_json` made text of begins like a number, an object or an array, or is true or false; only a line with such a text
    # is searched, for that takes longer than its parsing.
    firsts = (f"left(line.{name}, 1) IN ({OF_NO_TEXT}) OR line.{name} IN ('true', 'false')" for name in table.texts)
    doubtful = f"coalesce({' OR '.join(firsts)}, false)"
    return f'OR ({doubtful} AND text RLIKE \'"({texts})"[ \\t]*:[ \\t]*[^"n \\t]\')'


def _lines(spark: SparkSession, files: Sequence[Source]) -> DataFrame:
    """Lines that are not blank, with the run's id, their place in what is read and `nth`, their order among the run's.

    One read, however many runs and files there are. A file is read whole by its path, whatever is in its name, and its path tells
    the run.
    """
    from pyspark.sql import functions as F

    if not files:
        return spark.sql("SELECT '' AS run, 0L AS place, 0L AS nth, '' AS text WHERE false")
    blank = "trim(text) <> ''"
    if len({each.run for each in files}) == 1:  # without a file's path, which would be made for each line
        first = files[0].place << FILE_BITS
        return (
            _text(spark, files)
            .where(blank)
            .select("*", F.expr(f"place + {first}L AS nth"), F.lit(files[0].run).alias("run"))
        )
    lines = _text(spark, files, "_metadata.file_path AS path").where(blank)
    names = [{"path": read_as(spark, each.path), "run": each.run} for each in files]
    # As text, for a table that is made of Python's rows starts a Python worker.
    named = spark.sql(
        "SELECT inline(from_json(:files, 'ARRAY<STRUCT<path: STRING, run: STRING>>'))", {"files": json.dumps(names)}
    )
    return lines.join(F.broadcast(named), "path").selectExpr("run", "place", "place AS nth", "text")


def _text(spark: SparkSession, files: Sequence[Source], *more: str) -> DataFrame:
    """All lines with their place: of one file it counts from 0, in the first of the parts in which Spark reads it."""
    read, names = reader(spark, [each.path for each in files])
    return read.text(names).selectExpr("monotonically_increasing_id() AS place", "value AS text", *more)


def _columns(table: Landed, without: frozenset[str] | set[str] = frozenset()) -> list[str]:
    return [
        f"{_cast('line.' + name, name, kind)} AS {name}" for name, kind in table.columns.items() if name not in without
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
            f"IF({found} IS NULL, NULL, "
            f"transform(regexp_extract_all({found}, '(-?[0-9]+)', 1), each -> CAST(each AS INT)))"
        )
    return f"CAST({found} AS {kind})"


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
            f"{_cast('line.broker', 'broker', 'INT')} AS broker",
            f"explode(IF(bad, array(array(NULL, NULL, NULL)), concat({up}, "
            f"filter(coalesce(line.samples, array()), each -> get(each, 0) IN ({read}))))) AS sample",
        )
        .selectExpr("*", "get(sample, 1) AS label")
        .selectExpr("*", f"{LABELS} AS labels")
    )
    return each.selectExpr(
        "run",
        "place",
        "bad",
        "seq",
        "time",
        "at",
        "broker",
        "get(sample, 0) AS metric",
        "labels",
        "labels['topic'] AS topic",
        "CAST(labels['partition'] AS INT) AS partition",
        "CAST(get(sample, 2) AS DOUBLE) AS value",
    )
