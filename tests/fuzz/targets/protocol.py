"""Requests as brokers read them, and responses as our own clients do."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from minikafka.protocol import messages, wire
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.fetch import decode_fetch, decode_follower_response
from minikafka.protocol.produce import MIN_SUPPORTED, compressed_batches, decode_produce
from minikafka.protocol.wire import MalformedRequest, RequestHeader
from minikafka.server.api import load_handlers
from minikafka.server.api.spec import ApiSpec

from tests.fuzz.choices import Choices
from tests.fuzz.request_values import request_of
from tests.fuzz.target import Refuted, Target

CLIENT_ID = "fuzz"
FILLS = (1, 77)
"""Of which choices seeds are made."""


@cache
def served() -> dict[int, ApiSpec]:
    """Return what brokers serve, by API key."""
    return {key: spec for key, (spec, _) in load_handlers().items()}


def read_request(frame: bytes) -> None:
    """Read a request as a connection does; what is decoded is encoded, and decoded to the same again."""
    view = memoryview(frame)
    header = wire.read_header(view)
    key, version = header.api_key, header.api_version
    spec = served().get(key)
    if spec is None or not spec.min_version <= version <= spec.max_version:
        return
    if key == ApiKey.PRODUCE:
        if version >= MIN_SUPPORTED:
            compressed_batches(decode_produce(view, header.end, version))
    elif key == ApiKey.FETCH:
        decode_fetch(view, header.end, version)
    else:
        _read_cold(frame, header)


def _read_cold(frame: bytes, header: RequestHeader) -> None:
    body = frame[header.end :]
    if messages.is_flexible(header.api_key, header.api_version):
        try:
            body = body[wire.skip_tags(body, 0) :]
        except IndexError:
            return
    decoded = messages.decode_request(header.api_key, header.api_version, body)
    encoded = messages.encode_entity(decoded)
    again = messages.decode_request(header.api_key, header.api_version, encoded)
    if repr(again) != repr(decoded):  # by what they say: a NaN is not equal to itself
        raise Refuted(f"{decoded!r} was encoded, and decoded as {again!r}")


def versions() -> Iterator[tuple[int, int]]:
    """Yield each API with each version that is served: the newest ones of all, then the ones before."""
    newest = max(spec.max_version for spec in served().values())
    for back in range(newest + 1):
        for key, spec in served().items():
            if spec.max_version - back >= spec.min_version:
                yield key, spec.max_version - back


def requests() -> Iterator[bytes]:
    """Make requests of each API in each version that is served."""
    for key, version in versions():
        entity_type = messages.request_type(key, version)
        for fill in FILLS:
            body = messages.encode_request(key, version, request_of(entity_type, Choices(bytes((fill,)) * 1000)))
            yield wire.request_frame(key, version, 1, CLIENT_ID, body, messages.is_flexible(key, version))[4:]


def read_response(data: bytes) -> None:
    """Read a response of the API and version that its first three bytes name: clients know what they have asked."""
    key, version, frame = data[0] if data else 0, int.from_bytes(data[1:3], "big"), data[3:]
    if key == ApiKey.FETCH:
        decode_follower_response(memoryview(frame))
        return
    spec = served().get(key)
    if spec is not None and spec.min_version <= version <= spec.max_version:
        messages.decode_response(key, version, messages.answer_body(key, version, frame))


def responses() -> Iterator[bytes]:
    """Make a response of each API in each version that is served."""
    for key, version in versions():
        values = request_of(messages.response_type(key, version), Choices(b"\1" * 1000))
        body = messages.encode_response(key, version, values)
        flexible = messages.is_flexible(key, version) and key != ApiKey.API_VERSIONS
        yield bytes((key,)) + version.to_bytes(2, "big") + wire.response_frame(1, body, flexible)[4:]


NEWEST = 50
"""About as many APIs there are: more of their schemas take longer to load than `make test` has."""

TARGETS = (
    Target("requests", read_request, requests, (MalformedRequest,), tested=len(FILLS) * NEWEST),
    Target("responses", read_response, responses, (MalformedRequest,), tested=NEWEST),
)
