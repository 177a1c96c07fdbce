"""Folders and files in stores that Hadoop reads: `s3a://bucket/runs/one`, `hdfs://...`, `file:///...`.

Hadoop's FileSystem in Spark's JVM is asked, so that whatever Spark is told of a store holds here, too (settings such as
`spark.hadoop.fs.s3a.endpoint`, the variables of S3A). `session.reached` starts that JVM. A `StorePath` has the methods of
`pathlib.Path` that an analysis needs, and a `Place` is either. What is done in another way in a store is a function here.
"""

from __future__ import annotations

import errno
import fnmatch
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

LONGEST_CAUSE: Final = 300  # characters of what a store said, for a failure that is none of the known ones
COPY_BYTES: Final = 1 << 20
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(.*)", re.DOTALL)


class StoreFailed(RuntimeError):
    """A store cannot be read or written; the message is one line that names the place and says what to do."""


class FileStamp(NamedTuple):
    """What tells whether a file has changed: its size, and when it was changed, or, where a store has one, its entity tag.

    An object is copied with another time and the same tag; `etag` is empty where there is none.
    """

    bytes: int
    mtime_ns: int
    etag: str = ""


class Size(NamedTuple):
    """What `stat` tells of a file in a store: what is used of `os.stat_result`."""

    st_size: int
    st_mtime_ns: int


