"""One broker among hands, for each test a new one."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
if str(REPOSITORY) not in sys.path:  # for `from tests.interop...`: the importlib import mode leaves sys.path alone
    sys.path.insert(0, str(REPOSITORY))

from tests.unit.wire.stage import Stage  # noqa: E402


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """A broker that is not started yet, and its only peer, which the test plays."""
    stage = Stage(tmp_path)
    await stage.peer.listen()
    try:
        yield stage
    finally:
        await stage.close()
