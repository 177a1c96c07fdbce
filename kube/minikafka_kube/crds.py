"""CustomResourceDefinitions made from models, and the command of a module that keeps their files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from minikafka_kube.api import GROUP, VERSION
from minikafka_kube.api.schema import structural


def column(name: str, path: str, kind: str = "string", description: str = "", priority: int = 0) -> dict[str, Any]:
    """One of ``kubectl get``'s columns; with a priority it is one of ``-o wide``."""
    made: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    if description:
        made["description"] = description
    if priority:
        made["priority"] = priority
    return made


def definition(
    kind: str,
    plural: str,
    short: str,
    model: type[BaseModel],
    columns: list[dict[str, Any]],
    *,
    scale: dict[str, str] | None = None,
    selectable: Sequence[str] = (),
    schema: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The CRD of a kind whose spec and status the model declares. ``schema``: the model's, where rules were added to it."""
    schema = structural(model) if schema is None else schema
    schema["properties"] = {
        "apiVersion": {"type": "string", "description": "Version of the API this object is written in."},
        "kind": {"type": "string", "description": "Kind of this object."},
        "metadata": {"type": "object"},
        **schema["properties"],
    }
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}, **({"scale": scale} if scale else {})},
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": schema},
    }
    if selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in selectable]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{GROUP}",
            "labels": {"app.kubernetes.io/name": "minikafka", "app.kubernetes.io/component": "crd"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                "categories": ["minikafka"],
            },
            "versions": [version],
        },
    }


def by_file(*definitions: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Definitions under the names of their files."""
    return {f"{GROUP}_{made['spec']['names']['plural']}.yaml": made for made in definitions}


class _Dumper(yaml.SafeDumper):
    """Writes the same value in full wherever it stands, instead of anchors, which readers of a CRD do not expect."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def as_text(definition: dict[str, Any], made_by: str) -> str:
    """The file that holds a definition. ``made_by`` names the models and the command."""
    body = yaml.dump(definition, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    return f"# Made from the models in {made_by}; do not edit.\n{body}"


def keep(
    arguments: Sequence[str] | None,
    module: str,
    models: str,
    folders: Sequence[Path],
    definitions: Mapping[str, dict[str, Any]],
) -> int:
    """The command of a module that makes CRDs: write the files, or compare them.

    Exit codes: 0 all files are as declared (or were written), 1 some are not, 2 bad input.
    """
    command = f"python -m {module} --write"
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description="Generated CRDs.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="compare, change nothing")
    what.add_argument("--write", action="store_true", help="make the files")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's root (default: here)")
    options = parser.parse_args(arguments)
    if not (options.root / "charts").is_dir():
        print(f"--root={options.root}: there is no charts/ in it; allowed: the project's root", file=sys.stderr)
        return 2
    stale = 0
    for folder in (options.root / folder for folder in folders):
        if options.write:
            folder.mkdir(parents=True, exist_ok=True)
        for name, made in definitions.items():
            path, text = folder / name, as_text(made, f"{models} by '{command}'")
            if options.write:
                path.write_text(text, encoding="utf-8")
            elif not path.is_file() or path.read_text(encoding="utf-8") != text:
                print(f"{path} is not what is declared: run {command}", file=sys.stderr)
                stale = 1
    return stale
