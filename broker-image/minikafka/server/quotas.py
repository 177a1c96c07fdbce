"""Quotas in force at one broker: what clients have used, and for how long each has to wait (KIP-13, 124, 219, 599).

What is asked of each request is whether there are quotas at all: ``metadata.image.quotas.is_set``.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple, Protocol

from minikafka.config import BrokerConfig
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.quotas.entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Limit,
)
from minikafka.quotas.rates import Rate, TokenBucket, milliseconds
from minikafka.server.metadata_cache import MetadataCache
from minikafka.telemetry.event_limit import EventLimit
from minikafka.telemetry.stats import BrokerStats

CLIENTS_MAX = 10_000
"""Of whom it is known what they use. Client ids are the clients' to choose, so those heard of first are forgotten."""

CLIENT_ID_KEPT_MAX = 256
"""Characters of a client id that are kept as they are. Of a longer one, which may have 125 KiB, there is a digest."""

_KEYS: dict[int, tuple[str, ...]] = {ApiKey.PRODUCE: (PRODUCER_BYTE_RATE,), ApiKey.FETCH: (CONSUMER_BYTE_RATE,)}

_USER = "User:"


class QuotaUser(Protocol):
    """Who uses something."""

    @property
    def principal(self) -> str: ...

    @property
    def client_id(self) -> str: ...


class ClientIdentity(NamedTuple):
    """The client of a request of which nothing else is kept."""

    principal: str
    client_id: str


class MutationQuota:
    """What one request may change of the cluster, in partitions that are made or deleted (KIP-599).

    Args:
        bucket: the tokens of all who share the quota; None: there is none.
        rate: the quota.
        strict: whether what is beyond it is refused. Clients of before KIP-599 do not know that error: they wait only.
        now: seconds.
        throttled: told the milliseconds to wait.
    """

    def __init__(
        self,
        bucket: TokenBucket | None,
        rate: float,
        strict: bool,
        now: Callable[[], float],
        throttled: Callable[[int], None],
    ) -> None:
        self._bucket = bucket
        self._rate = rate
        self._strict = strict
        self._now = now
        self._throttled = throttled
        self._until = float("-inf")

    def record(self, partitions: int) -> None:
        """Count what is about to be done. Raises KafkaError THROTTLING_QUOTA_EXCEEDED: it may not be."""
        if self._bucket is None:
            return
        now = self._now()
        if self._strict and (wait := self._bucket.wait(self._rate, now)) > 0:
            self._wait(wait, now)
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        self._bucket.spend(partitions, self._rate, now)
        if not self._strict and (wait := self._bucket.wait(self._rate, now)) > 0:
            self._wait(wait, now)

    def _wait(self, seconds: float, now: float) -> None:
        if self._until <= now:
            self._throttled(milliseconds(seconds))
        self._until = now + seconds

    @property
    def throttle_ms(self) -> int:
        """How long the client has to wait from now on."""
        return milliseconds(max(self._until - self._now(), 0.0))


class _Used:
    """What those who share a quota have used."""

    __slots__ = ("bucket", "gate", "limit", "rate", "until")

    def __init__(self, limit: float, rate: Rate, bucket: TokenBucket) -> None:
        self.limit = limit
        self.rate = rate
        self.bucket = bucket
        self.until = float("-inf")
        """Nothing that counts for it is worked on before."""
        self.gate = float("-inf")
        """The same, while it is not counted yet what somebody uses who has waited."""

    def record(self, amount: float, now: float) -> None:
        """Count an amount."""
        self.rate.record(amount, now)
        self.gate = float("-inf")

    def wait(self, seconds: float, now: float) -> int:
        """Have all who share it wait, on all their connections; the milliseconds."""
        self.until = max(self.until, now + seconds)
        return milliseconds(seconds)


