"""What one broker knows of one partition of its own, at the moment of a scrape."""

from dataclasses import dataclass
from typing import Annotated

from minikafka.telemetry.metric import gauge

LEADER = 2
"""The role of a leader."""


@dataclass(slots=True, kw_only=True)
class ReplicaStatus:
    """One replica. What has a metric is declared with it, in the order in which /metrics shows them.

    ``isr_size`` and ``replicas`` are of the partition as this broker knows it. ``under_replicated``, ``under_min_isr``,
    ``at_min_isr`` and ``followers`` are said by leaders only, so that a sum over brokers counts each partition once;
    ``offline`` is said by the controller.
    """

    topic: str
    partition: int
    log_end_offset: Annotated[int, gauge("minikafka_log_end_offset", "Offset of the next record (LEO).")]
    high_watermark: Annotated[int, gauge("minikafka_high_watermark", "Records below are committed.")]
    flushed_offset: Annotated[
        int,
        gauge(
            "minikafka_log_flushed_offset",
            "Records below are on stable storage here; log end offset minus this is what a power loss takes.",
        ),
    ]
    log_start_offset: Annotated[int, gauge("minikafka_log_start_offset", "Offset of the first record kept.")]
    partition_epoch: Annotated[int, gauge("minikafka_partition_epoch", "Partition epoch this replica knows.")] = -1
    size_bytes: Annotated[int, gauge("minikafka_log_size_bytes", "Size of the log's segments in bytes.")] = 0
    leader_epoch: Annotated[int, gauge("minikafka_leader_epoch", "Leader epoch this replica is in.")]
    role: Annotated[int, gauge("minikafka_replica_role", "0 none, 1 follower, 2 leader.")]
    isr_size: Annotated[int, gauge("minikafka_isr_size", "In-sync replicas as this broker knows them.")]
    replicas: Annotated[int, gauge("minikafka_partition_replicas", "Replicas assigned to the partition.")]
    leader: Annotated[
        int, gauge("minikafka_partition_leader", "Id of the leader as this broker knows it; -1: none.")
    ] = -1
    preferred: Annotated[
        bool,
        gauge("minikafka_partition_leader_is_preferred", "1 when that leader is the first of the assigned replicas."),
    ] = False
    under_replicated: Annotated[
        bool,
        gauge(
            "minikafka_partition_under_replicated",
            "1 on the leader while its ISR is smaller than its replicas, else 0.",
        ),
    ]
    under_min_isr: Annotated[
        bool,
        gauge(
            "minikafka_partition_under_min_isr",
            "1 on the leader while its ISR is smaller than min.insync.replicas, else 0.",
        ),
    ]
    at_min_isr: Annotated[
        bool,
        gauge(
            "minikafka_partition_at_min_isr",
            "1 on the leader while its ISR is just min.insync.replicas (or all replicas, if these are fewer), else 0.",
        ),
    ] = False
    offline: bool
    followers: tuple[tuple[int, int], ...] = ()
    """(broker id, records behind) of each follower that has fetched in this term."""

    @property
    def is_here(self) -> bool:
        """Return whether a replica is on this broker."""
        return self.role != 0

    @property
    def is_led_here(self) -> bool:
        """Return whether this broker leads the partition."""
        return self.role == LEADER
