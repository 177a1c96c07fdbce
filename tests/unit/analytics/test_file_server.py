"""The driver's files served to executors by WebHDFS: the same report as from the files themselves, and nothing for strangers."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from minikafka_analytics.file_server import serving
from minikafka_analytics.paths import PREFIX_SETTING, decoded, encoded

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


def test_what_is_not_served_is_said(client: Client, folders: Path) -> None:
    code, said = client.ask("PUT", folders / OUT, "SETQUOTA")
    assert code == 400 and b"SETQUOTA: not served" in said
