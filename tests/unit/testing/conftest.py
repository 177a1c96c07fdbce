"""A pytest within pytest forgets the modules that it has imported, and some cannot be imported twice by a process.

DuckDB's are such, and those of cryptography.
"""

import minikafka.testing.cluster  # noqa: F401
import minikafka_operator.security.certificates  # noqa: F401
