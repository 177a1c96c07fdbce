"""An analysis whose Spark is started ahead of it, and warmed up by another, small one, in a process of its own.

A second analysis in the same JVM takes two thirds of the first one's time: its classes are initialised, its hot methods compiled,
its parser has seen the grammar (docs/decisions/013). Whoever knows that an analysis will come can have that done before, at the
lowest priority. In another process, because in this one threads would wait for each other's interpreter lock, whatever their
priorities; and because a process can be ended at any moment, with its JVM and its files.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from minikafka.local.scratch import ScratchFolder

from minikafka_analytics.spark import jvm

if TYPE_CHECKING:
    from types import TracebackType

COMMAND = (sys.executable, "-P", "-m", "minikafka_analytics.commands.prewarm_worker")
SCRATCH = "minikafka-prewarm-"
SAID = "worker.output"

_Process = subprocess.Popen[str]


class AnalysisFailed(RuntimeError):
    """There is no report; the message is one line that says why."""


class _WorkerEnded(Exception):
    """The other process ended before it had answered."""


class Analysed(NamedTuple):
    """Where a report is, and how its two judges differ: in one sentence, None where they agree."""

    html: Path
    json: Path
    differ: str | None


class PrewarmedAnalysis:
    """One analysis by a process of its own, which `begin` starts before it is wanted, or else `analyze`.

    At the end of a `with` block that process is gone, with its JVM and all temporary files, however far it was. Where this
    process is killed, the other ends by itself, and the next analysis on this machine removes its files.
    """

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._process: _Process | None = None
        self._scratch: ScratchFolder | None = None
        self._answered = False

    def __enter__(self) -> PrewarmedAnalysis:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def begin(self, size: int) -> None:
        """Start and warm up Spark for about this many bytes of files, at the lowest priority. Comes back at once, and raises
        nothing: what is wrong is told by `analyze`, which tries it anew."""
        with suppress(OSError):
            self._start(str(size))

    def analyze(self, run: Path, out: Path) -> Analysed:
        """Make the report of a run in the folder `out`, at this process's own priority. Raises AnalysisFailed."""
        begun = self._process is not None
        try:
            try:
                return self._ask(run, out)
            except _WorkerEnded:
                if not begun:
                    raise
            self._end()  # killed while it warmed up, say by a kernel that was out of memory: no more than that is lost
            return self._ask(run, out)
        except _WorkerEnded as error:
            raise AnalysisFailed(f"the analysis ended without an answer: {error}") from error
        except OSError as error:
            raise AnalysisFailed(f"the analysis could not be started: {error}") from error

    def _start(self, *arguments: str) -> _Process:
        self._scratch = ScratchFolder(Path(tempfile.gettempdir()), SCRATCH)
        self._answered = False
        try:
            with (self._scratch.path / SAID).open("wb") as said:
                self._process = subprocess.Popen(
                    [*self._command, *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=said,
                    text=True,
                    encoding="utf-8",
                    env={**os.environ, "TMPDIR": str(self._scratch.path)},
                    # Ended as one, out of reach of a terminal's Ctrl-C; in this session, where its low priority counts.
                    process_group=0,
                )
        except OSError:
            self._end()
            raise
        return self._process

    def _ask(self, run: Path, out: Path) -> Analysed:
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps({"run": str(run.absolute()), "out": str(out.absolute())}) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise _WorkerEnded(self._last_words()) from None
        line = process.stdout.readline()
        if not line.endswith("\n"):
            raise _WorkerEnded(self._last_words())
        self._answered = True
        answer = json.loads(line)
        if "failed" in answer:
            raise AnalysisFailed(answer["failed"])
        return Analysed(Path(answer["html"]), Path(answer["json"]), answer["differ"])

    def _last_words(self) -> str:
        assert self._scratch is not None and self._process is not None
        lines: list[str] = []
        with suppress(OSError):
            lines = (self._scratch.path / SAID).read_text(encoding="utf-8", errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return said[-1] if said else "it said nothing"

    def _end(self) -> None:
        process, self._process = self._process, None
        try:
            if process is not None and self._answered:
                assert process.stdout is not None
                _wait_for_end(process.stdout)
        finally:
            if process is not None:
                with suppress(ProcessLookupError):  # as a group: Spark's JVM, and what starts that
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                for stream in (process.stdin, process.stdout):
                    if stream is not None:
                        with suppress(OSError):
                            stream.close()
            if self._scratch is not None:
                self._scratch.remove()
                self._scratch = None


def _wait_for_end(answers: IO[str]) -> None:
    """A JVM may leave an archive of its classes when it ends. Its process is not waited for: its number must stay taken."""
    with selectors.DefaultSelector() as selector:
        selector.register(answers, selectors.EVENT_READ)
        selector.select(jvm.SECONDS_TO_END)
