"""Configuration of a broker and of topics: Kafka's keys, and MiniKafka's own that start with ``minikafka.``"""

from minikafka.config.alter import Alteration, AlterOperation, altered
from minikafka.config.broker import BROKER_KEYS, BrokerConfig, MetadataStore, validate_dynamic
from minikafka.config.describe import ConfigEntry, ConfigSynonym
from minikafka.config.keys import ConfigError, ConfigSource, ConfigType
from minikafka.config.listeners import Endpoint
from minikafka.config.topic import TOPIC_KEYS, TopicConfig

__all__ = [
    "BROKER_KEYS",
    "TOPIC_KEYS",
    "AlterOperation",
    "Alteration",
    "BrokerConfig",
    "ConfigEntry",
    "ConfigError",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "Endpoint",
    "MetadataStore",
    "TopicConfig",
    "altered",
    "validate_dynamic",
]
