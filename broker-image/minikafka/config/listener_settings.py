"""Settings of one listener, or of one mechanism on it: ``listener.name.NAME.KEY``, ``listener.name.NAME.MECHANISM.KEY``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from minikafka.config.keys import ConfigError, Key
from minikafka.config.security_keys import EVERY_MECHANISM_KEY, LISTENER_KEYS, MECHANISMS, mechanism_keys
from minikafka.security.jaas import LoginModule, parse_for

PREFIX = "listener.name."

Keys = Mapping[str, Key[Any]]


@dataclass(slots=True)
class OwnSettings:
    """What one listener has of its own, by key."""

    values: dict[str, Any] = field(default_factory=dict)
    mechanisms: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By mechanism."""


def is_of_a_listener(name: str) -> bool:
    """Return whether a setting is one listener's own."""
    return name.startswith(PREFIX)


def without_prefix(name: str) -> str:
    """The key whose value a setting of a listener is, as far as that can be told without knowing the listeners."""
    return next((key for key in LISTENER_KEYS | EVERY_MECHANISM_KEY if name.endswith("." + key)), name)


def read_own_settings(properties: Mapping[str, str], listeners: Iterable[str], keys: Keys) -> dict[str, OwnSettings]:
    """By listener. Raises ConfigError, one line for each that is refused."""
    found = {name: OwnSettings() for name in listeners}
    problems: list[str] = []
    for name, text in properties.items():
        if is_of_a_listener(name):
            try:
                _read(found, name, text, keys)
            except ConfigError as error:
                problems.extend(error.problems)
    if problems:
        raise ConfigError(*problems)
    return found


def _read(found: Mapping[str, OwnSettings], name: str, text: str, keys: Keys) -> None:
    rest = name.removeprefix(PREFIX)
    listener = next((each for each in found if rest.startswith(each.lower() + ".")), None)
    if listener is None:
        raise ConfigError(f"{name}: no such listener; allowed names, in small letters: {', '.join(found).lower()}")
    rest, own = rest[len(listener) + 1 :], found[listener]
    if rest in LISTENER_KEYS:
        own.values[rest] = _value(keys[rest], name, text)
        return
    mechanism = next((each for each in MECHANISMS if rest.startswith(each.lower() + ".")), None)
    rest = rest[len(mechanism or "") + 1 :]
    if mechanism is None or rest not in mechanism_keys(mechanism):
        raise ConfigError(
            f"{name}: no setting that a listener has of its own; allowed after the listener's name: "
            f"{', '.join(sorted(LISTENER_KEYS))}; and after {(mechanism or ', '.join(MECHANISMS)).lower()}: "
            f"{', '.join(sorted(EVERY_MECHANISM_KEY if mechanism is None else mechanism_keys(mechanism)))}"
        )
    own.mechanisms.setdefault(mechanism, {})[rest] = _value(keys[rest], name, text)


def _value(key: Key[Any], name: str, text: str) -> Any:
    try:
        return key.read(text)
    except ConfigError as error:  # says the key's own name
        raise ConfigError(*(name + line.removeprefix(key.name) for line in error.problems)) from None


def login_module(listener: str, mechanism: str, own: OwnSettings) -> LoginModule | None:
    """The login module of a mechanism on a listener; None: it has none. Raises ConfigError."""
    text = own.mechanisms.get(mechanism, {}).get("sasl.jaas.config")
    if text is None:
        return None
    try:
        return parse_for(mechanism, text)
    except ValueError as error:
        raise ConfigError(
            f"{PREFIX}{listener.lower()}.{mechanism.lower()}.sasl.jaas.config=[hidden]: {error}; "
            'allowed: MODULE required KEY="VALUE" ...;'
        ) from None
