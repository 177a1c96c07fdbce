"""A control plane without nodes: a real etcd and a real kube-apiserver on free ports of the loopback interface.

What an API server decides (schemas, CEL, compare-and-set, watches, RBAC) it decides here as in any cluster; nothing
runs pods. Both programs die with the thread that started them (``PR_SET_PDEATHSIG``), however it ends; so start them from
the main thread.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minikafka.local.ports import is_free

BINARIES = Path(__file__).parents[1] / "e2e" / "cluster" / "binaries"
ADMIN_TOKEN = "admin-of-the-tests"
READY_SECONDS_MAX = 300.0
REQUEST_SECONDS_MAX = 60.0
_PR_SET_PDEATHSIG = 1
_LOG_LINES_SHOWN = 15


def program_folder() -> Path:
    """Where ``etcd`` and the Kubernetes programs are: ``MINIKAFKA_E2E_BIN``, or what the script builds (once)."""
    given = os.environ.get("MINIKAFKA_E2E_BIN")
    if given:
        return Path(given)
    made = subprocess.run([BINARIES], stdout=subprocess.PIPE, text=True, check=True)
    return Path(made.stdout.strip().splitlines()[-1])


def find_program(name: str, folder: Path) -> Path:
    """The file to run as ``name``: of that name, or the one file that is all Kubernetes programs and looks at argv[0].

    Raises:
        FileNotFoundError: says how to get it.
    """
    for place in (folder / name, folder / "kube"):
        if place.exists():
            return place
    raise FileNotFoundError(f"{name} is not in {folder}; tests/e2e/cluster/binaries builds it")


PROCESSES_MAX = 4
"""How many processes may run these tests side by side (pytest-xdist's workers gw0 to gw3)."""
_ALL_PORTS = range(31_100, 32_700)
"""Below the kernel's ephemeral range, so that no client's own connection takes one first, and above those of local clusters."""
_PORTS = _ALL_PORTS[int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) :: PROCESSES_MAX]
"""Those of this process: none is given to two."""
_given: set[int] = set()


def free_port() -> int:
    """A port that is free now, and that nobody else got lately; a program that is restarted finds it free again."""
    if len(_given) > len(_PORTS) // 2:
        _given.clear()
    port = random.choice([port for port in _PORTS if port not in _given and is_free(port)])
    _given.add(port)
    return port


