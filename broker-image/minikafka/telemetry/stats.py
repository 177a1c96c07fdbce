"""The numbers that a broker keeps of itself, and what it says of its replicas when somebody scrapes.

Counting is an addition to a plain attribute: nothing is locked, looked up or formatted on the way of a record.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from minikafka.protocol.errors import ErrorCode

DURATION_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""Upper bounds in seconds of the histograms' buckets: from a loopback produce to a parked fetch or a stalled disk."""

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
    at_min_isr: bool = False
    """One more in-sync replica lost, and acks=all is refused; said by leaders only."""
    leader: int = -1
    preferred: bool = False
    """The leader is the first of the assigned replicas."""


class TopicTraffic:
    """What is counted of one topic, for as long as a replica of it is here (Kafka's BrokerTopicMetrics)."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetch",
        "failed_produce",
        "fetch_requests",
        "messages_in",
        "produce_requests",
        "rejected_bytes",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.rejected_bytes = 0
        self.produce_requests = 0
        self.fetch_requests = 0
        self.failed_produce = 0
        self.failed_fetch = 0


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


class BrokerStats:
    """What a broker counts. Plain numbers: add to them directly.

    Shrinks, expansions, elections and truncations also have a last time: count those with the ``record_*`` methods.
    """

    __slots__ = (
        "_bytes_in",
        "_bytes_out",
        "_messages_in",
        "active_controller",
        "appends_wait_for_room",
        "clean_shutdown",
        "cluster_brokers_active",
        "cluster_brokers_fenced",
        "cluster_imbalance",
        "cluster_partitions",
        "cluster_topics",
        "commits",
        "connections",
        "connections_accepted",
        "controller_epoch",
        "controller_id",
        "disk_read",
        "disk_written",
        "elections_clean",
        "elections_unclean",
        "errors",
        "failed_fetch",
        "failed_isr_updates",
        "failed_produce",
        "fenced",
        "fenced_requests",
        "flushes",
        "group_members",
        "group_offsets",
        "groups",
        "handler_seconds",
        "isr_expands",
        "isr_shrinks",
        "last_election",
        "last_isr_expand",
        "last_isr_shrink",
        "last_truncation",
        "listeners",
        "log_dir_failures",
        "log_dirs",
        "loop_seconds",
        "metadata_revision",
        "offline_logs",
        "partitions_ahead_of_metadata",
        "producer_ids",
        "queued_requests",
        "recovery_seconds",
        "rejected_bytes",
        "replication_bytes_in",
        "replication_bytes_out",
        "requests",
        "topics",
        "truncated_records",
        "truncations",
        "unflushed_bytes",
        "unflushed_limit",
        "waiting_fetches",
        "waiting_produces",
    )

    def __init__(self) -> None:
        self.topics: dict[str, TopicTraffic] = {}
        # Of topics that are no longer here.
        self._messages_in = 0
        self._bytes_in = 0
        self._bytes_out = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
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
        self.handler_seconds = 0.0
        """The event loop's thread at work on what connections brought."""
        # From here on: counted when somebody asks (server/observation.py).
        self.unflushed_bytes = 0
        self.unflushed_limit = 0
        self.appends_wait_for_room = 0
        self.waiting_produces = 0
        self.waiting_fetches = 0
        self.queued_requests = 0
        self.listeners: dict[str, int] = {}
        self.loop_seconds = 0.0
        self.producer_ids = 0
        self.disk_read = 0
        self.disk_written = 0
        self.log_dirs: dict[str, tuple[int, int]] = {}
        self.groups = 0
        self.group_members: dict[str, int] = {}
        self.group_offsets: list[tuple[str, str, int, int]] = []
        """(group, topic, partition, offset)"""
        self.controller_id = -1
        self.controller_epoch = 0
        self.metadata_revision = 0
        self.cluster_topics = 0
        self.cluster_partitions = 0
        self.cluster_brokers_active = 0
        self.cluster_brokers_fenced = 0
        self.cluster_imbalance = 0
        # To here.
        self.active_controller = 0
        self.fenced = 1  # until the controller says otherwise
        self.clean_shutdown = 0
        self.recovery_seconds = 0.0
        self.last_isr_shrink = 0.0
        self.last_isr_expand = 0.0
        self.last_election = 0.0
        self.last_truncation = 0.0
        self.requests: dict[int, RequestTimes] = {}
        self.flushes = Histogram()
        self.commits = Histogram()
        self.errors: dict[tuple[int, int], int] = {}

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
        """What is counted of the requests of this API."""
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
