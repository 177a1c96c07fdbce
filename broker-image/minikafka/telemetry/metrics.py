"""Every metric of a broker, declared once.

The numbers are in :mod:`minikafka.telemetry.stats`; text is made only when somebody scrapes
(:mod:`minikafka.telemetry.exposition`).

Naming follows Prometheus: base units, ``_total`` on counters, ``_timestamp_seconds``, ``_info``. Faults are shorter
than scrapes, so everything that must not be missed is a counter, with the time of the last one beside it; the exact
order is in the events (``minikafka.telemetry.events``).
"""

from typing import NamedTuple

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


class Metric(NamedTuple):
    """A metric's declaration. ``source`` is the attribute of BrokerStats, TopicTraffic or ReplicaStatus that it is read from."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    source: str = ""


_PARTITION = ("topic", "partition")

PARTITION_METRICS: tuple[Metric, ...] = (
    Metric("minikafka_log_end_offset", GAUGE, "Offset of the next record (LEO).", _PARTITION, "log_end_offset"),
    Metric("minikafka_high_watermark", GAUGE, "Records below are committed.", _PARTITION, "high_watermark"),
    Metric(
        "minikafka_log_flushed_offset",
        GAUGE,
        "Records below are on stable storage here; log end offset minus this is what a power loss takes.",
        _PARTITION,
        "flushed_offset",
    ),
    Metric("minikafka_log_start_offset", GAUGE, "Offset of the first record kept.", _PARTITION, "log_start_offset"),
    Metric("minikafka_partition_epoch", GAUGE, "Partition epoch this replica knows.", _PARTITION, "partition_epoch"),
    Metric("minikafka_log_size_bytes", GAUGE, "Size of the log's segments in bytes.", _PARTITION, "size_bytes"),
    Metric("minikafka_leader_epoch", GAUGE, "Leader epoch this replica is in.", _PARTITION, "leader_epoch"),
    Metric("minikafka_replica_role", GAUGE, "0 none, 1 follower, 2 leader.", _PARTITION, "role"),
    Metric("minikafka_isr_size", GAUGE, "In-sync replicas as this broker knows them.", _PARTITION, "isr_size"),
    Metric("minikafka_partition_replicas", GAUGE, "Replicas assigned to the partition.", _PARTITION, "replicas"),
    Metric(
        "minikafka_partition_leader", GAUGE, "Id of the leader as this broker knows it; -1: none.", _PARTITION, "leader"
    ),
    Metric(
        "minikafka_partition_leader_is_preferred",
        GAUGE,
        "1 when that leader is the first of the assigned replicas.",
        _PARTITION,
        "preferred",
    ),
    Metric(
        "minikafka_partition_under_replicated",
        GAUGE,
        "1 on the leader while its ISR is smaller than its replicas, else 0.",
        _PARTITION,
        "under_replicated",
    ),
    Metric(
        "minikafka_partition_under_min_isr",
        GAUGE,
        "1 on the leader while its ISR is smaller than min.insync.replicas, else 0.",
        _PARTITION,
        "under_min_isr",
    ),
    Metric(
        "minikafka_partition_at_min_isr",
        GAUGE,
        "1 on the leader while its ISR is just min.insync.replicas (or all replicas, if these are fewer), else 0.",
        _PARTITION,
        "at_min_isr",
    ),
)

FOLLOWER_LAG = Metric(
    "minikafka_follower_lag",
    GAUGE,
    "Records the follower lacks, as its leader counts them: log end offset minus the offset it fetched from last.",
    (*_PARTITION, "follower"),
    "followers",
)
"""Kafka has the same number on the follower's side (``kafka.server:type=FetcherLagMetrics,name=ConsumerLag``), where it stops
with a follower that is down or cut off. The leader goes on counting, and both ends of the difference are its own, so
that the number is of one moment and never negative. A follower that has not fetched in the leader's term has no
sample: the leader does not know."""

COUNT_METRICS: tuple[Metric, ...] = (
    Metric("minikafka_partitions", GAUGE, "Replicas on this broker."),
    Metric("minikafka_leader_partitions", GAUGE, "Partitions led by this broker."),
    Metric(
        "minikafka_under_replicated_partitions",
        GAUGE,
        "Partitions led here whose ISR is smaller than their replicas.",
        source="under_replicated",
    ),
    Metric(
        "minikafka_under_min_isr_partitions",
        GAUGE,
        "Partitions led here whose ISR is smaller than min.insync.replicas.",
        source="under_min_isr",
    ),
    Metric(
        "minikafka_at_min_isr_partitions",
        GAUGE,
        "Partitions led here whose ISR is just min.insync.replicas.",
        source="at_min_isr",
    ),
    Metric(
        "minikafka_offline_partitions", GAUGE, "Partitions without a leader; said by the controller.", source="offline"
    ),
)

_TOPIC = ("topic",)

TOPIC_METRICS: tuple[Metric, ...] = (
    Metric("minikafka_topic_messages_in_total", COUNTER, "Records taken from producers.", _TOPIC, "messages_in"),
    Metric(
        "minikafka_topic_bytes_in_total", COUNTER, "Bytes of record batches taken from producers.", _TOPIC, "bytes_in"
    ),
    Metric(
        "minikafka_topic_bytes_out_total", COUNTER, "Bytes of record batches sent to consumers.", _TOPIC, "bytes_out"
    ),
    Metric(
        "minikafka_topic_rejected_bytes_total",
        COUNTER,
        "Bytes of record batches from producers that were refused.",
        _TOPIC,
        "rejected_bytes",
    ),
    Metric(
        "minikafka_topic_produce_requests_total",
        COUNTER,
        "Produce requests that named the topic.",
        _TOPIC,
        "produce_requests",
    ),
    Metric(
        "minikafka_topic_fetch_requests_total",
        COUNTER,
        "Fetch requests that were answered with partitions of the topic, those of followers too.",
        _TOPIC,
        "fetch_requests",
    ),
    Metric(
        "minikafka_topic_failed_produce_requests_total",
        COUNTER,
        "Produce requests with an error for at least one partition of the topic.",
        _TOPIC,
        "failed_produce",
    ),
    Metric(
        "minikafka_topic_failed_fetch_requests_total",
        COUNTER,
        "Fetch requests with an error for at least one partition of the topic.",
        _TOPIC,
        "failed_fetch",
    ),
)
"""Kafka's BrokerTopicMetrics. Of topics with a replica here; they begin at 0 when the first comes."""

