"""Finds a Java that Spark can run on, without starting Spark first.

Spark 4 needs Java 17 or newer ("Spark runs on Java 17/21", https://spark.apache.org/docs/latest/) and asks the JVM for
the module `jdk.incubator.vector` at start; some slimmed-down runtimes lack that module and die with a long trace. So both
the version and, where the runtime lists its modules, the module are checked here, and what is missing is said in one line.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

OLDEST_JAVA = 17
MODULES_SPARK_ASKS_FOR = frozenset({"java.security.jgss", "jdk.incubator.vector", "jdk.unsupported"})
USUAL_FOLDERS = ("/usr/lib/jvm", "/opt/java", "/opt/jdk", "/usr/java")
SECONDS_FOR_JAVA_VERSION = 20.0  # `java -version` takes 0.1 s; a runtime that needs longer is not one to rely on


class JavaMissing(RuntimeError):
    """No usable Java on this machine; the message is one line that says what to run."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its home folder and its feature version (17, 21, ...)."""

    home: Path
    version: int


def find_java(environment: Mapping[str, str] | None = None, folders: tuple[str, ...] = USUAL_FOLDERS) -> Java:
    """Looks in JAVA_HOME, then on the PATH, then in the folders where distributions put Java; the first usable one wins.

    Raises JavaMissing, with the reason each Java that was found is of no use, and the command that installs a good one.
    """
    refused: list[str] = []
    seen: set[Path] = set()
    for home in _candidates(os.environ if environment is None else environment, folders):
        if home in seen:
            continue
        seen.add(home)
        version, modules = _describe(home)
        if version is None:
            continue
        if version < OLDEST_JAVA:
            refused.append(f"{home} is Java {version}")
        elif modules and (missing := MODULES_SPARK_ASKS_FOR - modules):
            refused.append(f"{home} lacks the module {', '.join(sorted(missing))}")
        else:
            return Java(home, version)
    found = f" (found, but no use: {'; '.join(refused)})" if refused else ""
    raise JavaMissing(f"Spark needs Java {OLDEST_JAVA} or newer and this machine has none{found}: {install_command()}")


def install_command(os_release: Path = Path("/etc/os-release")) -> str:
    """The one command that brings a fitting Java here, by the distribution's own package manager."""
    try:
        text = os_release.read_text(encoding="utf-8")
    except OSError:
        text = ""
    fields = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', text, re.MULTILINE))
    family = {fields.get("ID", ""), *fields.get("ID_LIKE", "").split()}
    sudo = "" if hasattr(os, "geteuid") and os.geteuid() == 0 else "sudo "
    if family & {"debian", "ubuntu"}:
        return f"{sudo}apt-get install -y {_debian_package(fields)}"
    if family & {"fedora", "rhel", "centos"}:
        return f"{sudo}dnf install -y java-21-openjdk-headless"
    if "alpine" in family:
        return f"{sudo}apk add openjdk17-jre-headless"
    if "arch" in family:
        return f"{sudo}pacman -S jre21-openjdk-headless"
    return "install OpenJDK 17 or 21 and set JAVA_HOME to it"


def _debian_package(fields: Mapping[str, str]) -> str:
    # Debian 13 dropped OpenJDK 17; `default-jre-headless` is 17 or newer from Debian 12 and Ubuntu 24.04 on, but 11 on 22.04.
    old = {("debian", "11"), ("debian", "12"), ("ubuntu", "20.04"), ("ubuntu", "22.04")}
    if (fields.get("ID", ""), fields.get("VERSION_ID", "")) in old:
        return "openjdk-17-jre-headless"
    return "default-jre-headless"


def _candidates(environment: Mapping[str, str], folders: tuple[str, ...]) -> Iterator[Path]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home)
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield Path(on_path).resolve().parent.parent
    for folder in folders:
        # 21 and 17 are what Spark's own tests run on; a newer one is taken only where neither is there.
        homes = [entry.resolve() for entry in sorted(Path(folder).glob("*")) if (entry / "bin" / "java").is_file()]
        yield from sorted(set(homes), key=lambda home: (not re.search(r"\b(17|21)\b", home.name), home.name))


def _describe(home: Path) -> tuple[int | None, frozenset[str]]:
    """Feature version and modules: from the `release` file every runtime since Java 9 has, else by asking the binary."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None, frozenset()
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    version = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    modules = re.search(r'^MODULES="([^"]*)"', text, re.MULTILINE)
    named = frozenset(modules.group(1).split()) if modules else frozenset[str]()
    if version:
        return feature_version(version.group(1)), named
    try:
        asked = subprocess.run(
            [str(home / "bin" / "java"), "-version"],
            capture_output=True,
            text=True,
            timeout=SECONDS_FOR_JAVA_VERSION,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, named
    said = re.search(r'version "([^"]+)"', asked.stderr + asked.stdout)
    return (feature_version(said.group(1)) if said else None), named


def feature_version(version: str) -> int | None:
    """17 for "17.0.15", 8 for "1.8.0_392", 25 for "25-ea"; None when it is no version."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return None
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
