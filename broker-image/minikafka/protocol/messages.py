"""Cold messages: a thin bridge to *kio*, a typed, schema-generated codec for every Kafka API and version.

The hot APIs (Produce, Fetch) have codecs of their own beside this file. Everything else is decoded into kio's frozen
dataclasses and encoded from plain nested dictionaries, so that one handler serves every version of its API: a field that
only other versions have is dropped, one that is missing takes the schema's default, and one that no version has is refused.

Measured choice (docs/decisions/001): kio's native reader decodes any request in 0.7 to 3 us; its writer needs about
15 us an answer, which is fine for APIs that are rare and is why the hot ones do not use it. But 49,000 rows of an answer took
it half a second, for which nobody else was served: so dictionaries are written by :mod:`~minikafka.protocol.encoding`, and
kio writes what is rare in them.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin
from uuid import UUID

import minikafka.protocol.kio_types  # noqa: F401  before anything of kio

# isort: split
from kio.index import load_payload_module
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.serial._implicit_defaults import get_tagged_field_default
from kio.serial._serialize import get_field_writer
from kio.static.constants import EntityType

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.counts import checked
from minikafka.protocol.encoding import Append, FieldWriter, Write, array_writer, primitive_writer, struct_writer
from minikafka.protocol.wire import ROWS_MAX, MalformedRequest, skip_tags

Entity = Any
"""A kio dataclass; its fields depend on API and version, so handlers read optional ones with ``getattr``."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@cache
def request_type(api_key: int, version: int) -> Any:
    """The kio class of a request; raises ``KeyError`` when kio does not know that API or version."""
    return _root(load_payload_module(api_key, version, EntityType.request), EntityType.request)


@cache
def response_type(api_key: int, version: int) -> Any:
    """The kio class of a response; raises ``KeyError`` when kio does not know that API or version."""
    return _root(load_payload_module(api_key, version, EntityType.response), EntityType.response)


def _root(module: Any, kind: EntityType) -> Any:
    for value in vars(module).values():
        if isinstance(value, type) and getattr(value, "__type__", None) is kind and value.__module__ == module.__name__:
            return value
    raise KeyError(module.__name__)


@cache
def is_flexible(api_key: int, version: int) -> bool:
    """Whether this version uses compact lengths and tagged fields (KIP-482)."""
    return bool(request_type(api_key, version).__flexible__)


@cache
def _reader(entity_type: Any) -> Callable[[Any, int], tuple[Any, int]]:
    return entity_reader(entity_type)


@cache
def _writer(entity_type: Any) -> Any:
    return entity_writer(entity_type)


def decode_request(api_key: int, version: int, body: bytes) -> Entity:
    """Decode a request body (header already taken off).

    Raises:
        MalformedRequest: the bytes are not such a request, or it has more than ROWS_MAX rows.
    """
    return _decode(request_type(api_key, version), body, ROWS_MAX)


def answer_body(api_key: int, version: int, frame: bytes) -> bytes:
    """A response without its header, whose tagged fields flexible versions have; ApiVersions never (KIP-511).

    Raises:
        MalformedRequest: it ends within its header.
    """
    has_tags = is_flexible(api_key, version) and api_key != ApiKey.API_VERSIONS
    try:
        return frame[skip_tags(frame, 4) if has_tags else 4 :]
    except IndexError:
        raise MalformedRequest("it ends within its header") from None


def decode_response(api_key: int, version: int, body: bytes) -> Entity:
    """Decode a response body (header already taken off); raises ``MalformedRequest`` like :func:`decode_request`."""
    return _decode(response_type(api_key, version), body, len(body))


def _decode(entity_type: Any, body: bytes, rows_max: int) -> Entity:
    body = checked(entity_type, body, rows_max)
    try:
        entity, _ = _reader(entity_type)(body, 0)
    except Exception as error:  # kio raises a dozen kinds; each of them means: these bytes are not that message
        raise MalformedRequest(f"{entity_type.__name__} v{entity_type.__version__}: {error!r}") from error
    return entity


def encode_request(api_key: int, version: int, values: Mapping[str, Any]) -> bytes:
    """Encode a request body from nested dictionaries of kio's field names."""
    return _encode(request_type(api_key, version), values)


def encode_response(api_key: int, version: int, values: Mapping[str, Any]) -> bytes:
    """Encode a response body from nested dictionaries of kio's field names."""
    return _encode(response_type(api_key, version), values)


def _encode(entity_type: Any, values: Mapping[str, Any]) -> bytes:
    parts: list[bytes] = []
    _dictionary_writer(entity_type)(parts.append, values)
    return b"".join(parts)


@cache
def _dictionary_writer(entity_type: Any) -> Write:
    """Write a dictionary as the bytes of what :func:`build` makes of it."""
    plan, names = _plan(entity_type)
    by_name = {field.name: field for field in fields(entity_type)}
    return struct_writer(
        [_field_writer(entity_type, by_name[name], convert, default) for name, convert, default in plan],
        bool(entity_type.__flexible__),
        names,
        lambda strange: _check_known_elsewhere(entity_type, strange),
    )


def _field_writer(entity_type: Any, field: Any, convert: Callable[[Any], Any] | None, default: Any) -> FieldWriter:
    flexible, tag = bool(entity_type.__flexible__), field.metadata.get("tag")
    slow = get_field_writer(field, flexible, False, tag is not None)
    if default is MISSING:
        default = field.default if field.default is not MISSING else field.default_factory()

    def by_kio(append: Append, value: Any) -> None:
        append(_written(slow, value if convert is None else convert(value)))

    if tag is not None:
        absent = get_tagged_field_default(field) if field.default is MISSING else field.default
        return FieldWriter(field.name, by_kio, b"", tag, lambda value: (convert(value) if convert else value) == absent)
    inner, is_array, optional = _shape(field.type)
    kafka_type = field.metadata.get("kafka_type")
    one = (
        _dictionary_writer(inner)
        if kafka_type is None
        else primitive_writer(kafka_type, flexible, optional and not is_array)
    )
    if one is None or (kafka_type is None and optional and not is_array):
        return FieldWriter(field.name, by_kio, _written(slow, default))
    return FieldWriter(field.name, array_writer(one, flexible) if is_array else one, _written(slow, default))


