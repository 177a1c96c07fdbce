"""The driver's files served to executors by WebHDFS: the same report as from the files themselves, and nothing for strangers."""

from __future__ import annotations

import errno
import http.client
import json
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, urlsplit

import pytest
from minikafka.local.http_handler import HEAD_BYTES_MAX
from minikafka_analytics.spark import file_server
from minikafka_analytics.spark.file_server import serving
from minikafka_analytics.storage.paths import PREFIX_SETTING, decoded, encoded

LOOPBACK = "127.0.0.1"
HEADER = "spark.hadoop.dfs.webhdfs.rest-csrf.custom-header"
RUN, OUT = "run 1+%", "out"


class Client:
    """What Hadoop's client sends, without Hadoop."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.host = str(urlsplit(settings[PREFIX_SETTING]).netloc)
        self.headers = {settings[HEADER]: '""'}

    def ask(
        self, verb: str, path: Path | str, operation: str, body: bytes | None = None, **more: str
    ) -> tuple[int, bytes]:
        query = "&".join([f"op={operation}", *(f"{name}={quote(value)}" for name, value in more.items())])
        connection = http.client.HTTPConnection(self.host, timeout=10)
        try:
            connection.request(verb, f"/webhdfs/v1{encoded(str(path))}?{query}", body, self.headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def create(self, path: Path, data: bytes, **more: str) -> int:
        return self.ask("PUT", path, "CREATE", data, data="true", **more)[0]


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    for name in (RUN, OUT, "others"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "history.jsonl").write_text("0123456789")
    return tmp_path


@pytest.fixture
def client(folders: Path) -> Iterator[Client]:
    with serving(LOOPBACK, [folders / RUN], [folders / OUT]) as settings:
        yield Client(settings)


@pytest.mark.parametrize("name", ["a/b-c_1.jsonl", "50%+;x y", "file=metrics%2Fbroker-1", "größe~7E", "[a]{b}*?\\"])
def test_names_are_spelt_in_letters_that_hadoop_leaves_alone(name: str) -> None:
    spelt = encoded(name)
    assert decoded(spelt) == name
    assert not set(spelt) & set("%+; []{}*?\\") and spelt.isascii()


def test_a_part_of_a_file_and_what_is_in_a_folder(client: Client, folders: Path) -> None:
    path = folders / RUN / "history.jsonl"
    assert client.ask("GET", path, "OPEN", offset="2", length="3") == (200, b"234")
    assert client.ask("GET", path, "OPEN", offset="8") == (200, b"89")
    assert client.ask("GET", path, "OPEN", offset="99") == (200, b"")
    status = json.loads(client.ask("GET", path, "GETFILESTATUS")[1])["FileStatus"]
    assert (status["type"], status["length"]) == ("FILE", 10)
    (found,) = json.loads(client.ask("GET", folders / RUN, "LISTSTATUS")[1])["FileStatuses"]["FileStatus"]
    assert found["pathSuffix"] == "history.jsonl"
    code, said = client.ask("GET", folders / RUN / "nothing", "GETFILESTATUS")
    assert code == 404 and json.loads(said)["RemoteException"]["javaClassName"] == "java.io.FileNotFoundException"


def test_a_file_is_written_renamed_and_removed(client: Client, folders: Path) -> None:
    new, old = folders / OUT / "_temporary" / "part-0", folders / OUT / "part-0"
    code, _ = client.ask("PUT", new, "CREATE")
    assert code == 307, "the client is sent on before it sends data"
    assert client.create(new, b"rows") == 201 and new.read_bytes() == b"rows"
    assert client.create(new, b"other rows") == 403, "without overwrite"
    assert client.create(new, b"other rows", overwrite="true") == 201
    assert json.loads(client.ask("PUT", new, "RENAME", destination=encoded(str(old)))[1]) == {"boolean": True}
    assert old.read_bytes() == b"other rows" and not new.exists()
    assert json.loads(client.ask("PUT", new, "RENAME", destination=encoded(str(old)))[1]) == {"boolean": False}
    assert json.loads(client.ask("DELETE", new.parent, "DELETE", recursive="true")[1]) == {"boolean": True}
    assert json.loads(client.ask("DELETE", new.parent, "DELETE", recursive="true")[1]) == {"boolean": False}


def test_a_file_that_was_cut_short_is_not_answered_for(client: Client, folders: Path) -> None:
    """An executor that dies while it writes: its part is no success, and is never renamed."""
    connection = http.client.HTTPConnection(client.host, timeout=10)
    connection.putrequest("PUT", f"/webhdfs/v1{encoded(str(folders / OUT / 'part-0'))}?op=CREATE&data=true")
    for name, value in (*client.headers.items(), ("Transfer-Encoding", "chunked")):
        connection.putheader(name, value)
    connection.endheaders(b"a\r\n01234")
    assert connection.sock is not None
    connection.sock.shutdown(1)
    with pytest.raises(http.client.HTTPException):
        connection.getresponse()
    connection.close()


@pytest.mark.parametrize("path", ["others/history.jsonl", f"{RUN}/../others/history.jsonl", f"{RUN}/link"])
def test_nothing_else_is_read(client: Client, folders: Path, path: str) -> None:
    (folders / RUN / "link").symlink_to(folders / "others" / "history.jsonl")
    code, said = client.ask("GET", f"{folders}/{path}", "OPEN")
    assert code == 403 and b"not in a folder that may be read" in said


def test_a_run_is_only_read(client: Client, folders: Path) -> None:
    path = folders / RUN / "history.jsonl"
    assert client.create(path, b"", overwrite="true") == 403
    assert client.ask("DELETE", folders / RUN, "DELETE", recursive="true")[0] == 403
    assert client.ask("PUT", folders / OUT / "history.jsonl", "RENAME", destination=encoded(str(path)))[0] == 403
    assert path.read_text() == "0123456789"


def test_who_does_not_know_the_header_is_not_answered(client: Client, folders: Path) -> None:
    client.headers = {"X-Minikafka-0": '""'}
    code, said = client.ask("GET", folders / RUN / "history.jsonl", "OPEN")
    assert code == 403 and b"0123" not in said


def test_strangers_hold_no_more_than_so_many_connections(
    client: Client, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They send nothing, and would each have a thread for as long as they like; those who know the header are served on."""
    host, _, port = client.host.rpartition(":")
    monkeypatch.setattr(file_server, "STRANGERS_MAX", 8)
    strangers = [socket.create_connection((host, int(port)), timeout=30) for _ in range(file_server.STRANGERS_MAX)]
    try:
        assert client.ask("GET", folders / RUN / "history.jsonl", "OPEN") == (200, b"0123456789")
        assert strangers[0].recv(1) == b"", "the oldest makes room"
        strangers[-1].settimeout(0.1)
        with pytest.raises(TimeoutError):
            strangers[-1].recv(1)
    finally:
        for stranger in strangers:
            stranger.close()


