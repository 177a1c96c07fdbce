"""Steps of an analysis: tables that several questions start from, computed once, landed as Parquet and read back.

A cached table lives in executors, and a checkpointed one there only: with the executor it is gone, and the job with it. Files
stay. A table that is read back also has no plan below it, and planning a query costs more than running it on a small run.
Where driver and executor are one process, there is no executor to lose: of a small run the rows then stay in its memory.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minikafka.local.scratch import ScratchFolder

from minikafka_analytics.spark.settings import is_one_process
from minikafka_analytics.spark.sql import forget, name
from minikafka_analytics.storage.paths import reader, uri
from minikafka_analytics.storage.stores import Place, remove

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import DataFrame

PREFIX = "steps-"
FEW = 1_000
"""Rows of a step that stay with the driver instead of being landed. They are in every plan that reads the step."""


class Steps:
    """A folder of landed steps, gone at the end of a `with` block. It has to lie where all executors can write and read.

    `small`: what is analysed is small by the size of its files. Then tables are read as one partition, for shuffles between tasks
    cost more than the second core gains, few rows are not landed at all, and in a Spark of one process no step is.
    """

    def __init__(self, parent: Place, small: bool = False) -> None:
        parent = parent.resolve()
        # A store has no locks that tell who is alive: what is left there stays.
        self._scratch = ScratchFolder(parent, PREFIX) if isinstance(parent, Path) else None
        self._folder = self._scratch.path if self._scratch else parent / f"{PREFIX}{uuid.uuid4().hex[:12]}"
        self._small = small
        self._named: list[DataFrame] = []

    def __enter__(self) -> Steps:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(Exception):  # Spark may have died, which is what is being raised
            forget(self._named)
        if self._scratch:
            self._scratch.remove()
            return
        with suppress(Exception):
            remove(self._folder)

    def land(self, step: str, frame: DataFrame, few: bool = False) -> DataFrame:
        """Compute `frame` now, and give it as read from where it was written. `step` may be used once.

        `few`: of a small run it has few rows as a rule; where that holds they are kept by the driver, which no analysis survives
        anyway. So are all rows of a small run where the driver is the only process; what does not fit into memory goes to disk.
        """
        kept = _with_driver(frame) if few and self._small else None
        if kept is not None:
            return self.whole(kept)
        spark = frame.sparkSession
        if self._small and is_one_process(str(spark.sparkContext.master)):
            return self._name(frame.localCheckpoint())
        path = self._folder / step
        frame.write.parquet(uri(spark, path))
        read, names = reader(spark, [path])
        return self.whole(read.schema(frame.schema).parquet(*names))

    def whole(self, frame: DataFrame) -> DataFrame:
        """A table that was read: in one partition when the run is small, so that nothing after it is shuffled."""
        return self._name(frame.coalesce(1) if self._small else frame)

    def _name(self, frame: DataFrame) -> DataFrame:
        name(frame)
        self._named.append(frame)
        return frame


def _with_driver(frame: DataFrame) -> DataFrame | None:
    """The rows of `frame` as a local relation, or None when they are not few.

    By way of the JVM's own objects: Spark hands rows that Python made to a Python worker.
    """
    from pyspark.sql import DataFrame as Made

    spark: Any = frame.sparkSession
    java: Any = frame._jdf
    rows = java.limit(FEW + 1).collectAsList()
    if rows.size() > FEW:
        return None
    return Made(spark._jsparkSession.createDataFrame(rows, java.schema()), spark)
