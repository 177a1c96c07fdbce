"""The API server, as far as controllers need it: JSON in, JSON out, over the official client's asyncio dynamic client.

Objects stay JSON, for only there is "what was sent" comparable with "what is there". Resources are taken from
:mod:`~minikafka_kube.kinds` and not discovered: their paths are fixed, so a controller asks nothing before it works, and
keeps no cache of the API in a file (docs/decisions/006).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.dynamic import DynamicClient, Resource
from kubernetes.aio.dynamic.exceptions import DynamicApiError

from minikafka_kube.kinds import Kind, Object
from minikafka_kube.names import MANAGER
from minikafka_kube.telemetry import Looking

REQUEST_SECONDS_MAX: Final = 30.0
CONNECTIONS_MAX: Final = 20

_MERGE_PATCH: Final = "application/merge-patch+json"
_JSON_PATCH: Final = "application/json-patch+json"
_SUBRESOURCES: Final = ("status", "eviction")
_NOT_IN_NAMES: Final = frozenset("/%?#")

_MESSAGE_MAX: Final = 2_000
"""Of a refusal, which a webhook can make as long as it likes; no condition with all of it could be written."""

Login = Callable[[], Awaitable[Configuration]]
"""Reads the credentials; see :mod:`~minikafka_kube.credentials`."""


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

    def __init__(self, login: Login, telemetry: Looking, manager: str = MANAGER) -> None:
        self._login = login
        self._manager = manager
        self._telemetry = telemetry
        self._connecting = asyncio.Lock()
        self._session: _Session | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.retire()

    # -- reading ----------------------------------------------------------------------------------------------------

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        """An object, or None when there is none, as of what can be no object's name: somebody may have written it into a spec,
        and in a path it would lead to another object, of another namespace even.
        """
        if name in ("", ".", "..") or _NOT_IN_NAMES & set(name):
            return None
        try:
            return await self._send("GET", lambda client: client.get(_resource(client, kind), name, namespace, **_RAW))
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    async def find_all(self, kind: Kind, namespace: str | None, *, labels: str = "", fields: str = "") -> list[Object]:
        """All objects that match the selectors. They are given their kind, which lists leave out."""
        selectors = {"label_selector": labels or None, "field_selector": fields or None}
        answer = await self._send(
            "GET", lambda client: client.get(_resource(client, kind), None, namespace, **selectors, **_RAW)
        )
        return [{"apiVersion": kind.api_version, "kind": kind.name, **item} for item in answer.get("items") or ()]

    async def served(self, path: str) -> Object:
        """Return what the API server has at a path, such as the resources of a group."""
        return await self._send("GET", lambda client: client.request("get", path, **_RAW))

    # -- writing ----------------------------------------------------------------------------------------------------

    async def apply(self, kind: Kind, thing: Object, *, force: bool) -> Object:
        """Server-side apply: creates or changes the object, and takes over its fields from others when ``force``."""
        return await self._write(
            "apply",
            kind,
            "PATCH",
            lambda client: client.server_side_apply(
                _resource(client, kind), thing, force_conflicts=force, field_manager=self._manager, **_RAW
            ),
        )

    async def apply_status(self, kind: Kind, namespace: str, name: str, status: Mapping[str, Any]) -> Object:
        """Server-side apply of an existing object's status."""
        metadata = {"name": name, "namespace": namespace}
        thing = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "status": status}
        return await self._write(
            "status",
            kind,
            "PATCH",
            lambda client: client.server_side_apply(
                _resource(client, kind).status, thing, force_conflicts=True, field_manager=self._manager, **_RAW
            ),
        )

    async def patch(self, kind: Kind, namespace: str, name: str, body: Mapping[str, Any]) -> Object:
        """JSON merge patch."""
        return await self._patch("patch", kind, namespace, name, dict(body), _MERGE_PATCH, field_manager=self._manager)

    async def set_finalizers(
        self, kind: Kind, namespace: str, name: str, resource_version: str, finalizers: list[str]
    ) -> Object:
        """Replace an object's finalizers, if it is at that resource version (else ApiError 409 or 422)."""
        body = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": resource_version},
            {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
        ]
        return await self._patch("finalizers", kind, namespace, name, body, _JSON_PATCH)

    async def create(self, kind: Kind, namespace: str, thing: Object) -> Object:
        """Create an object; ApiError 409 when there is one of that name, whosever it is."""
        return await self._write(
            "create",
            kind,
            "POST",
            lambda client: client.create(
                _resource(client, kind), thing, namespace, field_manager=self._manager, **_RAW
            ),
        )

    async def replace(self, kind: Kind, namespace: str, thing: Object) -> Object:
        """Replace an object, if it is at the resource version in its metadata (else ApiError 409)."""
        return await self._write(
            "replace",
            kind,
            "PUT",
            lambda client: client.replace(_resource(client, kind), thing, namespace=namespace, **_RAW),
        )

    async def replace_status(self, kind: Kind, namespace: str, thing: Object) -> Object:
        """Replace an object's status, if it is at the resource version in its metadata (else ApiError 409)."""
        name = str(thing["metadata"]["name"])
        return await self._write(
            "status",
            kind,
            "PUT",
            lambda client: _resource(client, kind).status.replace(
                thing, name, namespace, field_manager=self._manager, **_RAW
            ),
        )

    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str, resource_version: str | None = None
    ) -> None:
        """Delete an object, in the background, if it is still the one with this uid (and at this resource version).

        Nothing to delete is fine; another one is ApiError 409.
        """
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        body["preconditions"] = {"uid": uid, **({"resourceVersion": resource_version} if resource_version else {})}
        try:
            await self._write(
                "delete",
                kind,
                "DELETE",
                lambda client: client.delete(_resource(client, kind), name, namespace, body, **_RAW),
            )
        except ApiError as error:
            if error.code != 404:
                raise

    async def evict(self, kind: Kind, namespace: str, name: str, uid: str) -> None:
        """Ask for a pod's eviction, if it is still the one with this uid; nothing to evict is fine.

        ApiError 429 when its PodDisruptionBudget has nothing to spare: the same that holds up a drain.
        """
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        try:
            await self._write(
                "evict",
                kind,
                "POST",
                lambda client: _resource(client, kind).eviction.create(body, name, namespace, **_RAW),
            )
        except ApiError as error:
            if error.code != 404:
                raise

    # -- requests ---------------------------------------------------------------------------------------------------

    async def _patch(
        self, verb: str, kind: Kind, namespace: str, name: str, body: Any, content_type: str, **query: str
    ) -> Object:
        return await self._write(
            verb,
            kind,
            "PATCH",
            lambda client: client.patch(
                _resource(client, kind), body, name, namespace, content_type=content_type, **query, **_RAW
            ),
        )

    async def _write(
        self, verb: str, kind: Kind, method: str, ask: Callable[[DynamicClient], Awaitable[aiohttp.ClientResponse]]
    ) -> Object:
        self._telemetry.writes.labels(verb, kind.name).inc()
        return await self._send(method, ask)

    async def _send(self, method: str, ask: Callable[[DynamicClient], Awaitable[aiohttp.ClientResponse]]) -> Object:
        """Ask; once more with credentials read anew when the server does not know us (any more)."""
        session = await self._session_now()
        try:
            return await self._send_once(session, method, ask)
        except ApiError as error:
            if error.code != 401:
                raise
        return await self._send_once(await self._session_now(instead_of=session), method, ask)

    async def _send_once(
        self, session: _Session, method: str, ask: Callable[[DynamicClient], Awaitable[aiohttp.ClientResponse]]
    ) -> Object:
        code = 0
        try:
            async with session as client:
                response = await ask(client)
                code = response.status
                made = await response.json()
        except DynamicApiError as error:
            code = error.status
            raise _refusal(error) from None
        finally:
            self._telemetry.requests.labels(method, str(code)).inc()
        assert isinstance(made, dict)
        return made

    async def _session_now(self, instead_of: _Session | None = None) -> _Session:
        async with self._connecting:  # whoever else met the same refusal takes the session that the first one makes
            if self._session is None or self._session is instead_of:
                configuration = await self._login()
                if self._session is not None:
                    await self._session.retire()
                self._session = _Session(configuration, self._manager)
            return self._session


