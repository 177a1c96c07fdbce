"""The one line that says why a key is refused: unknown (and what was meant), or Kafka's but not MiniKafka's.

What is refused may be a secret that has come to the wrong place, the name too: each line of a PEM text in a properties file whose
lines do not end with a backslash is a key.
"""

import re
from collections.abc import Collection

from minikafka.security.jaas import USER
from minikafka.security.shown import HIDDEN, shown

_NAME = re.compile(r"[A-Za-z0-9_-]{1,24}|(?=[A-Za-z0-9_-]+\.)[A-Za-z0-9._-]{1,255}")
"""What can be a setting's name, and is none of those lines, which have no dots and 64 characters."""


def shown_name(name: str) -> str:
    """Return what may be repeated of a name that is none of ours."""
    return name if _NAME.fullmatch(name) else HIDDEN


def shown_value(name: str, value: str, *near: str) -> str:
    """Return what may be repeated of the value of a key that is perhaps misspelt; ``near`` are those that may be meant."""
    from minikafka.config.kafka_names import is_secret

    if "password" in value.lower() or name.startswith(USER):
        return HIDDEN
    if any(is_secret(each) or (each.endswith(".url") and "@" in value) for each in (name, *near)):
        return HIDDEN
    return shown(value)


def refusal(name: str, value: str, known: Collection[str], *, topic: bool = False) -> str:
    """``known`` are the keys that would have been taken. Only errors pay for Kafka's names and for difflib."""
    import difflib

    from minikafka.config.kafka_names import is_kafka_broker_key, is_kafka_topic_key

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    value = shown_value(name, value, *near)
    if is_kafka_topic_key(name) if topic else is_kafka_broker_key(name):
        return f"{name}={value}: known to Kafka, not supported by MiniKafka; allowed: leave it out"
    if near:
        return f"{shown_name(name)}={value}: unknown key; did you mean {near[0]}?"
    where = "topic settings" if topic else "broker settings"
    return f"{shown_name(name)}={value}: unknown key; allowed: the {where} in docs/reference/configuration.md"
