"""CRC-32C (RFC 3720), the checksum of record batches: by the package crc32c, of which only the C part is loaded.

Its `__init__` asks importlib.metadata which version it has, and nobody reads the answer: 6 % of what an idle broker holds.
"""

from __future__ import annotations

import importlib.util
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crc32c import crc32c
else:
    _PACKAGE = importlib.util.find_spec("crc32c")
    _SPEC = PathFinder.find_spec("crc32c._crc32c", _PACKAGE.submodule_search_locations)
    _MODULE = importlib.util.module_from_spec(_SPEC)
    _SPEC.loader.exec_module(_MODULE)
    crc32c = _MODULE.crc32c

__all__ = ["crc32c"]
