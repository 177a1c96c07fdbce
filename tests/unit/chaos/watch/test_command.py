"""The command: what it refuses, in one line, and the page that it writes."""

from __future__ import annotations

import builtins
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from minikafka.cli.main import main

JOURNAL = {"time": 1.0, "kind": "note", "text": "cluster is up"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "a-run"
    folder.mkdir()
    (folder / "journal.jsonl").write_text(json.dumps(JOURNAL) + "\n")
    return folder


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "give one of RUN_DIR and --data DIR"),
        (["RUN", "--data", "DIR"], "give one of RUN_DIR and --data DIR"),
        (["--data", "DIR", "--html", "FILE"], "--html: is written of a RUN_DIR"),
        (["RUN", "--web", "0", "--html", "FILE"], "--html: is written of a RUN_DIR"),
        (["RUN", "--web", "70000"], "--web: '70000' is no port; allowed: 0 to 65535"),
        (["RUN", "--web", "there"], "--web: 'there' is no port"),
        (["RUN"], "standard input and output are no terminal; there are --web PORT"),
        (["nothing-here"], "is no run: it has no journal.jsonl"),
        (["--data", "nothing-here"], "--data: "),
        (["RUN", "--html", ""], "--html: '.' is no name of a file"),
        (["RUN", "--html", "a-run/journal.jsonl"], "--html: a-run/journal.jsonl is what the page would be made of"),
        (["RUN", "--html", "no/such/folder/page.html"], "--html: no/such/folder/page.html: No such file or directory"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    run: Path, arguments: Sequence[str], line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent)
    assert main(["watch", *(str(run) if each == "RUN" else each for each in arguments)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("minikafka watch: ") and line in error and error.count("\n") == 1


def test_a_file_that_is_no_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello\n")
    assert main(["watch", str(path)]) == 2
    assert "is neither a run's folder nor what `minikafka simulate --seed N --trace` prints" in capsys.readouterr().err


def test_a_trace_that_is_torn_is_shown_and_called_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, page = tmp_path / "trace.txt", tmp_path / "page.html"
    trace.write_bytes("   0.000 seed 3: 3 brokers\n   0.600 cut b1 from b2\n   0.700 b2 dé".encode()[:-1])
    assert main(["watch", str(trace), "--html", str(page)]) == 0
    said = "the trace is torn: it ends after line 2, at 0.600 s, and what came then is not known"
    assert capsys.readouterr() == (f"{page}: 3 steps\n", f"minikafka watch: {trace}: {said}\n")
    assert said in page.read_text()
    trace.write_bytes(b"   0.000 seed 3: 3 brokers\n   0.600 c\xfft b1 from b2\n   0.700 pauses\n")
    assert main(["watch", str(trace), "--html", str(page)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"minikafka watch: {trace}: line 2 is damaged") and error.count("\n") == 1


def test_a_page_is_written(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert main(["watch", str(run), "--html", str(page)]) == 0
    assert capsys.readouterr() == (f"{page}: 1 steps\n", "")
    assert "<title>a-run</title>" in page.read_text()
    with (run / "journal.jsonl").open("a") as file:
        file.write('{"time"')
    assert main(["watch", str(run), "--html", str(page)]) == 0
    said = "journal.jsonl: torn, the last line was cut off; what came then is not known"
    assert capsys.readouterr() == (f"{page}: 2 steps\n", f"minikafka watch: {run}: {said}\n")
    assert said in page.read_text()


def test_without_textual_the_extra_is_named(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.delitem(sys.modules, "minikafka_chaos.watch.terminal", raising=False)
    importer = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("textual"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return importer(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert main(["watch", str(run)]) == 2
    assert "needs the extra 'watch': pip install 'minikafka[watch]'" in capsys.readouterr().err
