"""Every metric of MiniKafka, declared once, and the numbers a broker keeps for its own.

Counting is an addition to a plain attribute of :class:`BrokerStats`; text is made only when somebody scrapes
(``minikafka.telemetry.exposition``).

Naming follows Prometheus: base units, ``_total`` on counters, ``_timestamp_seconds``, ``_info``. Faults are shorter
than scrapes, so everything that must not be missed is a counter, with the time of the last one beside it; the exact
order is in the events (``minikafka.telemetry.events``).
"""

from bisect import bisect_left
from typing import NamedTuple

from minikafka.protocol.errors import ErrorCode

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

DURATION_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""Upper bounds in seconds of the histograms' buckets: from a loopback produce to a parked fetch or a stalled disk."""


class Metric(NamedTuple):
    """A metric's declaration. ``source`` is the attribute of BrokerStats or ReplicaStatus it is read from."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    source: str = ""


_FENCED = frozenset((ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.STALE_CONTROLLER_EPOCH))
"""What is answered to those who live in an epoch of the past."""


class ReplicaStatus(NamedTuple):
    """What one broker knows of one partition of its own, at the moment of a scrape.

    ``role`` is 0 none, 1 follower, 2 leader; ``isr_size`` and ``replicas`` are of the partition as this broker knows
    it. ``under_replicated`` and ``under_min_isr`` are said by leaders only, so that a sum over brokers counts each
    partition once; ``offline`` is said by the controller.
    """

    topic: str
    partition: int
    role: int
    leader_epoch: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    flushed_offset: int
    isr_size: int
    replicas: int
    under_replicated: bool
    under_min_isr: bool
    offline: bool
    size_bytes: int = 0
    partition_epoch: int = -1
    followers: tuple[tuple[int, int], ...] = ()
    """(broker id, records behind) of each follower that has fetched in this term; said by leaders only."""


class Histogram:
    """Counts of durations over :data:`DURATION_BOUNDS`; one more bucket for what is above the last."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(DURATION_BOUNDS) + 1)
        self.seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration; one equal to a bound belongs to that bucket (``le``)."""
        self.counts[bisect_left(DURATION_BOUNDS, seconds)] += 1
        self.seconds += seconds


class BrokerStats:
    """What a broker counts. Plain numbers: add to them directly.

    Shrinks, expansions, elections and truncations also have a last time: count those with the ``record_*`` methods.
    """

    __slots__ = (
        "active_controller",
        "bytes_in",
        "bytes_out",
        "clean_shutdown",
        "connections",
        "connections_accepted",
        "elections_clean",
        "elections_unclean",
        "errors",
        "failed_fetch",
        "failed_isr_updates",
        "failed_produce",
        "fenced",
        "fenced_requests",
        "flushes",
        "isr_expands",
        "isr_shrinks",
        "last_election",
        "last_isr_expand",
        "last_isr_shrink",
        "last_truncation",
        "log_dir_failures",
        "messages_in",
        "offline_logs",
        "partitions_ahead_of_metadata",
        "recovery_seconds",
        "rejected_bytes",
        "replication_bytes_in",
        "replication_bytes_out",
        "requests",
        "truncated_records",
        "truncations",
        "waiting_fetches",
        "waiting_produces",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.messages_in = 0
        self.rejected_bytes = 0
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.failed_isr_updates = 0
        self.elections_clean = 0
        self.elections_unclean = 0
        self.truncations = 0
        self.truncated_records = 0
        self.fenced_requests = 0
        self.log_dir_failures = 0
        self.offline_logs = 0
        self.partitions_ahead_of_metadata = 0
        self.failed_produce = 0
        self.failed_fetch = 0
        self.connections_accepted = 0
        self.connections = 0
        # The next two are counted when somebody asks (Broker.replica_statuses).
        self.waiting_produces = 0
        self.waiting_fetches = 0
        self.active_controller = 0
        self.fenced = 1  # until the controller says otherwise
        self.clean_shutdown = 0
        self.recovery_seconds = 0.0
        self.last_isr_shrink = 0.0
        self.last_isr_expand = 0.0
        self.last_election = 0.0
        self.last_truncation = 0.0
        self.requests: dict[int, Histogram] = {}
        self.flushes = Histogram()
        self.errors: dict[tuple[int, int], int] = {}

    def observe_request(self, api_key: int, seconds: float) -> None:
        """Count a request of this API that took ``seconds`` from its last byte in to its first byte out."""
        histogram = self.requests.get(api_key)
        if histogram is None:
            histogram = self.requests[api_key] = Histogram()
        histogram.counts[bisect_left(DURATION_BOUNDS, seconds)] += 1
        histogram.seconds += seconds

    def observe_flush(self, seconds: float) -> None:
        """Count one fsync of a log."""
        self.flushes.observe(seconds)

    def count_error(self, api_key: int, code: int) -> None:
        """Count one error code answered, per request or partition."""
        key = (api_key, int(code))
        self.errors[key] = self.errors.get(key, 0) + 1
        if code in _FENCED:
            self.fenced_requests += 1

    def record_isr_shrink(self, now: float) -> None:
        """A partition led here lost in-sync replicas; ``now`` is unix seconds, as in all of these."""
        self.isr_shrinks += 1
        self.last_isr_shrink = now

    def record_isr_expand(self, now: float) -> None:
        """A partition led here got an in-sync replica back."""
        self.isr_expands += 1
        self.last_isr_expand = now

    def record_election(self, clean: bool, now: float) -> None:
        """This broker, being the controller, gave a partition another leader; unclean: from outside the ISR."""
        if clean:
            self.elections_clean += 1
        else:
            self.elections_unclean += 1
        self.last_election = now

    def record_truncation(self, records: int, now: float) -> None:
        """A log here was cut back by ``records`` records."""
        self.truncations += 1
        self.truncated_records += records
        self.last_truncation = now


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
        "minikafka_offline_partitions", GAUGE, "Partitions without a leader; said by the controller.", source="offline"
    ),
)

BROKER_METRICS: tuple[Metric, ...] = (
    Metric("minikafka_active_controller", GAUGE, "1 when this broker is the controller.", source="active_controller"),
    Metric("minikafka_broker_fenced", GAUGE, "1 while the controller lets this broker lead nothing.", source="fenced"),
    Metric(
        "minikafka_clean_shutdown", GAUGE, "1 when the stop before this start was a clean one.", source="clean_shutdown"
    ),
    Metric(
        "minikafka_log_recovery_seconds", GAUGE, "How long the logs took to load at start.", source="recovery_seconds"
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
    "Time from a request's last byte in to its answer's first byte out, waiting included.",
    ("api",),
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
    "minikafka_events_total", COUNTER, "Events emitted since the start, by name (docs/events.md).", ("event",)
)
EVENTS_DROPPED = Metric(
    "minikafka_events_dropped_total", COUNTER, "Events that could not be written to the event file."
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
    *COUNT_METRICS,
    *BROKER_METRICS,
    ELECTIONS,
    REQUEST_DURATION,
    REQUEST_ERRORS,
    FLUSH_DURATION,
    EVENTS_TOTAL,
    EVENTS_DROPPED,
    COMPONENT_FAILED,
    BUILD_INFO,
)
