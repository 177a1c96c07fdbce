"""Apache Kafka's own broker and tools, fetched by Maven into the user's cache and run with the machine's Java; other jars, too.

The jars are never part of the repository. The folder's name contains a digest of ``pom.xml``, so another version is
another folder, and two runs that fetch at the same time do no harm: each fetches beside it and renames.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

POM = Path(__file__).with_name("pom.xml")
JAVA_VERSION_MIN = 17  # Kafka 4 brokers and tools (KIP-1013)
INSTALL_COMMAND = "apt-get install -y openjdk-17-jre-headless maven"
FETCH_SECONDS_MAX = 600
TOOL_SECONDS_MAX = 300


class KafkaJarsMissing(Exception):
    """Java, Maven or the jars are not to be had; the message names the command that brings them."""


@cache
def java_executable() -> str:
    """The path of a Java >= 17: ``$JAVA_HOME``'s, else the first on PATH.

    Raises:
        KafkaJarsMissing: there is none, or it is older.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else None
    java = java or shutil.which("java")
    if java is None:
        raise KafkaJarsMissing(
            f"no java on PATH: Apache Kafka's tools need Java >= {JAVA_VERSION_MIN}: {INSTALL_COMMAND}"
        )
    banner = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    found = re.search(r'version "(\d+)', banner)
    if found is None or int(found[1]) < JAVA_VERSION_MIN:
        version = found[1] if found else "of an unknown version"
        raise KafkaJarsMissing(f"{java} is Java {version}, Kafka needs >= {JAVA_VERSION_MIN}: {INSTALL_COMMAND}")
    return java


def cached(name: str, told_by: Path) -> Path:
    """The folder in the user's cache of what such a file tells to fetch, whether or not it is there yet."""
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache_home / "minikafka" / f"{name}-{hashlib.sha256(told_by.read_bytes()).hexdigest()[:12]}"


def jar_folder() -> Path:
    """Where the jars of this ``pom.xml`` belong, whether or not they are there yet."""
    return cached("apache-kafka", POM)


def fetched_jars(name: str, pom: Path) -> Path:
    """The folder of the jars of another ``pom.xml``; fetches them when they are not there.

    Raises:
        KafkaJarsMissing: Maven is missing, or could not fetch them.
    """
    folder = cached(name, pom)
    if not folder.is_dir():
        _fetch(folder, pom)
    return folder


@cache
def kafka_classpath() -> str:
    """A Java class path with Kafka's broker, clients and tools; fetches the jars (about 54 MB) when they are not there.

    Raises:
        KafkaJarsMissing: Java or Maven is missing, or Maven could not fetch them.
    """
    java_executable()
    folder = jar_folder()
    if not folder.is_dir():
        _fetch(folder)
    return f"{folder}/*"


def _fetch(folder: Path, pom: Path = POM) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaJarsMissing(f"no mvn on PATH to fetch jars with: {INSTALL_COMMAND}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        command = [
            *(maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"),
            *("-DincludeScope=runtime", f"-DoutputDirectory={scratch}"),
        ]
        environment = {
            "MAVEN_OPTS": " ".join(SHORT_LIVED),
            **os.environ,
        }  # half of Maven's processor time is its compiler's
        fetched = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX, check=False, env=environment
        )
        if fetched.returncode:
            raise KafkaJarsMissing(f"{' '.join(command)} failed: {(fetched.stdout + fetched.stderr)[-600:]}")
        try:
            scratch.rename(folder)
        except OSError:  # another run was faster, and its folder is as good
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def tool_command(main_class: str, *arguments: str, heap_mb: int = 256, jvm: Sequence[str] = ()) -> list[str]:
    """The command line of one of Kafka's tools, for example ``org.apache.kafka.tools.TopicCommand``."""
    return [
        java_executable(),
        f"-Xmx{heap_mb}m",
        *jvm,
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        *("-cp", kafka_classpath(), main_class, *arguments),
    ]


SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
"""JVM options that halve a small tool's start; not for anything that is measured."""
LEAVES_CLASSES = "org.apache.kafka.tools.consumer.ConsoleConsumer"
"""The tool whose first run leaves its classes, as the JVM has read and verified them, to all later runs of any tool."""


def class_archive() -> Path:
    """Where the classes are (JEP 350: dynamic archives), or would be: beside the jars, a file for each Java.

    The JVM checks that an archive is of its own make and of these jars, and starts as without one where it is not.
    """
    java = Path(java_executable()).resolve()
    made = hashlib.sha256(f"{java} {java.stat().st_mtime_ns}".encode()).hexdigest()
    return jar_folder() / f"classes-{made[:12]}.jsa"


@contextmanager
def short_lived(main_class: str) -> Iterator[tuple[str, ...]]:
    """The options of a short-lived JVM: another half less where the classes are archived, or it leaves them when it ends."""
    quiet, archive = "-Xlog:disable", class_archive()
    if archive.is_file():
        yield *SHORT_LIVED, quiet, f"-XX:SharedArchiveFile={archive}"
    elif main_class != LEAVES_CLASSES or not os.access(archive.parent, os.W_OK):
        yield SHORT_LIVED
    else:
        mine = archive.with_suffix(f".{uuid.uuid4().hex}")
        try:
            yield *SHORT_LIVED, quiet, f"-XX:ArchiveClassesAtExit={mine}"
            with suppress(FileNotFoundError):  # the JVM was ended before it had made one
                mine.replace(archive)
        finally:
            mine.unlink(missing_ok=True)


def run_tool(
    main_class: str, *arguments: str, stdin: str | None = None, timeout_s: float = TOOL_SECONDS_MAX, check: bool = True
) -> str:
    """Run one of Kafka's tools to its end; its standard output and error together.

    Raises:
        AssertionError: it did not end with 0 and ``check`` is set; the message holds what it printed.
        subprocess.TimeoutExpired: it ran for longer than ``timeout_s``.
    """
    with short_lived(main_class) as jvm:
        done = subprocess.run(
            tool_command(main_class, *arguments, jvm=jvm),
            input=stdin or "",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    if check and done.returncode:
        raise AssertionError(f"{main_class} {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout
