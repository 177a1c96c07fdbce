"""Replicas are made what the cluster image says (R12, R14), whatever was missed on the way."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from minikafka.log.config import LogConfig
from minikafka.log.errors import LogDirFailure
from minikafka.log.manager import LogManager
from minikafka.log.simulated_disk import MemoryFileSystem
from minikafka.metadata.image import (
    BROKER,
    CLUSTER_CONFIG,
    TOPIC,
    BrokerState,
    ClusterImage,
    PartitionState,
    TopicState,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.fetch import CONSUMER, FetchPartition, FetchRequest
from minikafka.protocol.produce import ProduceRequest
from minikafka.protocol.types import TopicPartition
from minikafka.replication.clock import Clock
from minikafka.replication.fetch_loop import FetcherPool
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.isr import IsrProposal
from minikafka.replication.partition import Role
from minikafka.replication.replica_host import (
    Dropped,
    Effect,
    HostSettings,
    IsrChanged,
    LeadershipLost,
    LogPutOff,
    LogRefused,
    MetadataBehind,
    MetadataCaughtUp,
    Opened,
    ReplicaHost,
    RoleChanged,
    TopicDeleted,
    TopicFailed,
    TopicSettled,
)

from tests.unit.replication.cluster import NOW_MS, batch
from tests.unit.replication.unwired import replica_manager

ME, OTHER, THIRD = 1, 2, 3
T0 = TopicPartition("t", 0)
LAG = 10.0
"""replica.lag.time.max.ms, in seconds."""
LED = PartitionState((ME, OTHER), (ME, OTHER), ME, leader_epoch=3, partition_epoch=5)
FOLLOWED = replace(LED, leader=OTHER, leader_epoch=4, partition_epoch=6)


class Settings:
    def __init__(self, min_isr: int = 1) -> None:
        self.min_insync_replicas = min_isr

    def log_config(self) -> LogConfig:
        return LogConfig()


class Driver:
    """Fetches nothing."""

    def __init__(self, leader_id: int) -> None:
        self.leader_id = leader_id
        self.partitions: list[HostedPartition] = []

    @property
    def is_idle(self) -> bool:
        return not self.partitions

    def add(self, partition: HostedPartition) -> None:
        self.partitions.append(partition)

    def remove(self, partition: HostedPartition) -> None:
        self.partitions.remove(partition)

    def flushed(self, partition: HostedPartition) -> None:
        pass

    def stop(self) -> None:
        pass


class Lab:
    """Broker 1 and the image it sees."""

    def __init__(self) -> None:
        self.now = 100.0
        self.disk = MemoryFileSystem()
        self.settings = Settings()
        self.offline: set[TopicPartition] = set()
        self.image = ClusterImage("c")
        for broker in (ME, OTHER, THIRD):
            self.broker(broker)
        self.start()

    def start(self) -> None:
        """A new process, on the disk as it is."""
        self.proposals: list[IsrProposal] = []
        clock = Clock(lambda: self.now, lambda: NOW_MS, lambda *_: None)
        self.replicas = replica_manager(clock, self.proposals.append)
        self.fetchers: FetcherPool[HostedPartition] = FetcherPool(Driver)
        self.host = ReplicaHost(
            ME,
            HostSettings(LAG),
            clock,
            self.replicas,
            self.fetchers,
            lambda: self.image,
            lambda _: self.settings,
            self.offline.__contains__,
        )
        self.host.logs = LogManager.open(
            ["/d"], self.disk, cluster_id="c", node_id=ME, config_for=lambda _: LogConfig(), now_ms=NOW_MS
        )

    def broker(self, broker_id: int, fenced: bool = False) -> str:
        self.image.brokers[broker_id] = BrokerState(broker_id, 7, "i", (), fenced=fenced)
        return f"{BROKER}{broker_id}"

    def topic(self, *states: PartitionState, number: int = 1, name: str = "t") -> str:
        self.image.put_topic(TopicState(name, UUID(int=number), tuple(states)))
        return TOPIC + name

    def deleted(self, name: str = "t") -> str:
        del self.image.topics[name]
        return TOPIC + name

    def sees(self, *changed: str) -> list[Effect]:
        """What comes of these changes, but for topics that are settled."""
        effects = self.host.reconcile(dict.fromkeys(changed))
        return [effect for effect in effects if not isinstance(effect, TopicSettled)]

    @property
    def partition(self) -> HostedPartition:
        found = self.replicas.get(*T0)
        assert found is not None
        return found

    def produce(self) -> list[Any]:
        came: list[Any] = []
        self.replicas.produce(ProduceRequest(None, -1, 60_000, [("t", [(0, batch("x"))])]), came.append)
        return came

    def fetch(self) -> list[Any]:
        came: list[Any] = []
        asked = FetchPartition(0, -1, 0, -1, 0, 1 << 20)
        request = FetchRequest(CONSUMER, 60_000, 1, 1 << 20, 0, 0, -1, [("t", [asked])])
        self.replicas.fetch(request, lambda topics, _: came.append(topics[0][1][0].error))
        return came


def kinds(effects: list[Effect]) -> list[type]:
    return [type(effect) for effect in effects]


class TestRoles:
    def test_a_replica_that_leads(self) -> None:
        lab = Lab()
        effects = lab.sees(lab.topic(LED))
        assert kinds(effects) == [Opened, RoleChanged]
        assert lab.partition.leader is not None and lab.fetchers.leader_of(lab.partition) is None
        assert lab.sees(lab.topic(LED)) == [], "the same again is nothing new"

    def test_a_replica_that_follows_fetches_from_its_leader_anew_in_each_term(self) -> None:
        """Simulator bug follow-old-leader."""
        lab = Lab()
        lab.sees(lab.topic(FOLLOWED))
        assert lab.fetchers.leader_of(lab.partition) == OTHER
        lab.sees(lab.topic(replace(FOLLOWED, leader_epoch=5, partition_epoch=7)))
        assert lab.fetchers.leader_of(lab.partition) == OTHER
        three = replace(FOLLOWED, replicas=(ME, OTHER, THIRD), isr=(THIRD,), leader=THIRD, leader_epoch=6)
        lab.sees(lab.topic(replace(three, partition_epoch=8)))
        assert lab.fetchers.leader_of(lab.partition) == THIRD
        lab.sees(lab.topic(replace(FOLLOWED, leader=-1, leader_epoch=7, partition_epoch=9)))
        assert lab.fetchers.leader_of(lab.partition) is None and lab.partition.role is Role.NONE

    def test_who_waits_is_told_when_leadership_ends(self) -> None:
        """R7, R16, simulator bug tell-nobody: a produce and a fetch wait for what this broker can no longer say."""
        lab = Lab()
        lab.sees(lab.topic(LED))
        produced, fetched = lab.produce(), lab.fetch()
        effects = lab.sees(lab.topic(FOLLOWED))
        lab.replicas.flush_ready()
        assert kinds(effects) == [LeadershipLost, RoleChanged]
        assert produced[0][0][1][0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert fetched == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    def test_produces_wait_on_over_two_terms_of_the_same_leader(self) -> None:
        """Its log is what it was: the record is committed in the new term, or never."""
        lab = Lab()
        lab.sees(lab.topic(LED))
        produced = lab.produce()
        lab.sees(lab.topic(replace(LED, leader_epoch=4, partition_epoch=6)))
        assert produced == []
        lab.now += 2 * LAG
        lab.sees(lab.topic(replace(LED, isr=(ME,), leader_epoch=4, partition_epoch=7)))
        assert produced[0][0][1][0].error == 0, "and the high watermark has moved"

    def test_an_isr_that_the_controller_has_changed_is_told_and_moves_the_high_watermark(self) -> None:
        lab = Lab()
        lab.sees(lab.topic(LED))
        produced = lab.produce()
        lab.now += 2 * LAG
        (effect,) = lab.sees(lab.topic(replace(LED, isr=(ME,), partition_epoch=6)))
        assert effect == IsrChanged(lab.partition, (ME, OTHER), (ME,)) and len(produced) == 1

    def test_changed_settings_are_in_force_with_the_next_look(self) -> None:
        lab = Lab()
        lab.sees(lab.topic(LED))
        lab.settings = Settings(min_isr=2)
        assert lab.sees() == [] and lab.partition.config.min_insync_replicas == 1
        lab.sees(CLUSTER_CONFIG)
        assert lab.partition.config.min_insync_replicas == 2, "defaults of the cluster concern every topic"

    def test_a_broker_that_is_active_again_may_be_let_in_at_once(self) -> None:
        lab = Lab()
        fenced = lab.broker(OTHER, fenced=True)
        lab.sees(lab.topic(replace(LED, isr=(ME,))), fenced)
        assert lab.partition.leader is not None
        lab.partition.leader.follower_fetch(OTHER, 7, LED.leader_epoch, 0, -1, 100.0)
        assert lab.proposals == []
        lab.sees(lab.broker(OTHER))
        assert [[member for member, _ in proposal.isr] for proposal in lab.proposals] == [[ME, OTHER]]

    @pytest.mark.parametrize(
        ("epoch", "fenced", "eligible"), [(7, False, True), (-1, False, True), (6, False, False), (7, True, False)]
    )
    def test_who_may_be_in_sync(self, epoch: int, fenced: bool, eligible: bool) -> None:
        """KIP-841, KIP-903."""
        lab = Lab()
        lab.broker(OTHER, fenced)
        assert lab.host.eligible(OTHER, epoch) is eligible
        assert not lab.host.eligible(9, epoch) and (lab.host.alive_epoch(OTHER), lab.host.alive_epoch(9)) == (7, -1)


class TestEnds:
    def led(self) -> Lab:
        lab = Lab()
        lab.sees(lab.topic(LED))
        return lab

    @pytest.mark.parametrize("gone", ["deleted", "made anew", "fewer partitions", "reassigned"])
    def test_a_replica_that_is_wanted_no_more_is_dropped_with_its_log(self, gone: str) -> None:
        """Simulator bug keep-deleted-log, simulator bug topic-by-name."""
        lab = self.led()
        partition, produced, fetched = lab.partition, lab.produce(), lab.fetch()
        if gone == "deleted":
            effects = lab.sees(lab.deleted())
        elif gone == "made anew":
            effects = lab.sees(lab.topic(PartitionState((OTHER,), (OTHER,), OTHER), number=2))
        elif gone == "fewer partitions":
            effects = lab.sees(lab.topic())
        else:
            effects = lab.sees(lab.topic(replace(FOLLOWED, replicas=(OTHER, THIRD), isr=(OTHER,))))
        lab.replicas.flush_ready()
        reason = "reassigned" if gone == "reassigned" else "topic deleted"
        assert Dropped(partition, reason) in effects and lab.replicas.all() == []
        assert (TopicDeleted("t") in effects) is (gone in ("deleted", "made anew"))
        assert T0 not in lab.host.logs.logs and partition.role is Role.NONE
        assert produced[0][0][1][0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER and len(fetched) == 1

    def test_a_topic_that_is_made_anew_begins_empty(self) -> None:
        lab = self.led()
        lab.produce()
        old = lab.partition
        effects = lab.sees(lab.topic(LED, number=2))
        assert kinds(effects) == [TopicDeleted, LeadershipLost, Dropped, Opened, RoleChanged]
        assert lab.partition is not old and lab.partition.log.log_end_offset == 0
        assert lab.host.logs.topic_ids[T0] == UUID(int=2)

    def test_the_end_of_a_topic_that_is_not_here_is_told_also_where_everything_is_looked_at(self) -> None:
        """A coordinator has what was committed for it, and need not have a replica."""
        lab = Lab()
        elsewhere = PartitionState((OTHER,), (OTHER,), OTHER)
        lab.sees(lab.topic(elsewhere))
        lab.host.reset()
        assert TopicDeleted("t") in lab.sees(lab.deleted())
        assert TopicDeleted("t") not in lab.sees()

    @pytest.mark.parametrize("meanwhile", ["deleted", "made anew", "reassigned"])
    def test_what_happened_while_the_broker_was_away_is_made_up_for(self, meanwhile: str) -> None:
        """Simulator bug keep-stray-log: a log of which nobody says any more that it is here is deleted at the first look."""
        lab = self.led()
        lab.host.logs.close(clean=True, broker_epoch=7)
        lab.start()
        assert T0 in lab.host.logs.logs
        if meanwhile == "deleted":
            lab.deleted()
        elif meanwhile == "made anew":
            lab.topic(LED, number=2)
        else:
            lab.topic(replace(FOLLOWED, replicas=(OTHER, THIRD), isr=(OTHER,)))
        lab.produce()
        lab.sees()
        assert (T0 in lab.host.logs.logs) is (meanwhile == "made anew")
        if meanwhile == "made anew":
            assert lab.partition.log.log_end_offset == 0

    def test_without_a_registration_nothing_is_led_or_followed_until_the_next(self) -> None:
        lab = self.led()
        produced, fetched = lab.produce(), lab.fetch()
        assert kinds(lab.host.reset()) == [MetadataCaughtUp, LeadershipLost]
        lab.replicas.flush_ready()
        assert lab.partition.role is Role.NONE and len(produced) == len(fetched) == 1
        lab.topic(replace(LED, leader_epoch=4, partition_epoch=6))
        assert kinds(lab.sees()) == [RoleChanged], "all topics are looked at, also those that have not changed"
        assert lab.partition.leader is not None

    def test_high_watermarks_of_logs_that_are_not_hosted_yet_stay_in_the_checkpoint(self) -> None:
        """KAFKA-1647."""
        lab = self.led()
        lab.host.logs.checkpoint_high_watermarks({T0: 0})
        lab.host.logs.high_watermarks[T0] = 4
        lab.replicas.remove(lab.partition)
        assert lab.host.high_watermarks() == {T0: 4}


class TestTroubles:
    def test_an_offline_log_is_left_alone_until_it_is_settled(self) -> None:
        lab = Lab()
        lab.sees(lab.topic(LED))
        produced = lab.produce()
        lab.offline.add(T0)
        assert kinds(lab.host.resign(T0)) == [LeadershipLost] and len(produced) == 1
        assert lab.sees(lab.topic(replace(LED, leader_epoch=4, partition_epoch=6))) == []
        lab.offline.clear()
        lab.host.settle(["t"])
        assert kinds(lab.sees()) == [RoleChanged] and lab.host.unsettled == set()

    def test_a_term_that_was_given_up_is_led_in_name_only(self) -> None:
        """R12: until the controller ends it, nobody leads."""
        lab = Lab()
        lab.sees(lab.topic(LED))
        lab.host.resign(T0)
        lab.host.settle(["t"])
        lab.sees()
        assert lab.host.leads_in_name_only == {T0} and lab.partition.leader is None
        lab.sees(lab.topic(replace(LED, leader_epoch=4, partition_epoch=6)))
        assert lab.host.leads_in_name_only == set() and lab.partition.leader is not None

    def test_a_disk_that_refuses_a_log(self, monkeypatch: pytest.MonkeyPatch) -> None:
        lab = Lab()
        refusal = LogDirFailure("full", permanent=False)

        def create(*_: object, **__: object) -> None:
            raise refusal

        monkeypatch.setattr(LogManager, "create", create)
        assert lab.sees(lab.topic(LED)) == [LogRefused(T0, "cannot open its log", refusal)]
        assert lab.replicas.all() == []

    def test_a_log_for_which_there_is_no_descriptor_is_made_later(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is no fault of the disk: brokers fenced themselves, and so gave up all that they led."""
        lab = Lab()

        def refuse(*_: object) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

        with monkeypatch.context() as patched:
            patched.setattr(lab.host.logs._fs, "write_atomic", refuse)
            (put_off,) = lab.sees(lab.topic(LED))
        assert isinstance(put_off, LogPutOff) and "Too many open files" in str(put_off.failure)
        assert lab.replicas.all() == []
        assert kinds(lab.sees()) == [Opened, RoleChanged]

    def test_what_nobody_expected_concerns_one_topic_and_is_tried_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        lab = Lab()
        create, broken = LogManager.create, KeyError("nobody expected this")

        def breaking(logs: LogManager, tp: TopicPartition, *rest: Any, **more: Any) -> Any:
            if tp == T0:
                raise broken
            return create(logs, tp, *rest, **more)

        monkeypatch.setattr(LogManager, "create", breaking)
        effects = lab.host.reconcile(dict.fromkeys((lab.topic(LED), lab.topic(LED, number=2, name="u"))))
        assert TopicFailed("t", broken) in effects and TopicSettled("u") in effects
        assert TopicSettled("t") not in effects and lab.host.unsettled == {"t"}
        monkeypatch.undo()
        assert TopicSettled("t") in lab.host.reconcile({}) and lab.partition.leader is not None

    def test_metadata_that_is_older_than_a_log_is_told_once(self) -> None:
        """Decision 012."""
        lab = Lab()
        lab.sees(lab.topic(LED))
        lab.host.reset()
        older = replace(LED, leader_epoch=2, partition_epoch=1)
        lost, first = lab.sees(lab.topic(older))
        assert isinstance(lost, LeadershipLost)
        assert isinstance(first, MetadataBehind) and first.leader_epoch == 2
        assert lab.host.ahead_of_metadata == {T0} and lab.partition.role is Role.NONE
        assert MetadataBehind not in kinds(lab.sees(lab.topic(older)))
        assert kinds(lab.sees(lab.topic(FOLLOWED))) == [MetadataCaughtUp, RoleChanged]


