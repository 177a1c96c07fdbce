"""Settings as somebody writes them in Python or JSON."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.controller.topics import NAME_LENGTH_MAX

from minikafka_chaos.session.errors import VerbRefused

Setting = str | int | bool
"""The value of one: as text, or what the text would say."""
SPACES = str.maketrans("\t\n\r", "   ")
"""A value may have them: a certificate has several lines."""


def as_text(field: str, settings: Mapping[str, Setting]) -> dict[str, str]:
    """Return settings of a broker or a topic as Kafka has them. Raises VerbRefused, in which `field` names them."""
    if not isinstance(settings, Mapping):
        raise VerbRefused(f"{field}: {settings!r} is not a dictionary")
    return {_name(field, name): _text(f"{field}: {name}", value) for name, value in settings.items()}


def _name(field: str, name: str) -> str:
    if not isinstance(name, str):
        raise VerbRefused(f"{field}: {name!r} is not the name of a setting")
    return printable(field, name)


def printable(field: str, text: str) -> str:
    """Return a text that can be sent. Raises VerbRefused: librdkafka dies of what is not Unicode, and cuts at a NUL."""
    if not text.isprintable():
        raise VerbRefused(f"{field}: {text!r} is not text that can be printed")
    return text


def topic_name(field: str, name: str) -> str:
    """Return what a topic may be asked for by. Raises VerbRefused: librdkafka hangs with one of more than 32,767 bytes."""
    if not isinstance(name, str):
        raise VerbRefused(f"{field}: {name!r} is not text")
    if len(name) > NAME_LENGTH_MAX:
        raise VerbRefused(f"{field}: a name of {len(name)} characters; {NAME_LENGTH_MAX} at most")
    return printable(field, name)


def _text(where: str, value: Setting) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int):
        raise VerbRefused(f"{where}: {value!r} is not text, a whole number, True or False")
    printable(where, str(value).translate(SPACES))
    return str(value)
