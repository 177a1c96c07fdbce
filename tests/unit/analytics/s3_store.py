"""An S3 server on loopback (moto), and Spark's settings to reach it: both fetched once into the user's cache.

What is asked of it is unsigned but for its form: moto takes any signature until it is told to look.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.interop.kafka_jars import KafkaJarsMissing, cached, fetched_jars

HERE = Path(__file__).parent / "s3"
FETCH_SECONDS_MAX = 600
START_SECONDS_MAX = 120
SIGNED = "AWS4-HMAC-SHA256 Credential=tests/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"  # not looked at


def server_command() -> list[str]:
    """moto's server, from an environment of its own. Raises KafkaJarsMissing when it cannot be fetched."""
    folder = cached("moto", HERE / "requirements.txt")
    if not folder.is_dir():
        _fetch(folder)
    return [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {str(folder)!r}); from moto.server import main; main()",
    ]


def _fetch(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(scratch)]
    command += ["--requirement", str(HERE / "requirements.txt")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX, check=False)
        if done.returncode:
            raise KafkaJarsMissing(f"{' '.join(command)} failed: {done.stderr[-600:]}")
        try:
            scratch.rename(folder)
        except OSError:  # another run was faster, and its folder is as good
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@dataclass(frozen=True)
class Store:
    """A running server. `jars`: a folder with Hadoop's client of S3."""

    url: str
    jars: Path

    def make_bucket(self, bucket: str) -> None:
        """Makes an empty one."""
        self._ask("PUT", bucket)

    def upload(self, folder: Path, where: str) -> None:
        """Puts the files of a folder below `where`, a bucket and names."""
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            self.put(f"{where}/{path.relative_to(folder).as_posix()}", path.read_bytes())

    def put(self, where: str, content: bytes) -> None:
        """Puts one object."""
        self._ask("PUT", where, content)

    def get(self, where: str) -> bytes:
        """What an object holds."""
        return self._ask("GET", where)

    def keys(self, bucket: str) -> dict[str, str]:
        """All objects of a bucket, at most a thousand, and their entity tags."""
        listed = ElementTree.fromstring(self._ask("GET", f"{bucket}?list-type=2"))
        space = {"s3": listed.tag.partition("}")[0].lstrip("{")}
        found = listed.findall("s3:Contents", space)
        return {each.findtext("s3:Key", "", space): each.findtext("s3:ETag", "", space) for each in found}

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Nobody has a right to anything meanwhile."""
        self._ask("POST", "moto-api/reset-auth", b"0")
        try:
            yield
        finally:
            self._ask("POST", "moto-api/reset-auth", b"100000000")

    def options(self, **more: str) -> list[str]:
        """Options of `minikafka analyze`; `more` are settings of S3A, with `_` for a dot."""
        told = {"endpoint": self.url, "path.style.access": "true", "endpoint.region": "us-east-1"}
        told |= {name.replace("_", "."): value for name, value in more.items()}
        jars = ",".join(str(jar) for jar in sorted(self.jars.glob("*.jar")))
        return [
            "--conf",
            f"spark.jars={jars}",
            *(f"--conf=spark.hadoop.fs.s3a.{name}={value}" for name, value in told.items()),
        ]

    def _ask(self, method: str, where: str, body: bytes | None = None) -> bytes:
        headers = {"Authorization": SIGNED, "Content-Type": "application/octet-stream"}
        request = urllib.request.Request(f"{self.url}/{where}", data=body, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: bytes = answer.read()
            return found


CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests", "AWS_EC2_METADATA_DISABLED": "true"}


@contextmanager
def serving(log: Path) -> Iterator[Store]:
    """A server with nothing in it, for as long as the body takes. Raises KafkaJarsMissing when it cannot be fetched."""
    jars = fetched_jars("hadoop-aws", HERE / "pom.xml")
    command = [*server_command(), "-H", "127.0.0.1", "-p", "0"]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, env=dict(os.environ)) as child:
        try:
            yield Store(_url(child, log), jars)
        finally:
            child.kill()


def _url(child: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and child.poll() is None:
        if found := re.search(r"Running on (http://[0-9.]+:[0-9]+)", log.read_text()):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"the S3 server did not start: {log.read_text()}")