class TestTurns:
    """Thousands of logs take seconds to make: others are served in between. Each call here is late, and does one thing."""

    def turn(self, lab: Lab, *changed: str) -> list[Effect]:
        return lab.host.reconcile(dict.fromkeys(changed), lab.now)

    def finish(self, lab: Lab) -> None:
        for _ in range(30):
            if lab.host.unfinished:
                self.turn(lab)
        assert not lab.host.unfinished

    def start(self) -> Lab:
        lab = Lab()
        lab.sees()  # the first look is of everything
        return lab

    def here(self, lab: Lab, name: str = "t") -> list[int]:
        assert sorted(tp.partition for tp in lab.host.logs.logs if tp.topic == name) == sorted(
            lab.replicas.by_name.get(name, {})
        )
        return sorted(lab.replicas.by_name.get(name, {}))

    def test_replicas_are_made_one_after_the_other(self) -> None:
        lab = self.start()
        assert kinds(self.turn(lab, lab.topic(LED, FOLLOWED, LED))) == [Opened, RoleChanged]
        assert self.here(lab) == [0] and lab.host.unfinished
        assert kinds(self.turn(lab)) == [Opened, RoleChanged]
        assert kinds(self.turn(lab)) == [Opened, RoleChanged, TopicSettled]
        assert self.here(lab) == [0, 1, 2] and not lab.host.unfinished
        assert self.turn(lab) == []

    def test_what_was_there_changes_at_once(self) -> None:
        lab = self.start()
        lab.sees(lab.topic(LED, name="other"))
        self.turn(lab, lab.topic(LED, LED, LED))
        effects = self.turn(lab, lab.topic(FOLLOWED, LED, FOLLOWED), lab.topic(FOLLOWED, name="other"))
        assert kinds(effects)[:2] == [LeadershipLost, RoleChanged]
        assert lab.partition.role is Role.FOLLOWER
        other = lab.replicas.get("other", 0)
        assert other is not None and other.role is Role.FOLLOWER
        self.finish(lab)
        assert [partition.role for partition in lab.replicas.by_name["t"].values()] == [
            Role.FOLLOWER, Role.LEADER, Role.FOLLOWER,
        ]  # fmt: skip

    def test_what_was_there_changes_at_once_also_behind_what_is_to_be_made(self) -> None:
        lab = self.start()
        elsewhere = PartitionState((OTHER,), (OTHER,), OTHER)
        self.turn(lab, lab.topic(elsewhere, elsewhere, LED))
        self.turn(lab, lab.topic(LED, LED, FOLLOWED))
        assert self.here(lab) == [0, 2]
        assert lab.replicas.by_name["t"][2].role is Role.FOLLOWER

    @pytest.mark.parametrize("told", [True, False])
    def test_a_topic_that_is_deleted_while_it_is_made(self, told: bool) -> None:
        """Each turn looks at the image as it is."""
        lab = self.start()
        self.turn(lab, lab.topic(LED, LED, LED))
        self.turn(lab)
        gone = lab.deleted()
        assert kinds(self.turn(lab, *[gone] * told)) == [TopicDeleted] * told + [LeadershipLost, Dropped] * 2
        assert len(lab.host.logs.logs) == 1 and lab.replicas.all() == []
        assert kinds(self.turn(lab)) == [TopicSettled]
        assert self.here(lab) == [] and not lab.host.unfinished

    def test_a_later_topic_of_the_name_waits_for_the_end_of_the_earlier(self) -> None:
        """Else the state of the one would be applied to the log of the other. The earlier one takes nothing any more: what was
        acknowledged to it by its name would be lost with its log."""
        lab = self.start()
        lab.sees(lab.topic(LED, LED, LED))
        for logs in (2, 1):
            effects = self.turn(lab, *[lab.topic(LED, LED, number=2)] * (logs == 2))
            assert (TopicDeleted("t") in effects) is (logs == 2), "what was committed for it goes at once"
            assert lab.replicas.all() == [] and len(lab.host.logs.logs) == logs
        self.finish(lab)
        assert {p.topic_id for p in lab.replicas.all()} == {UUID(int=2).bytes} and self.here(lab) == [0, 1]

    def test_a_later_topic_of_the_name_is_none_that_was_begun(self) -> None:
        lab = self.start()
        self.turn(lab, lab.topic(LED, LED, LED))
        lab.topic(LED, LED, LED, number=2)  # it is not told of yet
        self.finish(lab)
        assert {p.topic_id for p in lab.replicas.all()} == {UUID(int=2).bytes} and self.here(lab) == [0, 1, 2]

    def test_topics_take_turns(self) -> None:
        """Who makes a topic of thousands of partitions keeps nobody from making one of a few."""
        lab = self.start()
        self.turn(lab, lab.topic(*[LED] * 9))
        self.turn(lab, lab.topic(LED, LED, name="small"))
        for _ in range(4):
            self.turn(lab)
        assert len(self.here(lab, "small")) == 2 and len(self.here(lab)) < 9
        self.finish(lab)
        assert len(self.here(lab)) == 9

    def test_many_topics_take_turns(self) -> None:
        """As of a request that makes thousands of them, and one that deletes them: that held brokers for 1.8 s."""
        lab = self.start()
        names = [f"t{number}" for number in range(5)]
        for made in range(1, 6):
            self.turn(lab, *[lab.topic(LED, name=name) for name in names if made == 1])
            assert len(lab.replicas.all()) == made
        assert not lab.host.unfinished
        for left in (4, 3, 2, 1, 0):
            effects = self.turn(lab, *[lab.deleted(name) for name in names if left == 4])
            assert effects.count(TopicDeleted("t0")) == (left == 4)
            assert lab.replicas.all() == [] and len(lab.host.logs.logs) == left
        assert not lab.host.unfinished

    def test_replicas_that_cannot_be_made_keep_no_others_from_their_turns(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nor is there a turn after turn for them: they are tried again with what comes next."""
        lab = self.start()
        create, failing = lab.host._create, {0, 1, 2}

        def refuse(topic: TopicState, index: int, settings: Settings) -> HostedPartition:
            if index in failing:
                raise LookupError("nobody expected this")
            return create(topic, index, settings)

        monkeypatch.setattr(lab.host, "_create", refuse)
        self.turn(lab, lab.topic(*[LED] * 5))
        for _ in range(4):
            self.turn(lab)
        assert self.here(lab) == [3, 4] and not lab.host.unfinished and lab.host.unsettled == {"t"}
        failing.clear()
        self.turn(lab)
        self.finish(lab)
        assert self.here(lab) == [0, 1, 2, 3, 4]

    def test_whoever_is_in_no_hurry_does_what_is_new_at_once_and_leaves_the_rest(self) -> None:
        """As at a log that is back, of which nobody waits for thousands of others."""
        lab = self.start()
        self.turn(lab, lab.topic(LED, LED, LED))
        lab.sees(lab.topic(LED, LED, name="other"))
        assert self.here(lab) == [0] and self.here(lab, "other") == [0, 1]
        lab.host.reset()
        assert not lab.host.unfinished, "else turns are taken that do nothing, without end"
        lab.sees()
        assert self.here(lab) == [0, 1, 2] and not lab.host.unfinished, "who is registered anew looks at everything"
