"""Every metric of a broker, declared once.

Those of a number that is kept anyway stand beside it (:mod:`minikafka.telemetry.stats`, `replica_status`), the others here;
text is made only when somebody scrapes (:mod:`minikafka.telemetry.exposition`).

Naming follows Prometheus: base units, ``_total`` on counters, ``_timestamp_seconds``, ``_info``. Faults are shorter
than scrapes, so everything that must not be missed is a counter, with the time of the last one beside it; the exact
order is in the events (``minikafka.telemetry.events``).
"""

from minikafka.telemetry.metric import COUNTER, GAUGE, HISTOGRAM, Metric, declared
from minikafka.telemetry.replica_status import ReplicaStatus
from minikafka.telemetry.stats import BrokerStats, TopicTraffic

_PARTITION = ("topic", "partition")

PARTITION_METRICS = declared(ReplicaStatus, _PARTITION)

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
    Metric("minikafka_partitions", GAUGE, "Replicas on this broker.", source="is_here"),
    Metric("minikafka_leader_partitions", GAUGE, "Partitions led by this broker.", source="is_led_here"),
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

TOPIC_METRICS = declared(TopicTraffic, ("topic",))
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

BROKER_METRICS = declared(BrokerStats)

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
CONNECTIONS_LIMITED = Metric(
    "minikafka_connections_limited_total",
    COUNTER,
    "Connections that were refused or closed for a limit, by the setting or the quota.",
    ("limit",),
)
THROTTLED_REQUESTS = Metric(
    "minikafka_throttled_requests_total",
    COUNTER,
    "Requests whose client had to wait for having exceeded a quota, by the name of the quota.",
    ("quota",),
    "requests",
)
THROTTLE_SECONDS = Metric(
    "minikafka_throttle_seconds_total",
    COUNTER,
    "How long these clients were told to wait (Kafka: throttle-time), added up.",
    ("quota",),
    "seconds",
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
    CONNECTIONS_LIMITED,
    LOG_DIR_FREE,
    LOG_DIR_SIZE,
    ELECTIONS,
    REQUEST_DURATION,
    REQUEST_PHASES,
    REQUEST_BYTES,
    REQUEST_ERRORS,
    THROTTLED_REQUESTS,
    THROTTLE_SECONDS,
    FLUSH_DURATION,
    COMMIT_DURATION,
    EVENTS_TOTAL,
    EVENTS_DROPPED,
    COMPONENT_FAILED,
    BUILD_INFO,
)
