"""Hosting, sans I/O: makes the replicas of a broker what the cluster image says (R12, R14).

It looks at the state, not at the change, so that a notification that was missed costs time and nothing else. What the rest of
the broker has to do or to tell comes back as effects, in their order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from minikafka.log.config import LogConfig
from minikafka.log.errors import FencedLeaderEpoch, LogDirFailure
from minikafka.log.manager import LogManager
from minikafka.metadata.image import BROKER, CLUSTER_CONFIG, TOPIC, ClusterImage, PartitionState, TopicState
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.replication.clock import Clock
from minikafka.replication.fetch_loop import FetcherPool
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.partition import ReplicationConfig, Role, TruncationMode
from minikafka.replication.replicas import ReplicaManager


class TopicSettings(Protocol):
    """What a replica depends on of the settings of its topic. The same object as long as they are the same."""

    @property
    def min_insync_replicas(self) -> int: ...

    def log_config(self) -> LogConfig: ...


@dataclass(frozen=True, slots=True)
class HostSettings:
    """What holds for all replicas of a broker; times in seconds."""

    replica_lag_time_max: float
    truncation_mode: TruncationMode = TruncationMode.LEADER_EPOCH


# -- effects -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opened:
    """A replica has a log, and takes part from now on."""

    partition: HostedPartition


@dataclass(frozen=True, slots=True)
class RoleChanged:
    """A replica leads or follows in a new term, or does neither any more by the controller's word."""

    partition: HostedPartition
    was: Role


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    """Nobody is served here as by a leader any more; in the order of things before the new role."""

    partition: HostedPartition


@dataclass(frozen=True, slots=True)
class IsrChanged:
    """The controller has written another ISR of a term that goes on."""

    partition: HostedPartition
    before: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A replica is no more, and its log is deleted."""

    partition: HostedPartition
    reason: str


@dataclass(frozen=True, slots=True)
class LogPutOff:
    """A log could not be made for a lack of descriptors; it is tried again with the next image."""

    topic_partition: TopicPartition
    failure: LogDirFailure


@dataclass(frozen=True, slots=True)
class LogRefused:
    """The disk did not let a log be opened, or begin a term: the replica is offline."""

    topic_partition: TopicPartition
    what: str
    failure: LogDirFailure


@dataclass(frozen=True, slots=True)
class MetadataBehind:
    """A log knows a later term than the metadata (:meth:`ReplicaHost._metadata_is_old`); told once."""

    partition: HostedPartition
    leader_epoch: int
    error: FencedLeaderEpoch


@dataclass(frozen=True, slots=True)
class MetadataCaughtUp:
    """One of those is in line again, or gone."""


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """The cluster has no topic of this name any more."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicFailed:
    """Something of a topic failed that nobody expected to; it is looked at again at the next reconciliation."""

    topic: str
    error: Exception


@dataclass(frozen=True, slots=True)
class TopicSettled:
    """All of a topic is as the image says."""

    topic: str


Effect = (
    Opened
    | RoleChanged
    | LeadershipLost
    | IsrChanged
    | Dropped
    | LogPutOff
    | LogRefused
    | MetadataBehind
    | MetadataCaughtUp
    | TopicDeleted
    | TopicFailed
    | TopicSettled
)


class _Begun(NamedTuple):
    """How far a topic has come whose replicas are made or dropped in turns."""

    topic: TopicState | None
    """As the image had it."""
    partition: int
    """The first that is still to be made; those below and those that were there are as this topic says. 0: none need be."""


