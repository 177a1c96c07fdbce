"""The declared metrics, and the text a broker shows, read by prometheus_client's own parser."""

import re
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from types import FrameType

import pytest
from minikafka.telemetry.events import EventLog
from minikafka.telemetry.exposition import BrokerCollector
from minikafka.telemetry.metric import COUNTER, GAUGE, HISTOGRAM
from minikafka.telemetry.metrics import COMPONENT_FAILED, METRICS
from minikafka.telemetry.replica_status import ReplicaStatus
from minikafka.telemetry.stats import DURATION_BOUNDS, BrokerStats, Histogram
from minikafka_analytics.landing.schemas import METRICS_READ
from minikafka_chaos.record.observe import METRICS_OF_A_REPLICA
from minikafka_chaos.watch.sample_rules import WATCHED
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

PUBLISHED = {
    "minikafka_log_end_offset",
    "minikafka_high_watermark",
    "minikafka_log_flushed_offset",
    "minikafka_log_start_offset",
    "minikafka_leader_epoch",
    "minikafka_replica_role",
    "minikafka_isr_size",
    "minikafka_follower_lag",
    "minikafka_under_replicated_partitions",
    "minikafka_under_min_isr_partitions",
    "minikafka_offline_partitions",
    "minikafka_active_controller",
    "minikafka_isr_shrinks_total",
    "minikafka_isr_expands_total",
    "minikafka_leader_elections_total",
    "minikafka_truncations_total",
    "minikafka_truncated_records_total",
    "minikafka_fenced_requests_total",
    "minikafka_request_duration_seconds",
    "minikafka_bytes_in_total",
    "minikafka_bytes_out_total",
    "minikafka_replication_bytes_in_total",
    "minikafka_log_flush_duration_seconds",
}
"""Names that people's dashboards and alerts rely on: never rename one."""

LEADER = ReplicaStatus(
    topic="bank",
    partition=0,
    role=2,
    leader_epoch=7,
    log_start_offset=3,
    log_end_offset=42,
    high_watermark=40,
    flushed_offset=38,
    isr_size=1,
    replicas=3,
    under_replicated=True,
    under_min_isr=True,
    offline=False,
    size_bytes=4096,
    partition_epoch=9,
    followers=((2, 0), (3, 30)),
)
FOLLOWER = replace(LEADER, partition=1, role=1, isr_size=3, under_replicated=False, under_min_isr=False, followers=())
ELSEWHERE = replace(FOLLOWER, partition=2, role=0, isr_size=0, offline=True)


def families(collector: BrokerCollector) -> dict[str, Metric]:
    found = list(text_string_to_metric_families(b"".join(collector.render()).decode()))
    assert len({family.name for family in found}) == len(found), "a metric family is split in two"
    return {family.name: family for family in found}


def value(found: dict[str, Metric], name: str, /, **labels: str) -> float:
    family = name.removesuffix("_total")
    for suffix in ("_bucket", "_sum", "_count"):
        family = family if family in found else family.removesuffix(suffix)
    matches = [s.value for s in found[family].samples if s.name == name and s.labels == labels]
    assert len(matches) == 1, (name, labels)
    return float(matches[0])


def collector(stats: BrokerStats | None = None, replicas: Iterable[ReplicaStatus] = ()) -> BrokerCollector:
    return BrokerCollector(stats or BrokerStats(), lambda: replicas, api_names={0: "Produce", 1: "Fetch"})


def test_what_is_read_of_metrics_is_declared() -> None:
    """By the run's observer, `watch` and the analysis, which type the names again: they need not import the broker."""
    read = {
        name.removesuffix("_sum").removesuffix("_count") for name in (*METRICS_READ, *WATCHED, *METRICS_OF_A_REPLICA)
    }
    assert {name for name in read if name.startswith("minikafka_")} <= {metric.name for metric in METRICS}


def test_published_names_are_declared() -> None:
    assert {metric.name for metric in METRICS} >= PUBLISHED


def test_names_follow_prometheus_rules() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert re.fullmatch(r"minikafka_[a-z0-9_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == COUNTER), metric.name
        assert metric.kind in (COUNTER, GAUGE, HISTOGRAM)
        assert metric.help.endswith("."), metric.name
        assert "\n" not in metric.help
        assert not {"le", "quantile", "job", "instance"} & set(metric.labels)
        assert not re.search(r"_(ms|milliseconds|kb|minutes|percent)(_|$)", metric.name), "base units only"
        if metric.kind == HISTOGRAM:
            assert metric.name.endswith("_seconds")


def test_every_metric_of_a_broker_is_shown_as_declared() -> None:
    events = EventLog(None, 1)
    events.emit("broker_stopping", reason="test")
    stats = BrokerStats()
    stats.observe_request(0, 0.1)
    stats.count_error(0, 6)
    stats.topic("bank")
    stats.group_offsets, stats.group_members = [("readers", "bank", 0, 4)], {"readers": 1}
    stats.listeners, stats.log_dirs = {"PLAINTEXT": 2}, {"/data": (1, 2)}
    stats.record_throttled("producer_byte_rate", 1500)
    stats.record_limited("max.connections")
    found = families(BrokerCollector(stats, lambda: [LEADER], events=events))
    for metric in METRICS:
        family = found[metric.name.removesuffix("_total")]
        assert family.type == metric.kind, metric.name
        assert family.documentation == metric.help
        assert family.samples or metric is COMPONENT_FAILED, metric.name
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.labels), metric.name


