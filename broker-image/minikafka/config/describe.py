"""Answers to DescribeConfigs: value, source and synonyms of settings as Kafka's tools expect them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from minikafka.config.broker_keys import BrokerKeys
from minikafka.config.keys import ConfigSource, ConfigType, Key, Update, as_text
from minikafka.config.topic import TOPIC_KEYS, TopicConfig

if TYPE_CHECKING:
    from minikafka.config.broker import BrokerConfig

_STAND_INS: dict[str, tuple[Key[Any], ...]] = {
    BrokerKeys.log_retention_ms.name: (BrokerKeys.log_retention_minutes, BrokerKeys.log_retention_hours),
    BrokerKeys.log_retention_minutes.name: (BrokerKeys.log_retention_hours,),
    BrokerKeys.log_roll_ms.name: (BrokerKeys.log_roll_hours,),
    BrokerKeys.log_flush_interval_ms.name: (BrokerKeys.log_flush_scheduler_interval_ms,),
}


class ConfigSynonym(NamedTuple):
    """One place a value could have come from, in order of precedence."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One setting; fields in the order and with the meaning of DescribeConfigsResponse v4."""

    name: str
    value: str | None
    read_only: bool
    source: ConfigSource
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    config_type: ConfigType
    documentation: str

    @property
    def is_default(self) -> bool:
        """Return whether nobody set it."""
        return self.source is ConfigSource.DEFAULT_CONFIG


def describe_broker(
    config: BrokerConfig, keys: Mapping[str, Key[Any]], names: Iterable[str] | None, *, cluster_default: bool
) -> list[ConfigEntry]:
    """Entries for ``names`` (None: all), unknown ones left out as Kafka does."""
    wanted = keys.values() if names is None else [keys[name] for name in names if name in keys]
    entries: list[ConfigEntry] = []
    for key in wanted:
        synonyms = _synonyms(config, key)
        if cluster_default:
            synonyms = tuple(s for s in synonyms if s.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
            if not synonyms:
                continue
        # Kafka shows the value of the key itself: log.retention.ms is null while log.retention.hours rules.
        value = _canonical(key, synonyms[0].value) if synonyms else None
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        if key.sensitive:
            value = None
        read_only = key.update is Update.READ_ONLY
        entries.append(ConfigEntry(key.name, value, read_only, source, key.sensitive, synonyms, key.type, key.doc))
    return entries


def describe_topic(config: BrokerConfig, topic: TopicConfig, names: Iterable[str] | None) -> list[ConfigEntry]:
    """Entries for ``names`` (None: all), unknown ones left out as Kafka does."""
    wanted = TOPIC_KEYS.values() if names is None else [TOPIC_KEYS[name] for name in names if name in TOPIC_KEYS]
    entries: list[ConfigEntry] = []
    for key in wanted:
        synonyms = _synonyms(config, key.twin)
        override = topic.overrides.get(key.name)
        if override is not None:
            synonyms = (ConfigSynonym(key.name, override.strip(), ConfigSource.TOPIC_CONFIG), *synonyms)
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        value = as_text(getattr(topic, key.attribute))
        entries.append(ConfigEntry(key.name, value, False, source, key.sensitive, synonyms, key.type, key.doc))
    return entries


def _canonical(key: Key[Any], text: str | None) -> str | None:
    """A value as Kafka prints it after parsing; synonyms stay as they were written."""
    if text is None:
        return None
    if key.type is ConfigType.LIST:
        return ",".join(item.strip() for item in text.split(","))
    if key.type in (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG, ConfigType.BOOLEAN):
        return as_text(key.parse(text))
    return text


def _synonyms(config: BrokerConfig, key: Key[Any]) -> tuple[ConfigSynonym, ...]:
    """Return where ``key`` gets its value, most important first; stand-ins count only behind the key itself, as in Kafka."""
    keys = (key, *_STAND_INS.get(key.name, ()))
    found: list[ConfigSynonym] = []
    layers = (
        (config.dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (config.dynamic_cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (config.static, ConfigSource.STATIC_BROKER_CONFIG),
    )
    for layer, source in layers:
        for each in keys:
            if each.name in layer:
                found.append(ConfigSynonym(each.name, None if each.sensitive else layer[each.name].strip(), source))
    for each in keys:
        if each.default_text is not None:
            found.append(ConfigSynonym(each.name, each.default_text, ConfigSource.DEFAULT_CONFIG))
    while found and found[0].name != key.name:
        found.pop(0)
    return tuple(found)
