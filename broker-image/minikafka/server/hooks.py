"""Hooks for tests of clients (`minikafka.test.hooks`): errors and delays in a broker's answers, and requests that are told.

A hook is set and cleared over the broker's HTTP port (`/hooks`), and is gone when its process is. It concerns clients only: what
comes over the inter-broker listener is served as ever, and so are verbs (`VERBS_CLIENT`). A request that gets an injected error
is not carried out: of a Produce or Fetch the partitions that the hook names, and any other request as a whole. With hooks on,
the broker also tells every acknowledgement as an event, by which a verdict knows what clients of any kind were promised.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import time
from typing import Any

from minikafka.log.record_validation import RecordsAhead
from minikafka.protocol import messages, wire
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fetch import FetchRequest, PartitionData
from minikafka.protocol.produce import PartitionResult, ProduceRequest, decode_produce
from minikafka.protocol.records import HEADER_BYTES, read_header
from minikafka.protocol.wire import MalformedRequest, RequestHeader
from minikafka.replication.purgatory import DelayedFetch, FetchClient, FetchDone
from minikafka.replication.replicas import NOTHING_AHEAD, ReplicaManager
from minikafka.server.api import metadata
from minikafka.server.connection import ClientConnection, Slot
from minikafka.server.injected_answers import COLD, no_topics
from minikafka.server.services import Services
from minikafka.telemetry.fault_verbs import VERBS_CLIENT

REQUESTS_MAX = 10_000
"""Requests of an observed API that are kept; of more, the latest."""
MILLIS_MAX = 600_000
COUNT_MAX = 1 << 31

Place = tuple[str, int]
"""A topic, and a partition of it; -1 for what is not about one."""


class HookError(ValueError):
    """A hook that cannot be: one line."""


OF_PARTITIONS = frozenset(
    (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH)
)
"""Those whose requests name partitions."""
INJECTABLE = frozenset((ApiKey.PRODUCE, ApiKey.FETCH, *COLD))
BY_NAME = {key.api_name: key for key in ApiKey}


@dataclass(slots=True)
class Hook:
    """One that is set. `left`: how often it still acts, None for ever; `after`: how many that it fits are let through first."""

    action: str
    api: ApiKey
    code: ErrorCode = ErrorCode.NONE
    topic: str | None = None
    partition: int | None = None
    left: int | None = None
    after: int = 0
    millis: int = 0

    def fits(self, place: Place) -> bool:
        topic, partition = place
        return self.topic in (None, topic) and (self.partition is None or partition in (-1, self.partition))

    def acts(self) -> bool:
        """Whether it acts on a request that it fits: counts the request."""
        if self.after:
            self.after -= 1
            return False
        if self.left is None:
            return True
        self.left -= 1
        return self.left >= 0

    def __str__(self) -> str:
        where = (
            "" if self.topic is None else f" on {self.topic}" + ("" if self.partition is None else f"-{self.partition}")
        )
        what = {"error": f" {self.code.name}", "delay": f" {self.millis} ms"}.get(self.action, "")
        return f"{self.action} {self.api.api_name}{what}{where}"


ACTIONS: Mapping[str, frozenset[str]] = {
    "error": frozenset(("api", "code", "topic", "partition", "count", "after")),
    "delay": frozenset(("api", "millis", "count", "after")),
    "observe": frozenset(("api",)),
}
"""Each kind of hook, and the parameters that it takes."""


def parse(action: str, given: Mapping[str, str]) -> Hook:
    """Make a hook of what somebody asks for. Raises HookError."""
    takes = ACTIONS.get(action)
    if takes is None:
        raise HookError(f"action: {action!r} is not one of {', '.join(ACTIONS)}, clear")
    if strange := given.keys() - takes:
        raise HookError(f"{min(strange)}: {action} does not take it; allowed: {', '.join(sorted(takes))}")
    injectable = INJECTABLE if action == "error" else frozenset(ApiKey)
    api = BY_NAME.get(given.get("api", ""))
    if api is None or api not in injectable:
        allowed = ", ".join(sorted(key.api_name for key in injectable))
        raise HookError(f"api: {given.get('api', '')!r} is not one of {allowed}")
    hook = Hook(action, api, topic=given.get("topic"), after=_number(given, "after", 0, COUNT_MAX) or 0)
    hook.left = _number(given, "count", 1, COUNT_MAX)
    hook.partition = _number(given, "partition", 0, COUNT_MAX)
    if hook.partition is not None and (hook.topic is None or api not in OF_PARTITIONS):
        raise HookError(f"partition: needs a topic, and an API that names partitions, which {api.api_name} does not")
    if hook.topic is not None and api in COLD and COLD[api].topics is no_topics:
        raise HookError(f"topic: {api.api_name} is about no topic")
    if action == "error":
        name = given.get("code", "")
        if name not in ErrorCode.__members__ or name == ErrorCode.NONE.name:
            raise HookError(f"code: {name!r} is not the name of an error of Kafka, such as NOT_LEADER_OR_FOLLOWER")
        hook.code = ErrorCode[name]
    if action == "delay":
        millis = _number(given, "millis", 1, MILLIS_MAX)
        if millis is None:
            raise HookError(f"millis: delay needs it: 1 to {MILLIS_MAX}")
        hook.millis = millis
    return hook


def _number(given: Mapping[str, str], name: str, low: int, high: int) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
        raise HookError(f"{name}: {text!r} is not a whole number from {low} to {high}")
    return int(text)


@dataclass(slots=True)
class Hooks:
    """All that are set at a broker. `emit` tells events."""

    emit: Callable[..., None]
    active: list[Hook] = field(default_factory=list)
    requests: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=REQUESTS_MAX))
    seen: int = 0
    """Requests of observed APIs, also those that are no longer kept."""
    verb_asks: bool = False
    """Whether the request that is being served is a verb's."""

    def order(self, given: Mapping[str, str]) -> None:
        """Set a hook, or clear all. Raises HookError, and changes nothing then."""
        fields = dict(given)
        action = fields.pop("action", "")
        if action == "clear":
            self._clear(fields)
            return
        hook = parse(action, fields)
        if action == "observe" and any(each.action == "observe" and each.api is hook.api for each in self.active):
            return
        self.active.append(hook)
        self.emit("hook_set", topic=hook.topic, partition=hook.partition, reason=str(hook))

    def _clear(self, fields: Mapping[str, str]) -> None:
        if fields:
            raise HookError(f"{min(fields)}: clear takes nothing")
        kept = [hook for hook in self.active if hook.action == "observe"]
        if len(kept) < len(self.active):
            self.emit("hooks_cleared", records=len(self.active) - len(kept))
        self.active[:] = kept

    def as_json(self) -> dict[str, Any]:
        """What is set, and the requests that were observed."""
        return {"hooks": [str(hook) for hook in self.active], "seen": self.seen, "requests": list(self.requests)}

    # -- what a broker asks --------------------------------------------------------------------------------------------

    def sets(self, action: str, api: int) -> bool:
        """Whether there is any such hook."""
        return any(hook.action == action and hook.api == api for hook in self.active)

    def errors(self, api: ApiKey, places: Sequence[Place]) -> dict[Place, ErrorCode]:
        """The places of a request that get an injected error now."""
        found: dict[Place, ErrorCode] = {}
        for hook in self.active:
            if hook.action != "error" or hook.api is not api:
                continue
            fitting = [place for place in places if hook.fits(place)]
            if fitting and hook.acts():
                for place in fitting:
                    found.setdefault(place, hook.code)
        for (topic, partition), code in found.items():
            about = {"topic": topic or None, "partition": None if partition < 0 else partition}
            self.emit("error_injected", **about, component=api.api_name, error=code.name)
        return found

    def delay(self, api: int) -> float:
        """Seconds by which an answer is to come later."""
        return (
            sum(hook.millis for hook in self.active if hook.action == "delay" and hook.api == api and hook.acts())
            / 1000
        )

    def observe(self, header: RequestHeader, places: Sequence[Place]) -> None:
        """Keep a request."""
        self.seen += 1
        asked = {
            "api": ApiKey(header.api_key).api_name,
            "version": header.api_version,
            "client_id": header.client_id or "",
        }
        named = [f"{topic}-{partition}" for topic, partition in places]
        self.requests.append({"number": self.seen, "time": round(time(), 6), **asked, "partitions": named})


