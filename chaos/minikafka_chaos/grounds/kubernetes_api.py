"""One namespace of a Kubernetes cluster: objects, commands in containers, pages of pods; all by the API server.

With the official client (docs/decisions/006-operator-client.md): its credentials, its connections, answers as JSON. Safe to use
from several threads at once.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from kubernetes.client import ApiClient, ApiException, Configuration
from kubernetes.config import (
    ConfigException,
    list_kube_config_contexts,
    load_incluster_config,
    new_client_from_config,
)
from kubernetes.stream import ws_client
from urllib3.exceptions import HTTPError

from minikafka_chaos.errors import BadScenario, ToolTrouble

Object = dict[str, Any]

REQUEST_SECONDS_MAX = 30
EXEC_SECONDS_MAX = 120
READ_SECONDS = 1.0
STATUS_CHANNEL = ws_client.ERROR_CHANNEL

POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

GROUPS: Mapping[str, str] = {
    "pods": "/api/v1",
    "namespaces": "/api/v1",
    "configmaps": "/api/v1",
    "minikafkaclusters": "/apis/minikafka.dev/v1alpha1",
    "minikafkatopics": "/apis/minikafka.dev/v1alpha1",
    "chaosexperiments": "/apis/minikafka.dev/v1alpha1",
    "events": "/api/v1",
}
"""Where each kind of object is found."""


class Refused(ToolTrouble):
    """The API server said no; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NotReached(ToolTrouble):
    """No answer, or none that is the API server's: it may help to try again."""


class ExecResult(NamedTuple):
    """What a command in a container left."""

    code: int
    output: str
    errors: str


class ClusterAccess(NamedTuple):
    """A way to a Kubernetes cluster."""

    client: ApiClient
    namespace: str
    """The one that the credentials name."""
    in_pod: bool
    """Whether it is the cluster that this program runs in."""


def connect(kubeconfig: Path | None = None, context: str | None = None) -> ClusterAccess:
    """By a context of a kubeconfig; without any, and inside a pod, by the pod's own credentials.

    Raises BadScenario for a context that is not there, ToolTrouble.
    """
    try:
        if kubeconfig is None and context is None and POD_NAMESPACE.exists():
            configuration = Configuration()
            load_incluster_config(client_configuration=configuration)
            return ClusterAccess(ApiClient(configuration), POD_NAMESPACE.read_text().strip(), True)
        file = str(kubeconfig) if kubeconfig is not None else None
        contexts, active = list_kube_config_contexts(config_file=file)
        chosen = next((each for each in contexts if each["name"] == context), None) if context else active
        if chosen is None:
            names = ", ".join(each["name"] for each in contexts)
            raise BadScenario(f"--context {context}: not in the kubeconfig; allowed: {names}")
        client = new_client_from_config(config_file=file, context=context)
        return ClusterAccess(client, str((chosen.get("context") or {}).get("namespace") or "default"), False)
    except (ConfigException, OSError, yaml.YAMLError) as error:
        raise ToolTrouble(f"no way to a Kubernetes cluster: {error}") from error


