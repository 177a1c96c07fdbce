"""``docs/reference/apis.md``: Kafka's APIs, the versions that are served, and why others are not."""

from __future__ import annotations

from collections.abc import Iterator

from minikafka.protocol.api_keys import FOR_CONTROLLERS, KAFKA_VERSIONS, ApiKey
from minikafka.server.api import load_handlers, unserved
from minikafka.server.api.spec import UNSET_EVERYWHERE, ApiSpec

_INTRODUCTION = """\
# Kafka's APIs

For anyone who wonders whether a client, a tool or a setting of one will work: every API of Apache Kafka 4.3,
the versions that a broker here serves, and why it serves no others. Made from the declarations in
`broker-image/minikafka/server/api/` by `make docs`; do not edit.
What is different about those that are served: [limits.md](limits.md).

Keys 4 to 7 were removed in Kafka 4.0. *Brokers*: Kafka serves it to controllers and brokers only, and so
does MiniKafka, on `inter.broker.listener.name`. *Controller*: any broker takes it, and passes it on to
the controller. Produce is advertised from version 0 on, as by Kafka.

| key | API | here | Kafka 4.3 | for | why not, or not all |
|---|---|---|---|---|---|
"""

_FIELDS = """
## Fields that make no difference

Every other field of every version above is used; a test sees to that.

"""


def apis_page() -> str:
    """Make the text of ``docs/reference/apis.md``."""
    specs = {key: spec for key, (spec, _) in load_handlers().items()}
    rows = "\n".join(_row(key, specs.get(key)) for key in ApiKey)
    everywhere = "; ".join(f"`{name}` ({reason})" for name, reason in UNSET_EVERYWHERE.items())
    fields = [
        f"Of every response: {everywhere}.\n",
        "| API | field | of the | why |\n|---|---|---|---|",
        *(line for key in ApiKey if key in specs for line in _fields(specs[key])),
    ]
    return _INTRODUCTION + rows + "\n" + _FIELDS + "\n".join(fields) + "\n"


def _row(key: ApiKey, spec: ApiSpec | None) -> str:
    here, whom = "none", "brokers" if key in FOR_CONTROLLERS else ""
    why = unserved.APIS.get(key, "")
    if spec is not None:
        here = _range(spec.min_version, spec.max_version)
        whom = "controller" if spec.controller_only else whom
        why = unserved.VERSIONS.get(key, "")
    return f"| {key.value} | {key.api_name} | {here} | {_range(*KAFKA_VERSIONS[key])} | {whom} | {why} |"


def _range(oldest: int, newest: int) -> str:
    return f"{oldest}" if oldest == newest else f"{oldest} to {newest}"


def _fields(spec: ApiSpec) -> Iterator[str]:
    for whose, listed in (("request", spec.unread), ("response", spec.unset)):
        for name, reason in listed.items():
            yield f"| {spec.name} | `{name}` | {whose} | {reason} |"
