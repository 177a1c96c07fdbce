"""A pytest within pytest forgets the modules that it has imported, and some cannot be imported twice by a process.

DuckDB's are such, and those of cryptography.
"""

import minikafka.security.certificates
import minikafka.testing.cluster  # noqa: F401