def test_partitions() -> None:
    found = families(collector(replicas=[LEADER, FOLLOWER, ELSEWHERE]))
    bank = {"topic": "bank", "partition": "0"}
    expected = {
        "minikafka_log_end_offset": 42,
        "minikafka_high_watermark": 40,
        "minikafka_log_flushed_offset": 38,
        "minikafka_log_start_offset": 3,
        "minikafka_log_size_bytes": 4096,
        "minikafka_leader_epoch": 7,
        "minikafka_replica_role": 2,
        "minikafka_isr_size": 1,
        "minikafka_partition_replicas": 3,
        "minikafka_partition_under_replicated": 1,
        "minikafka_partition_under_min_isr": 1,
        "minikafka_partition_at_min_isr": 0,
    }
    assert {name: value(found, name, **bank) for name in expected} == expected
    assert len(found["minikafka_log_end_offset"].samples) == 2, "only replicas that are here"
    assert value(found, "minikafka_follower_lag", **bank, follower="3") == 30
    assert len(found["minikafka_follower_lag"].samples) == 2, "only a leader knows how far its followers are"
    counts = {
        "minikafka_partitions": 2,
        "minikafka_leader_partitions": 1,
        "minikafka_under_replicated_partitions": 1,
        "minikafka_under_min_isr_partitions": 1,
        "minikafka_offline_partitions": 1,
    }
    assert {name: value(found, name) for name in counts} == counts


def test_a_deleted_partition_is_gone_from_the_next_scrape() -> None:
    replicas = [LEADER, FOLLOWER]
    scraped = collector(replicas=replicas)
    list(scraped.render())
    replicas.remove(LEADER)
    assert [s.labels["partition"] for s in families(scraped)["minikafka_isr_size"].samples] == ["1"]


def test_a_long_page_is_made_in_pieces() -> None:
    """Between which the event loop serves others: 20,000 series of groups were 100 ms."""
    stats = BrokerStats()
    stats.group_offsets = [(f"group-{i}", "bank", 0, i) for i in range(5_000)]
    replicas = [replace(LEADER, partition=i) for i in range(1_200)]
    pieces = list(collector(stats, replicas).render())
    assert max(piece.count(b"\n") for piece in pieces) < 2_500
    assert sum(piece.count(b"minikafka_group_committed_offset{") for piece in pieces) == 5_000
    assert sum(piece.count(b"minikafka_leader_epoch{") for piece in pieces) == 1_200


def test_labels_are_escaped() -> None:
    odd = replace(LEADER, topic='a"b\\c\nd')
    assert families(collector(replicas=[odd]))["minikafka_isr_size"].samples[0].labels["topic"] == 'a"b\\c\nd'


def test_counters_and_times_of_the_last() -> None:
    stats = BrokerStats()
    stats.topic("bank").bytes_in += 10
    stats.record_isr_shrink(100.5)
    stats.record_isr_expand(101.5)
    stats.record_election(True, 102.5)
    stats.record_election(False, 103.5)
    stats.record_truncation(4, 104.5)
    found = families(collector(stats))
    assert value(found, "minikafka_bytes_in_total") == 10
    assert value(found, "minikafka_isr_shrinks_total") == value(found, "minikafka_isr_expands_total") == 1
    assert value(found, "minikafka_leader_elections_total", clean="true") == 1
    assert value(found, "minikafka_leader_elections_total", clean="false") == 1
    assert value(found, "minikafka_truncations_total") == 1
    assert value(found, "minikafka_truncated_records_total") == 4
    assert value(found, "minikafka_last_isr_shrink_timestamp_seconds") == 100.5
    assert value(found, "minikafka_last_isr_expand_timestamp_seconds") == 101.5
    assert value(found, "minikafka_last_leader_election_timestamp_seconds") == 103.5
    assert value(found, "minikafka_last_truncation_timestamp_seconds") == 104.5


