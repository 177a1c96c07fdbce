"""What was landed of each file of a run: a manifest beside its rows, by which the next analysis knows what is there.

The folder of a file's rows appears with its manifest in one rename, so that rows without a manifest, or half of them, are never
where anybody reads. Rows are there for good as long as the file has the size and the time of change that the manifest tells, or
else the same SHA-256 (a copy of a run); as the landing of another version, or of lines that are declared otherwise, they are not.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from minikafka_analytics import schemas
from minikafka_analytics.parsing import Source
from minikafka_analytics.schemas import Landed

VERSION = 1
"""Counts up with every change of `parsing` by which the same line is landed otherwise; declarations count by themselves."""

NAME = "_manifest.json"  # Spark and pyarrow take no file for data whose name begins like this
ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{}\[\]^]""")
"""What Hive and Spark escape in the names of partitions' folders."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Of one landed file. `quarantined`: by reason the number of `lines`, the `first` of them (from 1) and its text (`example`).

    `rows` were landed, `bad` lines were not; a scrape is many rows. `folder` is where the run was.
    """

    schema: str
    run: str
    table: str
    file: str
    folder: str
    bytes: int
    mtime_ns: int
    sha256: str
    rows: int = 0
    bad: int = 0
    quarantined: dict[str, dict[str, Any]] = field(default_factory=dict)


def schema_version(table: Landed) -> str:
    """What rows of this table have to be landed by to be read by this program."""
    declared = repr((table, schemas.EVENT_FIELDS, schemas.METRICS_READ))
    return f"{VERSION}-{hashlib.sha256(declared.encode()).hexdigest()[:12]}"


def folder_of(out: Path, table: str, run: str, file: str | None = None) -> Path:
    """Where the rows of a run, or of one file of it, are landed; Spark reads run and file from the names."""
    whole = out / table / f"run={_escaped(run)}"
    return whole if file is None else whole / f"file={_escaped(file)}"


def _escaped(name: str) -> str:
    return ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", name)


def of_file(source: Source, table: Landed, folder: Path) -> Manifest:
    """What a landing of this file has to say, before it is read: what is written to it meanwhile is landed the next time."""
    seen = source.path.stat()
    return Manifest(
        schema_version(table),
        source.run,
        table.name,
        source.name,
        str(folder),
        seen.st_size,
        seen.st_mtime_ns,
        digest(source.path),
    )


def read(folder: Path) -> Manifest | None:
    """The manifest in a folder of rows; None where there is none, or none that can be read."""
    try:
        return Manifest(**json.loads((folder / NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def current(source: Source, table: Landed, folder: Path) -> Manifest | None:
    """The manifest of what is landed in this folder, if that is all there is in the file now."""
    found, seen = read(folder), source.path.stat()
    if found is None or found.schema != schema_version(table) or found.bytes != seen.st_size:
        return None
    if found.mtime_ns == seen.st_mtime_ns:
        return found
    if found.sha256 != digest(source.path):
        return None
    touched = replace(found, mtime_ns=seen.st_mtime_ns)
    write(touched, folder)
    return touched


def write(manifest: Manifest, folder: Path) -> None:
    """At once: who reads meanwhile sees the old one or the new one."""
    new = folder / f".{NAME}.new"
    new.write_text(json.dumps(asdict(manifest), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(new, folder / NAME)


def being_written(folder: Path) -> Path:
    """Where rows are written that shall be in `folder`; what somebody left there who died is removed."""
    new = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.parent.mkdir(parents=True, exist_ok=True)
    return new


def put(new: Path, folder: Path) -> None:
    """Have the rows in `new` be those in `folder`. Who dies on the way leaves the old ones, the new ones, or none."""
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        os.replace(folder, old)
    os.replace(new, folder)
    shutil.rmtree(old, ignore_errors=True)


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
