"""The launch of a JVM that fails and does not end, or never answers. Shell scripts stand for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from children import until_ended
from minikafka_analytics.spark import jvm
from minikafka_analytics.spark.java import Java

JAVA = Java(Path("/opt/java"), 17)


def launch(script: str, said: Path) -> None:
    """As `jvm.launch` does it. The script's child tells its process id in the file beside `said`."""
    with said.open("wb") as file, jvm._which_answers(said, {}):
        subprocess.Popen(["sh", "-c", script, "sh", str(said.with_name("child"))], stdout=file).wait()
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")


HANGS = 'sleep 600 & echo $! > "$1"; {says}wait; exit 1'


def child_is_gone(said: Path) -> None:
    until_ended(said.with_name("child").read_text().strip())


def test_one_that_has_failed_and_does_not_end(tmp_path: Path) -> None:
    said = tmp_path / "said"
    full = "echo 'Exception in thread \"main\" java.io.IOException: No space left on device'; "
    why = f"the disk is full: free some space in {tmp_path}"
    with pytest.raises(jvm.SparkDidNotStart, match=why), jvm.starting(JAVA, said):
        launch(HANGS.format(says=full), said)
    child_is_gone(said)


def test_one_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = tmp_path / "said"
    started = tmp_path / "child"

    class Clock:
        """Goes on when what is to answer has started."""

        @staticmethod
        def monotonic() -> float:
            return 1e9 if started.exists() and started.read_text() else 0.0

    monkeypatch.setattr(jvm, "time", Clock)
    why = r"/opt/java: its JVM did not answer within 180 s$"
    with pytest.raises(jvm.SparkDidNotStart, match=why), jvm.starting(JAVA, said):
        launch(HANGS.format(says=""), said)
    child_is_gone(said)


def test_one_that_answers_is_left_alone(tmp_path: Path) -> None:
    said = tmp_path / "said"
    before = subprocess.Popen(["sleep", "600"])
    try:
        with said.open("wb") as file, jvm._which_answers(said, {}):
            process = subprocess.Popen(["sleep", "600"], stdout=file)
        try:
            assert process.poll() is None and before.poll() is None
        finally:
            process.kill()
            process.wait()
    finally:
        before.kill()
        before.wait()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("# There is insufficient memory for the Java Runtime Environment to continue.\n", "has not enough memory"),
        (f"{jvm.NO_JVM}\nToo small maximum heap\n", "Too small maximum heap"),
        ("WARNING: x\nError: no such option\n", "Error: no such option"),
        ("", "Java gateway process exited"),
    ],
)
def test_what_it_said_last_is_told(tmp_path: Path, said: str, told: str) -> None:
    (tmp_path / "said").write_text(said)
    with pytest.raises(jvm.SparkDidNotStart, match=told), jvm.starting(JAVA, tmp_path / "said"):
        raise RuntimeError("Java gateway process exited")
