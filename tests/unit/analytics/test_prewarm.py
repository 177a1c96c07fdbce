"""An analysis by a process that is started ahead of it: who answers, and that nothing of it stays. Small scripts stand for it."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from children import DEADLINE_S, until_ended
from minikafka_analytics.commands.prewarm import Analysed, AnalysisFailed, PrewarmedAnalysis

from tests.processes import has_ended
from tests.waiting import until_now

KIB = 1 << 10
ANSWERS = """
import json, os, subprocess, sys
from pathlib import Path
scratch = Path(os.environ["TMPDIR"])
(scratch / "left").mkdir()
log = Path(sys.argv[1])
with log.open("a") as file:
    print(os.getpid(), *sys.argv[2:], scratch.name, file=file)
"""
DOES = ANSWERS + (
    "asked = json.loads(sys.stdin.readline()); "
    'print(json.dumps({"html": asked["run"], "json": asked["out"], "differ": None}), flush=True)'
)


def logged(log: Path) -> list[list[str]]:
    """Process id, other arguments and the scratch folder of each process that was started."""
    return [line.split() for line in log.read_text().splitlines()] if log.exists() else []


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the processes tell of themselves; at the end all are gone, with their folders."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    path = tmp_path / "log"
    yield path
    assert [process for process, *_ in logged(path) if not has_ended(process)] == []
    assert list(scratch.iterdir()) == []


def command(code: str, log: Path) -> list[str]:
    return [sys.executable, "-c", code, str(log)]


def test_the_process_that_was_begun_answers(log: Path, tmp_path: Path) -> None:
    with PrewarmedAnalysis(command(DOES, log)) as analysis:
        analysis.begin(30 * KIB)
        found = analysis.analyze(tmp_path / "run", tmp_path / "out")
        assert found == Analysed(tmp_path / "run", tmp_path / "out", None)
    ((_, size, scratch),) = logged(log)
    assert size == str(30 * KIB) and scratch.startswith("minikafka-prewarm-")


@pytest.mark.slow
def test_without_a_beginning_one_is_started_for_its_analysis(log: Path, tmp_path: Path) -> None:
    with PrewarmedAnalysis(command(DOES, log)) as analysis:
        analysis.analyze(tmp_path, tmp_path)
    assert [len(line) for line in logged(log)] == [2], "without a size"


@pytest.mark.slow
def test_what_nobody_asks_is_ended_at_once_with_all_that_it_started(log: Path, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    code = ANSWERS + (
        "child = subprocess.Popen([sys.executable, '-c', 'import signal, time;'"
        "'signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'])\n"
        "with log.open('a') as file: print(child.pid, file=file)\n"
        f"Path({str(begun)!r}).touch(); child.wait()"
    )
    with PrewarmedAnalysis(command(code, log)) as analysis:
        analysis.begin(KIB)
        until_now(begun.exists, seconds=DEADLINE_S)
    assert len(logged(log)) == 2
    until_ended(logged(log)[1][0])


@pytest.mark.slow
def test_one_that_was_killed_while_it_warmed_up_is_followed_by_another(log: Path, tmp_path: Path) -> None:
    code = ANSWERS + "if len(sys.argv) > 2: os.kill(os.getpid(), 9)\n" + DOES.removeprefix(ANSWERS)
    with PrewarmedAnalysis(command(code, log)) as analysis:
        analysis.begin(KIB)
        assert analysis.analyze(tmp_path, tmp_path).differ is None
    assert [len(line) for line in logged(log)] == [3, 2]


@pytest.mark.slow
def test_why_there_is_no_report_is_one_line(log: Path, tmp_path: Path) -> None:
    says = ANSWERS + "sys.stdin.readline(); print(json.dumps({'failed': 'the disk is full'}), flush=True)"
    with PrewarmedAnalysis(command(says, log)) as analysis, pytest.raises(AnalysisFailed, match=r"^the disk is full$"):
        analysis.analyze(tmp_path, tmp_path)
    dies = ANSWERS + "sys.stdin.readline(); raise MemoryError('no memory is left')"
    with PrewarmedAnalysis(command(dies, log)) as analysis:
        analysis.begin(KIB)
        with pytest.raises(AnalysisFailed, match=r"without an answer: MemoryError: no memory is left$"):
            analysis.analyze(tmp_path, tmp_path)


@pytest.mark.slow
def test_what_the_process_of_an_analysis_says_comes_through(tmp_path: Path) -> None:
    with PrewarmedAnalysis() as analysis, pytest.raises(AnalysisFailed, match="nowhere: no such run folder"):
        analysis.analyze(tmp_path / "nowhere", tmp_path / "out")


def test_half_an_answer_is_none(log: Path, tmp_path: Path) -> None:
    half = ANSWERS + "sys.stdin.readline(); print('{\"html\": ', end='', flush=True)"
    with PrewarmedAnalysis(command(half, log)) as analysis, pytest.raises(AnalysisFailed, match="it said nothing"):
        analysis.analyze(tmp_path, tmp_path)


def test_what_cannot_be_started_is_told_by_the_analysis(log: Path, tmp_path: Path) -> None:
    with PrewarmedAnalysis([str(tmp_path / "no-python")]) as analysis:
        analysis.begin(KIB)  # raises nothing: whoever judges meanwhile has no use for Spark
        with pytest.raises(AnalysisFailed, match=r"could not be started: .*No such file"):
            analysis.analyze(tmp_path, tmp_path)
    assert logged(log) == []


def test_a_folder_for_temporary_files_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    with PrewarmedAnalysis() as analysis:
        analysis.begin(KIB)
        with pytest.raises(AnalysisFailed, match=r"could not be started: .*Not a directory"):
            analysis.analyze(tmp_path, tmp_path)


def test_a_signal_during_the_analysis_ends_it(log: Path, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    waits = ANSWERS + f"sys.stdin.readline(); Path({str(begun)!r}).touch(); sys.stdin.readline()"

    def interrupt() -> None:
        until_now(begun.exists, seconds=DEADLINE_S)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with PrewarmedAnalysis(command(waits, log)) as analysis:
        analysis.begin(KIB)
        with pytest.raises(KeyboardInterrupt):
            analysis.analyze(tmp_path, tmp_path)


@pytest.mark.slow
def test_what_one_that_was_killed_has_left_is_removed_by_the_next(log: Path, tmp_path: Path) -> None:
    left = Path(tempfile.gettempdir()) / "minikafka-prewarm-000000000000"
    (left / "minikafka-warm-up-x").mkdir(parents=True)
    (left / ".in-use").touch()
    with PrewarmedAnalysis(command(DOES, log)) as analysis:
        analysis.analyze(tmp_path, tmp_path)
    assert not left.exists()