class ClientQuotas:
    """Of one broker.

    Args:
        config: the samples that rates are taken of.
        metadata: has the quotas.
        stats: counts who has to wait.
        emit: takes an event.
        now: seconds.
    """

    def __init__(
        self,
        config: BrokerConfig,
        metadata: MetadataCache,
        stats: BrokerStats,
        emit: Callable[..., None],
        now: Callable[[], float],
    ) -> None:
        self._samples, self._window = config.quota_window_num, config.quota_window_size_seconds
        self._burst = config.controller_quota_window_num * config.controller_quota_window_size_seconds
        self._metadata = metadata
        self._stats = stats
        self._emit = emit
        self._now = now
        self._events = EventLimit(now)
        self._found: dict[tuple[str, str, str], _Used | None] = {}
        """By quota, principal and client id; of :attr:`_version`."""
        self._version = -1
        self._used: dict[tuple[str, str, str], _Used] = {}
        """By quota, and user and client id where they have it for themselves."""
        self.charged_seconds = 0.0
        """What has been charged to any client since the start: who charges the rest of a time subtracts what was."""

    # -- what clients use -----------------------------------------------------------------------------------------------

    def produces(self, client: QuotaUser, size: int) -> None:
        """Count the bytes of a Produce before it is worked on: the next one does not come while others acknowledge this one."""
        self._recorded(client, PRODUCER_BYTE_RATE, size)

    def produced(self, client: QuotaUser, seconds: float | None) -> int:
        """Count the time that a Produce took; the milliseconds to wait. With acks=0 that time is not counted (None)."""
        used = self._used_by(client, PRODUCER_BYTE_RATE)
        rate = 0 if used is None else milliseconds(max(used.until - self._now(), 0.0))
        time = 0 if seconds is None else self._time(client, seconds)
        return self._throttled(client, {PRODUCER_BYTE_RATE: rate, REQUEST_PERCENTAGE: time})

    def fetched(self, client: QuotaUser, size: int, seconds: float) -> tuple[int, bool]:
        """Count a Fetch: the milliseconds to wait, and whether the records may go out all the same.

        As in Kafka they may not, and do not count then. A batch of more bytes than the quota ever allows would stay where it is
        for ever: it goes out when nothing else has gone out for a while, and is waited for afterwards.
        """
        time, rate, goes_out = self._time(client, seconds), 0, True
        used = self._used_by(client, CONSUMER_BYTE_RATE) if size else None
        if used is not None:
            now = self._now()
            is_first = used.rate.total(now) <= 0
            used.rate.record(size, now)
            rate = used.wait(used.rate.excess(used.limit, now), now)
            goes_out = is_first or not (rate or time)
            if not goes_out:
                used.rate.record(-size, now)
        elif time:
            goes_out = False
        return self._throttled(client, {CONSUMER_BYTE_RATE: rate, REQUEST_PERCENTAGE: time}), goes_out

    def fetch_bytes_max(self, client: QuotaUser) -> int | None:
        """The most that a Fetch may get without having to wait, if nothing was fetched before; None: whatever it asks for."""
        used = self._used_by(client, CONSUMER_BYTE_RATE)
        return None if used is None else int(used.limit * (self._samples - 1) * self._window)

    def spent(self, client: QuotaUser, seconds: float) -> None:
        """Count the time that sending an answer took, or else was used; nobody waits for it before the next request."""
        self.charged_seconds += seconds
        if (used := self._used_by(client, REQUEST_PERCENTAGE)) is not None:
            used.rate.record(seconds * 100, self._now())

    def requested(self, client: QuotaUser, seconds: float) -> int:
        """Count the time that any other request took; the milliseconds to wait."""
        return self._throttled(client, {REQUEST_PERCENTAGE: self._time(client, seconds)})

    def mutations(self, client: QuotaUser, strict: bool) -> MutationQuota:
        """What a request may change of the cluster."""
        used = self._used_by(client, CONTROLLER_MUTATION_RATE)

        def throttled(ms: int) -> None:
            self._throttled(client, {CONTROLLER_MUTATION_RATE: ms})
            if not strict:
                self.changed(client, ms)

        bucket, rate = (None, 0.0) if used is None else (used.bucket, used.limit)
        return MutationQuota(bucket, rate, strict, self._now, throttled)

    def changed(self, client: QuotaUser, ms: int) -> None:
        """Have a client wait that has changed more of the cluster than it may: it does not know the error."""
        if (used := self._used_by(client, CONTROLLER_MUTATION_RATE)) is not None:
            used.wait(ms / 1000, self._now())

    def wait(self, client: QuotaUser, api_key: int, waited: bool, mutates: bool = False) -> float:
        """Seconds that a request has to wait before it is worked on, for what its client has used, over whatever connection.

        Kafka has the connection wait that used it, so that whoever opens another has no quota.

        Args:
            client: who asks.
            api_key: of the request.
            waited: whether its connection has waited. Those who have go on one at a time: of the time that they use they are not
                made to wait for all, but for a sample at most, so that all together would have that again and again.
            mutates: whether what it changes of the cluster counts, and cannot be refused.
        """
        keys = [REQUEST_PERCENTAGE, *_KEYS.get(api_key, ())]
        if mutates:
            keys.append(CONTROLLER_MUTATION_RATE)
        now = self._now()
        shared = [used for key in keys if (used := self._used_by(client, key)) is not None]
        seconds = max((max(used.until, used.gate) for used in shared), default=now) - now
        if seconds <= 0 and waited and (time := self._used_by(client, REQUEST_PERCENTAGE)) is not None:
            time.gate = now + self._window
        return max(seconds, 0.0)

    # -- of whom ----------------------------------------------------------------------------------------------------------

    def _recorded(self, client: QuotaUser, key: str, amount: float, longest: float = float("inf")) -> int:
        used = self._used_by(client, key)
        if used is None:
            return 0
        now = self._now()
        used.record(amount, now)
        return used.wait(min(used.rate.excess(used.limit, now), longest), now)

    def _time(self, client: QuotaUser, seconds: float) -> int:
        """As Kafka, nobody waits for the time that requests took longer than for one sample at once."""
        self.charged_seconds += seconds
        return self._recorded(client, REQUEST_PERCENTAGE, seconds * 100, self._window)

    def _used_by(self, client: QuotaUser, key: str) -> _Used | None:
        quotas = self._metadata.image.quotas
        if quotas.version != self._version or len(self._found) > CLIENTS_MAX:
            self._found.clear()
            self._version = quotas.version
        who = (key, client.principal, _kept(client.client_id))
        if who not in self._found:
            limit = quotas.limit(key, client.principal.removeprefix(_USER), client.client_id)
            self._found[who] = None if limit is None else self._shared(key, limit)
        return self._found[who]

    def _shared(self, key: str, limit: Limit) -> _Used:
        whose = (key, limit.user, _kept(limit.client_id))
        used = self._used.pop(whose, None)
        if used is None:
            if len(self._used) >= CLIENTS_MAX:
                del self._used[next(iter(self._used))]
            used = _Used(limit.value, Rate(self._samples, self._window), TokenBucket(self._burst))
        if used.limit != limit.value:
            used.limit, used.until = limit.value, float("-inf")
        self._used[whose] = used
        return used

    def _throttled(self, client: QuotaUser, waits: dict[str, int]) -> int:
        key = max(waits, key=lambda each: waits[each])
        ms = waits[key]
        if ms:
            self._stats.record_throttled(key, ms)
            client_id = _kept(client.client_id)
            if self._events.takes((key, client.principal, client_id)):
                self._emit("client_throttled", principal=client.principal, client_id=client_id, key=key, throttle_ms=ms)
        return ms


def _kept(client_id: str) -> str:
    return client_id if len(client_id) <= CLIENT_ID_KEPT_MAX else "sha256:" + sha256(client_id.encode()).hexdigest()
