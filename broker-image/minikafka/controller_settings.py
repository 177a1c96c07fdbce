"""The controller's part of a broker's configuration."""

from __future__ import annotations

from minikafka.config.broker import BrokerConfig
from minikafka.config.broker_keys import BrokerKeys
from minikafka.controller.workspace import ControllerConfig

DESCRIPTORS_OF_REPLICA = 4
"""Half of them are for logs, which keep a segment and an index open each; the others for connections."""


def controller_config(config: BrokerConfig, descriptors: int | None = None) -> ControllerConfig:
    """What the sans-I/O controller decides by; times in seconds.

    Args:
        config: of the broker.
        descriptors: files that this broker, and so any, may have open; None: any number.
    """
    allowed = None if descriptors is None else descriptors // DESCRIPTORS_OF_REPLICA
    return ControllerConfig(
        session_timeout=config.broker_session_timeout_ms / 1000,
        default_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        min_insync_replicas=config.own(BrokerKeys.min_insync_replicas),
        unclean_leader_election=config.unclean_leader_election_enable,
        auto_leader_rebalance=config.auto_leader_rebalance_enable,
        leader_imbalance_check_interval=config.leader_imbalance_check_interval_seconds,
        partitions_of_broker_max=config.minikafka_max_broker_partitions or allowed,
        trust_isr=config.minikafka_unclean_shutdown_policy == "trust_isr",
    )
