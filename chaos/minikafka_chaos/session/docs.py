"""The verbs as a table of `docs/reference/testing.md`, and the document of the control port as a file."""

from __future__ import annotations

import inspect
import json

from minikafka_chaos.session.openapi import document
from minikafka_chaos.session.session import ChaosSession
from minikafka_chaos.session.verbs import VERBS, does


def verb_table() -> str:
    """A row for each verb: how it is called from Python, and what it does."""
    rows = [f"| `{_call(verb)}` | {does(verb).replace(chr(10) * 2, ' ').replace(chr(10), ' ')} |" for verb in VERBS]
    return "\n".join(["| verb | what it does |", "|---|---|", *rows])


def _call(verb: str) -> str:
    parts = []
    for name, parameter in list(inspect.signature(getattr(ChaosSession, verb)).parameters.items())[1:]:
        if name == "deadline_s":
            continue
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            parts.append(f"*{name}")
        elif parameter.default is inspect.Parameter.empty:
            parts.append(name)
        else:
            parts.append(f"{name}={parameter.default!r}".replace("'", '"'))
    return f"{verb}({', '.join(parts)})"


def openapi_page() -> str:
    """`docs/reference/control.openapi.json`."""
    return json.dumps(document(), indent=1) + "\n"