@dataclass(frozen=True, slots=True, order=True)
class StorePath:
    """A folder or file in a store, named by scheme, authority (a bucket, a host) and names; nothing is decoded in them.

    Methods that ask the store raise FileNotFoundError where `pathlib.Path` does, and StoreFailed for all else.
    """

    scheme: str
    authority: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}/{'/'.join(self.names)}"

    def __truediv__(self, name: str | Path) -> StorePath:
        return StorePath(self.scheme, self.authority, _normal((*self.names, *str(name).split("/"))))

    @property
    def name(self) -> str:
        """The last name; of a bucket its own."""
        return self.names[-1] if self.names else self.authority

    @property
    def parts(self) -> tuple[str, ...]:
        """The authority and the names."""
        return (self.authority, *self.names)

    @property
    def parent(self) -> StorePath:
        """The folder above; a bucket is its own parent."""
        return StorePath(self.scheme, self.authority, self.names[:-1])

    @property
    def parents(self) -> tuple[StorePath, ...]:
        """The folders above, the nearest first."""
        return tuple(StorePath(self.scheme, self.authority, self.names[:n]) for n in reversed(range(len(self.names))))

    def relative_to(self, folder: Path | StorePath) -> Path:
        """The names below `folder`. Raises ValueError when it is not below it."""
        return Path("/".join(self.names)).relative_to(
            "/".join(folder.names) if isinstance(folder, StorePath) else folder
        )

    def expanduser(self) -> StorePath:
        """Itself: a store has no user."""
        return self

    def resolve(self) -> StorePath:
        """Itself: it is whole, and a store has no links."""
        return self

    def is_dir(self) -> bool:
        """Return whether it is a folder; in an object store, whether anything is below it."""
        found = self._status()
        return found is not None and bool(found.isDirectory())

    def is_file(self) -> bool:
        """Return whether it is a file."""
        found = self._status()
        return found is not None and bool(found.isFile())

    def exists(self) -> bool:
        """Return whether there is such a file or folder."""
        return self._status() is not None

    def stat(self) -> Size:
        """Size in bytes and time of change, which most stores tell to the millisecond."""
        found = self._there()
        return Size(int(found.getLen()), int(found.getModificationTime()) * 1_000_000)

    def iterdir(self) -> Iterator[StorePath]:
        """Return what is in a folder."""
        with _in_words(self):
            found = [str(each.getPath().getName()) for each in self._files().listStatus(self._path())]
        for name in found:
            yield StorePath(self.scheme, self.authority, (*self.names, name))

    def glob(self, pattern: str) -> Iterator[StorePath]:
        """Return what is in a folder and has such a name; nothing where there is no folder. `pattern` is of one name."""
        with suppress(FileNotFoundError):
            yield from (each for each in self.iterdir() if fnmatch.fnmatchcase(each.name, pattern))

    def read_bytes(self) -> bytes:
        """The whole of a file, which has to be small."""
        with _in_words(self):
            stream = self._files().open(self._path())
            try:
                return bytes(_java().org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The whole of a file, which has to be small."""
        return self.read_bytes().decode(encoding, errors)

    def listed_as(self) -> str:
        """Return what its store calls it in a listing, with what may not stand in a URI encoded."""
        return str(self._there().getPath().toUri().toString())

    def _path(self) -> Any:
        return _java().org.apache.hadoop.fs.Path(str(self))

    def _files(self) -> Any:
        return self._path().getFileSystem(_configuration())

    def _there(self) -> Any:
        with _in_words(self):
            return self._files().getFileStatus(self._path())

    def _status(self) -> Any | None:
        try:
            return self._there()
        except FileNotFoundError:
            return None


Place = Path | StorePath
"""A file or folder of this machine, or in a store."""


def place(text: str) -> Place:
    """Return what somebody named on a command line: `s3a://bucket/runs/one` is in a store, `runs/one` on this machine."""
    found = _URI.fullmatch(re.sub(r"^file:/(?!/)", "file:///", text))
    if found is None:
        return Path(text)
    scheme, authority, names = found.groups()
    return StorePath(scheme.lower(), authority, _normal(names.split("/")))


def _normal(names: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    kept: list[str] = []
    for name in names:
        if name == "..":
            kept = kept[:-1]
        elif name not in ("", "."):
            kept.append(name)
    return tuple(kept)


def absolute(path: Place) -> Place:
    """The path from the root on, without links. Raises OSError for links in a circle, and for the home of a user that is none."""
    try:
        return path.expanduser().resolve()
    except RuntimeError as error:
        raise OSError(errno.ENOENT, str(error), str(path)) from error


def below(path: Place, folder: Place) -> str:
    """The names of a path below a folder, with `/` between them. Raises ValueError when it is not below it."""
    if isinstance(path, Path) and isinstance(folder, Path):
        return path.relative_to(folder).as_posix()
    if path.parts[: len(folder.parts)] != folder.parts:
        raise ValueError(f"{path} is not in {folder}")
    return "/".join(path.parts[len(folder.parts) :])


# -- what is done otherwise in a store ----------------------------------------------------------------------------------


def in_store(path: Place) -> bool:
    """Return whether it is in a store. A store has no rename that does a folder at once."""
    return isinstance(path, StorePath)


def seen(file: Place) -> FileStamp:
    """Return what a file is like now."""
    if isinstance(file, Path):
        found = file.stat()
        return FileStamp(found.st_size, found.st_mtime_ns)
    status = file._there()
    return FileStamp(int(status.getLen()), int(status.getModificationTime()) * 1_000_000, _etag(status))


def digest(file: Place) -> str:
    """SHA-256 of a file, in hexadecimal. One in a store is read by the JVM, once."""
    if isinstance(file, Path):
        with file.open("rb") as local:
            return hashlib.file_digest(local, "sha256").hexdigest()
    java = _java()
    with _in_words(file):
        stream = java.java.security.DigestInputStream(
            file._files().open(file._path()), java.java.security.MessageDigest.getInstance("SHA-256")
        )
        try:
            java.org.apache.hadoop.io.IOUtils.copyBytes(
                stream, java.java.io.OutputStream.nullOutputStream(), COPY_BYTES, False
            )
            return bytes(stream.getMessageDigest().digest()).hex()
        finally:
            stream.close()


def tail(file: Place, size: int) -> bytes:
    """The last `size` bytes of a file, or all of a shorter one."""
    if isinstance(file, Path):
        with file.open("rb") as local:
            end = local.seek(0, os.SEEK_END)
            local.seek(max(end - size, 0))
            return local.read()
    with _in_words(file):
        stream = file._files().open(file._path())
        try:
            stream.seek(max(int(file._there().getLen()) - size, 0))
            return bytes(_java().org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()


def lines(file: Place) -> Iterator[str]:
    """The lines of a text, which only a newline ends; what is no UTF-8 is replaced."""
    if isinstance(file, Path):
        with file.open(encoding="utf-8", errors="replace", newline="\n") as local:
            yield from local
    else:
        yield from file.read_text(errors="replace").split("\n")


def put_text(file: Place, text: str) -> None:
    """Writes or replaces a file at once: who reads meanwhile sees the old one or the new one.

    Half of a surrogate pair, which JSON can say and UTF-8 cannot, is written as JSON writes it.
    """
    written = text.encode(errors="backslashreplace")
    if isinstance(file, Path):
        new = file.with_name(f".{file.name}.new")
        new.write_bytes(written)
        os.replace(new, file)
        return
    with _in_words(file):
        stream = file._files().create(file._path(), True)
        try:
            stream.write(written)
        finally:
            stream.close()  # an object is there from now on


def make_folder(folder: Place) -> None:
    """Has a folder be there, with those above it; an object store may keep it as an empty object."""
    if isinstance(folder, Path):
        folder.mkdir(parents=True, exist_ok=True)
        return
    with _in_words(folder):
        folder._files().mkdirs(folder._path())


def remove(path: Place) -> None:
    """Removes a file, or a folder with all that is in it, where it is there."""
    if isinstance(path, StorePath):
        with suppress(FileNotFoundError), _in_words(path):
            path._files().delete(path._path(), True)
    elif path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


# -- Hadoop -------------------------------------------------------------------------------------------------------------


def _java() -> Any:
    from pyspark import SparkContext

    java = SparkContext._jvm
    if java is None:
        raise StoreFailed("a store is read by Spark's JVM, and none runs: see session.reached")
    return java


def _configuration() -> Any:
    """Hadoop's, with what Spark was told for it; also while no SparkContext is there."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None and context._jsc is not None:
        return context._jsc.hadoopConfiguration()
    return _configured(_java())


@lru_cache(maxsize=1)
def _configured(java: Any) -> Any:
    """Keep the configuration of one JVM: to make it takes milliseconds."""
    return java.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(java.org.apache.spark.SparkConf())


def _etag(status: Any) -> str:
    from py4j.java_gateway import is_instance_of
    from pyspark import SparkContext

    if not is_instance_of(SparkContext._gateway, status, "org.apache.hadoop.fs.EtagSource"):
        return ""
    return str(status.getEtag() or "")


@contextmanager
def _in_words(where: StorePath) -> Iterator[None]:
    """Turns what Java raises into FileNotFoundError or StoreFailed."""
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        try:
            yield
        except Py4JJavaError as error:
            causes = _causes(error.java_exception)  # asks the JVM, as does what follows
            if causes[0].startswith("java.io.FileNotFoundException"):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(where)) from error
            raise StoreFailed(_advice(where, causes)) from error
    except (Py4JError, ConnectionError) as error:
        raise StoreFailed(f"{where}: Spark's JVM ended while it was asked") from error


