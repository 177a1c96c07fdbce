"""Finding Java: which one is taken, and what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from minikafka_analytics.spark.java import JavaMissing, feature_version, find_java, install_command

MODULES = "java.base java.security.jgss jdk.incubator.vector jdk.unsupported"


def runtime(home: Path, version: str, modules: str = MODULES) -> Path:
    """A folder that looks like a Java runtime."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


@pytest.mark.parametrize(
    ("text", "version"), [("17.0.15", 17), ("1.8.0_392", 8), ("25-ea", 25), ("21", 21), ("nonsense", None)]
)
def test_feature_versions(text: str, version: int | None) -> None:
    assert feature_version(text) == version


def test_java_home_goes_first(tmp_path: Path) -> None:
    home = runtime(tmp_path / "mine", "21.0.2")
    runtime(tmp_path / "jvm" / "java-17-openjdk", "17.0.15")
    found = find_java({"JAVA_HOME": str(home), "PATH": ""}, (str(tmp_path / "jvm"),))
    assert (found.home, found.version) == (home, 21)


def test_the_usual_folders_are_searched_and_17_or_21_preferred(tmp_path: Path) -> None:
    runtime(tmp_path / "a-jdk-25", "25.0.1")
    home = runtime(tmp_path / "java-17-openjdk", "17.0.15")
    assert find_java({"PATH": ""}, (str(tmp_path),)).home == home


def test_the_path_is_searched(tmp_path: Path) -> None:
    home = runtime(tmp_path / "jdk", "17.0.1")
    assert find_java({"PATH": str(home / "bin")}, ()).home == home


def test_an_old_java_is_no_use_and_the_line_says_so(tmp_path: Path) -> None:
    home = runtime(tmp_path / "old", "11.0.20")
    with pytest.raises(JavaMissing, match="is Java 11") as told:
        find_java({"JAVA_HOME": str(home), "PATH": ""}, ())
    assert "\n" not in str(told.value)


def test_a_runtime_without_the_vector_module_is_passed_over(tmp_path: Path) -> None:
    slim = runtime(tmp_path / "slim", "17.0.1", "java.base java.security.jgss jdk.unsupported")
    good = runtime(tmp_path / "jvm" / "jdk-17", "17.0.1")
    assert find_java({"JAVA_HOME": str(slim), "PATH": ""}, (str(tmp_path / "jvm"),)).home == good
    with pytest.raises(JavaMissing, match=r"lacks the module jdk\.incubator\.vector"):
        find_java({"JAVA_HOME": str(slim), "PATH": ""}, ())


def test_without_java_the_command_to_install_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match="Spark needs Java 17 or newer"):
        find_java({"PATH": ""}, (str(tmp_path),))


@pytest.mark.parametrize(
    ("release", "package"),
    [
        ('ID=debian\nVERSION_ID="12"\n', "apt-get install -y openjdk-17-jre-headless"),
        ('ID=debian\nVERSION_ID="13"\n', "apt-get install -y default-jre-headless"),
        ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n', "apt-get install -y default-jre-headless"),
        ("ID=fedora\n", "dnf install -y java-21-openjdk-headless"),
        ("", "install OpenJDK 17 or 21"),
    ],
)
def test_the_command_is_the_distributions_own(tmp_path: Path, release: str, package: str) -> None:
    (tmp_path / "os-release").write_text(release)
    assert package in install_command(tmp_path / "os-release")
