"""Where the API server is and who we are: a pod's service account, or a kubeconfig file."""

from __future__ import annotations

import base64
import json
import os
import ssl
import tempfile
import time
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from minikafka.metadata.store import StoreError
from minikafka.security.fresh import read_at_most

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_READ_SECONDS = 60.0
"""A projected token is replaced by the kubelet well before it expires (KEP-1205): read it again this often."""

TOKEN_BYTES_MAX, NAMESPACE_BYTES_MAX, KUBECONFIG_BYTES_MAX = 64 << 10, 1 << 10, 16 << 20


class Access:
    """How to reach one API server.

    Args:
        server: ``https://host:port``, or ``http://`` for a proxy on this machine.
        tls: None for ``http``.
        token: a bearer token; ``token_file`` is read again from time to time instead.
        namespace: the namespace we are in; empty when nothing says so.
    """

    def __init__(
        self,
        server: str,
        tls: ssl.SSLContext | None,
        token: str | None = None,
        token_file: Path | None = None,
        namespace: str = "",
    ) -> None:
        parts = urlsplit(server)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise StoreError(f"Kubernetes API server {server!r}: not a URL; allowed: https://HOST:PORT")
        self.host = parts.hostname
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self.base = parts.path.rstrip("/")
        self.tls = tls if parts.scheme == "https" else None
        self.namespace = namespace
        self._token = token
        self._token_file = token_file
        self._read_at = float("-inf")

    @property
    def address(self) -> str:
        """``host:port`` for messages and the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def token(self) -> str | None:
        """The bearer token in force; raises StoreError when its file cannot be read."""
        if self._token_file is None:
            return self._token
        now = time.monotonic()
        if now - self._read_at > TOKEN_READ_SECONDS:
            try:
                self._token = read_at_most(self._token_file, TOKEN_BYTES_MAX).decode("ascii").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise StoreError(f"{self._token_file}: {error}") from error
            self._read_at = now
        return self._token

    def token_refused(self) -> None:
        """The server did not take the token: read it anew next time."""
        self._read_at = float("-inf")


def find_access(environment: Mapping[str, str] | None = None, service_account: Path = SERVICE_ACCOUNT) -> Access:
    """The kubeconfig that ``KUBECONFIG`` names (one file), else this pod's service account.

    Raises:
        StoreError: neither is there, or it cannot be used.
    """
    environment = os.environ if environment is None else environment
    if environment.get("KUBECONFIG"):
        return from_kubeconfig(Path(environment["KUBECONFIG"]))
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise StoreError(
            "minikafka.metadata.store=kubernetes: this is no pod (KUBERNETES_SERVICE_HOST is not set) and KUBECONFIG "
            "names no file"
        )
    authority = service_account / "ca.crt"
    try:
        tls = ssl.create_default_context(cafile=str(authority))
        namespace = read_at_most(service_account / "namespace", NAMESPACE_BYTES_MAX).decode().strip()
    except OSError as error:
        raise StoreError(
            f"{service_account}: {error.strerror or error}; the pod needs a service account with its token mounted"
        ) from error
    shown = f"[{host}]" if ":" in host else host
    return Access(f"https://{shown}:{port}", tls, token_file=service_account / "token", namespace=namespace)


def from_kubeconfig(path: Path) -> Access:
    """The current context of a kubeconfig file: token or client certificate. Raises StoreError."""
    try:
        content = _load(path)
        context = _named(content, "contexts", "context", content.get("current-context"))
        cluster = _named(content, "clusters", "cluster", context.get("cluster"))
        user = _named(content, "users", "user", context.get("user"))
        server = cluster["server"]
        tls = _tls(path.parent, cluster, user) if server.startswith("https:") else None
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"KUBECONFIG={path}: {error}") from error
    token_file = user.get("tokenFile")
    return Access(
        server,
        tls,
        user.get("token"),
        None if token_file is None else path.parent / token_file,
        context.get("namespace", "default"),
    )


def _load(path: Path) -> dict[str, Any]:
    text = read_at_most(path, KUBECONFIG_BYTES_MAX, may_wait=True).decode()
    try:
        content = json.loads(text)
    except ValueError:
        try:
            import yaml  # only people's own files are YAML; a pod never gets here
        except ImportError as error:
            raise ValueError("reading YAML needs PyYAML, which this image lacks; JSON is allowed") from error
        try:
            content = yaml.safe_load(
                StringIO(text)
            )  # given the text, errors would repeat lines of it, such as a token's
        except (yaml.YAMLError, AttributeError, LookupError) as error:  # the others of tags: !!int without digits
            raise ValueError(str(error).replace("\n", " ")) from error
    if not isinstance(content, dict):
        raise ValueError("not a kubeconfig file")
    return content


def _named(content: Mapping[str, Any], kind: str, inner: str, name: object) -> dict[str, Any]:
    for item in content.get(kind) or ():
        if item.get("name") == name:
            return dict(item[inner])
    raise ValueError(f"no entry {name!r} among its {kind}")


def _tls(folder: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    if user.get("exec") or user.get("auth-provider"):
        raise ValueError("credential plugins are not supported; allowed: token, tokenFile, client certificate")
    data = cluster.get("certificate-authority-data")
    authority = cluster.get("certificate-authority")
    if cluster.get("insecure-skip-tls-verify"):
        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    else:
        tls = ssl.create_default_context(
            cafile=str(folder / authority) if authority and not data else None,
            cadata=base64.b64decode(data).decode("ascii") if data else None,
        )
    if user.get("client-certificate-data"):
        _load_pair(tls, user)
    elif user.get("client-certificate"):
        tls.load_cert_chain(str(folder / user["client-certificate"]), str(folder / user["client-key"]))
    return tls


def _load_pair(tls: ssl.SSLContext, user: Mapping[str, Any]) -> None:
    """OpenSSL reads certificate and key from a file only."""
    with tempfile.NamedTemporaryFile() as pair:
        pair.write(base64.b64decode(user["client-certificate-data"]) + b"\n")
        pair.write(base64.b64decode(user["client-key-data"]))
        pair.flush()
        tls.load_cert_chain(pair.name)
