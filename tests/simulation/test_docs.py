"""docs/simulation.md says what is declared."""

from __future__ import annotations

from pathlib import Path

import pytest
from minikafka_chaos.simulation.docs import PAGE, main, parts, replaced

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_as_declared() -> None:
    assert main(["--check", "--docs", str(DOCS)]) == 0


def test_a_stale_page_is_found_and_written_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (DOCS / PAGE).read_text(encoding="utf-8")
    stale = tmp_path / PAGE
    stale.write_text(replaced(page, "bug seeds", "nothing"), encoding="utf-8")
    assert main(["--check", "--docs", str(tmp_path)]) == 1
    assert "--write" in capsys.readouterr().err
    assert main(["--write", "--docs", str(tmp_path)]) == 0
    assert stale.read_text(encoding="utf-8") == page, "what was measured stays"
    stale.write_text("# empty\n", encoding="utf-8")
    assert main(["--check", "--docs", str(tmp_path)]) == 1
    assert main(["--check", "--docs", str(tmp_path / "absent")]) == 2


def test_parts_name_every_bug_seed_and_invariant() -> None:
    assert set(parts()) == {"bug seeds", "invariants"}
