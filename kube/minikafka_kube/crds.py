"""CustomResourceDefinitions made from models (tools/generated.py writes them into `crds/`)."""

from __future__ import annotations

from collections.abc import Sequence
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


def as_text(definition: dict[str, Any], models: str) -> str:
    """Write the file that holds a definition. ``models`` says where these are."""
    body = yaml.dump(definition, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    return f"# Made from the models in {models} by `make docs`; do not edit.\n{body}"
