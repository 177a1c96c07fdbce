"""The OpenAPI 3.1 document of the control port, made of the verbs."""

from __future__ import annotations

from typing import Any

from minikafka import __version__

from minikafka_chaos.session.results import result_schema
from minikafka_chaos.session.verbs import VERBS, does, model

PATH = "/v1"
DOCUMENT = f"{PATH}/openapi.json"
ERROR = {"$ref": "#/components/schemas/Error"}


def document() -> dict[str, Any]:
    """Each verb is a POST with its fields as a JSON object."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "MiniKafka's control port",
            "version": __version__,
            "description": "Break and mend the brokers of a cluster that `minikafka up --control` started.",
        },
        "paths": {f"{PATH}/{verb}": {"post": _operation(verb)} for verb in VERBS},
        "components": {
            "schemas": {
                "Error": _object({"error": {"type": "string", "description": "One line."}}, ["error"]),
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def _operation(verb: str) -> dict[str, Any]:
    words = does(verb)
    schema = model(verb).model_json_schema()
    return {
        "operationId": verb,
        "summary": words.split("\n\n", maxsplit=1)[0].replace("\n", " "),
        "description": words,
        "requestBody": {
            "required": bool(schema.get("required")),
            "content": {"application/json": {"schema": schema}},
        },
        "responses": {
            "200": _answer("It is done.", _object({"result": result_schema(verb)}, ["result"])),
            "400": _answer("It cannot be done; nothing was changed.", ERROR),
            "401": _answer("The token is missing or wrong.", ERROR),
            "503": _answer("It was tried, and did not come to its end.", ERROR),
        },
    }


def _answer(words: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": schema}}}
