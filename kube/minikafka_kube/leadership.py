"""Which of several processes of one program acts: the one that holds a Lease, as in client-go's leader election.

Holding it is not enough: a process that is stopped for a while (SIGSTOP, a paused virtual machine) goes on in the middle of
what it did, and its Lease may be another's by then. So before each action that cannot be taken back the Lease is read again
(:meth:`Leadership.confirm`), and the action itself is bound to what was looked at (uid, resource version), so that even an
action that was on its way when the process stopped takes nothing away twice.

The official client's own election is not used; docs/decisions/006 says why.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

from minikafka_kube.api_server import TRANSIENT, ApiError, ApiServer
from minikafka_kube.instants import micro_time_text
from minikafka_kube.kinds import LEASE, Object
from minikafka_kube.names import MANAGER

LEASE_SECONDS: Final = 15.0
RENEW_SECONDS_MAX: Final = 10.0
"""Without a renewal for this long a leader stops acting, well before anybody else may begin."""
RETRY_SECONDS: Final = 2.0

logger = logging.getLogger(__name__)


class NotLeadingError(Exception):
    """Another process acts, or may act by now."""


class Leadership:
    """One candidate. Its ``changed`` is called with True when it begins to lead, and with False when it ends."""

    def __init__(
        self,
        server: ApiServer,
        namespace: str,
        name: str,
        identity: str,
        *,
        lease_seconds: float = LEASE_SECONDS,
        renew_seconds_max: float = RENEW_SECONDS_MAX,
        retry_seconds: float = RETRY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.identity = f"{identity}_{uuid4().hex[:8]}"  # a container that starts again has the same name
        self._server = server
        self._namespace = namespace
        self._name = name
        self.changed: Callable[[bool], None] = lambda _: None
        self._lease_seconds = lease_seconds
        self._renew_seconds_max = renew_seconds_max
        self._retry_seconds = retry_seconds
        self._clock = clock
        self._leading = False
        self._renewed = 0.0
        """When the renewal that succeeded last was *sent*."""
        self._seen: tuple[str, float] = ("", 0.0)
        """The Lease's resource version, and when it was first seen here; no clocks of two machines are compared."""

    @property
    def leads(self) -> bool:
        """Return whether it holds the Lease, as far as is known without asking."""
        return self._leading and self._clock() - self._renewed < self._renew_seconds_max

    def require(self) -> None:
        """Raises NotLeadingError."""
        if not self.leads:
            raise NotLeadingError("another operator may lead by now")

    async def confirm(self) -> None:
        """Read the Lease again. Raises NotLeadingError when it is not ours any more, and what a request raises."""
        self.require()
        lease = await self._server.get(LEASE, self._namespace, self._name)
        if lease is None or _holder(lease) != self.identity:
            self._set(leading=False)
            raise NotLeadingError(f"{_holder(lease or {}) or 'nobody'} holds Lease {self._namespace}/{self._name}")
        self.require()

    async def run(self) -> None:
        """Take the Lease and renew it until cancelled; give it back then, so that the next need not wait."""
        try:
            while True:
                await self._try()
                if self._leading and not self.leads:
                    self._set(leading=False)
                await asyncio.sleep(self._retry_seconds)
        finally:
            if self._leading:
                await self._give_back()

    async def _try(self) -> None:
        began = self._clock()
        try:
            # A request without an answer must not keep a leader in its belief.
            async with asyncio.timeout(max(self._renew_seconds_max / 2, self._retry_seconds)):
                held = await self._take()
        except ApiError as error:
            if error.code not in (404, 409):
                logger.warning("Lease %s/%s: %s", self._namespace, self._name, error)
            return  # 409: somebody else wrote it; the next look tells who
        except TRANSIENT as error:
            logger.warning("Lease %s/%s: the API server cannot be reached: %r", self._namespace, self._name, error)
            return
        except Exception:  # whatever it is, this loop goes on, and without a renewal nobody acts
            logger.exception("Lease %s/%s", self._namespace, self._name)
            return
        if held:
            self._renewed = began
        self._set(leading=held)

    async def _take(self) -> bool:
        lease = await self._server.get(LEASE, self._namespace, self._name)
        if lease is None:
            await self._server.create(LEASE, self._namespace, self._desired(None))
            return True
        version, now = str(lease["metadata"]["resourceVersion"]), self._clock()
        if self._seen[0] != version:
            self._seen = version, now
        holder = _holder(lease)
        seconds = float((lease.get("spec") or {}).get("leaseDurationSeconds") or self._lease_seconds)
        if holder not in ("", self.identity) and now - self._seen[1] <= seconds:
            return False
        written = await self._server.replace(LEASE, self._namespace, self._desired(lease))
        self._seen = str(written["metadata"]["resourceVersion"]), self._clock()
        return True

    def _desired(self, old: Object | None) -> Object:
        now = micro_time_text(datetime.now(UTC))
        before = (old or {}).get("spec") or {}
        same = before.get("holderIdentity") == self.identity
        metadata: dict[str, Any] = {"name": self._name, "namespace": self._namespace}
        if old is None:
            metadata["labels"] = {"app.kubernetes.io/name": MANAGER}
        else:
            metadata = {**old["metadata"], **metadata}  # with its resource version: a compare-and-set
            metadata.pop("managedFields", None)
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.name,
            "metadata": metadata,
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": int(self._lease_seconds),
                "acquireTime": before.get("acquireTime", now) if same else now,
                "renewTime": now,
                "leaseTransitions": int(before.get("leaseTransitions") or 0) + (0 if same else 1),
            },
        }

    def _set(self, *, leading: bool) -> None:
        if leading != self._leading:
            self._leading = leading
            logger.info("%s Lease %s/%s", "Holding" if leading else "Not holding", self._namespace, self._name)
            self.changed(leading)

    async def _give_back(self) -> None:
        self._set(leading=False)
        try:
            async with asyncio.timeout(self._retry_seconds):
                lease = await self._server.get(LEASE, self._namespace, self._name)
                if lease is not None and _holder(lease) == self.identity:
                    free = self._desired(lease)
                    free["spec"] = {**free["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._server.replace(LEASE, self._namespace, free)
        except (ApiError, *TRANSIENT) as error:
            logger.info("Lease %s/%s was not given back: %r", self._namespace, self._name, error)


class Alone:
    """No election: there is one operator, and somebody else takes care of that."""

    def require(self) -> None:
        """Nothing to be seen to."""

    async def confirm(self) -> None:
        """Nothing to be seen to."""


def _holder(lease: Object) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")
