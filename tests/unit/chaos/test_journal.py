"""The journal of a run whose writer died: what is written behind a line that was cut off is not lost with it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from minikafka_chaos.record.journal import Journal, read_journal
from minikafka_chaos.run.abort import abort


def test_what_comes_after_a_cut_off_line_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"time": 1.0, "kind": "note", "text": "one"}\n{"time": 2.0, "kind": "no')
    assert [line["text"] for line in read_journal(path)] == ["one"]
    with closing(Journal(path)) as journal:
        journal.note("two")
    assert [line["text"] for line in read_journal(path)] == ["one", "two"]


def test_an_aborted_run_has_its_verdict_though_its_last_line_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"time": 1.0, "kind": "scenario"}\n{"time": 2.0, "kind": "acti')
    assert abort(tmp_path).left == 0
    assert [line["kind"] for line in read_journal(path)] == ["scenario", "verdict"]


def test_a_journal_that_is_none_gets_no_verdict(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text("no journal\n")
    assert abort(tmp_path).left == 0
    assert path.read_text() == "no journal\n"


@pytest.mark.parametrize("line", ["garbage", "[]", "7", '{"kind": "claims"}'])
def test_a_line_that_is_none_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(f'{{"time": 1.0, "kind": "note"}}\n{line}\n')
    with pytest.raises(ValueError, match="line 2"):
        read_journal(path)