# -- where answers are built -----------------------------------------------------------------------------------------------


class HookedReplicas(ReplicaManager):
    """Answers Produce and Fetch with what is injected, and tells what is acknowledged."""

    def __init__(self, hooks: Hooks, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.hooks = hooks

    def produce(
        self,
        request: ProduceRequest,
        respond: Callable[[list[tuple[str, list[PartitionResult]]]], None],
        internal: bool = False,
        ahead: Mapping[int, RecordsAhead] = NOTHING_AHEAD,
    ) -> None:
        if internal:
            super().produce(request, respond, internal, ahead)
            return
        batches = {(topic, index): records for topic, row in request.topics for index, records in row}
        refused = self.hooks.errors(ApiKey.PRODUCE, list(batches))
        asked = request.topics
        if refused:
            request.topics = [
                (topic, [each for each in row if (topic, each[0]) not in refused]) for topic, row in request.topics
            ]
        headers: dict[Place, tuple[int, int]] = {}

        def look() -> None:
            """While the request's bytes are there, with what the leader has set in them."""
            if not headers:
                for place, records in batches.items():
                    if records is not None and place not in refused and len(records) >= HEADER_BYTES:
                        header = read_header(records)
                        headers[place] = (header.crc, header.records_count)

        def answer(results: list[tuple[str, list[PartitionResult]]]) -> None:
            look()
            if request.acks:
                self._tell(results, headers, request.acks)
            if refused:
                given = {(topic, each.index): each for topic, row in results for each in row}
                results = [
                    (
                        topic,
                        [given.get((topic, n)) or PartitionResult(n, refused[topic, n]) for n, _ in row],
                    )
                    for topic, row in asked
                ]
            respond(results)

        super().produce(request, answer, internal, ahead)
        look()

    def _tell(
        self, results: list[tuple[str, list[PartitionResult]]], headers: Mapping[Place, tuple[int, int]], acks: int
    ) -> None:
        for topic, row in results:
            for each in row:
                if not each.error and (topic, each.index) in headers:
                    crc, count = headers[topic, each.index]
                    about = {"offset": each.base_offset, "records": count, "crc": crc, "acks": acks}
                    self.hooks.emit("produce_acknowledged", topic=topic, partition=each.index, **about)

    def fetch(
        self, request: FetchRequest, respond: FetchDone, client: FetchClient | None = None
    ) -> DelayedFetch | None:
        if request.replica_id >= 0 or self.hooks.verb_asks or not self.hooks.sets("error", ApiKey.FETCH):
            return super().fetch(request, respond, client)
        names = {key: self._name(key) for key, _ in request.topics}
        places = [(names[key], each.partition) for key, row in request.topics for each in row]
        refused = self.hooks.errors(ApiKey.FETCH, places)
        if not refused:
            return super().fetch(request, respond, client)
        asked = request.topics
        request.topics = [
            (key, [each for each in row if (names[key], each.partition) not in refused]) for key, row in asked
        ]
        request.max_wait_ms = 0

        def answer(topics: Any, total: int) -> None:
            given = {(key, data.partition): data for key, row in topics for data in row}
            whole = [
                (
                    key,
                    [
                        given.get((key, each.partition))
                        or PartitionData(each.partition, refused[names[key], each.partition])
                        for each in row
                    ],
                )
                for key, row in asked
            ]
            respond(whole, total)

        return super().fetch(request, answer, client)

    def _name(self, key: str | bytes) -> str:
        if isinstance(key, str):
            return key
        return next((p.topic_partition.topic for p in self.by_id.get(key, {}).values()), "")


class HookedConnection(ClientConnection):
    """Observes requests, answers cold ones with what is injected, and delays answers."""

    def __init__(self, hooks: Hooks, services: Services, listener: str) -> None:
        super().__init__(services, listener)
        self.hooks = hooks
        self._is_verbs = False
        self._is_again = False
        """The frame that is handed on next was looked at."""

    @property
    def is_left_alone(self) -> bool:
        """Whether no hook concerns it."""
        return self.inter_broker or self._is_verbs

    def frame_received(self, frame: memoryview) -> bool:
        if not self.inter_broker and self.hooks.active and not self._is_again:
            self._look_at(frame)
        self.hooks.verb_asks = self.is_left_alone
        self._is_again = super().frame_received(frame)
        self.hooks.verb_asks = False
        return self._is_again

    def _look_at(self, frame: memoryview) -> None:
        try:
            header = wire.read_header(frame)
            self._is_verbs = (header.client_id or "").startswith(VERBS_CLIENT)
            if not self._is_verbs and self.hooks.sets("observe", header.api_key):
                places: list[Place] = []
                if header.api_key == ApiKey.PRODUCE:
                    request = decode_produce(frame, header.end, header.api_version)
                    places = [(topic, index) for topic, row in request.topics for index, _ in row]
                self.hooks.observe(header, places)
        except MalformedRequest:
            pass  # whoever serves it says so

    def answer(self, slot: Slot, out: list[Any]) -> None:
        late = 0.0 if self.is_left_alone else self.hooks.delay(slot.api_key)
        if late and self.loop is not None:
            self.loop.call_later(late, super().answer, slot, out)
        else:
            super().answer(slot, out)

    async def _answer_cold(self, header: RequestHeader, body: bytes) -> bytes:
        if not self.is_left_alone and self.hooks.sets("error", header.api_key):
            answer = self._injected(header, body)
            if answer is not None:
                return answer
        return await super()._answer_cold(header, body)

    def _injected(self, header: RequestHeader, body: bytes) -> bytes | None:
        """The frame of an answer that is an injected error, or None where the request is to be served."""
        key, version = ApiKey(header.api_key), header.api_version
        spec, _ = self.services.handlers[key]
        row = COLD.get(key)
        if row is None or not spec.min_version <= version <= spec.max_version:
            return None
        flexible = messages.is_flexible(key, version)
        try:
            request = messages.decode_request(key, version, body[wire.skip_tags(body, 0) :] if flexible else body)
        except IndexError:
            return None  # whoever serves it says so
        refused = self.hooks.errors(key, self._places(row.topics(request)) or [("", -1)])
        if not refused:
            return None
        code = next(iter(refused.values()))
        self.count_errors(key, (code,))
        answer = row.answer(request, version, code)
        if key is ApiKey.METADATA:  # librdkafka forgets brokers that are not listed
            answer |= metadata.cluster(self.services, self.listener)
        return wire.response_frame(header.correlation_id, messages.encode_response(key, version, answer), flexible)

    def _places(self, topics: Iterable[Any]) -> list[Place]:
        found: list[Place] = []
        for topic in topics:
            name = (
                getattr(topic, "name", None) or self.services.metadata.name_of(getattr(topic, "topic_id", None)) or ""
            )
            indexes = [each.partition_index for each in getattr(topic, "partitions", ())]
            found += [(name, index) for index in indexes or getattr(topic, "partition_indexes", None) or (-1,)]
        return found
