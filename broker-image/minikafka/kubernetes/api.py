"""The few verbs of the Kubernetes API that the store needs, with its errors sorted by what may have happened."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from minikafka.kubernetes.connection import LINE_BYTES_MAX, ApiUnreachable, HttpClient, HttpResponse
from minikafka.kubernetes.credentials import Access
from minikafka.kubernetes.topics import FIELD_MANAGER
from minikafka.metadata.store import StoreError

REQUEST_SECONDS_MAX = 5.0
LIST_PAGE = 500
"""Objects a request, as client-go's reflector asks for."""

WATCH_SECONDS = (240, 480)
"""A watch is asked to end after a random time in this range, as client-go's does, so that servers can balance."""

SILENCE_SECONDS_MAX = 100.0
"""The server sends a bookmark about every minute; a watch that is silent for longer is taken for dead."""

RETRY_AFTER_SECONDS_MAX = 10.0

Object = dict[str, Any]


class ApiError(StoreError):
    """The API server answered with an error status."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None) -> None:
        super().__init__(f"Kubernetes API: {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.retry_after = retry_after

    @property
    def maybe_done(self) -> bool:
        """After 5xx a write may have been carried out (etcd answered too late); after 4xx it was not."""
        return self.status >= 500


class Conflict(ApiError):
    """409: the object is no longer at the resourceVersion that the write named, or exists already."""


class NotFound(ApiError):
    """404: no such object, or no such resource."""


class Gone(ApiError):
    """410: the resourceVersion is too old to be watched from; list again."""


_BY_STATUS: dict[int, type[ApiError]] = {404: NotFound, 409: Conflict, 410: Gone}


class Kind(NamedTuple):
    """A namespaced resource."""

    group_version: str
    plural: str
    kind: str

    def path(self, namespace: str, name: str | None = None, subresource: str | None = None) -> str:
        root = "/api" if self.group_version == "v1" else "/apis"
        parts = [root, self.group_version, "namespaces", quote(namespace, safe=""), self.plural]
        parts += [quote(name, safe="")] if name is not None else []
        parts += [subresource] if subresource is not None else []
        return "/".join(parts)

    def stamped(self, value: Mapping[str, Any]) -> Object:
        return {"apiVersion": self.group_version, "kind": self.kind, **value}


CONFIG_MAP = Kind("v1", "configmaps", "ConfigMap")
LEASE = Kind("coordination.k8s.io/v1", "leases", "Lease")
TOPIC = Kind("minikafka.dev/v1alpha1", "minikafkatopics", "MiniKafkaTopic")


class WatchEvent(NamedTuple):
    """``type`` is ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: Object


class Listing(NamedTuple):
    """The objects of a kind at a resourceVersion."""

    objects: list[Object]
    resource_version: str


