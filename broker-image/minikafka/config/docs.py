"""``docs/reference/configuration.md``, made from the declarations."""

from collections.abc import Iterable
from typing import Any

from minikafka.config.broker_keys import SECTIONS
from minikafka.config.keys import LONG_MAX, Key, Update, declared
from minikafka.config.topic import TOPIC_KEYS

_INTRODUCTION = """\
# Configuration

For anyone who sets up a broker or a topic: every setting, its type, default and range, and where it is not Kafka's.

Made from the declarations in `minikafka/config/` by `make docs`; do not edit.

A broker reads a file in Java's properties format (`minikafka broker --config FILE`); `minikafka up --config KEY=VALUE`
writes such files, with [some settings of its own](commands.md#its-settings).
Names, types, defaults and ranges are those of Apache Kafka 4.3; the last column says where not.
A refused setting ends the start with one line for each: key, value, and what is allowed. Settings that Kafka has and
MiniKafka does not have are refused as well, never ignored; the few that are accepted and not used yet say so here, and
in a warning when they are set. A key given twice counts as it stood last.

**Update** says whether a running broker takes another value through `IncrementalAlterConfigs` (KIP-226): *no*, for
*one* broker, or for *all* brokers as well as one.
"""

_TOPICS = """\
## Topics

Given when a topic is created or altered. Each overrides, for this topic, the broker setting beside it, with the same
type and allowed values; all can be changed at any time.

| topic setting | overrides |
|---|---|
"""

_UPDATES = {Update.READ_ONLY: "no", Update.PER_BROKER: "one", Update.CLUSTER_WIDE: "all"}


def configuration_page() -> str:
    """The page."""
    parts = [_INTRODUCTION]
    for section in SECTIONS:
        parts.append(f"## {section.__doc__}\n")
        parts.append("| key | type | default | allowed | update | meaning |\n|---|---|---|---|---|---|")
        parts.append("\n".join(_rows(declared(section).values())) + "\n")
    parts.append(_TOPICS + "\n".join(f"| `{key.name}` | `{key.twin.name}` |" for key in TOPIC_KEYS.values()) + "\n")
    return "\n".join(parts)


def _rows(keys: Iterable[Key[Any]]) -> Iterable[str]:
    for key in keys:
        default = "**required**" if key.required else "none" if key.default is None else f"`{key.default_text}`"
        meaning = key.doc + (f" *{key.note[0].upper()}{key.note[1:]}.*" if key.note else "")
        meaning += " **Accepted, not used yet.**" if key.unused else ""
        allowed = key.allowed.replace(f" to {LONG_MAX}", " on").replace(" to 2147483647", " on").replace("|", "\\|")
        cells = (f"`{key.name}`", key.type.name.lower(), default, allowed, _UPDATES[key.update], meaning)
        yield f"| {' | '.join(cells)} |"
