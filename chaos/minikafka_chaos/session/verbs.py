"""The verbs of a session as they are offered to programs: their fields, what these may be, and how a call by fields is made.

All is taken from the methods of `ChaosSession`, so that HTTP, its OpenAPI document and the reference say what Python says.
"""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from minikafka_chaos.session.errors import VerbRefused
from minikafka_chaos.session.results import plain
from minikafka_chaos.session.session import DIRECTIONS, WIPE_MODES, ChaosSession

VERBS = (
    "create_topic",
    "delete_topics",
    "kill_leader",
    "kill",
    "power_loss",
    "pause",
    "resume",
    "restart",
    "cut",
    "heal",
    "move_leader",
    "inject_error",
    "delay",
    "observe",
    "requests",
    "leader",
    "wait_full_isr",
    "records",
    "groups",
    "verdict",
    "status",
)
"""Methods of `ChaosSession`, in the order in which they are told."""

ALLOWED: Mapping[str, Iterable[str]] = {"mode": WIPE_MODES, "direction": DIRECTIONS}
"""Fields whose values are some words, for the document; the verb itself says so to who sends another."""


WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", types.NoneType: "null"}
SHOWN_MAX = 60
"""Characters of a value that is refused."""


@cache
def model(verb: str) -> type[BaseModel]:
    """The fields of a verb."""
    method = getattr(ChaosSession, verb)
    hints = get_type_hints(method)
    found: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(method).parameters.items())[1:]:
        hint = hints[name]
        if name in ALLOWED:
            hint = Annotated[hint, Field(json_schema_extra={"enum": list(ALLOWED[name])})]
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            found[name] = (list[hint], [])  # type: ignore[valid-type]  # a hint that is looked up
        else:
            found[name] = (hint, ... if parameter.default is inspect.Parameter.empty else parameter.default)
    title = "".join(word.capitalize() for word in verb.split("_"))
    return create_model(title, __config__=ConfigDict(extra="forbid", strict=True), **found)


def does(verb: str) -> str:
    """Return what a verb does, in a line or a few."""
    return inspect.cleandoc(getattr(ChaosSession, verb).__doc__ or "")


def _refusal(verb: str, given: Any, error: ValidationError) -> str:
    """One line on the first field that cannot be so: its name, and what is allowed."""
    first = error.errors()[0]
    if not first["loc"]:
        return f"body: {_shown(given)} is not an object with the fields of {verb}"
    field = str(first["loc"][0])
    fields = model(verb).model_fields
    if field not in fields:
        return f"{field}: {verb} does not take it; allowed: {', '.join(fields) or 'nothing'}"
    allowed = in_words(fields[field].annotation)
    return (
        f"{field}: {_shown(given[field])} is not {allowed}"
        if field in given
        else f"{field}: {verb} needs it: {allowed}"
    )


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


def in_words(hint: Any) -> str:
    """Return what a field may be."""
    if hint in WORDS:
        return WORDS[hint]
    of = get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        *rest, last = map(in_words, of)
        return f"{', '.join(rest)} or {last}"
    if issubclass(get_origin(hint), Mapping):
        return f"an object whose values are {in_words(of[1])}"
    return f"a list, each {in_words(of[0])}"


def call(session: ChaosSession, verb: str, given: Mapping[str, Any]) -> Any:
    """Carry out a verb; its result as plain JSON. Raises VerbRefused, also for fields that are not its own."""
    try:
        values = model(verb).model_validate(given)
    except ValidationError as error:
        raise VerbRefused(_refusal(verb, given, error)) from None
    named = {name: getattr(values, name) for name in type(values).model_fields}
    spread: list[Any] = []
    for name, parameter in list(inspect.signature(getattr(ChaosSession, verb)).parameters.items())[1:]:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            spread += named.pop(name)
        elif parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            spread.append(named.pop(name))
    return plain(getattr(session, verb)(*spread, **named))