class ControlPlane:
    """One etcd, one API server. ``start`` returns when /readyz says so."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self.etcd_program = find_program("etcd", programs)
        self.server_program = find_program("kube-apiserver", programs)
        self.kubectl_program = find_program("kubectl", programs)
        self.etcd_port, self.port = free_port(), free_port()
        self.certificate = folder / "certs" / "apiserver.crt"
        self.tls: ssl.SSLContext
        self._etcd: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    # -- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        (self.folder / "certs").mkdir(parents=True, exist_ok=True)
        key, public = self.folder / "sa.key", self.folder / "sa.pub"
        _openssl("genrsa", "-out", str(key), "2048")
        _openssl("rsa", "-in", str(key), "-pubout", "-out", str(public))
        (self.folder / "tokens.csv").write_text(f'{ADMIN_TOKEN},admin,admin,"system:masters"\n')
        self._etcd = self._spawn(
            "etcd",
            self.etcd_program,
            [
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls=http://127.0.0.1:{self.etcd_port}",
                f"--advertise-client-urls=http://127.0.0.1:{self.etcd_port}",
                "--listen-peer-urls=http://127.0.0.1:0",
                "--log-level=warn",
            ],
        )
        self.start_server()

    def start_server(self) -> None:
        """Start the API server, unless it runs, and wait until it is ready. From the main thread."""
        if self._server is not None and self._server.poll() is None:
            return
        self._server = self._spawn(
            "kube-apiserver",
            self.server_program,
            [
                f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                f"--secure-port={self.port}",
                f"--cert-dir={self.folder / 'certs'}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={self.folder / 'sa.pub'}",
                f"--service-account-signing-key-file={self.folder / 'sa.key'}",
                f"--token-auth-file={self.folder / 'tokens.csv'}",
                "--authorization-mode=RBAC",
                "--service-cluster-ip-range=10.96.0.0/24",
                "--disable-admission-plugins=ServiceAccount",
                "--endpoint-reconciler-type=none",
                "--etcd-compaction-interval=0",
                "--profiling=false",
                "--v=0",
            ],
        )
        self._wait_until_ready()
        (self.folder / "kubeconfig").write_text(json.dumps(self.kubeconfig(ADMIN_TOKEN)))

    def stop_server(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End the API server; etcd stays."""
        _end(self._server, how)
        self._server = None

    def pause_server(self) -> None:
        """The API server keeps its connections and says nothing. None of its threads runs when this returns."""
        assert self._server is not None
        self._server.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._server.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume_server(self) -> None:
        if self._server is not None:
            self._server.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self.stop_server()
        _end(self._etcd, signal.SIGKILL)
        self._etcd = None

    def _spawn(self, name: str, program: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [name, *arguments],
                executable=program,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, no Python lock in it
            )

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS_MAX
        problem = "not asked"
        while time.monotonic() < deadline:
            for name, process in (("etcd", self._etcd), ("kube-apiserver", self._server)):
                if process is None or process.poll() is not None:
                    raise RuntimeError(f"{name} ended: {self.log_end(name)}")
            try:
                if self.certificate.exists():
                    self.tls = ssl.create_default_context(cafile=str(self.certificate))
                    self.request("GET", "/readyz")
                    return
            except (OSError, ssl.SSLError) as error:
                problem = str(error)
            time.sleep(0.05)
        raise RuntimeError(f"kube-apiserver is not ready after {READY_SECONDS_MAX} s ({problem}): {self.log_end()}")

    def log_end(self, name: str = "kube-apiserver") -> str:
        lines = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_LINES_SHOWN:])

    # -- use ----------------------------------------------------------------------------------------------------------

    def kubeconfig(self, token: str, server: str | None = None, namespace: str = "default") -> dict[str, Any]:
        """A kubeconfig file's content (JSON is YAML) for a bearer of ``token``; ``server`` may name a proxy."""
        cluster: dict[str, str] = {"server": server or self.url}
        if cluster["server"].startswith("https:"):
            cluster["certificate-authority"] = str(self.certificate)
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests", "namespace": namespace}}],
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "tests", "user": {"token": token}}],
        }

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One request as the administrator; the decoded answer. Raises urllib's HTTPError."""
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/json"}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS_MAX, context=self.tls) as answer:
            text = answer.read()
        return json.loads(text) if text.startswith(b"{") else text.decode()

    def find(self, path: str) -> Any:
        """The object at ``path``, or None."""
        try:
            return self.request("GET", path)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return None

    def kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """kubectl as the administrator; the caller looks at the exit code."""
        environment = {**os.environ, "KUBECONFIG": str(self.folder / "kubeconfig"), "HOME": str(self.folder)}
        return subprocess.run(
            ["kubectl", *arguments],
            executable=self.kubectl_program,
            input=stdin,
            capture_output=True,
            text=True,
            env=environment,
            timeout=240,
            check=False,
        )

    def compact(self) -> int:
        """Compact etcd up to now; answers the revision. What is older can no longer be watched or listed."""

        def etcd(path: str, body: Mapping[str, Any]) -> Any:
            request = urllib.request.Request(
                f"http://127.0.0.1:{self.etcd_port}{path}", json.dumps(body).encode(), method="POST"
            )
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS_MAX) as answer:
                return json.loads(answer.read())

        revision = int(etcd("/v3/maintenance/status", {})["header"]["revision"])
        etcd("/v3/kv/compaction", {"revision": str(revision), "physical": True})
        return revision


_libc = ctypes.CDLL(None)


def die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def _end(process: subprocess.Popen[bytes] | None, how: signal.Signals) -> None:
    if process is None:
        return
    process.send_signal(how)
    if how is not signal.SIGKILL:
        process.send_signal(signal.SIGCONT)
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
