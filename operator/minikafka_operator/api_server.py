"""The API server, as far as the operator needs it: JSON in, JSON out, over the aiohttp that kopf brings along.

A typed client would cost more memory than the rest of the operator and translate every object twice: the planner works
on JSON, for only there is "what was sent" comparable with "what is there".
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import kopf

from minikafka_operator.kinds import Kind, Object
from minikafka_operator.names import MANAGER
from minikafka_operator.telemetry import Telemetry

REQUEST_SECONDS_MAX: Final = 30.0
LOGIN_SECONDS_MAX: Final = 60.0
"""Credentials are read again after this time: the kubelet renews a pod's token long before it ends."""

_MERGE_PATCH: Final = "application/merge-patch+json"
_JSON_PATCH: Final = "application/json-patch+json"
_APPLY_PATCH: Final = "application/apply-patch+yaml"

Login = Callable[[], kopf.ConnectionInfo]


class ApiError(Exception):
    """The API server's refusal. ``code`` is the HTTP status, ``reason`` Kubernetes' word for it (``NotFound``, ...)."""

    def __init__(self, code: int, reason: str, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after_seconds = retry_after_seconds


class ApiServer:
    """A connection pool. Methods raise ApiError for what the server refuses, aiohttp's errors and TimeoutError else."""

    def __init__(self, login: Login, telemetry: Telemetry) -> None:
        self._login = login
        self._telemetry = telemetry
        self._connection: kopf.ConnectionInfo | None = None
        self._read_at = 0.0
        self._tls: ssl.SSLContext | None = None
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS_MAX),
            connector=aiohttp.TCPConnector(limit=20),
            headers={"User-Agent": MANAGER, "Accept": "application/json"},
        )
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    # -- reading ----------------------------------------------------------------------------------------------------

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        """An object, or None when there is none."""
        try:
            return await self._send("GET", kind.path(namespace, name))
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    async def find_all(self, kind: Kind, namespace: str | None, *, labels: str = "", fields: str = "") -> list[Object]:
        """All objects that match the selectors. They are given their kind, which lists leave out."""
        query = {name: text for name, text in (("labelSelector", labels), ("fieldSelector", fields)) if text}
        answer = await self._send("GET", kind.path(namespace), query=query)
        return [{"apiVersion": kind.api_version, "kind": kind.name, **item} for item in answer.get("items") or ()]

    async def served(self, path: str) -> Object:
        """What the API server has at a path, such as the resources of a group."""
        return await self._send("GET", path)

    # -- writing ----------------------------------------------------------------------------------------------------

    async def apply(self, kind: Kind, thing: Object, *, force: bool) -> Object:
        """Server-side apply: creates or changes the object, and takes over its fields from others when ``force``."""
        metadata = thing["metadata"]
        query = {"fieldManager": MANAGER, "force": "true" if force else "false"}
        path = kind.path(metadata.get("namespace"), metadata["name"])
        return await self._write("apply", kind, "PATCH", path, thing, _APPLY_PATCH, query)

    async def apply_status(self, kind: Kind, namespace: str, name: str, status: Mapping[str, Any]) -> Object:
        """Server-side apply of an existing object's status."""
        thing = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {"name": name, "namespace": namespace},
            "status": status,
        }
        query = {"fieldManager": MANAGER, "force": "true"}
        return await self._write(
            "status", kind, "PATCH", kind.path(namespace, name, "status"), thing, _APPLY_PATCH, query
        )

    async def patch(self, kind: Kind, namespace: str, name: str, body: Mapping[str, Any]) -> Object:
        """JSON merge patch."""
        query = {"fieldManager": MANAGER}
        return await self._write("patch", kind, "PATCH", kind.path(namespace, name), body, _MERGE_PATCH, query)

    async def set_finalizers(
        self, kind: Kind, namespace: str, name: str, resource_version: str, finalizers: list[str]
    ) -> Object:
        """Replace an object's finalizers, if it is at that resource version (else ApiError 409 or 422)."""
        body = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": resource_version},
            {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
        ]
        return await self._write("finalizers", kind, "PATCH", kind.path(namespace, name), body, _JSON_PATCH, {})

    async def create(self, kind: Kind, namespace: str, thing: Object) -> Object:
        """Create an object; ApiError 409 when there is one of that name, whosever it is."""
        query = {"fieldManager": MANAGER}
        return await self._write("create", kind, "POST", kind.path(namespace), thing, "application/json", query)

    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str, resource_version: str | None = None
    ) -> None:
        """Delete an object, in the background, if it is still the one with this uid (and at this resource version).

        Nothing to delete is fine; another one is ApiError 409.
        """
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        body["preconditions"] = {"uid": uid, **({"resourceVersion": resource_version} if resource_version else {})}
        try:
            await self._write("delete", kind, "DELETE", kind.path(namespace, name), body, "application/json", {})
        except ApiError as error:
            if error.code != 404:
                raise

    # -- requests ---------------------------------------------------------------------------------------------------

    async def _write(
        self, verb: str, kind: Kind, method: str, path: str, body: Any, content_type: str, query: Mapping[str, str]
    ) -> Object:
        self._telemetry.writes.labels(verb, kind.name).inc()
        return await self._send(method, path, body=body, content_type=content_type, query=query)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = "",
        query: Mapping[str, str] | None = None,
    ) -> Object:
        for attempt in (1, 2):
            connection = self._credentials(fresh=attempt == 2)
            try:
                return await self._send_once(connection, method, path, body, content_type, query or {})
            except ApiError as error:
                if error.code != 401 or attempt == 2:
                    raise
        raise AssertionError("the second attempt returns or raises")

    async def _send_once(
        self,
        connection: kopf.ConnectionInfo,
        method: str,
        path: str,
        body: Any,
        content_type: str,
        query: Mapping[str, str],
    ) -> Object:
        assert self._session is not None, "use it as a context"
        headers = {**connection.as_http_headers(), **({"Content-Type": content_type} if content_type else {})}
        data = None if body is None else json.dumps(body).encode()
        code = 0
        try:
            async with self._session.request(
                method,
                connection.server.rstrip("/") + path,
                params=query,
                data=data,
                headers=headers,
                ssl=self._tls or True,
            ) as response:
                code = response.status
                text = await response.text()
        finally:
            self._telemetry.requests.labels(method, str(code)).inc()
        if code < 400:
            made = json.loads(text)
            assert isinstance(made, dict)
            return made
        raise _refusal(code, text, response.headers.get("Retry-After"))

    def _credentials(self, *, fresh: bool) -> kopf.ConnectionInfo:
        now = time.monotonic()
        if self._connection is None or fresh or now - self._read_at > LOGIN_SECONDS_MAX:
            connection = self._login()
            if self._connection is None or _tls_part(connection) != _tls_part(self._connection):
                self._tls = connection.as_ssl_context() if connection.server.startswith("https:") else None
            self._connection, self._read_at = connection, now
        return self._connection


def _tls_part(connection: kopf.ConnectionInfo) -> tuple[Any, ...]:
    return (
        connection.ca_path,
        connection.ca_data,
        connection.insecure,
        connection.certificate_path,
        connection.certificate_data,
        connection.private_key_path,
        connection.private_key_data,
    )


def _refusal(code: int, text: str, retry_after: str | None) -> ApiError:
    try:
        status = json.loads(text)
        reason, message = str(status.get("reason") or ""), str(status.get("message") or text)
    except (ValueError, AttributeError):
        reason, message = "", text.strip()
    seconds = float(retry_after) if retry_after and retry_after.isdecimal() else None
    return ApiError(code, reason, message, seconds)


TRANSIENT: Final = (aiohttp.ClientError, TimeoutError, asyncio.TimeoutError, OSError)
"""Errors of the way to the API server, which says nothing about the request."""