GROUP_OFFSET = Metric(
    "minikafka_group_committed_offset",
    GAUGE,
    "Offset that a consumer group has committed, as its coordinator knows it. The group's lag is the leader's "
    "minikafka_high_watermark minus this.",
    ("group", *_PARTITION),
    "group_offsets",
)
GROUP_MEMBERS = Metric(
    "minikafka_group_members",
    GAUGE,
    "Members of a consumer group that is coordinated here.",
    ("group",),
    "group_members",
)
LISTENER_CONNECTIONS = Metric(
    "minikafka_listener_connections", GAUGE, "Open connections, by listener.", ("listener",), "listeners"
)
LOG_DIR_FREE = Metric(
    "minikafka_log_dir_free_bytes",
    GAUGE,
    "Bytes that may still be written to the file system of a log directory.",
    ("dir",),
)
LOG_DIR_SIZE = Metric("minikafka_log_dir_size_bytes", GAUGE, "Size of the file system of a log directory.", ("dir",))

BROKER_METRICS: tuple[Metric, ...] = (
    Metric("minikafka_active_controller", GAUGE, "1 when this broker is the controller.", source="active_controller"),
    Metric("minikafka_broker_fenced", GAUGE, "1 while the controller lets this broker lead nothing.", source="fenced"),
    Metric(
        "minikafka_clean_shutdown", GAUGE, "1 when the stop before this start was a clean one.", source="clean_shutdown"
    ),
    Metric(
        "minikafka_log_recovery_seconds", GAUGE, "How long the logs took to load at start.", source="recovery_seconds"
    ),
    Metric(
        "minikafka_controller_id",
        GAUGE,
        "Id of the controller as this broker knows it; -1: none.",
        source="controller_id",
    ),
    Metric(
        "minikafka_controller_epoch",
        GAUGE,
        "Epoch of the controller that this broker knows.",
        source="controller_epoch",
    ),
    Metric(
        "minikafka_metadata_revision",
        GAUGE,
        "Revision of the cluster store that this broker's image of the cluster is from.",
        source="metadata_revision",
    ),
    Metric(
        "minikafka_cluster_topics", GAUGE, "Topics of the cluster; said by the controller.", source="cluster_topics"
    ),
    Metric(
        "minikafka_cluster_partitions",
        GAUGE,
        "Partitions of the cluster; said by the controller.",
        source="cluster_partitions",
    ),
    Metric(
        "minikafka_cluster_active_brokers",
        GAUGE,
        "Brokers that may lead; said by the controller.",
        source="cluster_brokers_active",
    ),
    Metric(
        "minikafka_cluster_fenced_brokers",
        GAUGE,
        "Registered brokers that may lead nothing; said by the controller.",
        source="cluster_brokers_fenced",
    ),
    Metric(
        "minikafka_preferred_leader_imbalance",
        GAUGE,
        "Partitions that are not led by the first of their replicas; said by the controller.",
        source="cluster_imbalance",
    ),
    Metric("minikafka_groups", GAUGE, "Consumer groups that are coordinated here.", source="groups"),
    Metric(
        "minikafka_producer_ids",
        GAUGE,
        "Idempotent producers that the logs here remember, one for each partition that it wrote to.",
        source="producer_ids",
    ),
    Metric("minikafka_isr_shrinks_total", COUNTER, "Times an ISR led here lost members.", source="isr_shrinks"),
    Metric("minikafka_isr_expands_total", COUNTER, "Times an ISR led here got a member back.", source="isr_expands"),
    Metric(
        "minikafka_failed_isr_updates_total",
        COUNTER,
        "ISR changes the controller refused.",
        source="failed_isr_updates",
    ),
    Metric(
        "minikafka_offline_logs",
        GAUGE,
        "Logs here that the disk refused and that are not back yet (Kafka: OfflineLogDirectoryCount).",
        source="offline_logs",
    ),
    Metric(
        "minikafka_partitions_ahead_of_metadata",
        GAUGE,
        "Replicas here that lead and follow nothing, for their log has a later leader epoch than the cluster's metadata.",
        source="partitions_ahead_of_metadata",
    ),
    Metric(
        "minikafka_log_dir_failures_total",
        COUNTER,
        "Times the disk refused a log here, so that its replica resigned.",
        source="log_dir_failures",
    ),
    Metric("minikafka_truncations_total", COUNTER, "Times a log here was cut back.", source="truncations"),
    Metric("minikafka_truncated_records_total", COUNTER, "Records cut off logs here.", source="truncated_records"),
    Metric(
        "minikafka_fenced_requests_total",
        COUNTER,
        "Requests, or partitions in them, refused for a leader, broker or controller epoch of the past.",
        source="fenced_requests",
    ),
    Metric("minikafka_messages_in_total", COUNTER, "Records taken from producers.", source="messages_in"),
    Metric("minikafka_bytes_in_total", COUNTER, "Bytes of record batches taken from producers.", source="bytes_in"),
    Metric("minikafka_bytes_out_total", COUNTER, "Bytes of record batches sent to consumers.", source="bytes_out"),
    Metric(
        "minikafka_rejected_bytes_total",
        COUNTER,
        "Bytes of record batches from producers that were refused.",
        source="rejected_bytes",
    ),
    Metric(
        "minikafka_replication_bytes_in_total",
        COUNTER,
        "Bytes of record batches fetched from leaders.",
        source="replication_bytes_in",
    ),
    Metric(
        "minikafka_replication_bytes_out_total",
        COUNTER,
        "Bytes of record batches sent to followers.",
        source="replication_bytes_out",
    ),
    Metric(
        "minikafka_failed_produce_requests_total",
        COUNTER,
        "Produce requests with an error for at least one partition.",
        source="failed_produce",
    ),
    Metric(
        "minikafka_failed_fetch_requests_total",
        COUNTER,
        "Fetch requests with an error for at least one partition.",
        source="failed_fetch",
    ),
    Metric("minikafka_connections", GAUGE, "Open connections.", source="connections"),
    Metric("minikafka_connections_accepted_total", COUNTER, "Connections accepted.", source="connections_accepted"),
    Metric(
        "minikafka_request_queue_size",
        GAUGE,
        "Requests that wait for earlier ones of their connection. Produce and Fetch never do.",
        source="queued_requests",
    ),
    Metric(
        "minikafka_request_handler_busy_seconds_total",
        COUNTER,
        "Time spent on what connections brought, waiting for the disk included. One thread does it: 1 minus the rate is Kafka's "
        "RequestHandlerAvgIdlePercent.",
        source="handler_seconds",
    ),
    Metric(
        "minikafka_event_loop_cpu_seconds_total",
        COUNTER,
        "Processor time of the thread that serves the network.",
        source="loop_seconds",
    ),
    Metric(
        "minikafka_disk_read_bytes_total",
        COUNTER,
        "Bytes that storage had to read for this process (/proc/self/io).",
        source="disk_read",
    ),
    Metric(
        "minikafka_disk_written_bytes_total",
        COUNTER,
        "Bytes that this process made storage write, sooner or later (/proc/self/io).",
        source="disk_written",
    ),
    Metric(
        "minikafka_unflushed_bytes",
        GAUGE,
        "Bytes on the unflushed volume (minikafka.unflushed.dir), each of its files with one page more; 0 without one.",
        source="unflushed_bytes",
    ),
    Metric(
        "minikafka_unflushed_limit_bytes",
        GAUGE,
        "How much there may be: minikafka.unflushed.max.bytes, or what its file system has room for; 0 without one.",
        source="unflushed_limit",
    ),
    Metric(
        "minikafka_appends_wait_for_room",
        GAUGE,
        "1 while appends wait for room on the unflushed volume, or did within the last second.",
        source="appends_wait_for_room",
    ),
    Metric("minikafka_waiting_produces", GAUGE, "Produce requests waiting for replicas.", source="waiting_produces"),
    Metric("minikafka_waiting_fetches", GAUGE, "Fetch requests waiting for data.", source="waiting_fetches"),
    Metric(
        "minikafka_last_isr_shrink_timestamp_seconds",
        GAUGE,
        "Unix time of the last ISR shrink; 0: none yet.",
        source="last_isr_shrink",
    ),
    Metric(
        "minikafka_last_isr_expand_timestamp_seconds",
        GAUGE,
        "Unix time of the last ISR expansion; 0: none yet.",
        source="last_isr_expand",
    ),
    Metric(
        "minikafka_last_leader_election_timestamp_seconds",
        GAUGE,
        "Unix time of the last leader election; 0: none yet.",
        source="last_election",
    ),
    Metric(
        "minikafka_last_truncation_timestamp_seconds",
        GAUGE,
        "Unix time of the last truncation; 0: none yet.",
        source="last_truncation",
    ),
)

