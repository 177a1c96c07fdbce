"""Reads a file that holds one YAML document; every kind of document is read in this way, and told of in the same words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from minikafka_chaos.errors import BadScenario
from minikafka_chaos.scenario.document_lines import Lines


def read_text(path: Path) -> str:
    """Raises BadScenario: one line that names the file."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadScenario(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def one_document(text: str, origin: str, kind: str) -> tuple[Any, Lines]:
    """The one document of a text and where its fields are. `kind` is what it should hold. Raises BadScenario."""
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
        lines = Lines(text)
    except yaml.YAMLError as error:
        raise BadScenario(f"{origin}: not YAML: {' '.join(str(error).split())}") from error
    if len(documents) != 1:
        raise BadScenario(f"{origin}: {len(documents)} documents, a {kind} is one")
    return documents[0], lines


def as_json(document: Any, origin: str) -> str:
    """JSON input lets enumerations be written as text while numbers stay strict, as an API server has it."""
    try:
        return json.dumps(document)
    except TypeError as error:
        raise BadScenario(f"{origin}: {error}") from error