class Namespace:
    """See the module."""

    def __init__(self, client: ApiClient, name: str) -> None:
        self._client = client
        self.name = name

    # -- objects -------------------------------------------------------------------------------------------------------

    def get(self, kind: str, name: str) -> Object | None:
        """An object, or None where there is none of that name. Raises Refused, NotReached."""
        try:
            return self._json("GET", self._path(kind, name))
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def within(self, name: str) -> Namespace:
        """Another namespace of the same cluster."""
        return Namespace(self._client, name)

    def find_all(self, kind: str, *, fields: str = "", labels: str = "") -> list[Object]:
        """All objects that match the selectors. Raises Refused, NotReached."""
        query = [
            (name, selector) for name, selector in (("fieldSelector", fields), ("labelSelector", labels)) if selector
        ]
        found: list[Object] = self._json("GET", self._path(kind), query=query).get("items") or []
        return found

    def replace_status(self, kind: str, made: Object) -> Object:
        """Replace an object's status, if it is at the resource version in its metadata. Raises Refused (409), NotReached."""
        return self._json("PUT", f"{self._path(kind, made['metadata']['name'])}/status", body=made)

    def create(self, kind: str, made: Object) -> Object:
        """Make an object. Raises Refused, NotReached."""
        # Strict, so that a field which an older CRD does not know is refused, and not dropped.
        return self._json("POST", self._path(kind), body=made, query=[("fieldValidation", "Strict")])

    def delete(self, kind: str, name: str) -> None:
        """Ask for an object's deletion, and do not wait. Raises Refused, NotReached."""
        try:
            self._json("DELETE", self._path(kind, name))
        except Refused as error:
            if error.status != 404:
                raise

    def _path(self, kind: str, name: str = "") -> str:
        return f"{GROUPS[kind]}/namespaces/{self.name}/{kind}" + (f"/{name}" if name else "")

    def _json(
        self, method: str, path: str, body: Object | None = None, query: Sequence[tuple[str, str]] = ()
    ) -> Object:
        found: Object = json.loads(self._send(method, path, body, query, REQUEST_SECONDS_MAX))
        return found

    def _send(
        self, method: str, path: str, body: Object | None, query: Sequence[tuple[str, str]], seconds: float
    ) -> bytes:
        try:
            request = self._client.param_serialize(
                method,
                path,
                query_params=list(query),
                header_params={"Accept": "application/json", "Content-Type": "application/json"},
                body=body,
                auth_settings=["BearerToken"],
            )
            answer = self._client.call_api(*request, _request_timeout=seconds)
            content: bytes = answer.read()
        except (ApiException, HTTPError, OSError) as error:
            raise NotReached(f"the API server: {' '.join(str(error).split())}") from error
        if not 200 <= answer.status <= 299:
            raise Refused(answer.status, _message(content) or f"the API server: {answer.status} {answer.reason}")
        return content

    # -- pods ----------------------------------------------------------------------------------------------------------

    def page(self, pod: str, port: int, path: str, seconds: float) -> str:
        """A page that a pod serves. Raises OSError."""
        try:
            found = self._send("GET", f"{self._path('pods', f'{pod}:{port}')}/proxy{path}", None, (), seconds)
            return found.decode(errors="replace")
        except ToolTrouble as error:
            raise OSError(str(error)) from error

    def forward(self, pod: str, port: int) -> socket.socket:
        """A connection to a port of a pod, through the API server. Raises OSError."""
        try:
            method, url, headers, *_ = self._client.param_serialize(
                "GET",
                f"{self._path('pods', pod)}/portforward",
                query_params=[("ports", str(port))],
                auth_settings=["BearerToken"],
            )
            # Not `kubernetes.stream.portforward`, for the reason below.
            tunnel = ws_client.portforward_call(self._client.configuration, method, url, headers=headers)
        except (ApiException, OSError) as error:
            raise OSError(f"no way to port {port} of pod {pod}: {getattr(error, 'reason', None) or error}") from error
        # Its wrapper is no socket for TLS, which never sets the option that the wrapper is there for.
        found: socket.socket = tunnel.socket(port)._socket
        return found

    def run(self, pod: str, container: str, command: Sequence[str], seconds: float = EXEC_SECONDS_MAX) -> ExecResult:
        """Run a command in a container. Raises Refused (the API server says no), NotReached."""
        options = [("container", container), ("stdout", "true"), ("stderr", "true")]
        deadline = time.monotonic() + seconds
        try:
            method, url, headers, *_ = self._client.param_serialize(
                "GET",
                f"{self._path('pods', pod)}/exec",
                query_params=[*options, *(("command", word) for word in command)],
                auth_settings=["BearerToken"],
            )
            # Not `kubernetes.stream.stream`: it changes the client for as long as a call takes, for all threads. As bytes: a
            # letter of several bytes may begin in one frame and end in the next.
            stream = ws_client.websocket_call(
                self._client.configuration, method, url, headers=headers,
                _preload_content=False, capture_all=False, binary=True,
            )  # fmt: skip
        except (ApiException, OSError) as error:
            raise _handshake(pod, container, str(error)) from error
        # The status first: what a command wrote is there before its status is. So who has read that reads all the rest.
        parts = {
            channel: bytearray() for channel in (STATUS_CHANNEL, ws_client.STDOUT_CHANNEL, ws_client.STDERR_CHANNEL)
        }
        try:
            while stream.is_open() and time.monotonic() < deadline:
                stream.update(timeout=READ_SECONDS)
                _drain(stream, parts)
            _drain(stream, parts)  # to read a channel takes in more, up to the end of the connection
        except Exception as error:  # websocket-client has exceptions of its own, and none in common with others'
            raise NotReached(f"{pod}: the connection to {container} broke: {error}") from error
        finally:
            stream.close()
        status, output, errors = (content.decode(errors="replace") for content in parts.values())
        code = _exit_code(status)
        if code is None:
            raise NotReached(f"{pod}: {' '.join(command)}: no end after {seconds:g} s, or the connection broke")
        return ExecResult(code, output, errors)


def _drain(stream: ws_client.WSClient, parts: Mapping[int, bytearray]) -> None:
    for channel, found in parts.items():
        found += stream.read_channel(channel)


def _message(content: bytes) -> str:
    """Return what a Status object says."""
    try:
        found = json.loads(content)
    except ValueError:
        return " ".join(content.decode(errors="replace").split())[:500]
    return str(found.get("message") or "") if isinstance(found, dict) else ""


def _handshake(pod: str, container: str, said: str) -> ToolTrouble:
    line = " ".join(said.split())
    for status in (401, 403):
        if f"status {status}" in line:
            return Refused(status, f"{pod}: exec in {container} is not allowed (create on pods/exec): {line[:300]}")
    return NotReached(f"{pod}: exec in {container}: {line[:300]}")


def _exit_code(status: str) -> int | None:
    """The exit code in the Status that ends an exec; None when it does not say that the command ended."""
    try:
        found = json.loads(status)
        if found["status"] == "Success":
            return 0
        causes = (found.get("details") or {}).get("causes") or ()
        return next((int(cause["message"]) for cause in causes if cause.get("reason") == "ExitCode"), None)
    except (ValueError, KeyError, TypeError):
        return None