class KubernetesApi:
    """Objects of one namespace.

    Reads are repeated after throttling and lost answers, until their time is over. Writes are repeated only when it is
    certain that they were not carried out; what else to do is the caller's decision.

    Args:
        http: the way to the server; one of its own unless given (the simulator's).
        jitter: a random number from 0 to 1 each time. utc_now: the wall clock. All other times are those of the event loop.
    """

    def __init__(
        self,
        access: Access,
        namespace: str,
        *,
        http: HttpClient | None = None,
        jitter: Callable[[], float] = random.random,
        utc_now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.namespace = namespace
        self.jitter = jitter
        self.utc_now = utc_now
        self._http = HttpClient(access) if http is None else http

    def close(self) -> None:
        self._http.close()

    def backoff(self) -> Backoff:
        """For whoever tries again."""
        return Backoff(self.jitter)

    # -- reads --------------------------------------------------------------------------------------------------------

    async def get(self, kind: Kind, name: str, timeout: float = REQUEST_SECONDS_MAX) -> Object:
        """The newest state, as a quorum read. Raises NotFound, StoreError."""
        return await self._patiently("GET", kind.path(self.namespace, name), None, timeout)

    async def find(self, kind: Kind, name: str, timeout: float = REQUEST_SECONDS_MAX) -> Object | None:
        """As :meth:`get`; None when there is no such object."""
        try:
            return await self.get(kind, name, timeout)
        except NotFound:
            return None

    async def list(
        self, kind: Kind, field_selector: str | None = None, timeout: float = 4 * REQUEST_SECONDS_MAX
    ) -> Listing:
        """All objects at one point in time, as a quorum read, page by page."""
        deadline = now() + timeout
        objects: list[Object] = []
        after = ""
        while True:
            query = {"limit": str(LIST_PAGE)}
            query |= {"fieldSelector": field_selector} if field_selector is not None else {}
            query |= {"continue": after} if after else {}
            target = f"{kind.path(self.namespace)}?{urlencode(query)}"
            page = await self._patiently("GET", target, None, max(deadline - now(), 0.01))
            objects += page.get("items") or ()
            after = page["metadata"].get("continue") or ""
            if not after:
                return Listing(objects, page["metadata"]["resourceVersion"])

    async def watch(
        self,
        kind: Kind,
        resource_version: str,
        field_selector: str | None = None,
        opened: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Changes after ``resource_version`` until the server ends the watch; ``opened`` is called when it has begun.

        Raises:
            Gone: the version is too old (compacted, or out of the server's window).
            StoreError: the connection was lost or refused.
        """
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(WATCH_SECONDS[0] + self.jitter() * (WATCH_SECONDS[1] - WATCH_SECONDS[0]))),
        }
        query |= {"fieldSelector": field_selector} if field_selector is not None else {}
        target = f"{kind.path(self.namespace)}?{urlencode(query)}"
        async with self._http.stream(target, REQUEST_SECONDS_MAX, SILENCE_SECONDS_MAX) as (status, headers, pieces):
            if status != 200:
                body = b"".join([piece async for piece in pieces])
                raise self._error(HttpResponse(status, headers, body))
            opened()
            async for line in _lines(pieces):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise _status_error(event["object"].get("code", 500), event["object"], None)
                yield WatchEvent(event["type"], event["object"])

    # -- writes -------------------------------------------------------------------------------------------------------

    async def create(self, kind: Kind, value: Mapping[str, Any], timeout: float = REQUEST_SECONDS_MAX) -> Object:
        """Raises Conflict when it exists, ApiUnreachable, ApiError."""
        target = f"{kind.path(self.namespace)}?fieldManager={FIELD_MANAGER}"
        return await self._write("POST", target, kind.stamped(value), timeout)

    async def replace(
        self, kind: Kind, value: Mapping[str, Any], subresource: str | None = None, timeout: float = REQUEST_SECONDS_MAX
    ) -> Object:
        """Compare-and-set: ``metadata.resourceVersion`` must be the object's. Raises Conflict, NotFound, ..."""
        path = kind.path(self.namespace, value["metadata"]["name"], subresource)
        return await self._write("PUT", f"{path}?fieldManager={FIELD_MANAGER}", kind.stamped(value), timeout)

    async def merge(
        self, kind: Kind, name: str, patch: Mapping[str, Any], timeout: float = REQUEST_SECONDS_MAX
    ) -> Object:
        """JSON merge patch (RFC 7386); with ``metadata.resourceVersion`` in it, a compare-and-set."""
        target = f"{kind.path(self.namespace, name)}?fieldManager={FIELD_MANAGER}"
        return await self._write("PATCH", target, patch, timeout)

    async def delete(self, kind: Kind, value: Object, timeout: float = REQUEST_SECONDS_MAX) -> None:
        """Delete an object as it is here: not another of its name, and not if it was changed since (Conflict)."""
        metadata = value["metadata"]
        only_if = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": only_if}
        try:
            await self._write("DELETE", kind.path(self.namespace, metadata["name"]), options, timeout)
        except NotFound:
            return

    # -- the way there ------------------------------------------------------------------------------------------------

    async def _patiently(self, method: str, target: str, body: Mapping[str, Any] | None, timeout: float) -> Object:
        """A read: repeated until it succeeds, is refused for good, or its time is over."""
        deadline = now() + timeout
        backoff = self.backoff()
        while True:
            try:
                return await self._once(method, target, body, max(deadline - now(), 0.01))
            except ApiUnreachable as error:
                problem: StoreError = error
                pause = backoff.next()
            except ApiError as error:
                if error.status != 429 and error.status < 500:
                    raise
                problem = error
                pause = backoff.next(error.retry_after)
            if now() + pause > deadline:
                raise problem
            await asyncio.sleep(pause)

    async def _write(self, method: str, target: str, body: Mapping[str, Any], timeout: float) -> Object:
        """A write: repeated when the server refused to look at it (429), or no connection could be made."""
        deadline = now() + timeout
        backoff = self.backoff()
        while True:
            try:
                return await self._once(method, target, body, max(deadline - now(), 0.01))
            except ApiUnreachable as error:
                if error.sent:
                    raise
                problem: StoreError = error
                pause = backoff.next()
            except ApiError as error:
                if error.status != 429:
                    raise
                problem = error
                pause = backoff.next(error.retry_after)
            if now() + pause > deadline:
                raise problem
            await asyncio.sleep(pause)

    async def _once(self, method: str, target: str, body: Mapping[str, Any] | None, timeout: float) -> Object:
        content = b"" if body is None else json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
        headers = []
        if content:
            merge = method == "PATCH"
            headers.append(("Content-Type", "application/merge-patch+json" if merge else "application/json"))
        answer = await self._http.request(method, target, headers, content, timeout)
        if answer.status >= 400:
            raise self._error(answer)
        try:
            found: Object = json.loads(answer.body)
        except ValueError as error:
            raise ApiUnreachable(f"Kubernetes API: no JSON in the answer to {method} {target}", sent=True) from error
        return found

    def _error(self, answer: HttpResponse) -> ApiError:
        if answer.status == 401:
            self._http.access.token_refused()
        try:
            status = json.loads(answer.body)
        except ValueError:
            status = {}
        return _status_error(answer.status, status, answer.headers.get("retry-after"))


def now() -> float:
    """Monotonic seconds, as the event loop has them."""
    return asyncio.get_running_loop().time()


def _status_error(code: int, status: object, retry_after: str | None) -> ApiError:
    details = status if isinstance(status, dict) else {}
    wait = float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
    return _BY_STATUS.get(code, ApiError)(
        code, details.get("reason") or "error", details.get("message") or "no message", wait
    )


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = bytearray()
    async for piece in pieces:
        rest += piece
        while (end := rest.find(b"\n")) >= 0:
            line = bytes(rest[:end])
            del rest[: end + 1]
            if line.strip():
                yield line
        if len(rest) > LINE_BYTES_MAX:
            raise ApiUnreachable(f"Kubernetes API: an event of more than {LINE_BYTES_MAX} bytes", sent=True)


class Backoff:
    """Growing pauses with jitter: many clients must not come back at the same moment after an outage."""

    FIRST_SECONDS = 0.05
    SECONDS_MAX = 2.0

    def __init__(self, jitter: Callable[[], float] = random.random) -> None:
        self._jitter = jitter
        self._pause = self.FIRST_SECONDS

    def next(self, asked: float | None = None) -> float:
        """Seconds to wait now; at least what the server ``asked`` for."""
        pause = self._pause * (0.5 + self._jitter() / 2)
        self._pause = min(self._pause * 2, self.SECONDS_MAX)
        if asked is not None:
            return min(asked, RETRY_AFTER_SECONDS_MAX) * (1 + self._jitter() / 10)
        return pause

    def reset(self) -> None:
        self._pause = self.FIRST_SECONDS
