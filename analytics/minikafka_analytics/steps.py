"""Steps of an analysis: tables that several questions start from, computed once, landed as Parquet and read back.

A cached table lives in executors, and a checkpointed one there only: with the executor it is gone, and the job with it. Files
stay. A table that is read back also has no plan below it, and planning a query costs more than running it on a small run.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import DataFrame


class Steps:
    """A folder of landed steps, gone at the end of a `with` block. It has to lie where all executors can write and read."""

    def __init__(self, parent: Path) -> None:
        self._folder = parent / f"steps-{uuid.uuid4().hex[:12]}"

    def __enter__(self) -> Steps:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def land(self, name: str, frame: DataFrame) -> DataFrame:
        """Compute `frame` now, and give it as read from where it was written. A name may be used once."""
        path = str(self._folder / name)
        frame.write.parquet(path)
        return frame.sparkSession.read.schema(frame.schema).parquet(path)
