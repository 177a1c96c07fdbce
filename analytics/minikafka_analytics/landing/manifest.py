"""What was landed of each file of a run: a manifest beside its rows, by which the next analysis knows what is there.

The folder of a file's rows appears with its manifest in one rename, so that rows without a manifest, or half of them, are never
where anybody reads. A store renames no folder at once: there the manifest goes first and is written last, and rows without one do
not count. Rows are there for good as long as the file has the size and the time of change (of an object: the entity tag) that the
manifest tells, or else the same SHA-256 (a copy of a run); as the landing of another version, or of lines that are declared
otherwise, they are not.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from minikafka_analytics.landing import schemas
from minikafka_analytics.landing.parsing import Source
from minikafka_analytics.landing.schemas import Landed
from minikafka_analytics.storage.stores import FileStamp, Place, digest, in_store, make_folder, put_text, remove, seen

VERSION = 1
"""Counts up with every change of `parsing` by which the same line is landed otherwise; declarations count by themselves."""

NAME = "_manifest.json"  # Spark and pyarrow take no file for data whose name begins like this
ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{}\[\]^]""")
"""What Hive and Spark escape in the names of partitions' folders."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Of one landed file. `quarantined`: by reason the number of `lines`, the `first` of them (from 1) and its text (`example`).

    `rows` were landed, `bad` lines were not; a scrape is many rows. `folder` is where the run was; `etag` may be empty.
    `parts`: the files beside the manifest and their bytes; of a folder in a store none are told.
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
    etag: str = ""
    parts: dict[str, int] = field(default_factory=dict)


def schema_version(table: Landed) -> str:
    """Return what rows of this table have to be landed by to be read by this program."""
    declared = repr((table, schemas.EVENT_FIELDS, schemas.METRICS_READ))
    return f"{VERSION}-{hashlib.sha256(declared.encode()).hexdigest()[:12]}"


def folder_of(out: Place, table: str, run: str, file: str | None = None) -> Place:
    """Return where the rows of a run, or of one file of it, are landed; Spark reads run and file from the names."""
    whole = out / table / f"run={_escaped(run)}"
    return whole if file is None else whole / f"file={_escaped(file)}"


def _escaped(name: str) -> str:
    return ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", name)


def of_file(source: Source, table: Landed, folder: Place) -> Manifest:
    """What a landing of this file has to say, before it is read: what is written to it meanwhile is landed the next time."""
    now = seen(source.path)
    return Manifest(
        schema_version(table),
        source.run,
        table.name,
        source.name,
        str(folder),
        now.bytes,
        now.mtime_ns,
        digest(source.path),
        etag=now.etag,
    )


def read(folder: Place) -> Manifest | None:
    """The manifest in a folder of rows; None where there is none, or none that can be read."""
    try:
        found = Manifest(**json.loads((folder / NAME).read_text(encoding="utf-8")))
        return found if _is_one(found) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _is_one(found: Manifest) -> bool:
    """Return whether each field is of its type, as nobody but a landing writes it."""
    texts = (found.schema, found.run, found.table, found.file, found.folder, found.sha256, found.etag)
    reasons = [each[name] for each in found.quarantined.values() for name in ("lines", "first")]
    numbers = [found.bytes, found.mtime_ns, found.rows, found.bad, *found.parts.values(), *reasons]
    texts = (*texts, *(each["example"] for each in found.quarantined.values()))
    return all(isinstance(each, str) for each in texts) and all(type(each) is int and each >= 0 for each in numbers)


def parts_of(folder: Place) -> dict[str, int]:
    """The files of rows in a folder of this machine and their bytes; in a store it would take a question for each."""
    if not isinstance(folder, Path) or not folder.is_dir():
        return {}
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.suffix == ".parquet"}


def current(source: Source, table: Landed, folder: Place) -> Manifest | None:
    """The manifest of what is landed in this folder, if that is all there is in the file now."""
    found, now = read(folder), seen(source.path)
    if found is None or found.schema != schema_version(table) or found.bytes != now.bytes:
        return None
    if (found.run, found.table, found.file) != (source.run, table.name, source.name) or found.parts != parts_of(folder):
        return None  # another's manifest, or rows that somebody took away or cut
    if _unchanged(found, now):
        return found
    if found.sha256 != digest(source.path):
        return None
    touched = replace(found, mtime_ns=now.mtime_ns, etag=now.etag)
    write(touched, folder)
    return touched


def _unchanged(found: Manifest, now: FileStamp) -> bool:
    """Return whether a file of the same size is the same. An object that was copied has another time, and the same entity tag."""
    return found.etag == now.etag if now.etag else found.mtime_ns == now.mtime_ns


def write(manifest: Manifest, folder: Place) -> None:
    """At once: who reads meanwhile sees the old one or the new one."""
    put_text(folder / NAME, json.dumps(asdict(manifest), indent=1, ensure_ascii=False) + "\n")


def being_written(folder: Place) -> Place:
    """Return where rows are written that shall be in `folder`; what somebody left there who died is removed.

    In a store it is `folder` itself: what is in it goes, and nothing counts there until a manifest is written.
    """
    if in_store(folder):
        forget(folder)
        return folder
    new = _beside(folder, "new")
    remove(new)
    make_folder(new.parent)
    return new


def put(new: Place, folder: Place) -> None:
    """Have the rows in `new` be those in `folder`. Who dies on the way leaves the old ones, the new ones, or none."""
    if new == folder:
        return
    old = _beside(folder, "old")
    remove(old)
    if folder.exists():
        os.replace(str(folder), str(old))
    os.replace(str(new), str(folder))
    remove(old)


def forget(folder: Place) -> None:
    """Removes rows. The manifest goes first: a store removes one object after the other, and what is left must not count."""
    if in_store(folder):
        remove(folder / NAME)
    remove(folder)


def _beside(folder: Place, what: str) -> Place:
    return folder.parent / f".{folder.name}.{what}"