def test_a_broker_counts_on_when_a_topic_goes() -> None:
    """Its own counters are sums over topics; those must not fall, for that reads as a restart."""
    stats = BrokerStats()
    for name in ("bank", "other"):
        traffic = stats.topic(name)
        traffic.messages_in, traffic.bytes_in, traffic.bytes_out = 1, 10, 100
    stats.topic_gone("bank")
    stats.topic_gone("bank")
    found = families(collector(stats))
    assert value(found, "minikafka_messages_in_total") == 2
    assert value(found, "minikafka_bytes_in_total") == 20
    assert value(found, "minikafka_bytes_out_total") == 200
    assert [s.labels["topic"] for s in found["minikafka_topic_bytes_in"].samples] == ["other"]
    assert stats.topic("bank").bytes_in == 0, "one that comes back begins anew"


def test_the_phases_of_a_request_are_its_time() -> None:
    stats = BrokerStats()
    times = stats.observe_request(0, 1.0, 300)
    times.queued, times.remote, times.response_queued = 0.125, 0.5, 0.25
    found = families(collector(stats))
    phases = {s.labels["phase"]: s.value for s in found["minikafka_request_phase_seconds"].samples}
    assert phases == {"request_queue": 0.125, "local": 0.125, "remote": 0.5, "response_queue": 0.25}
    assert value(found, "minikafka_request_bytes_total", api="Produce") == 300


def test_a_counter_is_there_before_it_first_counts() -> None:
    found = families(collector())
    assert value(found, "minikafka_truncations_total") == 0
    assert value(found, "minikafka_leader_elections_total", clean="false") == 0
    assert value(found, "minikafka_log_flush_duration_seconds_count") == 0


@pytest.mark.parametrize(
    ("seconds", "bucket"), [(0.0, 0), (0.0001, 0), (0.00011, 1), (5.0, len(DURATION_BOUNDS) - 1), (99.0, -1)]
)
def test_a_duration_equal_to_a_bound_belongs_to_it(seconds: float, bucket: int) -> None:
    histogram = Histogram()
    histogram.observe(seconds)
    assert histogram.counts[bucket] == 1
    assert sum(histogram.counts) == 1


def test_histograms_are_cumulative() -> None:
    stats = BrokerStats()
    for seconds in (0.0003, 0.002, 0.002, 60.0):
        stats.observe_request(1, seconds)
    stats.observe_request(99, 0.5)
    found = families(collector(stats))
    name = "minikafka_request_duration_seconds"
    assert value(found, f"{name}_bucket", api="Fetch", le="0.0005") == 1
    assert value(found, f"{name}_bucket", api="Fetch", le="0.0025") == 3
    assert value(found, f"{name}_bucket", api="Fetch", le="5.0") == 3
    assert value(found, f"{name}_bucket", api="Fetch", le="+Inf") == value(found, f"{name}_count", api="Fetch") == 4
    assert value(found, f"{name}_sum", api="Fetch") == pytest.approx(60.0043)
    assert value(found, f"{name}_count", api="99") == 1, "an API without a name is shown by its key"


def test_errors_by_api_and_name() -> None:
    stats = BrokerStats()
    stats.count_error(0, 6)
    stats.count_error(0, 6)
    stats.count_error(1, 12345)
    found = families(collector(stats))
    name = "minikafka_request_errors_total"
    assert value(found, name, api="Produce", error="NOT_LEADER_OR_FOLLOWER") == 2
    assert value(found, name, api="Fetch", error="12345") == 1


def test_the_process_itself() -> None:
    found = families(collector())
    assert value(found, "process_resident_memory_bytes") > 1_000_000
    assert 0 < time.time() - value(found, "process_start_time_seconds") < 86_400
    assert value(found, "process_open_fds") >= 3
    assert value(found, "process_max_fds") >= value(found, "process_open_fds")
    assert value(found, "process_cpu_seconds_total") > 0
    assert found["minikafka_build_info"].samples[0].value == 1


def test_the_process_metrics_are_those_of_the_client_library() -> None:
    from prometheus_client import ProcessCollector

    theirs = {(family.name, family.type) for family in ProcessCollector(registry=None).collect()}
    ours = {(family.name, family.type) for family in families(collector()).values()}
    assert theirs <= ours


@pytest.mark.slow
def test_a_scrape_calls_little_for_each_partition() -> None:
    """It runs on the broker's event loop. What it takes in seconds: bench/scraping.py."""

    def calls(partitions: int) -> int:
        scraped = collector(
            BrokerStats(), [replace(LEADER, topic=f"topic-{i // 10}", partition=i % 10) for i in range(partitions)]
        )
        list(scraped.render())
        counted = 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal counted
            counted += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            list(scraped.render())
        finally:
            sys.setprofile(before)
        return counted

    assert calls(2_000) - calls(1_000) <= 6 * 1_000, "five for each partition when this was written"