def _causes(raised: Any) -> list[str]:
    """An exception and what caused it, the innermost last: class and message."""
    found: list[str] = []
    while raised is not None and len(found) < 20:
        found.append(str(raised.toString()))
        raised = raised.getCause()
    return found


def _advice(where: StorePath, causes: list[str]) -> str:
    """One line for a failure."""
    text, last = "\n".join(causes), causes[-1]
    said = " ".join(last.split())[:LONGEST_CAUSE]
    if "ClassNotFoundException" in text or "NoClassDefFoundError" in text:
        version = _java().org.apache.hadoop.util.VersionInfo.getVersion()
        missing = re.findall(r"(?:NoClassDefFoundError: |ClassNotFoundException: (?:Class )?)([\w.$/]+)", text)
        how = (
            f"--packages org.apache.hadoop:hadoop-aws:{version}"
            if where.scheme == "s3a"
            else "--packages, or --conf spark.jars"
        )
        return f"{where}: Spark lacks the jar for {where.scheme}:// ({missing[-1] if missing else said}): give it with {how}"
    if "UnsupportedFileSystemException" in text:
        if where.scheme in ("s3", "s3n"):
            return f"{where}: Hadoop reads S3 as s3a://{where.authority}/..."
        return f"{where}: Hadoop knows no {where.scheme}://; give its jar with --packages, or --conf spark.jars"
    if "UnknownStoreException" in text or "NoSuchBucket" in text:
        return f"{where}: there is no bucket {where.authority}"
    if re.search(r"NoAuthWithAWSException|NoAwsCredentialsException|CredentialInitializationException", text):
        return (
            f"{where}: no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
            "--conf spark.hadoop.fs.s3a.aws.credentials.provider"
        )
    if re.search(r"AccessDeniedException|AccessControlException|Status Code: 403", text):
        return f"{where}: access denied: {said}"
    if re.search(r"UnknownHost|ConnectException|NoRouteToHost|[Tt]imed? ?out|SdkClientException", text):
        return f"{where}: the store is not reached: {said}"
    return f"{where}: {said}"
