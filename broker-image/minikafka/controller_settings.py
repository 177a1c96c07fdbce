"""The controller's part of a broker's configuration."""

from __future__ import annotations

from minikafka.config.broker import BrokerConfig
from minikafka.config.broker_keys import BrokerKeys
from minikafka.controller.workspace import ControllerConfig


def controller_config(config: BrokerConfig) -> ControllerConfig:
    """What the sans-I/O controller decides by; times in seconds."""
    return ControllerConfig(
        session_timeout=config.broker_session_timeout_ms / 1000,
        default_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        min_insync_replicas=config.own(BrokerKeys.min_insync_replicas),
        unclean_leader_election=config.unclean_leader_election_enable,
        auto_leader_rebalance=config.auto_leader_rebalance_enable,
        leader_imbalance_check_interval=config.leader_imbalance_check_interval_seconds,
        trust_isr=config.minikafka_unclean_shutdown_policy == "trust_isr",
    )
