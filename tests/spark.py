"""One Spark session for all the tests of a process: starting its JVM, and its first analysis, take most of what Spark costs.

Fixtures, for the modules and conftests that import them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def java() -> None:
    """Skips where there is no Java, in the words of the product."""
    from minikafka_analytics.spark.java import JavaMissing, find_java

    try:
        find_java()
    except JavaMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def spark(java: None) -> Iterator[object]:
    """A session that every analysis in this process is lent, whichever module asks for it first; its JVM ends with it."""
    from minikafka_analytics.spark.session import spark_session
    from pyspark import SparkContext

    lent = SparkContext._gateway is not None
    with spark_session("local[2]") as session:
        process = getattr(SparkContext._gateway, "proc").pid  # noqa: B009
        yield session
    assert lent or not Path(f"/proc/{process}").exists(), "the JVM is still there"