def _written(write: Any, value: Any) -> bytes:
    buffer = io.BytesIO()
    write(buffer, value)
    return buffer.getvalue()


def encode_entity(entity: Entity) -> bytes:
    """Encode a body that was decoded, or changed since."""
    entity_type: Any = type(entity)
    return _written(_writer(entity_type), entity)


def values_of(entity: Entity) -> dict[str, Any]:
    """Nested dictionaries of which :func:`build` makes the same entity."""
    return {field.name: _value_of(getattr(entity, field.name)) for field in fields(entity)}


def _value_of(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_value_of(element) for element in value]
    if isinstance(value, timedelta | datetime):
        return millis(value)
    return values_of(value) if hasattr(value, "__dataclass_fields__") else value


def build(entity_type: Any, values: Mapping[str, Any]) -> Entity:
    """A kio entity from a dictionary: milliseconds for durations and times, ints for error codes, dicts for structs.

    Raises:
        TypeError: a field that no version of the entity has: it is misspelt, or belongs one level up or down.
    """
    plan, names = _plan(entity_type)
    if not values.keys() <= names:
        _check_known_elsewhere(entity_type, values.keys() - names)
    arguments = {}
    for name, convert, default in plan:
        if name in values:
            value = values[name]
            arguments[name] = value if convert is None else convert(value)
        elif default is not MISSING:
            arguments[name] = default
    return entity_type(**arguments)


def _check_known_elsewhere(entity_type: Any, names: Iterable[str]) -> None:
    """Raise TypeError unless every one of the fields belongs to another version of the entity."""
    strange = sorted(name for name in names if not _is_known_elsewhere(entity_type, name))
    if strange:
        raise TypeError(f"{entity_type.__name__} has no field {', '.join(map(repr, strange))} in any version")


@cache
def _is_known_elsewhere(entity_type: Any, field_name: str) -> bool:
    """Newest version first: that has nearly every field that a handler may set, and the others need not be loaded."""
    module = entity_type.__module__
    api, version = module.split(".")[-3:-1]
    for other in sorted(schema_name_map[api], reverse=True):
        entity = getattr(import_module(module.replace(f".{version}.", f".v{other}.")), entity_type.__name__, None)
        if entity is not None and field_name in entity.__dataclass_fields__:
            return True
    return False


@cache
def _plan(entity_type: Any) -> tuple[tuple[tuple[str, Callable[[Any], Any] | None, Any], ...], frozenset[str]]:
    """(name, conversion or None where there is none, default) of each field, and the names alone."""
    plan = []
    for field in fields(entity_type):
        inner, is_array, optional = _shape(field.type)
        convert = _converter(inner, field.metadata.get("kafka_type"), is_array, optional)
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        plan.append((field.name, convert, MISSING if has_default else _implicit(inner, is_array, optional)))
    return tuple(plan), frozenset(name for name, _, _ in plan)


def _shape(declared: Any) -> tuple[Any, bool, bool]:
    """(element type, is it an array, may it be null)."""
    optional = False
    if get_origin(declared) in (UnionType, Union):
        optional = True
        declared = next(a for a in get_args(declared) if a is not NoneType)
    if get_origin(declared) is tuple:
        inner, _, inner_optional = _shape(get_args(declared)[0])
        return inner, True, optional or (inner_optional and inner is not UUID)
    return declared, False, optional


def _converter(inner: Any, kafka_type: str | None, is_array: bool, optional: bool) -> Callable[[Any], Any] | None:
    one: Callable[[Any], Any]
    if kafka_type is None:

        def one(value: Any) -> Any:
            return None if value is None else build(inner, value)
    elif kafka_type.startswith("timedelta"):

        def one(value: Any) -> Any:
            return timedelta(milliseconds=value)
    elif kafka_type == "datetime_i64":

        def one(value: Any) -> Any:
            return None if value < 0 and optional else _EPOCH + timedelta(milliseconds=value)
    elif kafka_type == "error_code":

        def one(value: Any) -> Any:
            return KioErrorCode(int(value))
    elif kafka_type == "uuid":

        def one(value: Any) -> Any:
            return None if value is None or value.int == 0 else value
    else:
        return (lambda values: None if values is None else tuple(values)) if is_array else None

    if not is_array:
        return one
    return lambda values: None if values is None else tuple([one(value) for value in values])


def _implicit(inner: Any, is_array: bool, optional: bool) -> Any:
    if is_array:
        return ()
    if optional:
        return None
    if inner is KioErrorCode:
        return KioErrorCode.none
    for base, default in (
        (bool, False),
        (int, 0),
        (str, ""),
        (bytes, b""),
        (float, 0.0),
        (timedelta, timedelta(0)),
        (datetime, _EPOCH),
    ):
        if isinstance(inner, type) and issubclass(inner, base):
            return default
    if hasattr(inner, "__dataclass_fields__"):
        return build(inner, {})
    return None


def millis(value: timedelta | datetime | int | None) -> int:
    """Milliseconds of a kio duration or time; -1 for null."""
    if value is None:
        return -1
    if isinstance(value, int):
        return value
    if isinstance(value, datetime):
        value = value - _EPOCH
    return round(value.total_seconds() * 1000)
