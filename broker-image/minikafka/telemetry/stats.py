"""The numbers that a broker keeps of itself, each with the metric that shows it.

Counting is an addition to a plain attribute: nothing is locked, looked up or formatted on the way of a record.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Annotated

from minikafka.protocol.errors import ErrorCode
from minikafka.telemetry.metric import counter, gauge

DURATION_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""Upper bounds in seconds of the histograms' buckets: from a loopback produce to a parked fetch or a stalled disk."""

_FENCED = frozenset((ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.STALE_CONTROLLER_EPOCH))
"""What is answered to those who live in an epoch of the past."""


@dataclass(slots=True, eq=False, repr=False)
class TopicTraffic:
    """What is counted of one topic, for as long as a replica of it is here (Kafka's BrokerTopicMetrics)."""

    messages_in: Annotated[int, counter("minikafka_topic_messages_in_total", "Records taken from producers.")] = 0
    bytes_in: Annotated[
        int, counter("minikafka_topic_bytes_in_total", "Bytes of record batches taken from producers.")
    ] = 0
    bytes_out: Annotated[
        int, counter("minikafka_topic_bytes_out_total", "Bytes of record batches sent to consumers.")
    ] = 0
    rejected_bytes: Annotated[
        int,
        counter("minikafka_topic_rejected_bytes_total", "Bytes of record batches from producers that were refused."),
    ] = 0
    produce_requests: Annotated[
        int, counter("minikafka_topic_produce_requests_total", "Produce requests that named the topic.")
    ] = 0
    fetch_requests: Annotated[
        int,
        counter(
            "minikafka_topic_fetch_requests_total",
            "Fetch requests that were answered with partitions of the topic, those of followers too.",
        ),
    ] = 0
    failed_produce: Annotated[
        int,
        counter(
            "minikafka_topic_failed_produce_requests_total",
            "Produce requests with an error for at least one partition of the topic.",
        ),
    ] = 0
    failed_fetch: Annotated[
        int,
        counter(
            "minikafka_topic_failed_fetch_requests_total",
            "Fetch requests with an error for at least one partition of the topic.",
        ),
    ] = 0


@dataclass(slots=True)
class Throttled:
    """How many requests exceeded a quota, and for how long their clients were told to wait."""

    requests: int = 0
    seconds: float = 0.0


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


class RequestTimes(Histogram):
    """How long the requests of one API took, and where their time went (seconds), and their bytes.

    What was neither waited for in a queue nor for others is the handler's own: Kafka's LocalTimeMs.
    """

    __slots__ = ("bytes", "queued", "remote", "response_queued")

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self.queued = 0.0
        """Before the handler: behind other requests of the connection. Produce and Fetch are handled where they are read."""
        self.remote = 0.0
        """For replicas (Produce) or for data (Fetch)."""
        self.response_queued = 0.0
        """With the answer ready, until the answers of earlier requests of the connection had left."""

    @property
    def phases(self) -> tuple[tuple[str, float], ...]:
        """(phase, seconds) of each phase."""
        local = max(0.0, self.seconds - self.queued - self.remote - self.response_queued)
        return (
            ("request_queue", self.queued),
            ("local", local),
            ("remote", self.remote),
            ("response_queue", self.response_queued),
        )


