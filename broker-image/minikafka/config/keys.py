"""How one configuration key is declared: name, type, default, allowed values, meaning.

A key is a class attribute; its name is the attribute's with dots for underscores. After parsing, the value lies in the
instance's ``__dict__`` and shadows the declaration (a non-data descriptor), so reading
``config.replica_lag_time_max_ms`` is a plain attribute look-up, and type checkers still know that it is an ``int``.
"""

import re
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Generic, Self, TypeVar, overload

from minikafka.security.shown import HIDDEN, one_line, shown

T = TypeVar("T")

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
_PROBLEM_MAX = 4000
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", re.ASCII)


class ConfigType(IntEnum):
    """The type of a value as DescribeConfigs v3+ numbers it (``DescribeConfigsResponse.ConfigType``)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where a value comes from as DescribeConfigs v1+ numbers it (``DescribeConfigsResponse.ConfigSource``)."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


class Update(IntEnum):
    """Whether a running broker takes a new value through IncrementalAlterConfigs (KIP-226)."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2


class ConfigError(ValueError):
    """One or more refused settings. Each of ``problems`` is one line: ``key=value: what is wrong; allowed: ...``."""

    def __init__(self, *problems: str) -> None:
        self.problems = tuple(one_line(problem, _PROBLEM_MAX) for problem in problems)
        super().__init__("\n".join(self.problems))


class InvalidValue(ValueError):
    """A value outside what its key allows; turned into a line of a :class:`ConfigError` by the caller."""


class Key(Generic[T]):
    """One declared key. ``parse`` turns text into a value or raises :class:`InvalidValue` or ``ValueError``.

    ``unused`` says that the key is taken, so that files made for Kafka work, and that nothing depends on its value yet:
    the page says so, and a broker warns when it is set.
    """

    __slots__ = (
        "allowed",
        "attribute",
        "default",
        "doc",
        "name",
        "note",
        "parse",
        "required",
        "sensitive",
        "type",
        "unused",
        "update",
    )

    def __init__(
        self,
        type: ConfigType,
        default: Any,
        allowed: str,
        parse: Callable[[str], T],
        doc: str,
        *,
        update: Update = Update.READ_ONLY,
        sensitive: bool = False,
        required: bool = False,
        unused: bool = False,
        note: str = "",
    ) -> None:
        self.type = type
        self.default = default
        self.allowed = allowed
        self.parse = parse
        self.doc = doc
        self.update = update
        self.sensitive = sensitive
        self.required = required
        self.unused = unused
        self.note = note
        self.attribute = self.name = ""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute
        self.name = attribute.replace("_", ".")

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        raise AttributeError(f"{self.name} was not parsed")

    @property
    def default_text(self) -> str | None:
        """The default as it would stand in a properties file; None when the key has none."""
        return as_text(self.default)

    def default_value(self) -> T | None:
        """The default as a value."""
        text = self.default_text
        return None if text is None else self.parse(text)

    def read(self, text: str) -> T:
        """Parse ``text``. Raises :class:`ConfigError` with one line naming key, value and what is allowed."""
        text = text.strip()
        value = self.shown(text)
        try:
            text.encode()
            return self.parse(text)
        except UnicodeEncodeError:  # an environment variable, or an argument, that is not UTF-8
            raise ConfigError(f"{self.name}={value}: no text; allowed: {self.allowed}") from None
        except ValueError as error:
            # what is wrong may repeat a part of it
            reason = (
                f"{shown(str(error))}; " if isinstance(error, InvalidValue) and str(error) and value != HIDDEN else ""
            )
            raise ConfigError(f"{self.name}={value}: {reason}allowed: {self.allowed}") from None

    def shown(self, text: str) -> str:
        """Return what a message may repeat of a value."""
        return HIDDEN if self.sensitive or (self.name.endswith(".url") and "@" in text) else shown(text)


