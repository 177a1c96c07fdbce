"""Java's ``.properties`` format, as Kafka reads ``server.properties``."""

import re
from collections.abc import Mapping
from pathlib import Path

from minikafka.config.keys import ConfigError
from minikafka.security.fresh import read_at_most

PROPERTIES_BYTES_MAX = 1 << 20
"""Of a file: those of people have some KiB."""

_SEPARATOR = re.compile(r"(?P<key>(?:\\.|[^\\=:\s])*)\s*[=:]?\s*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_VARIABLE = re.compile(r"\$\{env:([^}]*)\}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HALVES = re.compile("[\ud800-\udfff]")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    if len(escaped) == 5:
        return chr(int(escaped[1:], 16))
    return _CONTROL.get(escaped, escaped)


def _unescaped(text: str) -> str:
    """Characters beyond 16 bits are escaped as two halves; half a one is no text, and is replaced."""
    text = _ESCAPE.sub(_unescape, text)
    if _HALVES.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values; of a repeated key the last counts, as in Java."""
    found: dict[str, str] = {}
    pending = ""
    for raw in [*re.split(r"\r\n|\r|\n", text), ""]:
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        line = pending + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = line[:-1]
            continue
        pending = ""
        match = _SEPARATOR.fullmatch(line)
        assert match is not None, "every part of the pattern may be empty"
        found[_unescaped(match["key"])] = _unescaped(match["value"]).strip()
    return found


def read_properties(path: str | Path) -> dict[str, str]:
    """The settings in a file. Raises :class:`ConfigError` when it cannot be read."""
    try:
        return parse_properties(read_at_most(path, PROPERTIES_BYTES_MAX, may_wait=True).decode())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; allowed: a file in Java's properties format") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8; allowed: a file in Java's properties format") from None


def _shown_variable(name: str) -> str:
    """Without the value around it, and where a brace is missing without what is up to the next: there may be a secret in it."""
    return f"{name!r}" if _VARIABLE_NAME.fullmatch(name) else "of that name" if name else "without a name"


def expand_environment(properties: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Put environment variables in the place of ``${env:NAME}``, as Kafka's ``EnvVarConfigProvider`` does (KIP-887).

    What a variable holds is taken as it is. Unlike Kafka, which leaves the text standing, an unset variable is refused.

    Raises:
        ConfigError: one line for each variable that is not set, with the key that wants it.
    """
    problems: list[str] = []

    def look_up(key: str, match: re.Match[str]) -> str:
        found = environment.get(match[1])
        if found is None:
            problems.append(
                f"{key}: the environment variable {_shown_variable(match[1])} is not set; "
                "allowed: ${env:NAME} of a variable that is"
            )
        return found or ""

    expanded = {k: _VARIABLE.sub(lambda match, key=k: look_up(key, match), v) for k, v in properties.items()}  # type: ignore[misc]
    if problems:
        raise ConfigError(*problems)
    return expanded
