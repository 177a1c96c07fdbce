"""Loads kio's base types without hypothesis, for which kio registers strategies wherever it is installed.

Whoever tests a service has it installed, and every broker and command that the tests start would import it: 0.3 of the 0.65 CPU
seconds that a start takes. A process that has loaded hypothesis itself keeps it, and gets kio's strategies.
"""

from __future__ import annotations

import sys

if "hypothesis" in sys.modules:
    import kio.static.primitive
else:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # as the import system has it: not to be found
    try:
        import kio.static.primitive  # noqa: F401
    finally:
        del sys.modules["hypothesis"]
