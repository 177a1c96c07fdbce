"""The JVM that Spark runs in on this machine: launched with its output in a file, and ended with the analysis."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from traceback import walk_tb
from typing import Any

from minikafka_analytics.spark.java import Java


class SparkDidNotStart(RuntimeError):
    """The JVM or Spark in it ended before it could be used; the message is one line with what it said last."""


NO_JVM = "Error occurred during initialization of VM"
"""What a JVM writes before the line that tells why it cannot start."""

DIED = 'Exception in thread "main"'
"""What a JVM writes that cannot do what it was started for. It need not end then: Spark's has other threads."""

NO_MEMORY = "There is insufficient memory for the Java Runtime Environment to continue"

TELLS_PORT_IN = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""The variable by which PySpark tells a JVM where it waits for its port."""

SECONDS_TO_ANSWER = 180.0  # from its launch; some seconds, many on a busy machine
LOOKS_FOR_PROCESS = (
    25  # each 0.2 seconds after the other, none of which saw it: it is not that it was about to be started
)
SECONDS_TO_VANISH = 60.0  # from the end of its connections; a moment, longer with much memory to give back
SECONDS_TO_END = 120.0  # a JVM that leaves a class archive takes some seconds, many on a busy machine


@contextmanager
def starting(java: Java, said: Path) -> Iterator[None]:
    """Raises SparkDidNotStart for whatever the start of a JVM, or of Spark in it, raises. `said`: what the JVM writes."""
    try:
        yield
    except Exception as error:
        raise SparkDidNotStart(f"Spark did not start on {java.home}: {_last_words(said, error)}") from error


def launch(settings: Mapping[str, str], said: Path) -> None:
    """Starts the JVM that Spark in this process will use.

    What it writes, to either standard stream, goes into the file `said`: it warns of its own incubator modules, which nobody who
    runs an analysis can act on, and why it cannot start it tells on standard output, where our own answer belongs. Spark's errors
    reach Python as exceptions.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with said.open("ab") as file:
        process: dict[str, Any] = {"stdout": file, "stderr": file}
        with _which_answers(said, process):
            gateway = launch_gateway(conf, process)  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def _which_answers(said: Path, process: Mapping[str, Any]) -> Iterator[None]:
    """Ends the process that the block starts and waits for where it has failed, or is silent for too long: PySpark waits on.

    It does so for one that has ended with 0, too, until the file is there in which that would tell its port; `process` are the
    arguments of the process, where PySpark puts the file's name. Raises TimeoutError for one that was silent. Only Linux tells
    which process that is.
    """
    me = f"self/task/{threading.get_native_id()}"
    tells, before = Path("/proc", me, "children").is_file(), set(_children(me))
    answered, silent = threading.Event(), threading.Event()

    def watch() -> None:
        deadline = time.monotonic() + SECONDS_TO_ANSWER
        looks = 0
        while not answered.wait(0.2):
            started = [child for child in _children(me) if child not in before]
            looks = looks + 1 if tells and "env" in process and not started else 0
            if looks >= LOOKS_FOR_PROCESS:
                with suppress(OSError):  # PySpark has removed the folder: it knows
                    Path(process["env"][TELLS_PORT_IN]).touch()
                return
            if time.monotonic() > deadline:
                silent.set()
            elif DIED not in _text(said):
                continue
            for child in started:
                _kill(child)
            return

    watcher = threading.Thread(target=watch, name="jvm-launch", daemon=True)
    watcher.start()
    try:
        yield
    except Exception as error:
        if silent.is_set():
            raise TimeoutError(f"its JVM did not answer within {SECONDS_TO_ANSWER:g} s") from error
        raise
    finally:
        answered.set()
        watcher.join()


def _children(task: str) -> list[str]:
    with suppress(OSError):
        return Path("/proc", task, "children").read_text(encoding="ascii").split()
    return []


def _kill(process: str) -> None:
    """With all that it has started: Spark's JVM is launched by a shell, by way of another JVM."""
    for task in Path("/proc", process, "task").glob("*"):
        for child in _children(f"{process}/task/{task.name}"):
            _kill(child)
    with suppress(OSError):
        os.kill(int(process), signal.SIGKILL)


def is_alive() -> bool:
    """Return whether the JVM that this process uses answers: one that was killed has closed its connections before it is gone."""
    from pyspark import SparkContext

    try:
        return SparkContext._jvm is not None and int(SparkContext._jvm.System.nanoTime()) is not None
    except Exception:
        return False


def how_it_ended() -> str | None:
    """Return how the JVM that this process uses has ended; None while it answers, and where there is none.

    It is the process that is asked, for the call that meets a dead JVM may fail in any way: a refused connection, an empty
    answer, an attribute that is not there.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return None
    process = getattr(gateway, "proc", None)
    if (process is None or process.poll() is None) and is_alive():
        return None
    try:
        code = (
            None if process is None else process.wait(SECONDS_TO_VANISH)
        )  # it is gone some time after its connections
    except TimeoutExpired:
        code = None
    return "it does not answer" if code is None else _ending(code)


def _ending(code: int) -> str:
    """Name what ended a process. A shell, and a JVM that is asked to end, tell of a signal by 128 and its number."""
    by = -code if code < 0 else code - 128
    if by == signal.SIGKILL:
        return "killed by SIGKILL, as the kernel does where memory is short"
    return f"killed by {signal.Signals(by).name}" if by in list(signal.Signals) else f"exit code {code}"


def end() -> None:
    """Ends the JVM that `SparkSession.stop` leaves behind: a second session may take other settings, and no process stays."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    with suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    if process is not None:
        if process.stdin is not None:
            process.stdin.close()  # the JVM ends when its standard input does
        try:
            process.wait(timeout=SECONDS_TO_END)
        except Exception:  # whatever it is, the JVM must not outlive the analysis
            process.kill()
            process.wait()


def _last_words(said: Path, error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return str(error)
    lines = [line.strip() for line in _text(said).splitlines()]
    if any(NO_MEMORY in line for line in lines):
        return "this machine, or what it allows a process (ulimit -v), has not enough memory for its JVM"
    if any("No space left on device" in line for line in lines):
        return f"the disk is full: free some space in {said.parent}, where Spark keeps what is temporary (TMPDIR moves that)"
    why = next((after for line, after in pairwise(lines) if line == NO_JVM), None)
    errors = [line for line in lines if line.lower().startswith(("error", "exception", "caused by", "fatal"))]
    ended = (how_it_ended() or _how_it_ended_at_once(error)) if not (why or errors) else None
    if ended is not None:
        return f"its JVM ended: {ended}"
    return why or (errors or [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__])[0]


def _how_it_ended_at_once(error: Exception) -> str | None:
    """Return how a JVM has ended that PySpark has no gateway to yet: only the failed call knows its process."""
    processes = (frame.f_locals.get("proc") for frame, _ in walk_tb(error.__traceback__))
    codes = (process.returncode for process in processes if isinstance(process, Popen))
    return next((_ending(code) for code in codes if code is not None), None)


def _text(said: Path) -> str:
    try:
        return said.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
