"""Answers every request but Produce and Fetch: by its handler, by the controller, or with what ACLs refuse.

See :mod:`minikafka.server.connection` for when each is worked on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from minikafka.authorization.rules import ClientAccess
from minikafka.authorization.table import RULES
from minikafka.protocol import messages, wire
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.wire import MANY_ROWS, MalformedRequest, RequestHeader
from minikafka.server.api import api_versions
from minikafka.server.api.spec import ApiSpec, Handler
from minikafka.server.request_context import STRICT_SINCE, RequestContext, forwarded_for
from minikafka.server.throttling import LoopTime
from minikafka.server.walkers import WALKERS

if TYPE_CHECKING:
    from minikafka.server.connection import ClientConnection

T = TypeVar("T")

API_VERSIONS = int(ApiKey.API_VERSIONS)

ONE_AT_A_TIME = frozenset(
    (
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.OFFSET_FETCH,
    )
)
"""They are small, and their answers as large as there is something to tell: of a user one is made, and others wait for it.
None of them waits for anything that somebody else does."""

ONE_AT_A_TIME_OF_MUCH = frozenset(
    (
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.METADATA,
    )
)
"""The same, of a user who had a large answer before: they may wait for a topic to be made, or for the controller."""

LARGE_ANSWER_BYTES = 1 << 16
"""From which on an answer is much, however few rows it has."""

ENCODED_ROWS_MAX = 5_000
"""An answer of more rows is encoded in a thread: it takes 5 microseconds a row."""


def error_codes(answer: Any) -> Iterator[int]:
    """Every error code in the values of an answer, at whatever depth; NONE is none."""
    if isinstance(answer, dict):
        code = answer.get("error_code")
        if code:
            yield code
        answer = answer.values()
    elif not isinstance(answer, list | tuple):
        return
    for value in answer:
        if isinstance(value, dict | list | tuple):
            yield from error_codes(value)


def row_count(answer: dict[str, Any], most: int) -> int:
    """How many rows an answer has, at whatever depth. More than so many are not counted to the end."""
    count, left = 0, [answer]
    while left and count <= most:
        for value in left.pop().values():
            if isinstance(value, dict):
                left.append(value)
            elif isinstance(value, list | tuple) and value:
                count += len(value)
                if isinstance(value[0], dict):
                    left += value
    return count


async def answer_request(connection: ClientConnection, header: RequestHeader, body: bytes) -> bytes:
    """Work on a request, and return the frame of its answer.

    Raises:
        MalformedRequest: only closing the connection is left.
    """
    key, version = header.api_key, header.api_version
    handler = connection.services.handlers.get(key)
    if handler is None:
        raise MalformedRequest(f"API key {key} v{version} is unknown or not supported")
    spec, handle = handler
    if spec.inter_broker and not connection.inter_broker:
        raise MalformedRequest(f"{spec.name} is for brokers; it is not served on listener {connection.listener}")
    if not spec.min_version <= version <= spec.max_version:
        if key == API_VERSIONS:  # KIP-511: answered in version 0, so that the client learns what it may ask
            connection.count_errors(key, (ErrorCode.UNSUPPORTED_VERSION,))
            answer = messages.encode_response(
                key,
                0,
                api_versions.supported(
                    connection.services.handlers, connection.is_broker, ErrorCode.UNSUPPORTED_VERSION
                ),
            )
            return wire.response_frame(header.correlation_id, answer, False)
        raise MalformedRequest(
            f"{spec.name} v{version} is not supported ({spec.min_version} to {spec.max_version} are)"
        )
    flexible = messages.is_flexible(key, version)
    if flexible:
        try:
            body = body[wire.skip_tags(body, 0) :]
        except IndexError as error:
            raise MalformedRequest(f"{spec.name} v{version} ends in its header") from error
    ctx = RequestContext(connection, header)
    is_screened = connection.services.authorization.enabled and not ctx.inter_broker
    if not is_screened:
        forwarded = await _forwarded(connection, spec, ctx, body)
        if forwarded is not None:
            return wire.response_frame(header.correlation_id, forwarded, flexible)
    began = time.perf_counter()
    request = messages.decode_request(key, version, body)
    decoding = time.perf_counter() - began
    answering: Awaitable[dict[str, Any]] = (
        _answer_allowed(connection, spec, handle, ctx, request)
        if is_screened
        else handle(connection.services, ctx, request)
    )
    is_metered = connection.has_quotas

    async def make() -> tuple[list[int], bytes, float]:
        values = await (_answer_metered(connection, spec, ctx, answering, decoding) if is_metered else answering)
        return await _encoded(connection, key, version, values)

    codes, answer, seconds = await _when_there_is_room(connection, key, make)
    connection.count_errors(key, codes)
    if is_metered and not _is_of_brokers(connection, spec, ctx):
        connection.services.quotas.spent(ctx, seconds)
    return wire.response_frame(header.correlation_id, answer, flexible and key != API_VERSIONS)


async def _when_there_is_room(connection: ClientConnection, key: int, make: Callable[[], Awaitable[T]]) -> T:
    """Make an answer: where it may be large, one of a user at a time, and none while those have too much that are not sent."""
    services, user = connection.services, connection.asked_by
    if key not in ONE_AT_A_TIME and not (key in ONE_AT_A_TIME_OF_MUCH and services.had_much(user, key)):
        return await make()
    while True:
        async with services.one_at_a_time(user, key):
            if not services.had_much(user, key) or connection.unsent.has_room():
                return await make()
        await connection.unsent.room()


async def _encoded(
    connection: ClientConnection, key: int, version: int, values: dict[str, Any]
) -> tuple[list[int], bytes, float]:
    """The errors in an answer, its bytes, and the seconds that they took; in a thread where there are many rows."""

    def encode(clock: Callable[[], float]) -> tuple[list[int], bytes, float]:
        began = clock()
        codes, answer = list(error_codes(values)), messages.encode_response(key, version, values)
        return codes, answer, clock() - began

    user, rows = connection.asked_by, row_count(values, ENCODED_ROWS_MAX)
    if rows > MANY_ROWS:
        connection.services.has_much(user, key)
    if rows <= ENCODED_ROWS_MAX or connection.is_broker:
        encoded = encode(time.perf_counter)
        if len(encoded[1]) > LARGE_ANSWER_BYTES:
            connection.services.has_much(user, key)
        return encoded
    threads = WALKERS.of(user)
    return await asyncio.get_running_loop().run_in_executor(threads, encode, time.thread_time)


async def _answer_allowed(
    connection: ClientConnection, spec: ApiSpec, handle: Handler, ctx: RequestContext, request: Any
) -> dict[str, Any]:
    """The answer to what the client may ask, with what it is refused. Raises MalformedRequest for an API without a rule."""
    rule = RULES.get(spec.key)
    if rule is None:
        raise MalformedRequest(f"nobody has declared what {spec.name} needs, so nobody may ask it")
    access = ClientAccess(
        connection.services.authorization, connection.services.metadata, ctx, spec.key, ctx.api_version
    )
    screened = rule.screen(access, request)
    if screened.request is None:
        return screened.finish({})
    body = messages.encode_entity(screened.request) if spec.controller_only else b""
    answer = await _forwarded(connection, spec, ctx, body)
    if answer is None:
        return screened.finish(await handle(connection.services, ctx, screened.request))
    return screened.finish(messages.values_of(messages.decode_response(spec.key, ctx.api_version, answer)))


async def _answer_metered(
    connection: ClientConnection,
    spec: ApiSpec,
    ctx: RequestContext,
    answering: Awaitable[dict[str, Any]],
    decoding: float,
) -> dict[str, Any]:
    """The answer, with the time that the client has to wait for a quota that it exceeds; reading it took ``decoding``.

    Not what brokers ask: a client whose request was passed on is made to wait by the broker that it has asked.
    """
    taken = LoopTime(answering)
    values = dict(await taken)
    changed = ctx.mutation_quota
    wait_ms = max(values.get("throttle_time", 0), 0 if changed is None else changed.throttle_ms)
    if not _is_of_brokers(connection, spec, ctx):
        wait_ms = max(wait_ms, connection.services.quotas.requested(ctx, decoding + taken.seconds))
        connection.muting.mute(wait_ms)
    if "throttle_time" in messages.response_type(spec.key, ctx.api_version).__dataclass_fields__:
        values["throttle_time"] = wait_ms
    return values


def _is_of_brokers(connection: ClientConnection, spec: ApiSpec, ctx: RequestContext) -> bool:
    """Whether a request is one for which no client waits here."""
    return spec.inter_broker or ctx.forwarded or connection.serves_brokers_only


async def _forwarded(connection: ClientConnection, spec: ApiSpec, ctx: RequestContext, body: bytes) -> bytes | None:
    """The body of the controller's answer; None when it is this broker that has to answer."""
    if not spec.controller_only or connection.services.membership.leads:
        return None
    counts = spec.key in STRICT_SINCE and connection.services.metadata.image.quotas.is_set
    client_id = forwarded_for(ctx.principal, ctx.client_id) if counts else None
    try:
        answer = await connection.services.membership.forward(spec.key, ctx.api_version, body, client_id, ctx.principal)
    except KafkaError:
        return None  # no controller to be reached: the handler says NOT_CONTROLLER in the words of its API
    if counts:  # all of their answers begin with the time to wait
        ms = int.from_bytes(answer[:4], "big")
        connection.muting.mute(ms)
        if ctx.api_version < STRICT_SINCE[spec.key]:
            connection.services.quotas.changed(ctx, ms)
    await connection.services.metadata.caught_up()
    return answer