def as_text(value: Any) -> str | None:
    """A value as it would stand in a properties file."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return ",".join(str(item) for item in value)
    return str(value)


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise InvalidValue("not a whole number")
        value = int(text)
        if not low <= value <= high:
            raise InvalidValue("too small" if value < low else "too large")
        return value

    return parse


def integer(default: int | None, low: int, high: int = INT_MAX, /, *, doc: str, **rest: Any) -> Key[int]:
    """A 32-bit whole number. A default of None is replaced when the whole configuration is resolved."""
    return Key(ConfigType.INT, default, f"whole number from {low} to {high}", _whole(low, high), doc, **rest)


def short(default: int, low: int, /, *, doc: str, **rest: Any) -> Key[int]:
    """A 16-bit whole number."""
    return Key(ConfigType.SHORT, default, f"whole number from {low} to 32767", _whole(low, 2**15 - 1), doc, **rest)


def long(default: int | None, low: int, high: int = LONG_MAX, /, *, doc: str, **rest: Any) -> Key[int]:
    """A 64-bit whole number. A default of None is replaced when the whole configuration is resolved."""
    return Key(ConfigType.LONG, default, f"whole number from {low} to {high}", _whole(low, high), doc, **rest)


def optional_integer(low: int, high: int = INT_MAX, /, *, doc: str, **rest: Any) -> Key[int | None]:
    """A 32-bit whole number that may be left out."""
    return Key(ConfigType.INT, None, f"whole number from {low} to {high}", _whole(low, high), doc, **rest)


def double(default: float, low: float, high: float, /, *, doc: str, **rest: Any) -> Key[float]:
    """A decimal number."""

    def parse(text: str) -> float:
        if not _DECIMAL.fullmatch(text):
            raise InvalidValue("not a number")
        value = float(text)
        if not low <= value <= high:
            raise InvalidValue("too small" if value < low else "too large")
        return value

    return Key(ConfigType.DOUBLE, default, f"number from {low} to {high}", parse, doc, **rest)


def boolean(default: bool, /, *, doc: str, **rest: Any) -> Key[bool]:
    """``true`` or ``false``, in any case (as Kafka's ``ConfigDef``)."""

    def parse(text: str) -> bool:
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise InvalidValue
        return lowered == "true"

    return Key(ConfigType.BOOLEAN, default, "true, false", parse, doc, **rest)


def text(
    default: str | None,
    /,
    *,
    doc: str,
    allowed: str = "text",
    pattern: str = ".+",
    check: Callable[[str], object] | None = None,
    **rest: Any,
) -> Key[str]:
    """Text that matches ``pattern`` as a whole, and of which ``check`` raises no ValueError."""

    def parse(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise InvalidValue
        if check is not None:
            try:
                check(value)
            except ValueError as error:
                raise InvalidValue(str(error)) from None
        return value

    return Key(ConfigType.STRING, default, allowed, parse, doc, **rest)


def optional_text(*, doc: str, allowed: str = "text", pattern: str = ".*", **rest: Any) -> Key[str | None]:
    """Text that may be left out; an empty value is the same as none."""

    def parse(value: str) -> str | None:
        if not value:
            return None
        if not re.fullmatch(pattern, value):
            raise InvalidValue
        return value

    return Key(ConfigType.STRING, None, allowed, parse, doc, **rest)


def password(*, doc: str, **rest: Any) -> Key[str | None]:
    """Text that is never shown, and may be left out."""
    return Key(ConfigType.PASSWORD, None, "text", lambda value: value or None, doc, sensitive=True, **rest)


def one_of(default: str, values: tuple[str, ...], /, *, doc: str, **rest: Any) -> Key[str]:
    """One of a few words, exactly as written."""

    def parse(value: str) -> str:
        if value not in values:
            raise InvalidValue
        return value

    return Key(ConfigType.STRING, default, ", ".join(values), parse, doc, **rest)


def class_name(values: tuple[str, ...], /, *, doc: str, **rest: Any) -> Key[str | None]:
    """A class of Kafka's, one of a few; may be left out."""

    def parse(value: str) -> str | None:
        if value and value not in values:
            raise InvalidValue
        return value or None

    return Key(ConfigType.CLASS, None, ", ".join(values), parse, doc, **rest)


def words(
    default: tuple[str, ...] | None, values: tuple[str, ...] | None, /, *, doc: str, allowed: str = "", **rest: Any
) -> Key[tuple[str, ...]]:
    """A comma-separated list, of the given words when ``values`` is given; no duplicates."""

    def parse(value: str) -> tuple[str, ...]:
        items = tuple(item.strip() for item in value.split(",")) if value else ()
        if not all(items) or (not items and default != ()):
            raise InvalidValue("empty entry")
        if len(set(items)) != len(items):
            raise InvalidValue("duplicate entry")
        if values is not None and not set(items) <= set(values):
            raise InvalidValue
        return items

    shown = allowed or "comma-separated list of " + ", ".join(values or ("text",))
    return Key(ConfigType.LIST, default, shown, parse, doc, **rest)


def declared(owner: type) -> dict[str, Key[Any]]:
    """Every key of ``owner`` and its bases by key name, in order of declaration."""
    found: dict[str, Key[Any]] = {}
    for base in reversed(owner.__mro__):
        for value in vars(base).values():
            if isinstance(value, Key):
                found[value.name] = value
    return found