class _Session:
    """One set of credentials and the connections made with it, which end when it is retired and nobody uses them."""

    def __init__(self, configuration: Configuration, manager: str) -> None:
        configuration.connection_pool_maxsize = CONNECTIONS_MAX
        configuration.client_session_kwargs = {"trust_env": False}  # as kopf, which watches the same server
        self._api_client = ApiClient(configuration)
        self._api_client.user_agent = manager
        self._client = DynamicClient(self._api_client)
        self._users = 0
        self._retired = False

    async def __aenter__(self) -> DynamicClient:
        self._users += 1
        return self._client

    async def __aexit__(self, *_: object) -> None:
        self._users -= 1
        await self._end()

    async def retire(self) -> None:
        self._retired = True
        await self._end()

    async def _end(self) -> None:
        if self._retired and not self._users:
            await self._api_client.close()


_RAW: Final[Mapping[str, Any]] = {
    "serialize": False,  # the HTTP answer; the client's own objects are copies of the JSON that we would copy back
    "_request_timeout": aiohttp.ClientTimeout(total=REQUEST_SECONDS_MAX),
}


def _resource(client: DynamicClient, kind: Kind) -> Resource:
    group, _, version = kind.api_version.rpartition("/")
    parts = {
        name: {"name": f"{kind.plural}/{name}", "kind": kind.name, "namespaced": kind.namespaced}
        for name in _SUBRESOURCES
    }
    return Resource(
        prefix="apis" if group else "api",
        group=group,
        api_version=version,
        kind=kind.name,
        namespaced=kind.namespaced,
        name=kind.plural,
        subresources=parts,
        client=client,
    )


def _refusal(error: DynamicApiError) -> ApiError:
    text = error.body or ""
    try:
        status = json.loads(text)
        reason, message = str(status.get("reason") or ""), str(status.get("message") or text)
    except (ValueError, AttributeError):
        reason, message = "", text.strip()
    after = (error.headers or {}).get("Retry-After") or ""
    return ApiError(error.status, reason, message[:_MESSAGE_MAX], float(after) if after.isdecimal() else None)


TRANSIENT: Final = (aiohttp.ClientError, TimeoutError, asyncio.TimeoutError, OSError)
"""Errors of the way to the API server, which says nothing about the request."""
