"""Folders of this process's machine, served to Spark's executors on others by WebHDFS, whose client is in every Hadoop.

A claim that is ReadWriteOnce is where the driver is. Executors elsewhere read the runs and write tables through the driver then
(docs/decisions/020-executors-on-several-nodes.md). Of the protocol there is what Spark's readers and committers ask
(https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-hdfs/WebHDFS.html). Nobody may ask who does not know a header
that Spark's own settings carry to executors; nothing outside the folders is answered for.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import parse_qs, unquote, urlsplit

from minikafka.local.http_handler import BoundedHandler

from minikafka_analytics.storage.paths import PREFIX_SETTING, decoded, encoded

ROOT: Final = "/webhdfs/v1"
IDLE_SECONDS_MAX: Final = 60
CLOSE_S: Final = 0.05  # at most, from the end of the analysis until the server notices it
STRANGERS_MAX: Final = 256
"""Connections that have not shown the key: of more than these the oldest is closed, else strangers could hold all threads."""
BLOCK_BYTES: Final = 128 << 20
"""What HDFS has by default; Spark splits files by settings of its own."""
COPY_BYTES: Final = 256 << 10
CHUNK_LINE_MAX: Final = 1024
DIGITS_MAX: Final = 18
JAVA: Final = {
    HTTPStatus.NOT_FOUND: ("FileNotFoundException", "java.io.FileNotFoundException"),
    HTTPStatus.FORBIDDEN: ("AccessControlException", "org.apache.hadoop.security.AccessControlException"),
    HTTPStatus.BAD_REQUEST: ("UnsupportedOperationException", "java.lang.UnsupportedOperationException"),
    HTTPStatus.INTERNAL_SERVER_ERROR: ("IOException", "java.io.IOException"),
}
"""What Hadoop's client makes of an answer: exceptions by their names."""


class RequestRefused(Exception):
    """A request that is not answered for; the client sees an exception with this message."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Folders:
    """Which paths may be read, and which written: those in `writable` both, those in `readable` only the first.

    Symbolic links are followed before it is looked where a path is.
    """

    def __init__(self, readable: Sequence[Path], writable: Sequence[Path]) -> None:
        self._writable = tuple(path.resolve() for path in writable)
        self._readable = (*(path.resolve() for path in readable), *self._writable)

    def to_read(self, path: str) -> Path:
        """Raises RequestRefused."""
        return self._within(path, self._readable, "read")

    def to_write(self, path: str) -> Path:
        """Raises RequestRefused."""
        return self._within(path, self._writable, "written")

    def _within(self, path: str, folders: Sequence[Path], verb: str) -> Path:
        found = Path(os.path.realpath(path))
        if not any(folder in (found, *found.parents) for folder in folders):
            raise RequestRefused(HTTPStatus.FORBIDDEN, f"{path}: not in a folder that may be {verb}")
        return found


@contextmanager
def serving(address: str, readable: Sequence[Path], writable: Sequence[Path]) -> Iterator[dict[str, str]]:
    """Serves folders at an IP address, on a free port, as long as the body takes; what Spark has to be told to read there.

    `writable` may be read as well. Raises OSError when the address is not this machine's.
    """
    key = f"X-Minikafka-{secrets.token_hex(16)}"
    server = (_Server6 if ":" in address else _Server)((address, 0), key, Folders(readable, writable))
    thread = threading.Thread(target=server.serve_forever, args=(CLOSE_S,), name="file server", daemon=True)
    thread.start()
    try:
        yield {
            PREFIX_SETTING: f"webhdfs://{_authority(address, server.server_port)}",
            # Hadoop's way to have its client send a header of a chosen name, meant against forged requests of browsers.
            "spark.hadoop.dfs.webhdfs.rest-csrf.enabled": "true",
            "spark.hadoop.dfs.webhdfs.rest-csrf.custom-header": key,
            "spark.hadoop.dfs.webhdfs.rest-csrf.methods-to-ignore": "TRACE",
            # Every block is here; asking where costs a request a file.
            "spark.sql.sources.ignoreDataLocality": "true",
        }
    finally:
        server.shutdown()
        server.server_close()
        server.hang_up()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], key: str, folders: Folders) -> None:
        self.key = key
        self.folders = folders
        self.naming = threading.Lock()
        """Held by who looks whether a name is free and then takes it."""
        self._open: set[socket.socket] = set()
        self._strangers: dict[socket.socket, None] = {}
        """Those of them that have not shown the key, oldest first."""
        self._counting = threading.Lock()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._counting:
            self._open.add(request)
            self._strangers[request] = None
            oldest = next(iter(self._strangers)) if len(self._strangers) > STRANGERS_MAX else None
            if oldest is not None:
                del self._strangers[oldest]
        if oldest is not None:
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def known(self, request: Any) -> None:
        """Count a connection no longer as a stranger's: its client has shown the key."""
        with self._counting:
            self._strangers.pop(request, None)

    def shutdown_request(self, request: Any) -> None:
        with self._counting:
            self._open.discard(request)
            self._strangers.pop(request, None)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """An executor that lingers must not change what is finished."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is none of ours: Hadoop's leaves the rest of a file unread when it looks elsewhere."""


