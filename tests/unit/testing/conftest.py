"""A pytest within pytest forgets the modules that it has imported, and DuckDB's cannot be imported twice by a process."""

import minikafka.testing.cluster  # noqa: F401
