"""Following objects: list once, then watch on, through whatever happens to connections and API servers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from minikafka.kubernetes.api import (
    ApiError,
    Gone,
    Kind,
    KubernetesApi,
    Listing,
    Object,
    WatchEvent,
    now,
)
from minikafka.kubernetes.connection import ApiUnreachable
from minikafka.metadata.store import StoreError

COMPLAINT_SECONDS = 30.0
SHORT_SECONDS = 1.0
"""A watch that ends sooner, without an event, is a sign of trouble: pause before the next."""

Take = Callable[[Listing], Awaitable[None]]
TakeEvent = Callable[[WatchEvent], Awaitable[None]]
Warn = Callable[[str], None]


class Reflector:
    """Keeps somebody informed of the objects of one kind.

    Args:
        took_list: gets all objects, at first and whenever changes may have been missed.
        took_event: gets each change after that, in order; never a bookmark.
        warn: gets a line when the API server has been out of reach for a while, and when it is back.
        broke: gets what `took_list` or `took_event` raised and nobody expected; after it everything is listed anew.
    """

    def __init__(
        self,
        api: KubernetesApi,
        kind: Kind,
        field_selector: str | None,
        took_list: Take,
        took_event: TakeEvent,
        warn: Warn,
        broke: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self._api = api
        self._kind = kind
        self._selector = field_selector
        self._took_list = took_list
        self._took_event = took_event
        self._warn = warn
        self._broke = broke
        self._version: str | None = None
        self._backoff = api.backoff()
        self._opened_at = float("-inf")
        self._failing_since: float | None = None
        self._complained = float("-inf")
        self.lists = 0
        self.watches = 0
        self.broken: Exception | None = None
        """Why what was seen last could not be taken in, though nobody expected that it could not."""

    async def run(self, listed: Listing | None = None) -> None:
        """For ever. ``listed`` was taken already by the caller."""
        if listed is not None:
            self._version = listed.resource_version
        while True:
            began = now()
            try:
                if self._version is None:
                    await self._list()
                if await self._watch() or now() - began > SHORT_SECONDS:
                    self._backoff.reset()
                    continue
                await asyncio.sleep(self._backoff.next())
            except Gone:
                self._version = None
            except StoreError as error:
                await self._failed(error)
            except Exception as error:  # an object that nobody expected must not end the following of all
                self.broken = error
                self._broke(error)
                self._version = None
                await asyncio.sleep(self._backoff.next())

    async def _list(self) -> None:
        self.lists += 1
        listing = await self._api.list(self._kind, self._selector)
        await self._took_list(listing)
        self._version = listing.resource_version
        self.broken = None

    async def _watch(self) -> bool:
        """One watch, to its end; True when anything came."""
        assert self._version is not None
        self.watches += 1
        heard = False
        async with aclosing(self._api.watch(self._kind, self._version, self._selector, self._opened)) as events:
            async for event in events:
                heard = True
                if event.type != "BOOKMARK":
                    await self._took_event(event)
                self._version = _version(event.object)
        return heard

    def _opened(self) -> None:
        self._opened_at = now()
        if self._failing_since is not None and self._complained > self._failing_since:
            seconds = self._opened_at - self._failing_since
            self._warn(f"watching {self._kind.plural} again after {seconds:.1f} s")
        self._failing_since = None

    async def _failed(self, error: StoreError) -> None:
        at = now()
        if at - self._opened_at > SHORT_SECONDS and self._failing_since is None:
            self._backoff.reset()  # it went well until now
        if self._failing_since is None:
            self._failing_since = at
        damaged = not isinstance(error, ApiError | ApiUnreachable)  # the server answers, and the content is wrong
        if (damaged or at - self._failing_since > SHORT_SECONDS) and at - self._complained > COMPLAINT_SECONDS:
            self._complained = at
            self._warn(f"cannot watch {self._kind.plural}, trying on: {error}")
        asked = error.retry_after if isinstance(error, ApiError) else None
        await asyncio.sleep(self._backoff.next(asked))


def _version(value: Object) -> str:
    return str(value["metadata"]["resourceVersion"])
