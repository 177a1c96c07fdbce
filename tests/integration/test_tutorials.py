"""The tutorials, README.md and the page of commands: what they have their reader type does what they print."""

from __future__ import annotations

from pathlib import Path

import pytest
from minikafka.local.ports import free_base_port

from tests.printed import ROOT, Reader
from tests.unit.test_documents import tracked

TUTORIALS = [page for page in tracked("docs/guide/tutorials/*.md") if "on-kubernetes" not in page]
"""Of the one that takes a Kubernetes cluster the commands are parsed only (tests/unit/test_printed_commands.py)."""
FIRST, *OTHERS = [*TUTORIALS, "README.md", "docs/reference/commands.md"]


@pytest.mark.parametrize("page", [FIRST, *(pytest.param(page, marks=pytest.mark.full) for page in OTHERS)])
def test_a_page_does_what_it_prints(page: str, tmp_path: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    reader = Reader(tmp_path, free_base_port(3))
    try:
        otherwise = reader.does(text)
    finally:
        reader.leaves(text)
    assert not otherwise, "\n\n".join(otherwise)