ELECTIONS = Metric(
    "minikafka_leader_elections_total",
    COUNTER,
    "Leader elections decided by this broker as the controller; clean=false: from outside the ISR.",
    ("clean",),
)
REQUEST_DURATION = Metric(
    "minikafka_request_duration_seconds",
    HISTOGRAM,
    "Time from a request's last byte in to its answer's first byte out, waiting included. Fetch is that of clients, "
    "FetchFollower that of brokers.",
    ("api",),
)
REQUEST_PHASES = Metric(
    "minikafka_request_phase_seconds_total",
    COUNTER,
    "The same time by phase: request_queue (behind other requests of the connection), local (the handler), remote (for replicas "
    "or for data), response_queue (behind other answers). All waiting of APIs other than Produce and Fetch is local.",
    ("api", "phase"),
)
REQUEST_BYTES = Metric("minikafka_request_bytes_total", COUNTER, "Bytes of requests.", ("api",))
COMMIT_DURATION = Metric(
    "minikafka_controller_commit_duration_seconds",
    HISTOGRAM,
    "Time one transaction of this broker as the controller with the cluster store took.",
)
REQUEST_ERRORS = Metric(
    "minikafka_request_errors_total",
    COUNTER,
    "Error codes answered, per request or partition, by Kafka's name. What is passed on to the controller counts there.",
    ("api", "error"),
)
FLUSH_DURATION = Metric(
    "minikafka_log_flush_duration_seconds", HISTOGRAM, "Time one flush of a log to stable storage took."
)
EVENTS_TOTAL = Metric(
    "minikafka_events_total", COUNTER, "Events emitted since the start, by name (docs/reference/events.md).", ("event",)
)
EVENTS_DROPPED = Metric(
    "minikafka_events_dropped_total",
    COUNTER,
    "Events that could not be written to the event file, or to standard output where they go there.",
)
COMPONENT_FAILED = Metric(
    "minikafka_component_failed",
    GAUGE,
    "1 for each part of this broker that cannot do its work now; /healthz says why. Absent when all is well.",
    ("component",),
)
BUILD_INFO = Metric("minikafka_build_info", GAUGE, "Always 1; versions are in the labels.", ("version", "python"))

METRICS: tuple[Metric, ...] = (
    *PARTITION_METRICS,
    FOLLOWER_LAG,
    *TOPIC_METRICS,
    GROUP_OFFSET,
    GROUP_MEMBERS,
    *COUNT_METRICS,
    *BROKER_METRICS,
    LISTENER_CONNECTIONS,
    LOG_DIR_FREE,
    LOG_DIR_SIZE,
    ELECTIONS,
    REQUEST_DURATION,
    REQUEST_PHASES,
    REQUEST_BYTES,
    REQUEST_ERRORS,
    FLUSH_DURATION,
    COMMIT_DURATION,
    EVENTS_TOTAL,
    EVENTS_DROPPED,
    COMPONENT_FAILED,
    BUILD_INFO,
)
