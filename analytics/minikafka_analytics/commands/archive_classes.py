"""Makes the class archive of Spark's JVM where there is none, by analysing a run of a few lines.

`make demo` and `make full` begin with `python -m minikafka_analytics.commands.archive_classes`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from minikafka_analytics.analyze import analyze
from minikafka_analytics.commands.tiny_run import write_tiny_run
from minikafka_analytics.spark.archive import archive_of
from minikafka_analytics.spark.failures import SparkFailed
from minikafka_analytics.spark.java import JavaMissing, find_java
from minikafka_analytics.spark.jvm import SparkDidNotStart


def main() -> int:
    """Exit code 0 also where no archive can be made: an analysis runs without."""
    try:
        if not archive_of(find_java()).is_file():
            print("starting Spark once, so that its classes are at hand from now on (some 20 s)", flush=True)
            with tempfile.TemporaryDirectory(prefix="minikafka-archive-") as scratch:
                analyze([write_tiny_run(Path(scratch) / "run")], Path(scratch) / "out")
    except JavaMissing:
        pass  # the analysis says so, where there is one
    except (SparkDidNotStart, SparkFailed, OSError) as error:
        print(f"Spark's classes were not archived: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
