"""Reads a file that holds one YAML document; every kind of document is read in this way, and told of in the same words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import yaml
from minikafka.security.fresh import read_at_most

from minikafka_chaos.errors import BadScenario
from minikafka_chaos.scenario.document_lines import Lines

DEPTH_MAX: Final = 50
"""Levels of a document: what reads it recurses, and no field is half as deep."""
VALUES_MAX: Final = 100_000
"""Values of a document with its aliases in full: aliases of aliases make millions out of a line."""
_COMPOSED_DEPTH_MAX: Final = 4 * DEPTH_MAX
"""Levels of what is composed: for each, libyaml takes some of the stack, at whose end the process dies. What is as deep as this
is refused before; what is less deep is told of by its line."""
BYTES_MAX: Final = 16 << 20
VALUE_SHOWN: Final = 40
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's, which is ten times as fast, where PyYAML has it."""


def read_text(path: Path) -> str:
    """Raises BadScenario: one line that names the file."""
    try:
        return read_at_most(path, BYTES_MAX, may_wait=True).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadScenario(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def one_document(text: str, origin: str, kind: str) -> tuple[Any, Lines]:
    """The one document of a text and where its fields are. `kind` is what it should hold. Raises BadScenario."""
    try:
        nodes = [node for node in _composed(text) if node is not None and node.tag != "tag:yaml.org,2002:null"]
        if len(nodes) != 1:
            raise BadScenario(f"{origin}: {len(nodes)} documents, a {kind} is one")
        _check(nodes[0], origin)
        return _constructed(nodes[0]), Lines(nodes[0])
    except yaml.YAMLError as error:
        raise BadScenario(f"{origin}: not YAML: {' '.join(str(error).split())}") from error
    except RecursionError:
        raise BadScenario(f"{origin}: {_TOO_DEEP}") from None


def one_value(text: str, origin: str) -> Any:
    """The value that a short text of YAML is, such as that of an option. Raises BadScenario."""
    try:
        _check_depth(text)
        node = yaml.compose(text, _LOADER)
        if node is None:
            return None
        _check(node, origin)
        return _constructed(node)
    except yaml.YAMLError:
        raise BadScenario(f"{origin}: the value is not YAML") from None
    except RecursionError:
        raise BadScenario(f"{origin}: {_TOO_DEEP}") from None


def as_json(document: Any, origin: str) -> str:
    """JSON input lets enumerations be written as text while numbers stay strict, as an API server has it."""
    try:
        return json.dumps(document)
    except TypeError as error:
        raise BadScenario(f"{origin}: {error}") from error


_TOO_DEEP: Final = f"nested too deeply; allowed: {DEPTH_MAX} levels"


def _composed(text: str) -> list[yaml.Node | None]:
    _check_depth(text)
    return list(yaml.compose_all(text, _LOADER))


def _check_depth(text: str) -> None:
    """Refuse levels without end. Raises RecursionError."""
    depth = 0
    for event in yaml.parse(text, _LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _COMPOSED_DEPTH_MAX:
            raise RecursionError


class _Constructor(yaml.constructor.SafeConstructor):
    """Says of a scalar that looks like a date or a number and is none (2026-13-45, !!int x) where it stands."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (AttributeError, LookupError, ValueError) as error:
            kind = node.tag.rpartition(":")[2]
            problem = f"{str(node.value)[:VALUE_SHOWN]!r} is no {kind}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


def _constructed(node: yaml.Node) -> Any:
    return _Constructor().construct_document(node)


def _check(root: yaml.Node, origin: str) -> None:
    """Refuse what would count silently, or never end: a key twice, levels without end, aliases of aliases."""
    waiting: list[tuple[yaml.Node, str, int]] = [(root, "", 1)]
    seen = 0
    while waiting:
        node, path, depth = waiting.pop()
        seen += 1
        where = f"{origin}:{node.start_mark.line + 1}: {path}" if path else origin
        if depth > DEPTH_MAX:
            raise BadScenario(f"{where}: {_TOO_DEEP}")
        if seen > VALUES_MAX:
            raise BadScenario(f"{origin}: too many values, with aliases in full; allowed: {VALUES_MAX:,}")
        if isinstance(node, yaml.MappingNode):
            _check_keys(node, path, origin)
            waiting += [(value, _below(path, key), depth + 1) for key, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [
                (value, f"{path}.{number}" if path else str(number), depth + 1)
                for number, value in enumerate(node.value)
            ]


def _check_keys(node: yaml.MappingNode, path: str, origin: str) -> None:
    """Keys are compared as text, which they are in JSON."""
    first: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue  # it is refused when the document is constructed
        merged = key.tag == "tag:yaml.org,2002:merge"
        name, line = key.value if merged else str(_constructed(key)), key.start_mark.line + 1
        if name in first:
            raise BadScenario(f"{origin}:{line}: {_below(path, key)}: given twice, first in line {first[name]}")
        first[name] = line


def _below(path: str, key: yaml.Node) -> str:
    return f"{path}.{key.value}" if path else str(key.value)
