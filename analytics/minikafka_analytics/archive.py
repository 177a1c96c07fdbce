"""The class archive of Spark's JVM: Spark's classes as the JVM has read, verified and linked them, kept for the next start.

Spark loads some 20,000 classes, and reading them from 280 jars is a good part of what the analysis of a demo run costs. Java's
dynamic archives (JEP 350) keep them in a file that the next JVM maps. An archive holds for one Java and one set of jars at one
place; the JVM checks that itself, and starts as without an archive where it does not hold.

`python -m minikafka_analytics.archive` makes one where there is none, by analysing a run of a few lines; else the first small
analysis on a machine leaves one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from minikafka_analytics.java import Java, JavaMissing, find_java

VERSION = 2
"""Counts up with every change by which an analysis has Spark load many other classes."""

GENERATED_BYTES = 1 << 20
"""A file of this size or more is landed by generated code, also where all else is interpreted: parsing a line costs more
than any question asks of it."""

KEPT = 4
"""Archives in the cache folder, 170 MB each: one for each environment that Spark was installed into lately."""

QUIET = (
    "-Xlog:disable"  # what cannot be archived, and an archive that does not hold, is told on standard output otherwise
)


def cache_folder() -> Path:
    """Where archives are kept: `minikafka` in the user's cache folder (XDG base directory specification)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "minikafka"


def archive_of(java: Java) -> Path:
    """Where the archive of this Java with the installed Spark is, or would be."""
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
    claim = _claimed(new) if make else None
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


def write_tiny_run(folder: Path) -> Path:
    """A run of a few lines that touches every table: two sends, one of them a duplicate, a kill, an election, scrapes, a log.

    Its history is long enough, by one value, to be landed by generated code, as that of a demo is.
    """
    about = {"process": 0, "topic": "t", "partition": 0, "error": None}
    history: list[dict[str, object]] = [
        {"op": "send", "type": "invoke", "offset": None, "value": "a"},
        {"op": "send", "type": "ok", "offset": 0, "value": "a"},
        {"op": "send", "type": "invoke", "offset": None, "value": "b"},
        {"op": "send", "type": "ok", "offset": 1, "value": "b"},
        {"op": "send", "type": "invoke", "offset": None, "value": "c" * GENERATED_BYTES},
        {"op": "assign", "type": "ok", "offset": 0, "value": None},
        {"op": "poll", "type": "ok", "offset": 0, "value": "a", "batch": 0},
        {"op": "poll", "type": "ok", "offset": 1, "value": "b", "batch": 0},
        {"op": "poll", "type": "ok", "offset": 2, "value": "b", "batch": 0},
        {"op": "read", "type": "ok", "offset": 3, "value": None},
    ]
    action = {"kind": "action", "step": "s", "fault": "Kill", "target": "broker-1", "role": "leader of t-0"}
    journal: list[dict[str, object]] = [
        {**action, "phase": "begin"},
        {**action, "phase": "end", "ok": True},
        {**action, "fault": "Start", "phase": "begin"},
        {**action, "fault": "Start", "phase": "end", "ok": True},
        {"kind": "claims", "claims": [], "problems": []},
    ]
    events: list[dict[str, object]] = [
        {
            "event": name,
            "broker": 1,
            "topic": "t",
            "partition": 0,
            "fields": {"leader_epoch": epoch, "isr": isr, **more},
        }
        for name, epoch, isr, more in (
            ("leader_elected", 0, [1, 2], {"leader": 1, "clean": True, "reason": "created"}),
            ("became_leader", 1, [2], {"start_offset": 0, "high_watermark": 2}),
            ("isr_expanded", 1, [2, 1], {"added": [1]}),
            ("log_truncated", 1, None, {"from_offset": 3, "to_offset": 2, "records": 1, "reason": "leader_epoch"}),
            ("log_recovered", 1, None, {"recovery_point": 2, "log_end_offset": 2, "clean": False}),
            ("broker_fenced", 1, None, {"target": 1}),
        )
    ]
    where = {"topic": "t", "partition": "0"}
    names = (
        "log_end_offset",
        "high_watermark",
        "log_flushed_offset",
        "replica_role",
        "leader_epoch",
        "partition_replicas",
    )
    scrape: list[object] = [[f"minikafka_{name}", where, 2.0] for name in names]
    scrape.append(["minikafka_follower_lag", {**where, "follower": "2"}, 1.0])
    samples: list[dict[str, object]] = [{"broker": broker, "samples": scrape} for broker in (1, 2, 1, 2)]
    logs: list[dict[str, object]] = [
        {
            "kind": "topic",
            "topic": "t",
            "partitions": 1,
            "replication_factor": 2,
            "config": {"cleanup.policy": "delete"},
        }
    ]
    for broker in (1, 2):
        log = {"topic": "t", "partition": 0, "broker": broker}
        bounds = {"start": 0, "end": 3, "batches": 1, "damage": None, "in_sync": True, "leader": broker == 1}
        batch = {"index": 0, "base_offset": 0, "last_offset": 2, "leader_epoch": 0, "crc": broker, "crc_right": True}
        producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "control": False}
        logs += [{"kind": "replica", **log, **bounds}, {"kind": "batch", **log, **batch, **producer}]
    _lines(folder / "history.jsonl", [{**about, **line} for line in history])
    _lines(folder / "journal.jsonl", journal)
    _lines(folder / "events" / "broker-1.jsonl", events)
    _lines(folder / "metrics" / "samples.jsonl", samples)
    _lines(folder / "replicas.jsonl", logs)
    return folder


def _lines(path: Path, lines: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    began = 1_767_225_600.0
    path.write_text(
        "".join(json.dumps({"time": began + n, **line}) + "\n" for n, line in enumerate(lines)), encoding="utf-8"
    )


def main() -> int:
    """Exit code 0 also where no archive can be made: an analysis runs without."""
    from minikafka_analytics.analyze import analyze
    from minikafka_analytics.jvm import SparkDidNotStart
    from minikafka_analytics.trouble import SparkFailed

    try:
        if not archive_of(find_java()).is_file():
            print("starting Spark once, so that its classes are at hand from now on (some 20 s)", flush=True)
            with tempfile.TemporaryDirectory(prefix="minikafka-archive-") as scratch:
                analyze([write_tiny_run(Path(scratch) / "run")], Path(scratch) / "out")
    except JavaMissing:
        pass  # the analysis says so, where there is one
    except (SparkDidNotStart, SparkFailed, OSError) as error:
        print(f"Spark's classes were not archived: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
