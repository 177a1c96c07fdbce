"""The one line that says why a key is refused: unknown (and what was meant), or Kafka's but not MiniKafka's."""

from collections.abc import Collection


def refusal(name: str, value: str, known: Collection[str], *, topic: bool = False) -> str:
    """``known`` are the keys that would have been taken. Only errors pay for Kafka's names and for difflib."""
    from minikafka.config.kafka_names import is_kafka_broker_key, is_kafka_topic_key, is_secret

    shown = "[hidden]" if is_secret(name) else value
    if is_kafka_topic_key(name) if topic else is_kafka_broker_key(name):
        return f"{name}={shown}: known to Kafka, not supported by MiniKafka; allowed: leave it out"
    import difflib

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"{name}={shown}: unknown key; did you mean {near[0]}?"
    where = "topic settings" if topic else "broker settings"
    return f"{name}={shown}: unknown key; allowed: the {where} in docs/reference/configuration.md"