class ReplicaHost:
    """Creates, changes and drops hosted partitions as the image says.

    Args:
        image: the cluster image of now.
        settings_of: the settings of a topic.
        is_offline: whether the log of a replica is offline; it is left alone until :meth:`settle`.
    """

    def __init__(
        self,
        broker_id: int,
        settings: HostSettings,
        clock: Clock,
        replicas: ReplicaManager,
        fetchers: FetcherPool[HostedPartition],
        image: Callable[[], ClusterImage],
        settings_of: Callable[[TopicState], TopicSettings],
        is_offline: Callable[[TopicPartition], bool] = lambda _: False,
    ) -> None:
        self.broker_id = broker_id
        self.logs: LogManager
        """Set when they are open, before the first reconciliation."""
        self._settings = settings
        self._clock = clock
        self._replicas = replicas
        self._fetchers = fetchers
        self._image = image
        self._settings_of = settings_of
        self._is_offline = is_offline
        self._applied_once = False
        self._effects: list[Effect] = []
        self.unsettled: set[str] = set()
        """Topics of which something failed that nobody expected to; they are looked at again at each reconciliation."""
        self.unfinished: dict[str, _Begun] = {}
        """Topics of which replicas are still to be made or dropped, in the order of their turns: see :meth:`reconcile`."""
        self._has_deleted = False
        """Whether a log was deleted in this :meth:`reconcile`."""
        self._topic_ids: dict[str, UUID] = {}
        """Of the topics in the image, as they were looked at last."""
        self.leads_in_name_only: set[TopicPartition] = set()
        """Replicas that gave up the term of which the image says that they lead it. Nobody else can, until it is ended."""
        self.ahead_of_metadata: set[TopicPartition] = set()
        """Replicas with a later leader epoch in the log than in the image. They are left alone: see :meth:`_metadata_is_old`."""

    # -- Peers (what a leader must know of other brokers) -----------------------------------------------------------------

    def eligible(self, broker_id: int, broker_epoch: int) -> bool:
        """KIP-841, KIP-903: active, and of the incarnation that fetched."""
        peer = self._image().brokers.get(broker_id)
        return peer is not None and peer.active and broker_epoch in (-1, peer.epoch)

    def alive_epoch(self, broker_id: int) -> int:
        peer = self._image().brokers.get(broker_id)
        return -1 if peer is None else peer.epoch

    # -- events -----------------------------------------------------------------------------------------------------------

    def reconcile(self, records: Mapping[str, Any], until: float = math.inf) -> list[Effect]:
        """Apply the topics among ``records`` (all the first time, and with new defaults), then what changed about brokers.

        A log is made in milliseconds, and a topic may have thousands. After ``until`` no more are made or deleted: the topics of
        which some should be are :attr:`unfinished`, and have their turns in later calls. What was there is changed, or serves
        nobody any more, at once.

        Others are served between two turns, and find what they would if the image had come later, as it may to any broker: a
        replica that is not made yet is on no broker's list of those that serve. No turn relies on what was before it. Each
        takes the image of its time: a topic that changed meanwhile is another object there and is looked at anew, and none of
        its replicas is made before the logs of an earlier topic of its name are deleted. :meth:`reset` and :meth:`settle` have
        everything looked at anew.
        """
        image = self._image()
        self._has_deleted = False
        if self._applied_once and CLUSTER_CONFIG not in records:
            names = [key.removeprefix(TOPIC) for key in records if key.startswith(TOPIC)]
        else:
            names = [*image.topics, *(tp.topic for tp in self.logs.logs), *self._topic_ids]
            self._applied_once, until = True, math.inf
        looked_at: set[str] = set()
        # What goes wrong with some replicas of a topic must not keep the rest from their turns.
        again = self.unsettled if until == math.inf else self.unsettled - self.unfinished.keys()
        for name in dict.fromkeys((*names, *sorted(again))):
            self.unsettled.discard(name)
            self.unfinished.pop(name, None)
            topic = image.topics.get(name)
            self._note_topic(name, topic)
            is_new = topic is not None and name not in self._replicas.by_name
            if is_new and until < math.inf and (self.unfinished or self._is_over(until)):
                self.unfinished[name] = _Begun(topic, 0)  # who has waited longer comes first
            else:
                looked_at.add(name)
                self._reconcile_topic(name, topic, until)
        if until < math.inf:
            for turn, name in enumerate([name for name in self.unfinished if name not in looked_at]):
                if turn and self._is_over(until):
                    break
                begun, topic = self.unfinished.pop(name), image.topics.get(name)
                self._reconcile_topic(name, topic, until, begun.partition if topic is begun.topic else 0)
        if any(key.startswith(BROKER) for key in records):
            self._peers_changed()
        return self._take_effects()

    def reset(self) -> list[Effect]:
        """Our registration is gone: lead and follow nothing until there is a new one."""
        self._applied_once = False
        self.unfinished.clear()
        self.leads_in_name_only.clear()
        self.ahead_of_metadata.clear()
        self._effects.append(MetadataCaughtUp())
        for partition in self._replicas.all():
            self._leave(partition, partition.forget_state)
            self._wake(partition)
        return self._take_effects()

    def resign(self, topic_partition: TopicPartition) -> list[Effect]:
        """Have the replica lead and follow nothing until :meth:`settle`: its log is offline."""
        partition = self._replicas.get(*topic_partition)
        if partition is not None:
            self._leave(partition, partition.resign)
            self._wake(partition)
        return self._take_effects()

    def settle(self, topics: Collection[str]) -> None:
        """Have the replicas of these topics follow the image again, with the next reconciliation."""
        self.unsettled.update(topics)

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """For the checkpoint: hosted replicas, and what the checkpoint said of logs that are not hosted yet (KAFKA-1647)."""
        found = {tp: hw for tp, hw in self.logs.high_watermarks.items() if tp in self.logs.logs}
        found.update((p.topic_partition, p.high_watermark) for p in self._replicas.all())
        return found

    # -- topics -----------------------------------------------------------------------------------------------------------

    def _attempt(self, topic: str, work: Callable[..., None], *args: Any) -> None:
        """One step for a topic. Its failure must not keep this broker from following the rest of the image."""
        try:
            work(*args)
        except Exception as error:
            self.unsettled.add(topic)
            self._effects.append(TopicFailed(topic, error))

    def _is_over(self, until: float) -> bool:
        return until < math.inf and self._clock.now() >= until

    def _reconcile_topic(self, name: str, topic: TopicState | None, until: float, begun: int = 0) -> None:
        """``begun``: the first replica that is still to be made of a topic that was applied as it is; 0: it was not."""
        left: int | None = None
        if begun and topic is not None:
            left = self._apply_partitions(topic, until, begun)
        elif not self._drop_what_is_gone(name, topic, until):
            left = 0
        elif topic is not None:
            left = self._apply_partitions(topic, until)
        if left is not None:
            self.unfinished[name] = _Begun(topic, left)
        elif name not in self.unsettled:
            self._effects.append(TopicSettled(name))

    def _drop_what_is_gone(self, name: str, topic: TopicState | None, until: float) -> bool:
        """Whether that is all of it.

        Of a topic that is gone nothing is served any more: who writes to another of its name, made since, would be told that a
        record is there which is deleted with the old one. Logs go in turns, one in each call, so that there is an end.
        """
        hosted = self._replicas.by_name.get(name, {})
        for index, partition in list(hosted.items()):
            gone = topic is None or topic.topic_id.bytes != partition.topic_id or index >= len(topic.partitions)
            if gone or (topic is not None and self.broker_id not in topic.partitions[index].replicas):
                self._attempt(name, self._drop, partition, "topic deleted" if gone else "reassigned")
        for index in sorted(self.logs.of_topic(name)):
            tp = TopicPartition(name, index)
            if self._is_stray(tp, topic):
                if self._has_deleted and self._is_over(until):
                    return False
                self._attempt(name, self._delete_log, tp)
                self._has_deleted = True
        return True

    def _note_topic(self, name: str, topic: TopicState | None) -> None:
        """Tell at once of a topic that is gone, also where another has the name by now: what was committed for it goes, too."""
        before = self._topic_ids.pop(name, None)
        if topic is not None:
            self._topic_ids[name] = topic.topic_id
        if topic is None or before not in (None, topic.topic_id):
            self._effects.append(TopicDeleted(name))

    def _apply_partitions(self, topic: TopicState, until: float, begun: int = 0) -> int | None:
        """The first that is still to be made; None: there is none. One is made in any case."""
        left: int | None = None
        made = False
        for index in range(begun, len(topic.partitions)):
            state = topic.partitions[index]
            if self.broker_id not in state.replicas:
                continue
            if self._replicas.get(topic.name, index) is None:
                if left is None and made and self._is_over(until):
                    left = index
                    if begun:
                        break  # those that are there have been applied
                if left is not None:
                    continue
                made = True
            self._attempt(topic.name, self._apply, topic, index, state)
        return left

    def _is_stray(self, tp: TopicPartition, topic: TopicState | None) -> bool:
        """Whether a log belongs to no replica: that was dropped, or while this broker was away its topic was deleted, or made
        anew under another id."""
        known = topic is not None and tp.partition < len(topic.partitions)
        same = known and topic is not None and self.logs.topic_ids.get(tp) in (None, topic.topic_id)
        wanted = same and topic is not None and self.broker_id in topic.partitions[tp.partition].replicas
        return not wanted and self._replicas.get(tp.topic, tp.partition) is None

    def _delete_log(self, tp: TopicPartition) -> None:
        self.logs.delete(tp, now_ms=self._clock.unix_ms())

    def _drop(self, partition: HostedPartition, reason: str) -> None:
        tp = partition.topic_partition
        self._replicas.remove(partition)
        self.leads_in_name_only.discard(tp)
        self._not_ahead(tp)
        self._leave(partition, partition.resign)
        self._wake(partition)
        self._effects.append(Dropped(partition, reason))

    def _apply(self, topic: TopicState, index: int, state: PartitionState) -> None:
        tp = TopicPartition(topic.name, index)
        if self._is_offline(tp):
            return  # it is applied when the log is back
        partition = self._replicas.get(topic.name, index)
        settings = self._settings_of(topic)
        if partition is None:
            try:
                partition = self._create(topic, index, settings)
            except LogDirFailure as failure:
                if failure.is_of_disk:
                    self._effects.append(LogRefused(tp, "cannot open its log", failure))
                else:  # a broker that gives up all that it leads would have no more of them
                    self.unsettled.add(topic.name)
                    self._effects.append(LogPutOff(tp, failure))
                return
        elif partition.topic_config is not settings:
            partition.topic_config = settings
            partition.config.min_insync_replicas = settings.min_insync_replicas
            partition.log.configure(settings.log_config())
        was = partition.role
        known = partition.leader.isr.committed if partition.leader is not None else None
        try:
            changed = partition.apply_state(state, self._clock.now())
        except LogDirFailure as failure:
            if was is Role.LEADER:
                self._stopped_leading(partition)
            self._effects.append(LogRefused(tp, f"cannot take leader epoch {state.leader_epoch}", failure))
            return
        except FencedLeaderEpoch as error:
            self._metadata_is_old(partition, state, error)
            return
        self._not_ahead(tp)
        if partition.leader is None and partition.leader_id == self.broker_id:
            self.leads_in_name_only.add(tp)
        else:
            self.leads_in_name_only.discard(tp)
        if changed:
            self._role_changed(partition, was)
        elif known is not None and partition.leader is not None and partition.leader.isr.committed != known:
            self._effects.append(IsrChanged(partition, known, partition.leader.isr.committed))
        self._replicas.settle_moved()

    def _metadata_is_old(self, partition: HostedPartition, state: PartitionState, error: FencedLeaderEpoch) -> None:
        """Somebody has put an older state of the cluster store in its place (decision 012).

        The replica takes no part until the metadata has caught up with its log. The broker does not ask to be fenced for it:
        the controller would elect others from the ISR of then, term by term, until one of them may cut off what was
        acknowledged since. A partition without a leader can still be put right.
        """
        self._fetchers.unfollow(partition)
        self._stopped_leading(partition)
        self._wake(partition)
        if partition.topic_partition not in self.ahead_of_metadata:
            self.ahead_of_metadata.add(partition.topic_partition)
            self._effects.append(MetadataBehind(partition, state.leader_epoch, error))

    def _not_ahead(self, tp: TopicPartition) -> None:
        if tp in self.ahead_of_metadata:
            self.ahead_of_metadata.discard(tp)
            self._effects.append(MetadataCaughtUp())

    def _create(self, topic: TopicState, index: int, settings: TopicSettings) -> HostedPartition:
        tp = TopicPartition(topic.name, index)
        log = self.logs.create(tp, topic.topic_id, settings.log_config(), now_ms=self._clock.unix_ms())
        log.configure(settings.log_config())
        replication = ReplicationConfig(
            settings.min_insync_replicas, self._settings.replica_lag_time_max, self._settings.truncation_mode
        )
        partition = HostedPartition(
            tp,
            topic.topic_id.bytes,
            self.broker_id,
            log,
            replication,
            self,
            self.logs.high_watermarks.get(tp, 0),
            topic_config=settings,
            moved=self._replicas.moved,
        )
        self._replicas.add(partition)
        self._effects.append(Opened(partition))
        return partition

    # -- roles ------------------------------------------------------------------------------------------------------------

    def _role_changed(self, partition: HostedPartition, was: Role) -> None:
        if was is Role.LEADER and partition.role is not Role.LEADER:
            self._stopped_leading(partition)
        self._fetchers.unfollow(partition)
        self._effects.append(RoleChanged(partition, was))
        if partition.follower is not None:
            self._fetchers.follow(partition, partition.leader_id)
        self._wake(partition)

    def _leave(self, partition: HostedPartition, give_up: Callable[[], None]) -> None:
        """Lead and follow no more."""
        self._fetchers.unfollow(partition)
        was_leader = partition.leader is not None
        give_up()
        if was_leader:
            self._stopped_leading(partition)

    def _stopped_leading(self, partition: HostedPartition) -> None:
        partition.fail_producers(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._effects.append(LeadershipLost(partition))

    def _wake(self, partition: HostedPartition) -> None:
        """Nobody waits at a replica whose role has changed."""
        self._replicas.wake(partition.followers)
        self._replicas.wake(partition.consumers)

    def _peers_changed(self) -> None:
        """A broker that is active again may be let into ISRs now, not at its next fetch."""
        now = self._clock.now()
        for partition in self._replicas.all():
            leader = partition.leader
            if leader is None or len(leader.isr.maximal) == len(leader.remotes) + 1:
                continue
            for replica, remote in leader.remotes.items():
                if replica not in leader.isr.maximal and remote.leo >= 0:
                    proposal = leader.maybe_expand(replica, remote, now)
                    if proposal is not None:
                        self._replicas.propose(proposal)
