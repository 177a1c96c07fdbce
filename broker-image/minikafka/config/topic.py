"""Topic-level settings: each overrides, for one topic, the broker setting that is its twin."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from minikafka.config.broker_keys import BrokerKeys
from minikafka.config.keys import ConfigError, Key, T, declared
from minikafka.config.refusals import refusal

if TYPE_CHECKING:
    from minikafka.log.config import LogConfig


class TopicKey(Key[T]):
    """A topic-level key; type, allowed values and meaning are those of the broker key whose value is its default."""

    __slots__ = ("twin",)

    def __init__(self, twin: Key[T]) -> None:
        super().__init__(twin.type, None, twin.allowed, twin.parse, twin.doc, update=twin.update, note=twin.note)
        self.twin = twin


class TopicKeys:
    """Every topic setting MiniKafka honours (Kafka: ``TopicConfig``; twins: ``ServerTopicConfigSynonyms``)."""

    cleanup_policy = TopicKey(BrokerKeys.log_cleanup_policy)
    compression_type = TopicKey(BrokerKeys.compression_type)
    file_delete_delay_ms = TopicKey(BrokerKeys.log_segment_delete_delay_ms)
    flush_messages = TopicKey(BrokerKeys.log_flush_interval_messages)
    flush_ms = TopicKey(BrokerKeys.log_flush_interval_ms)
    index_interval_bytes = TopicKey(BrokerKeys.log_index_interval_bytes)
    max_message_bytes = TopicKey(BrokerKeys.message_max_bytes)
    message_timestamp_after_max_ms = TopicKey(BrokerKeys.log_message_timestamp_after_max_ms)
    message_timestamp_before_max_ms = TopicKey(BrokerKeys.log_message_timestamp_before_max_ms)
    message_timestamp_type = TopicKey(BrokerKeys.log_message_timestamp_type)
    min_insync_replicas = TopicKey(BrokerKeys.min_insync_replicas)
    retention_bytes = TopicKey(BrokerKeys.log_retention_bytes)
    retention_ms = TopicKey(BrokerKeys.log_retention_ms)
    segment_bytes = TopicKey(BrokerKeys.log_segment_bytes)
    segment_index_bytes = TopicKey(BrokerKeys.log_index_size_max_bytes)
    segment_ms = TopicKey(BrokerKeys.log_roll_ms)
    unclean_leader_election_enable = TopicKey(BrokerKeys.unclean_leader_election_enable)


TOPIC_KEYS: dict[str, TopicKey[Any]] = {k.name: k for k in declared(TopicKeys).values() if isinstance(k, TopicKey)}


def parse_topic_overrides(overrides: Mapping[str, str]) -> dict[str, Any]:
    """Values by attribute name. Raises :class:`ConfigError` with one line for each refused override."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is None:
            problems.append(refusal(name, text, TOPIC_KEYS, topic=True))
            continue
        try:
            values[key.attribute] = key.read(text)
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError(*problems)
    return values


class TopicConfig(TopicKeys):
    """The settings in force for one topic: its own overrides over the broker's values. Do not change it."""

    def __init__(self, defaults: BrokerKeys, overrides: Mapping[str, str]) -> None:
        self.overrides = dict(overrides)
        self._producer_id_expiration_ms = defaults.producer_id_expiration_ms
        for key in TOPIC_KEYS.values():
            self.__dict__[key.attribute] = getattr(defaults, key.twin.attribute)
        self.__dict__.update(parse_topic_overrides(overrides))

    def log_config(self) -> "LogConfig":
        """The part of it that a log wants, as ``minikafka.log`` knows it."""
        from minikafka.log.config import LogConfig

        return LogConfig(
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            segment_index_bytes=self.segment_index_bytes,
            index_interval_bytes=self.index_interval_bytes,
            max_message_bytes=self.max_message_bytes,
            retention_ms=self.retention_ms,
            retention_bytes=self.retention_bytes,
            message_timestamp_type=self.message_timestamp_type,
            message_timestamp_before_max_ms=self.message_timestamp_before_max_ms,
            message_timestamp_after_max_ms=self.message_timestamp_after_max_ms,
            flush_interval_messages=self.flush_messages,
            flush_interval_ms=self.flush_ms,
            file_delete_delay_ms=self.file_delete_delay_ms,
            producer_id_expiration_ms=self._producer_id_expiration_ms,
            cleanup_policy=",".join(self.cleanup_policy),
        )