@dataclass(slots=True, eq=False, repr=False)
class BrokerStats:
    """What a broker counts. Plain numbers: add to them directly.

    A number and its metric are declared together, in the order in which /metrics shows them. What `server/observation.py` sets
    is looked up when somebody scrapes. Shrinks, expansions, elections and truncations also have a last time: count those with
    the ``record_*`` methods.
    """

    active_controller: Annotated[int, gauge("minikafka_active_controller", "1 when this broker is the controller.")] = 0
    fenced: Annotated[
        int, gauge("minikafka_broker_fenced", "1 while the controller lets this broker lead nothing.")
    ] = 1
    clean_shutdown: Annotated[
        int, gauge("minikafka_clean_shutdown", "1 when the stop before this start was a clean one.")
    ] = 0
    recovery_seconds: Annotated[
        float, gauge("minikafka_log_recovery_seconds", "How long the logs took to load at start.")
    ] = 0.0
    controller_id: Annotated[
        int, gauge("minikafka_controller_id", "Id of the controller as this broker knows it; -1: none.")
    ] = -1
    controller_epoch: Annotated[
        int, gauge("minikafka_controller_epoch", "Epoch of the controller that this broker knows.")
    ] = 0
    metadata_revision: Annotated[
        int,
        gauge(
            "minikafka_metadata_revision",
            "Revision of the cluster store that this broker's image of the cluster is from.",
        ),
    ] = 0
    cluster_topics: Annotated[
        int, gauge("minikafka_cluster_topics", "Topics of the cluster; said by the controller.")
    ] = 0
    cluster_partitions: Annotated[
        int, gauge("minikafka_cluster_partitions", "Partitions of the cluster; said by the controller.")
    ] = 0
    cluster_brokers_active: Annotated[
        int, gauge("minikafka_cluster_active_brokers", "Brokers that may lead; said by the controller.")
    ] = 0
    cluster_brokers_fenced: Annotated[
        int,
        gauge("minikafka_cluster_fenced_brokers", "Registered brokers that may lead nothing; said by the controller."),
    ] = 0
    cluster_imbalance: Annotated[
        int,
        gauge(
            "minikafka_preferred_leader_imbalance",
            "Partitions that are not led by the first of their replicas; said by the controller.",
        ),
    ] = 0
    groups: Annotated[int, gauge("minikafka_groups", "Consumer groups that are coordinated here.")] = 0
    group_series_left_out: Annotated[
        int,
        gauge(
            "minikafka_group_series_left_out",
            "Series of consumer groups (members, committed offsets) that this page lacks: minikafka.metrics.group.series.max.",
        ),
    ] = 0
    producer_ids: Annotated[
        int,
        gauge(
            "minikafka_producer_ids",
            "Idempotent producers that the logs here remember, one for each partition that it wrote to.",
        ),
    ] = 0
    isr_shrinks: Annotated[int, counter("minikafka_isr_shrinks_total", "Times an ISR led here lost members.")] = 0
    isr_expands: Annotated[int, counter("minikafka_isr_expands_total", "Times an ISR led here got a member back.")] = 0
    failed_isr_updates: Annotated[
        int, counter("minikafka_failed_isr_updates_total", "ISR changes the controller refused.")
    ] = 0
    offline_logs: Annotated[
        int,
        gauge(
            "minikafka_offline_logs",
            "Logs here that the disk refused and that are not back yet (Kafka: OfflineLogDirectoryCount).",
        ),
    ] = 0
    partitions_ahead_of_metadata: Annotated[
        int,
        gauge(
            "minikafka_partitions_ahead_of_metadata",
            "Replicas here that lead and follow nothing, for their log has a later leader epoch than the cluster's metadata.",
        ),
    ] = 0
    log_dir_failures: Annotated[
        int,
        counter("minikafka_log_dir_failures_total", "Times the disk refused a log here, so that its replica resigned."),
    ] = 0
    truncations: Annotated[int, counter("minikafka_truncations_total", "Times a log here was truncated.")] = 0
    truncated_records: Annotated[
        int, counter("minikafka_truncated_records_total", "Records that truncations removed from logs here.")
    ] = 0
    fenced_requests: Annotated[
        int,
        counter(
            "minikafka_fenced_requests_total",
            "Requests, or partitions in them, refused for a leader, broker or controller epoch of the past.",
        ),
    ] = 0
    # The next three are of topics that are no longer here; those that are count for themselves.
    _messages_in: Annotated[
        int, counter("minikafka_messages_in_total", "Records taken from producers.", source="messages_in")
    ] = 0
    _bytes_in: Annotated[
        int, counter("minikafka_bytes_in_total", "Bytes of record batches taken from producers.", source="bytes_in")
    ] = 0
    _bytes_out: Annotated[
        int, counter("minikafka_bytes_out_total", "Bytes of record batches sent to consumers.", source="bytes_out")
    ] = 0
    rejected_bytes: Annotated[
        int, counter("minikafka_rejected_bytes_total", "Bytes of record batches from producers that were refused.")
    ] = 0
    replication_bytes_in: Annotated[
        int, counter("minikafka_replication_bytes_in_total", "Bytes of record batches fetched from leaders.")
    ] = 0
    replication_bytes_out: Annotated[
        int, counter("minikafka_replication_bytes_out_total", "Bytes of record batches sent to followers.")
    ] = 0
    failed_produce: Annotated[
        int,
        counter(
            "minikafka_failed_produce_requests_total", "Produce requests with an error for at least one partition."
        ),
    ] = 0
    failed_fetch: Annotated[
        int,
        counter("minikafka_failed_fetch_requests_total", "Fetch requests with an error for at least one partition."),
    ] = 0
    connections: Annotated[int, gauge("minikafka_connections", "Open connections.")] = 0
    failed_authentications: Annotated[
        int, counter("minikafka_failed_authentications_total", "Clients that were not let in.")
    ] = 0
    authorizations_denied: Annotated[
        int, counter("minikafka_authorizations_denied_total", "Refusals by ACLs: one for each resource of a request.")
    ] = 0
    connections_accepted: Annotated[int, counter("minikafka_connections_accepted_total", "Connections accepted.")] = 0
    request_memory: Annotated[
        int,
        gauge("minikafka_request_memory_bytes", "Bytes that count for queued.max.request.bytes; 0 without a limit."),
    ] = 0
    queued_requests: Annotated[
        int,
        gauge(
            "minikafka_request_queue_size",
            "Requests that wait for earlier ones of their connection. Produce and Fetch never do.",
        ),
    ] = 0
    handler_seconds: Annotated[
        float,
        counter(
            "minikafka_request_handler_busy_seconds_total",
            "Time spent on what connections brought, waiting for the disk included. One thread does it: 1 minus the rate "
            "is Kafka's RequestHandlerAvgIdlePercent.",
        ),
    ] = 0.0
    loop_seconds: Annotated[
        float,
        counter("minikafka_event_loop_cpu_seconds_total", "Processor time of the thread that serves the network."),
    ] = 0.0
    disk_read: Annotated[
        int,
        counter("minikafka_disk_read_bytes_total", "Bytes that storage had to read for this process (/proc/self/io)."),
    ] = 0
    disk_written: Annotated[
        int,
        counter(
            "minikafka_disk_written_bytes_total",
            "Bytes that this process made storage write, sooner or later (/proc/self/io).",
        ),
    ] = 0
    unflushed_bytes: Annotated[
        int,
        gauge(
            "minikafka_unflushed_bytes",
            "Bytes on the unflushed volume (minikafka.unflushed.dir), each of its files with one page more; 0 without one.",
        ),
    ] = 0
    unflushed_limit: Annotated[
        int,
        gauge(
            "minikafka_unflushed_limit_bytes",
            "How much there may be: minikafka.unflushed.max.bytes, or what its file system has room for; 0 without one.",
        ),
    ] = 0
    appends_wait_for_room: Annotated[
        int,
        gauge(
            "minikafka_appends_wait_for_room",
            "1 while appends wait for room on the unflushed volume, or did within the last second.",
        ),
    ] = 0
    waiting_produces: Annotated[int, gauge("minikafka_waiting_produces", "Produce requests waiting for replicas.")] = 0
    waiting_fetches: Annotated[int, gauge("minikafka_waiting_fetches", "Fetch requests waiting for data.")] = 0
    last_isr_shrink: Annotated[
        float, gauge("minikafka_last_isr_shrink_timestamp_seconds", "Unix time of the last ISR shrink; 0: none yet.")
    ] = 0.0
    last_isr_expand: Annotated[
        float, gauge("minikafka_last_isr_expand_timestamp_seconds", "Unix time of the last ISR expansion; 0: none yet.")
    ] = 0.0
    last_election: Annotated[
        float,
        gauge(
            "minikafka_last_leader_election_timestamp_seconds", "Unix time of the last leader election; 0: none yet."
        ),
    ] = 0.0
    last_truncation: Annotated[
        float, gauge("minikafka_last_truncation_timestamp_seconds", "Unix time of the last truncation; 0: none yet.")
    ] = 0.0
    elections_clean: int = 0
    elections_unclean: int = 0
    topics: dict[str, TopicTraffic] = field(default_factory=dict)
    requests: dict[int, RequestTimes] = field(default_factory=dict)
    errors: dict[tuple[int, int], int] = field(default_factory=dict)
    flushes: Histogram = field(default_factory=Histogram)
    commits: Histogram = field(default_factory=Histogram)
    listeners: dict[str, int] = field(default_factory=dict)
    throttled: dict[str, Throttled] = field(default_factory=dict)
    """By name of the quota."""
    limited: dict[str, int] = field(default_factory=dict)
    """Connections that were refused or closed for a limit, by its setting."""
    log_dirs: dict[str, tuple[int, int]] = field(default_factory=dict)
    group_members: dict[str, int] = field(default_factory=dict)
    group_offsets: list[tuple[str, str, int, int]] = field(default_factory=list)
    """(group, topic, partition, offset)"""

    def topic(self, name: str) -> TopicTraffic:
        """The counters of a topic that has, or gets, a replica here."""
        found = self.topics.get(name)
        if found is None:
            found = self.topics[name] = TopicTraffic()
        return found

    def topic_gone(self, name: str) -> None:
        """No replica of the topic is left here: its counters go, and the broker's own, their sums, do not fall."""
        gone = self.topics.pop(name, None)
        if gone is not None:
            self._messages_in += gone.messages_in
            self._bytes_in += gone.bytes_in
            self._bytes_out += gone.bytes_out

    @property
    def messages_in(self) -> int:
        """Records taken from producers, of all topics."""
        return self._messages_in + sum(topic.messages_in for topic in self.topics.values())

    @property
    def bytes_in(self) -> int:
        """Bytes of record batches taken from producers, of all topics."""
        return self._bytes_in + sum(topic.bytes_in for topic in self.topics.values())

    @property
    def bytes_out(self) -> int:
        """Bytes of record batches sent to consumers, of all topics."""
        return self._bytes_out + sum(topic.bytes_out for topic in self.topics.values())

    def times_of(self, api_key: int) -> RequestTimes:
        """Return what is counted of the requests of this API."""
        times = self.requests.get(api_key)
        if times is None:
            times = self.requests[api_key] = RequestTimes()
        return times

    def observe_request(self, api_key: int, seconds: float, size: int = 0) -> RequestTimes:
        """Count a request of ``size`` bytes that took ``seconds`` from its last byte in to its first byte out."""
        times = self.requests.get(api_key) or self.times_of(api_key)
        times.counts[bisect_left(DURATION_BOUNDS, seconds)] += 1
        times.seconds += seconds
        times.bytes += size
        return times

    def observe_flush(self, seconds: float) -> None:
        """Count one fsync of a log."""
        self.flushes.observe(seconds)

    def count_error(self, api_key: int, code: int) -> None:
        """Count one error code answered, per request or partition."""
        key = (api_key, int(code))
        self.errors[key] = self.errors.get(key, 0) + 1
        if code in _FENCED:
            self.fenced_requests += 1

    def record_throttled(self, quota: str, ms: int) -> None:
        """Count a request whose client has to wait for having exceeded a quota."""
        times = self.throttled.setdefault(quota, Throttled())
        times.requests += 1
        times.seconds += ms / 1000

    def record_limited(self, setting: str) -> None:
        """Count a connection that is refused or closed for a limit."""
        self.limited[setting] = self.limited.get(setting, 0) + 1

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
