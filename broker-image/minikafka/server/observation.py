"""What /metrics says that nobody counts on the way of a record: it is looked up when somebody scrapes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from minikafka.telemetry.process import disk_bytes
from minikafka.telemetry.replica_status import ReplicaStatus

if TYPE_CHECKING:
    from minikafka.server.services import Services


def observe(services: Services, listeners: Iterable[str]) -> Iterator[ReplicaStatus]:
    """Bring the broker's stats up to date; what is known of each hosted replica, as it is when that is asked for.

    Called on the event loop's thread, and others may be served between two replicas.
    """
    stats = services.context.stats
    stats.waiting_produces = services.replicas.waiting_produces
    stats.waiting_fetches = services.connections.waiting_fetches
    stats.request_memory = 0 if services.request_memory is None else services.request_memory.used
    stats.queued_requests = services.connections.queued_requests
    stats.listeners = dict.fromkeys(listeners, 0) | services.connections.by_listener()
    stats.loop_seconds = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)
    stats.producer_ids = sum(len(partition.log.producers) for partition in services.replicas.all())
    stats.disk_read, stats.disk_written = disk_bytes()
    stats.log_dirs = _log_dirs(services)
    room = services.replicas.room
    if room is not None:
        stats.unflushed_bytes, stats.unflushed_limit = room.volume.used, room.volume.limit
        stats.appends_wait_for_room = int(room.is_short)
    coordinator = services.groups.coordinator
    stats.groups = len(coordinator)
    shown = coordinator.series(services.context.config.minikafka_metrics_group_series_max)
    stats.group_members, stats.group_offsets, stats.group_series_left_out = shown
    stats.controller_id = services.membership.controller_id
    stats.controller_epoch = services.membership.controller_epoch
    _metadata(services)
    return _statuses(services)


def _log_dirs(services: Services) -> dict[str, tuple[int, int]]:
    """(free, size) in bytes of the file system of each log directory that can be looked at."""
    found = {}
    for path in services.context.config.log_dirs:
        try:
            disk = os.statvfs(path)
        except OSError:  # not made yet, or the disk is gone: absent then
            continue
        found[str(path)] = (disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize)
    return found


def _metadata(services: Services) -> None:
    """Kafka's KafkaController metrics: those of the whole cluster are 0 where there is no controller."""
    stats, image = services.context.stats, services.metadata.image
    stats.metadata_revision = image.revision
    topics = list(image.topics.values()) if stats.active_controller else []
    brokers = list(image.brokers.values()) if stats.active_controller else []
    stats.cluster_topics = len(topics)
    stats.cluster_partitions = sum(len(topic.partitions) for topic in topics)
    stats.cluster_brokers_active = sum(not one.fenced for one in brokers)
    stats.cluster_brokers_fenced = len(brokers) - stats.cluster_brokers_active
    stats.cluster_imbalance = sum(state.leader != state.replicas[0] for topic in topics for state in topic.partitions)


def _statuses(services: Services) -> Iterator[ReplicaStatus]:
    """For /metrics: hosted replicas, and on the controller the leaderless partitions that have none here."""
    is_controller = bool(services.context.stats.active_controller)
    for partition in services.replicas.all():
        if services.replicas.get(*partition.topic_partition) is not partition:
            continue  # it went while others were served
        log, leader = partition.log, partition.leader
        state = partition.state
        replicas = len(state.replicas) if state is not None else 0
        isr = len(leader.isr.committed) if leader else len(state.isr) if state is not None else 0
        min_isr = leader.effective_min_isr() if leader is not None else 0
        led_by = state.leader if state is not None else -1
        yield ReplicaStatus(
            topic=partition.topic_partition.topic,
            partition=partition.topic_partition.partition,
            role=int(partition.role),
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            high_watermark=partition.high_watermark,
            flushed_offset=log.flushed_offset,
            size_bytes=log.size_bytes,
            isr_size=isr,
            replicas=replicas,
            leader=led_by,
            preferred=state is not None and led_by >= 0 and led_by == state.replicas[0],
            under_replicated=leader is not None and isr < replicas,
            under_min_isr=leader is not None and isr < min_isr,
            at_min_isr=leader is not None and isr == min_isr,
            offline=is_controller and state is not None and state.leader < 0,
            followers=leader.follower_lags() if leader is not None else (),
        )
    if is_controller:
        for topic in tuple(services.metadata.image.topics.values()):
            for index, state in enumerate(topic.partitions):
                if state.leader < 0 and services.replicas.get(topic.name, index) is None:
                    yield ReplicaStatus(
                        topic=topic.name,
                        partition=index,
                        role=0,
                        leader_epoch=state.leader_epoch,
                        log_start_offset=0,
                        log_end_offset=0,
                        high_watermark=0,
                        flushed_offset=0,
                        isr_size=len(state.isr),
                        replicas=len(state.replicas),
                        under_replicated=False,
                        under_min_isr=False,
                        offline=True,
                    )
