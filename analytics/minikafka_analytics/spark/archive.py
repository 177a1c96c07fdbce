"""The class archive of Spark's JVM: Spark's classes as the JVM has read, verified and linked them, kept for the next start.

Spark loads some 20,000 classes, and reading them from 280 jars is a good part of what the analysis of a demo run costs. Java's
dynamic archives (JEP 350) keep them in a file that the next JVM maps. An archive holds for one Java and one set of jars at one
place; the JVM checks that itself, and starts as without an archive where it does not hold.

`python -m minikafka_analytics.commands.archive_classes` makes one where there is none; else the first small analysis on a machine
leaves one, unless MINIKAFKA_CLASS_ARCHIVE=no says that it would be of no use: on a machine that is new each time, making one
costs more than it gives back.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from minikafka_analytics.spark.java import Java

VERSION = 2
"""Counts up with every change by which an analysis has Spark load many other classes."""

KEPT = 4
"""Archives in the cache folder, 170 MB each: one for each environment that Spark was installed into lately."""

WANTED = "MINIKAFKA_CLASS_ARCHIVE"
"""Environment variable: `no` has none be made. One that is there is used all the same."""

QUIET = (
    "-Xlog:disable"  # what cannot be archived, and an archive that does not hold, is told on standard output otherwise
)


def cache_folder() -> Path:
    """Return where archives are kept: `minikafka` in the user's cache folder (XDG base directory specification)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "minikafka"


def archive_of(java: Java) -> Path:
    """Return where the archive of this Java with the installed Spark is, or would be."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    with os.scandir(jars) as found:  # in the folder's own order, which the class path has, too
        entries = [f"{entry.name} {(stat := entry.stat()).st_size} {stat.st_mtime_ns}" for entry in found]
    with suppress(OSError):
        entries.append((java.home / "release").read_text(encoding="utf-8", errors="replace"))
    key = hashlib.sha256("\n".join([str(VERSION), str(java.home), str(jars), *entries]).encode()).hexdigest()
    return cache_folder() / f"spark-{key[:16]}.jsa"


@contextmanager
def archived(java: Java, make: bool = True) -> Iterator[str]:
    """The options of a JVM that uses the archive, or, where there is none, of one that leaves it when it ends in the block.

    `make`: whether it leaves one; not of a JVM in which Spark may never start, for its archive would have next to nothing in it.
    """
    archive = archive_of(java)
    if archive.is_file():
        with suppress(OSError):
            os.utime(archive)  # used: others are removed before it
        yield f'{QUIET} "-XX:SharedArchiveFile={archive}"'
        return
    new, made = archive.with_suffix(".new"), archive.with_suffix(".made")
    claim = _claimed(new) if make and os.environ.get(WANTED) != "no" else None
    if claim is None:
        yield ""
        return
    try:
        made.unlink(missing_ok=True)  # of one that was killed
        yield f'{QUIET} "-XX:ArchiveClassesAtExit={made}"'
        with suppress(OSError):  # the JVM was ended before it had made one
            made.replace(archive)
            _remove_old(archive.parent)
    finally:
        made.unlink(missing_ok=True)
        new.unlink(missing_ok=True)
        claim.close()


def _claimed(new: Path) -> IO[bytes] | None:
    """Claims the making of an archive for as long as the file is open: None where another process is at it, or the folder cannot
    be written, or its file system has no locks."""
    try:
        new.parent.mkdir(parents=True, exist_ok=True)
        claim = new.open("ab")
    except OSError:
        return None
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process, however that ends
        if os.path.samestat(os.fstat(claim.fileno()), new.stat()):
            return claim
    except OSError:
        pass
    claim.close()  # somebody else's, or one that somebody has just ended
    return None


def _remove_old(folder: Path) -> None:
    by_age = sorted(folder.glob("spark-*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in by_age[KEPT:]:
        path.unlink(missing_ok=True)
