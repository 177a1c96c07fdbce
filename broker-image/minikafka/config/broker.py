"""The configuration of one broker: parsed, resolved and cross-checked, all or nothing."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from minikafka.config.broker_keys import ALIASES, BrokerKeys
from minikafka.config.describe import ConfigEntry, describe_broker, describe_topic
from minikafka.config.keys import ConfigError, Key, Update, declared
from minikafka.config.listener_security import PLAINTEXT, ListenerSecurity, listener_security
from minikafka.config.listener_settings import PREFIX, is_of_a_listener, read_own_settings, without_prefix
from minikafka.config.listeners import advertised_default, check_listeners
from minikafka.config.properties import expand_environment, read_properties
from minikafka.config.refusals import refusal
from minikafka.config.topic import TopicConfig, parse_topic_overrides
from minikafka.security.shown import shown
from minikafka.security.tls import TlsSettings

BROKER_KEYS: dict[str, Key[Any]] = declared(BrokerKeys)
_TOPIC_CACHE_LIMIT = 10_000  # distinct sets of overrides; real clusters have a handful, a fuzzer must not fill memory


class MetadataStore(NamedTuple):
    """``minikafka.metadata.store`` taken apart; ``path`` is empty unless ``kind`` is sqlite."""

    kind: str
    path: str


class BrokerConfig(BrokerKeys):
    """Every setting as an attribute (dots are underscores). Unset ``*.ms`` keys hold what their stand-ins give.

    ``warnings`` are lines for the operator about settings that are allowed and unwise.
    """

    def __init__(
        self,
        static: Mapping[str, str],
        cluster: Mapping[str, str] | None = None,
        broker: Mapping[str, str] | None = None,
    ) -> None:
        self.static = _without_aliases(static)
        self.dynamic_cluster = dict(cluster or {})
        self.dynamic_broker = dict(broker or {})
        self.warnings: tuple[str, ...] = ()
        self._topics: dict[frozenset[tuple[str, str]], TopicConfig] = {}
        merged = {**self.static, **self.dynamic_cluster, **self.dynamic_broker}
        self.__dict__.update(_parse(merged))
        self._resolve()
        self._check()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """From keys and values. Raises :class:`ConfigError`, one line for each refused setting."""
        return cls(properties)

    @classmethod
    def from_file(cls, path: str | Path, overrides: Mapping[str, str] | None = None) -> Self:
        """From a properties file, ``overrides`` (as from ``--config``) winning. Raises :class:`ConfigError`.

        ``${env:NAME}`` in the file's values stands for an environment variable (KIP-887).
        """
        found = expand_environment(read_properties(path), os.environ)
        return cls({**_without_aliases(found), **_without_aliases(overrides or {})})

    @property
    def metadata_store(self) -> MetadataStore:
        """``minikafka.metadata.store`` taken apart."""
        kind, _, path = self.minikafka_metadata_store.partition(":")
        return MetadataStore(kind, path)

    @property
    def inter_broker_listener(self) -> str:
        """Name of the listener that brokers use among themselves."""
        return self._inter_broker_listener

    def security(self, listener: str) -> ListenerSecurity:
        """Return how a listener is secured."""
        return self._security.get(listener, PLAINTEXT)

    @property
    def metrics_tls(self) -> TlsSettings | None:
        """TLS of the port of /metrics; None: it has none."""
        keystore = self.minikafka_metrics_ssl_keystore_location
        if keystore is None:
            return None
        return TlsSettings(
            keystore_location=keystore,
            key_password=self.ssl_key_password or "",
            enabled_protocols=self.ssl_enabled_protocols,
            cipher_suites=self.ssl_cipher_suites,
        )

    def topic(self, overrides: Mapping[str, str]) -> TopicConfig:
        """The settings of a topic with these overrides; cached. Raises :class:`ConfigError`."""
        identity = frozenset(overrides.items())
        found = self._topics.get(identity)
        if found is None:
            found = TopicConfig(self, overrides)
            if len(self._topics) < _TOPIC_CACHE_LIMIT:
                self._topics[identity] = found
        return found

    def validate_topic_overrides(self, overrides: Mapping[str, str]) -> None:
        """Raises :class:`ConfigError` (on the wire: INVALID_CONFIG), one line for each refused override."""
        parse_topic_overrides(overrides)

    def own(self, key: Key[Any]) -> Any:
        """The value of a key by this broker's own file, whatever the cluster's defaults say."""
        text = self.static.get(key.name)
        return key.default_value() if text is None else key.read(text)

    def apply_dynamic(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> frozenset[str]:
        """Take dynamic settings (KIP-226), the whole of them, in place; returns the names of keys whose value changed.

        Raises :class:`ConfigError` and changes nothing when one is refused. ``TopicConfig`` objects handed out before
        keep their values: ask ``topic()`` again.
        """
        validate_dynamic(cluster, per_broker=False)
        validate_dynamic(broker, per_broker=True)
        updated = type(self)(self.static, cluster, broker)
        changed = frozenset(
            key.name for key in BROKER_KEYS.values() if getattr(self, key.attribute) != getattr(updated, key.attribute)
        )
        self.__dict__.update(updated.__dict__)
        return changed

    def describe(self, names: Iterable[str] | None = None, *, cluster_default: bool = False) -> list[ConfigEntry]:
        """Entries of DescribeConfigs for a BROKER resource; ``cluster_default`` is the resource with the empty name."""
        return describe_broker(self, BROKER_KEYS, names, cluster_default=cluster_default)

    def describe_topic(self, overrides: Mapping[str, str], names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """Entries of DescribeConfigs for a TOPIC resource with these overrides."""
        return describe_topic(self, self.topic(overrides), names)

    def _resolve(self) -> None:
        values = self.__dict__
        if values["log_dirs"] is None:
            values["log_dirs"] = self.log_dir
        if values["log_retention_ms"] is None:
            minutes = values["log_retention_minutes"]
            count, unit = (self.log_retention_hours, 3_600_000) if minutes is None else (minutes, 60_000)
            values["log_retention_ms"] = count * unit if count >= 0 else -1
        if values["log_roll_ms"] is None:
            values["log_roll_ms"] = self.log_roll_hours * 3_600_000
        if values["log_flush_interval_ms"] is None:
            values["log_flush_interval_ms"] = self.log_flush_scheduler_interval_ms
        if values["advertised_listeners"] is None:
            values["advertised_listeners"] = advertised_default(self.listeners)

    def _check(self) -> None:
        problems: list[str] = []
        try:
            self._inter_broker_listener = check_listeners(
                self.listeners,
                self.advertised_listeners,
                self.listener_security_protocol_map,
                self.inter_broker_listener_name,
                self.static.get("security.inter.broker.protocol", "").strip() or None,
            )
            self._security = self._secure_listeners()
        except ConfigError as error:
            problems.extend(error.problems)
        problems.extend(self._limits())
        if problems:
            raise ConfigError(*problems)
        self.warnings = tuple(self._unwise())

    def _secure_listeners(self) -> dict[str, ListenerSecurity]:
        """By listener. Raises ConfigError."""
        protocols = self.listener_security_protocol_map
        names = [endpoint.name for endpoint in self.listeners]
        own = read_own_settings(self.static, names, BROKER_KEYS)
        if self.sasl_jaas_config is not None:
            raise ConfigError(
                "sasl.jaas.config=[hidden]: belongs to a listener and a mechanism; "
                f"allowed: {PREFIX}NAME.MECHANISM.sasl.jaas.config"
            )

        def general(key: str) -> Any:
            return getattr(self, BROKER_KEYS[key].attribute)

        found: dict[str, ListenerSecurity] = {}
        problems: list[str] = []
        for name in names:
            try:
                found[name] = listener_security(
                    name, protocols[name], own[name], general, inter_broker=name == self._inter_broker_listener
                )
            except ConfigError as error:
                problems.extend(line for line in error.problems if line not in problems)
        if problems:
            raise ConfigError(*problems)
        return found

    def _limits(self) -> Iterable[str]:
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            yield (
                f"replica.fetch.wait.max.ms={self.replica_fetch_wait_max_ms}: followers would leave the ISR meanwhile; "
                f"allowed: at most replica.lag.time.max.ms={self.replica_lag_time_max_ms}"
            )
        if self.replica_fetch_wait_max_ms > self.replica_socket_timeout_ms:
            yield (
                f"replica.socket.timeout.ms={self.replica_socket_timeout_ms}: fetches would time out while they wait; "
                f"allowed: at least replica.fetch.wait.max.ms={self.replica_fetch_wait_max_ms}"
            )
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            yield (
                f"group.min.session.timeout.ms={self.group_min_session_timeout_ms}: above the maximum; "
                f"allowed: at most group.max.session.timeout.ms={self.group_max_session_timeout_ms}"
            )
        if 0 < self.queued_max_request_bytes < self.socket_request_max_bytes:
            yield (
                f"queued.max.request.bytes={self.queued_max_request_bytes}: the largest request would never fit; "
                f"allowed: -1, or at least socket.request.max.bytes={self.socket_request_max_bytes}"
            )
        if self.metadata_store.kind == "kubernetes" and not self.minikafka_kubernetes_cluster:
            yield (
                "minikafka.kubernetes.cluster: required with minikafka.metadata.store=kubernetes; "
                "allowed: the name of a MiniKafkaCluster"
            )
        unflushed = self.minikafka_unflushed_dir
        if unflushed and self.minikafka_unflushed_max_bytes < 2 * self.message_max_bytes:
            yield (
                f"minikafka.unflushed.max.bytes={self.minikafka_unflushed_max_bytes}: batches would not fit; "
                f"allowed: at least twice message.max.bytes={self.message_max_bytes}"
            )
        for directory in self.log_dirs:
            if unflushed and _overlap(Path(unflushed), Path(directory)):
                yield (
                    f"minikafka.unflushed.dir={unflushed}: overlaps the data directory {directory}; "
                    "allowed: a directory outside log.dirs"
                )

    def _unwise(self) -> Iterable[str]:
        for name, security in self._security.items():
            if security.oauth is not None and not security.oauth.rules.expected_audience:
                yield f"sasl.oauthbearer.expected.audience is not set: listener {name} takes tokens that are for others"
        for name, value in self.static.items():
            if not is_of_a_listener(name) and BROKER_KEYS[name].unused:
                yield f"{name}={BROKER_KEYS[name].shown(value)} is accepted and not used yet"
        if 2 * self.broker_heartbeat_interval_ms > self.broker_session_timeout_ms:
            yield (
                f"broker.heartbeat.interval.ms={self.broker_heartbeat_interval_ms} is more than half of "
                f"broker.session.timeout.ms={self.broker_session_timeout_ms}: one lost heartbeat fences the broker"
            )
        if self.message_max_bytes > self.socket_request_max_bytes:
            yield (
                f"message.max.bytes={self.message_max_bytes} is above socket.request.max.bytes="
                f"{self.socket_request_max_bytes}: larger requests close the connection, whatever is in them"
            )
        if self.minikafka_truncation_mode == "high_watermark":
            yield "minikafka.truncation.mode=high_watermark loses acknowledged records by design (KIP-101)"
        if self.minikafka_unclean_shutdown_policy == "trust_isr":
            yield "minikafka.unclean.shutdown.policy=trust_isr may lose acknowledged records (KIP-966)"


def validate_dynamic(overrides: Mapping[str, str], *, per_broker: bool) -> None:
    """Raises :class:`ConfigError` unless every key may be changed at run time, for one broker or for all."""
    problems: list[str] = []
    for name, value in overrides.items():
        key = BROKER_KEYS.get(name)
        if key is None:
            problems.append(refusal(name, value, BROKER_KEYS))
        elif key.update is Update.READ_ONLY:
            problems.append(
                f"{name}={key.shown(value)}: cannot be changed while the broker runs; allowed: in its properties file"
            )
        elif key.update is Update.PER_BROKER and not per_broker:
            problems.append(f"{name}={key.shown(value)}: cannot be the default of all brokers; allowed: for one broker")
        else:
            try:
                key.read(value)
            except ConfigError as error:
                problems.extend(error.problems)
    if problems:
        raise ConfigError(*problems)


def _without_aliases(properties: Mapping[str, str]) -> dict[str, str]:
    found = {name: str(value) for name, value in properties.items()}
    for alias, name in ALIASES.items():
        value = found.pop(alias, None)
        if value is not None and found.setdefault(name, value).strip() != value.strip():
            raise ConfigError(
                f"{alias}={shown(value)}: contradicts {name}={shown(found[name])}; allowed: the same value, or one of them"
            )
    return found


def _parse(properties: Mapping[str, str]) -> dict[str, Any]:
    """Values of all keys by attribute name, defaults included and unresolved."""
    problems = [
        refusal(name, value, BROKER_KEYS)
        for name, value in properties.items()
        if name not in BROKER_KEYS and (not is_of_a_listener(name) or without_prefix(name) == name)
    ]
    values: dict[str, Any] = {}
    for key in BROKER_KEYS.values():
        text = properties.get(key.name)
        try:
            if text is not None:
                values[key.attribute] = key.read(text)
            elif key.required:
                problems.append(f"{key.name}: required; allowed: {key.allowed}")
            else:
                values[key.attribute] = key.default_value()
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError(*problems)
    return values


def _overlap(one: Path, other: Path) -> bool:
    one, other = one.absolute(), other.absolute()
    return one == other or one in other.parents or other in one.parents
