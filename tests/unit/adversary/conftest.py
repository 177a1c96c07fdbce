"""Makes ``tests.adversary`` importable: pytest's importlib mode leaves sys.path alone."""

import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]

if str(REPOSITORY) not in sys.path:
    sys.path.insert(0, str(REPOSITORY))
