"""The class archive of Spark's JVM: where it is, who makes it, what is done where it cannot be made."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from minikafka_analytics.commands.tiny_run import write_tiny_run
from minikafka_analytics.landing.run_folder import open_runs
from minikafka_analytics.landing.schemas import TABLES
from minikafka_analytics.spark import archive
from minikafka_analytics.spark.java import Java

JAVA = Java(Path("/usr/lib/jvm/java-17"), 17)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(archive.WANTED, raising=False)  # `make test` wants none
    return tmp_path / "cache" / "minikafka"


def test_the_first_jvm_makes_it_and_the_next_uses_it() -> None:
    path = archive.archive_of(JAVA)
    with archive.archived(JAVA) as options:
        assert "-XX:ArchiveClassesAtExit=" in options
        made = Path(options.partition("=")[2].rstrip('"'))
        made.write_bytes(b"classes")  # as the JVM does at its end
    assert path.read_bytes() == b"classes"
    assert sorted(path.parent.iterdir()) == [path]
    with archive.archived(JAVA) as options:
        assert options.endswith(f'"-XX:SharedArchiveFile={path}"')


def test_it_is_made_once_however_many_start() -> None:
    with archive.archived(JAVA) as first, archive.archived(JAVA) as second:
        assert ("ArchiveClassesAtExit" in first, second) == (True, "")


def test_none_is_made_where_none_is_wanted_and_what_is_there_is_used(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(archive.WANTED, "no")
    with archive.archived(JAVA) as options:
        assert (options, cache.exists()) == ("", False)
    path = archive.archive_of(JAVA)
    cache.mkdir(parents=True)
    path.touch()
    with archive.archived(JAVA) as options:
        assert options.endswith(f'"-XX:SharedArchiveFile={path}"')


@pytest.mark.parametrize("trouble", [RuntimeError, KeyboardInterrupt])
def test_what_is_begun_and_not_ended_leaves_nothing(cache: Path, trouble: type[BaseException]) -> None:
    def analysis() -> None:
        with archive.archived(JAVA) as options:
            Path(options.partition("=")[2].rstrip('"')).write_bytes(b"half")
            raise trouble

    with pytest.raises(trouble):
        analysis()
    assert list(cache.iterdir()) == []


def test_a_jvm_that_made_none_is_no_trouble(cache: Path) -> None:
    with archive.archived(JAVA):
        pass
    assert list(cache.iterdir()) == []


def test_a_claim_of_one_that_was_killed_does_not_last(cache: Path) -> None:
    cache.mkdir(parents=True)
    path = archive.archive_of(JAVA)
    path.with_suffix(".new").touch()
    path.with_suffix(".made").write_bytes(b"half")
    with archive.archived(JAVA) as options:
        assert "ArchiveClassesAtExit" in options
        assert not path.with_suffix(".made").exists()
    assert list(cache.iterdir()) == []


def test_where_nothing_can_be_kept_there_is_none(cache: Path) -> None:
    cache.parent.write_text("a file where the folder should be")
    with archive.archived(JAVA) as options:
        assert options == ""


def test_another_java_has_another(tmp_path: Path) -> None:
    home = tmp_path / "jdk"
    home.mkdir()
    before = archive.archive_of(Java(home, 17))
    assert before != archive.archive_of(JAVA)
    (home / "release").write_text('JAVA_VERSION="17.0.99"\n')
    assert archive.archive_of(Java(home, 17)) != before


def test_old_ones_go(cache: Path) -> None:
    cache.mkdir(parents=True)
    for n in range(archive.KEPT + 2):
        path = cache / f"spark-{n}.jsa"
        path.touch()
        os.utime(path, (n, n))
    with archive.archived(JAVA) as options:
        Path(options.partition("=")[2].rstrip('"')).touch()
    assert {path.name for path in cache.iterdir()} == {archive.archive_of(JAVA).name} | {
        f"spark-{n}.jsa" for n in range(3, archive.KEPT + 2)
    }


def test_the_tiny_run_has_every_table(tmp_path: Path) -> None:
    (run,) = open_runs([write_tiny_run(tmp_path / "run")])
    assert run.missing == []
    for table in TABLES:
        for path in run.files(table.name):
            assert all(isinstance(json.loads(line), dict) for line in path.read_text(encoding="utf-8").splitlines())
