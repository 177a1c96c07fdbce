"""Resolution, cross-checks, aliases, files and dynamic settings of a broker."""

from pathlib import Path

import pytest
from minikafka.config import BrokerConfig, ConfigError, MetadataStore
from minikafka.config.keys import LONG_MAX

GOOD = {"node.id": "1", "minikafka.metadata.store": "sqlite:/var/lib/m.db", "log.dirs": "/data/a"}


def config_of(**settings: str) -> BrokerConfig:
    return BrokerConfig.from_properties({**GOOD, **{key.replace("_", "."): value for key, value in settings.items()}})


def refused(**settings: str) -> str:
    with pytest.raises(ConfigError) as caught:
        config_of(**settings)
    (line,) = caught.value.problems
    return line


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 168 * 3_600_000),
        ({"log_retention_hours": "1"}, 3_600_000),
        ({"log_retention_hours": "1", "log_retention_minutes": "2"}, 120_000),
        ({"log_retention_minutes": "2", "log_retention_ms": "3"}, 3),
        ({"log_retention_hours": "-1"}, -1),
        ({"log_retention_minutes": "-1"}, -1),
    ],
)
def test_retention_takes_the_finest_unit_given(settings: dict[str, str], expected: int) -> None:
    assert config_of(**settings).log_retention_ms == expected


def test_unset_times_hold_what_stands_in_for_them() -> None:
    config = config_of()
    assert config.log_roll_ms == 168 * 3_600_000
    assert config.log_flush_interval_ms == LONG_MAX
    assert config_of(log_flush_scheduler_interval_ms="7").log_flush_interval_ms == 7


def test_log_dirs_win_over_log_dir() -> None:
    assert config_of(log_dir="/b").log_dirs == ("/data/a",)
    assert BrokerConfig.from_properties(
        {"node.id": "1", "minikafka.metadata.store": "memory", "log.dir": "/b"}
    ).log_dirs == ("/b",)


def test_broker_id_is_an_alias_of_node_id() -> None:
    assert BrokerConfig.from_properties({"broker.id": "7", "minikafka.metadata.store": "memory"}).node_id == 7
    assert config_of(broker_id="1").node_id == 1
    with pytest.raises(ConfigError, match=r"broker\.id=2: contradicts node\.id=1; allowed: the same value"):
        config_of(broker_id="2")


def test_the_store_is_taken_apart() -> None:
    assert config_of().metadata_store == MetadataStore("sqlite", "/var/lib/m.db")
    config = config_of(minikafka_metadata_store="kubernetes", minikafka_kubernetes_cluster="c")
    assert config.metadata_store == MetadataStore("kubernetes", "")


def test_a_store_on_kubernetes_needs_its_clusters_name() -> None:
    assert refused(minikafka_metadata_store="kubernetes").startswith("minikafka.kubernetes.cluster: required with ")


def test_cross_checks() -> None:
    assert refused(replica_fetch_wait_max_ms="500", replica_lag_time_max_ms="400").startswith(
        "replica.fetch.wait.max.ms=500: "
    )
    assert refused(replica_socket_timeout_ms="100").startswith("replica.socket.timeout.ms=100: ")
    assert refused(group_min_session_timeout_ms="10", group_max_session_timeout_ms="9").startswith(
        "group.min.session.timeout.ms=10: "
    )


@pytest.mark.parametrize("directory", ["/data/a", "/data/a/unflushed", "/data"])
def test_the_unflushed_directory_is_apart_from_the_data(directory: str) -> None:
    assert refused(minikafka_unflushed_dir=directory).startswith(f"minikafka.unflushed.dir={directory}: overlaps")


def test_an_empty_optional_text_is_none() -> None:
    assert config_of(minikafka_unflushed_dir="", broker_rack="").minikafka_unflushed_dir is None


def test_more_min_insync_replicas_than_replicas_is_allowed_as_in_kafka() -> None:
    assert config_of(min_insync_replicas="2", default_replication_factor="1").warnings == ()


def test_unwise_settings_warn() -> None:
    warnings = config_of(
        broker_heartbeat_interval_ms="600",
        broker_session_timeout_ms="1000",
        minikafka_truncation_mode="high_watermark",
        minikafka_unclean_shutdown_policy="trust_isr",
    ).warnings
    assert [line.split("=")[0] for line in warnings] == [
        "broker.heartbeat.interval.ms",
        "minikafka.truncation.mode",
        "minikafka.unclean.shutdown.policy",
    ]


def test_a_file_with_overrides(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# a broker\nbroker.id=4\nminikafka.metadata.store = memory\nnum.partitions: 2\n")
    config = BrokerConfig.from_file(file, {"num.partitions": "5"})
    assert (config.node_id, config.num_partitions) == (4, 5)


def test_an_override_by_alias_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=4\nminikafka.metadata.store=memory\n")
    assert BrokerConfig.from_file(file, {"broker.id": "5"}).node_id == 5


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory"):
        BrokerConfig.from_file(tmp_path / "absent.properties")


def test_dynamic_settings_are_taken_in_place_and_reach_topics() -> None:
    config = config_of(min_insync_replicas="1")
    before = config.topic({})
    changed = config.apply_dynamic({"min.insync.replicas": "2", "log.retention.ms": "5"}, {})
    assert changed == {"min.insync.replicas", "log.retention.ms"}
    assert (config.min_insync_replicas, config.topic({}).min_insync_replicas, config.topic({}).retention_ms) == (
        2,
        2,
        5,
    )
    assert before.min_insync_replicas == 1
    assert config.apply_dynamic({}, {}) == {"min.insync.replicas", "log.retention.ms"}
    assert config.min_insync_replicas == 1


def test_what_one_broker_was_told_wins_over_what_all_were_told() -> None:
    config = config_of()
    config.apply_dynamic({"message.max.bytes": "1000"}, {"message.max.bytes": "2000"})
    assert config.message_max_bytes == 2000


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("node.id", "3", "cannot be changed while the broker runs"),
        ("min.insync.replicas", "0", "too small"),
        ("num.io.threads", "3", "known to Kafka, not supported"),
        ("foo", "3", "unknown key"),
    ],
)
def test_a_refused_dynamic_setting_changes_nothing(name: str, value: str, said: str) -> None:
    config = config_of()
    with pytest.raises(ConfigError, match=said):
        config.apply_dynamic({"message.max.bytes": "1000", name: value}, {})
    assert config.message_max_bytes == 1_048_588


def test_cross_checks_hold_for_dynamic_settings_too() -> None:
    config = config_of(socket_request_max_bytes="2000000")
    config.apply_dynamic({"message.max.bytes": "3000000"}, {})
    assert [
        line for line in config.warnings if line.startswith("message.max.bytes=3000000 is above socket.request.max")
    ]
