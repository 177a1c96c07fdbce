"""One broker among hands, for each test a new one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.wire.stage import Stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """A broker that is not started yet, and its only peer, which the test plays."""
    stage = Stage(tmp_path)
    await stage.peer.listen()
    try:
        yield stage
    finally:
        await stage.close()