class _Server6(_Server):
    address_family = socket.AF_INET6


def _authority(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


class _Handler(BoundedHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS_MAX
    disable_nagle_algorithm = True  # else a body waits for the acknowledgement of its header, 40 ms
    wbufsize = -1
    server: _Server

    def log_message(self, format: str, *arguments: Any) -> None:
        """Silent: what fails is told to the client."""

    def do_GET(self) -> None:
        self._answer({"GETFILESTATUS": self._status, "LISTSTATUS": self._list, "OPEN": self._open})

    def do_PUT(self) -> None:
        self._answer(
            {
                "CREATE": self._create,
                "MKDIRS": self._mkdirs,
                "RENAME": self._rename,
                "SETPERMISSION": self._nothing,
                "SETTIMES": self._nothing,
            }
        )

    def do_DELETE(self) -> None:
        self._answer({"DELETE": self._delete})

    # -- what is asked -------------------------------------------------------------------------------------------------

    def _answer(self, known: dict[str, Any]) -> None:
        self.name = self.path
        try:
            url = urlsplit(self.path)
            self.asked = {name.lower(): values[-1] for name, values in parse_qs(url.query).items()}
            self.name = decoded(unquote(url.path.removeprefix(ROOT)))
            operation = self.asked.get("op", "").upper()
            if self.headers.get(self.server.key) is None:
                raise RequestRefused(HTTPStatus.FORBIDDEN, "only this analysis's own executors are answered")
            self.server.known(self.connection)
            if operation not in known:
                raise RequestRefused(HTTPStatus.BAD_REQUEST, f"{operation}: not served; there are: {', '.join(known)}")
            known[operation]()
        except RequestRefused as refused:
            self._fail(refused.status, str(refused))
        except ValueError as error:  # a path with a NUL, or what is no URL
            self._fail(HTTPStatus.BAD_REQUEST, f"{self.name!r}: {error}")
        except (FileNotFoundError, NotADirectoryError):
            self._fail(HTTPStatus.NOT_FOUND, f"{self.name}: no such file or folder")
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            words = f"{self.name}: {error.strerror or error}"
            self._fail(HTTPStatus.INTERNAL_SERVER_ERROR, f"No space left on device: {words}" if full else words)

    def _status(self) -> None:
        path = self.server.folders.to_read(self.name)
        self._send_json({"FileStatus": _file_status(path, "")})

    def _list(self) -> None:
        path = self.server.folders.to_read(self.name)
        if path.is_dir():
            found = []
            for each in sorted(path.iterdir()):
                try:
                    found.append(_file_status(each, encoded(each.name)))
                except OSError as error:
                    if error.errno not in (errno.ENOENT, errno.ELOOP):  # removed since, or a link to itself
                        raise
        else:
            found = [_file_status(path, "")]
        self._send_json({"FileStatuses": {"FileStatus": found}})

    def _open(self) -> None:
        path = self.server.folders.to_read(self.name)
        if path.exists() and not path.is_file():
            raise RequestRefused(HTTPStatus.FORBIDDEN, f"{self.name}: no file")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            begin = min(self._number("offset", 0), size)
            length = min(self._number("length", size), size - begin)
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            if length:  # a count of 0 would be refused
                self._send(file, begin, length)

    def _send(self, file: BinaryIO, begin: int, length: int) -> None:
        """The answer has begun: whatever fails now can only be told by ending the connection before its time. Another answer
        would be taken for the file's bytes.
        """
        try:
            self.wfile.flush()
            sent = self.connection.sendfile(file, begin, length)
        except OSError:
            sent = -1
        if sent != length:  # it has shrunk since, or cannot be read
            self.close_connection = True

    def _number(self, name: str, default: int) -> int:
        """A parameter of the request. Raises RequestRefused."""
        text = self.asked.get(name, str(default))
        if not (text.isascii() and text.isdecimal()) or len(text) > DIGITS_MAX:
            raise RequestRefused(HTTPStatus.BAD_REQUEST, f"{name}={text[:40]!r}: allowed is a number from 0 on")
        return int(text)

    def _create(self) -> None:
        path = self.server.folders.to_write(self.name)
        if "data" not in self.asked:
            # The client asks without data first, and expects to be sent where the data shall go.
            host, port = self.server.server_address[:2]
            self.send_response(HTTPStatus.TEMPORARY_REDIRECT)
            self.send_header("Location", f"http://{_authority(str(host), port)}{self.path}&data=true")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        length = self._content_length()
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self.server.naming:
                file = path.open("wb" if self.asked.get("overwrite", "false") == "true" else "xb")
        except FileExistsError:
            raise RequestRefused(HTTPStatus.FORBIDDEN, f"{self.name}: is there already") from None
        with file:
            self._receive(file, length)
        self._send_json(None, HTTPStatus.CREATED)

    def _mkdirs(self) -> None:
        self.server.folders.to_write(self.name).mkdir(parents=True, exist_ok=True)
        self._send_json({"boolean": True})

    def _rename(self) -> None:
        """As Hadoop does: into a folder that is there, else to the new name, whose folder has to be there; never over a file."""
        path = self.server.folders.to_write(self.name)
        target = self.server.folders.to_write(decoded(self.asked.get("destination", "")))
        if target.is_dir():
            target = target / path.name
        with self.server.naming:
            may = path.exists() and not target.exists() and target.parent.is_dir()
            if may:
                path.rename(target)
        self._send_json({"boolean": may})

    def _delete(self) -> None:
        named = Path(self.name)
        if named.is_symlink():  # the link goes, not what it points to
            (self.server.folders.to_write(str(named.parent)) / named.name).unlink()
            self._send_json({"boolean": True})
            return
        path = self.server.folders.to_write(self.name)
        there = path.exists()
        if path.is_dir():
            if self.asked.get("recursive") == "true":
                shutil.rmtree(path)
            else:
                path.rmdir()
        elif there:
            path.unlink()
        self._send_json({"boolean": there})

    def _nothing(self) -> None:
        """What claims of Kubernetes have no use for."""
        self.server.folders.to_write(self.name)
        self._send_json(None)

    # -- how it is answered --------------------------------------------------------------------------------------------

    def _send_json(self, document: object, status: HTTPStatus = HTTPStatus.OK) -> None:
        """JSON, without a Content-Type: to look at one, Hadoop's client needs a class of Jersey's that its jars have not."""
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _fail(self, status: HTTPStatus, message: str) -> None:
        name, java = JAVA[status]
        self.close_connection = True  # a body that was sent is not read
        with suppress(OSError):
            self._send_json({"RemoteException": {"exception": name, "javaClassName": java, "message": message}}, status)

    def _content_length(self) -> int | None:
        """Return the length of the request's body; None when it comes in chunks. Raises RequestRefused."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return None
        text = self.headers.get("Content-Length", "0")
        if not (text.isascii() and text.isdecimal()) or len(text) > DIGITS_MAX:
            raise RequestRefused(HTTPStatus.BAD_REQUEST, f"Content-Length {text[:40]!r}: allowed is a number from 0 on")
        return int(text)

    def _receive(self, file: BinaryIO, content_length: int | None) -> None:
        """The request's body, in chunks or of a told length. Raises OSError for one that is cut short."""
        if content_length is not None:
            self._copy(file, content_length)
            return
        while length := int(self.rfile.readline(CHUNK_LINE_MAX).split(b";")[0].strip() or b"-1", 16):
            if length < 0:
                raise ConnectionResetError
            self._copy(file, length)
            self.rfile.readline(CHUNK_LINE_MAX)
        while self.rfile.readline(CHUNK_LINE_MAX).strip():
            pass  # trailers

    def _copy(self, file: BinaryIO, length: int) -> None:
        while length:
            part = self.rfile.read(min(length, COPY_BYTES))
            if not part:
                raise ConnectionResetError
            file.write(part)
            length -= len(part)


def _file_status(path: Path, suffix: str) -> dict[str, object]:
    found = path.stat()
    folder = path.is_dir()
    return {
        "pathSuffix": suffix,
        "type": "DIRECTORY" if folder else "FILE",
        "length": 0 if folder else found.st_size,
        "modificationTime": found.st_mtime_ns // 1_000_000,
        "accessTime": found.st_atime_ns // 1_000_000,
        "blockSize": 0 if folder else BLOCK_BYTES,
        "replication": 0 if folder else 1,
        "permission": "755" if folder else "644",
        "owner": "minikafka",
        "group": "minikafka",
        "fileId": found.st_ino,
        "childrenNum": 0,
        "storagePolicy": 0,
    }