def test_of_what_a_stranger_begins_with_little_is_kept(client: Client) -> None:
    host, _, port = client.host.rpartition(":")
    begin = b"GET / HTTP/1.1\r\nA: "
    with socket.create_connection((host, int(port)), 60) as stranger:
        stranger.sendall(begin + (HEAD_BYTES_MAX + 1 - len(begin)) * b"a")
        assert stranger.recv(12) == b"HTTP/1.1 431"


def test_what_is_not_served_is_said(client: Client, folders: Path) -> None:
    code, said = client.ask("PUT", folders / OUT, "SETQUOTA")
    assert code == 400 and b"SETQUOTA: not served" in said


@pytest.mark.parametrize("trouble", ["error", "shrinks"])
def test_a_file_that_cannot_be_sent_to_its_end(
    client: Client, folders: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """The answer has begun; words about the error would be taken for the rest of the file (found by an attack)."""
    path = folders / RUN / "history.jsonl"
    path.write_bytes(b"x" * 1000)
    sends = socket.socket.sendfile

    def sendfile(self: socket.socket, file: BinaryIO, offset: int = 0, count: int | None = None) -> int:
        sent = sends(self, file, offset, 700)
        if trouble == "error":
            raise OSError(errno.EIO, "Input/output error")
        return sent

    monkeypatch.setattr(socket.socket, "sendfile", sendfile)
    connection = http.client.HTTPConnection(client.host, timeout=10)
    connection.request("GET", f"/webhdfs/v1{encoded(str(path))}?op=OPEN", headers=client.headers)
    with pytest.raises(http.client.IncompleteRead) as cut:
        connection.getresponse().read()
    assert cut.value.partial == b"x" * 700
    connection.close()


def test_nobody_is_served_on_when_it_is_over(folders: Path) -> None:
    """An executor that lingers on a connection of its own must not change a finished report."""
    with serving(LOOPBACK, [], [folders / OUT]) as settings:
        client = Client(settings)
        connection = http.client.HTTPConnection(client.host, timeout=10)
        where = f"/webhdfs/v1{encoded(str(folders / OUT / 'history.jsonl'))}"
        connection.request("GET", f"{where}?op=GETFILESTATUS", headers=client.headers)
        assert connection.getresponse().read()

    def delete() -> None:
        connection.request("DELETE", f"{where}?op=DELETE", headers=client.headers)
        connection.getresponse()

    with pytest.raises((http.client.HTTPException, OSError)):
        delete()
    assert (folders / OUT / "history.jsonl").exists()


@pytest.mark.parametrize("asked", ["offset=-5", "offset=x", "length=-1", "length=" + "9" * 5000, "offset=%D9%A1"])
def test_bad_numbers_are_told(client: Client, folders: Path, asked: str) -> None:
    name, _, value = asked.partition("=")
    code, said = client.ask("GET", folders / RUN / "history.jsonl", "OPEN", **{name: value.replace("%D9%A1", "١")})
    assert code == 400 and b"allowed is a number from 0 on" in said


def test_a_bad_length_costs_no_file(client: Client, folders: Path) -> None:
    path = folders / OUT / "history.jsonl"
    connection = http.client.HTTPConnection(client.host, timeout=10)
    connection.putrequest("PUT", f"/webhdfs/v1{encoded(str(path))}?op=CREATE&data=true&overwrite=true")
    for name, value in (*client.headers.items(), ("Content-Length", "-1")):
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 400
    assert path.read_text() == "0123456789"
    connection.close()


def test_a_name_that_is_none(client: Client, folders: Path) -> None:
    code, said = client.ask("GET", f"{folders}/{RUN}/a\0b", "OPEN")
    assert code == 400 and b"null" in said


def test_what_is_no_file_holds_nobody(client: Client, folders: Path) -> None:
    """A pipe would wait for its other end, a link to itself has none."""
    os.mkfifo(folders / RUN / "pipe")
    (folders / RUN / "loop").symlink_to("loop")
    assert client.ask("GET", folders / RUN / "pipe", "OPEN")[0] == 403
    assert client.ask("GET", folders / RUN, "OPEN")[0] == 403
    found = json.loads(client.ask("GET", folders / RUN, "LISTSTATUS")[1])["FileStatuses"]["FileStatus"]
    assert "history.jsonl" in [each["pathSuffix"] for each in found]


def test_a_link_goes_and_not_what_it_points_to(client: Client, folders: Path) -> None:
    (folders / OUT / "link").symlink_to(folders / OUT / "history.jsonl")
    assert json.loads(client.ask("DELETE", folders / OUT / "link", "DELETE")[1]) == {"boolean": True}
    assert (folders / OUT / "history.jsonl").exists() and not (folders / OUT / "link").is_symlink()
    (folders / OUT / "out").symlink_to(folders / "others")
    assert client.ask("DELETE", folders / OUT / "out" / "history.jsonl", "DELETE")[0] == 403
    assert (folders / "others" / "history.jsonl").exists()


@pytest.mark.slow
def test_one_of_two_gets_a_name(client: Client, folders: Path) -> None:
    """Two that create one file without overwrite, and two that rename to one name."""
    for number in range(20):
        path = folders / OUT / f"part-{number}"
        with ThreadPoolExecutor(2) as pool:
            codes = sorted(pool.map(lambda data, at=path: client.create(at, data), (b"a", b"b")))
        assert codes == [201, 403]
