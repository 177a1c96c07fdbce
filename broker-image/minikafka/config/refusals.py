"""The one line that says why a key is refused: unknown (and what was meant), or Kafka's but not MiniKafka's."""

import re
from collections.abc import Collection

_SECRET = re.compile(r"LoginModule|PRIVATE KEY|password|://[^/]*@", re.IGNORECASE)
"""In the value of a key whose name is misspelt, so that the name does not tell that there is a secret in it."""


def refusal(name: str, value: str, known: Collection[str], *, topic: bool = False) -> str:
    """``known`` are the keys that would have been taken. Only errors pay for Kafka's names and for difflib."""
    import difflib

    from minikafka.config.kafka_names import is_kafka_broker_key, is_kafka_topic_key, is_secret

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    shown = "[hidden]" if _SECRET.search(value) or any(map(is_secret, (name, *near))) else value
    if is_kafka_topic_key(name) if topic else is_kafka_broker_key(name):
        return f"{name}={shown}: known to Kafka, not supported by MiniKafka; allowed: leave it out"
    if near:
        return f"{name}={shown}: unknown key; did you mean {near[0]}?"
    where = "topic settings" if topic else "broker settings"
    return f"{name}={shown}: unknown key; allowed: the {where} in docs/reference/configuration.md"
