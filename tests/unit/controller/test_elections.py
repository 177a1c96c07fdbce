"""Elections on death, on return, on request and by timer."""

from dataclasses import replace

import pytest
from minikafka.controller.change import Election
from minikafka.controller.workspace import ControllerConfig
from minikafka.metadata.image import NO_LEADER, BrokerState, PartitionState
from minikafka.protocol.errors import ErrorCode

from .desk import Desk

STATE = PartitionState((1, 2, 3), (1, 2, 3), 1)
CLASSIC_UNCLEAN = {"unclean.leader.election.enable": "true"}


class TestDeathAndReturn:
    def test_only_what_a_broker_had_to_do_with_changes(self) -> None:
        """R14: other partitions keep their epochs."""
        at = Desk(STATE, PartitionState((2, 3), (2, 3), 2), PartitionState((2, 1), (2,), 2))
        at.die(1)
        assert at.state(0).leader == 2
        assert (at.state(1).partition_epoch, at.state(2).partition_epoch) == (0, 0)

    def test_one_after_the_other(self) -> None:
        """R14, KIP-966: down to nobody and back; the last to go is the first that may lead."""
        at = Desk(STATE)
        for broker in (1, 2, 3):
            at.die(broker)
        assert (at.state().leader, at.state().isr, at.state().elr) == (NO_LEADER, (), (3,))
        offline = [e for e in at.events() if e.name == "partition_offline"]
        assert len(offline) == 1 and offline[0].fields["leader_epoch"] == 3
        at.come_back(1, clean=True)
        assert at.state().leader == NO_LEADER, "1 lacks what 2 and 3 committed without it"
        at.come_back(3, clean=True)
        assert (at.state().leader, at.state().isr) == (3, (3,))

    @pytest.mark.parametrize("clean", [True, False])
    def test_the_last_one_leads_again_in_a_new_term(self, clean: bool) -> None:
        """R12: whether or not anybody led in between. In the old term its followers would not look where the logs part."""
        at = Desk(PartitionState((1, 2), (1,), 1, leader_epoch=4))
        at.die(1)
        assert (at.state().leader, at.state().leader_epoch) == (NO_LEADER, 5)
        at.come_back(1, clean=clean)
        assert (at.state().leader, at.state().leader_epoch) == (1, 6)

    def test_with_unclean_election_the_first_to_return_leads(self) -> None:
        """R14, unclean.leader.election.enable=true on the topic: ISR = {it}; said to be unclean."""
        at = Desk(STATE, configs=CLASSIC_UNCLEAN)
        for broker in (1, 2, 3):
            at.die(broker)
        at.events()
        at.come_back(1, clean=True)
        assert (at.state().leader, at.state().isr, at.state().recovery_state) == (1, (1,), 1)
        elected = next(e for e in at.events() if e.name == "leader_elected")
        assert (elected.fields["clean"], elected.fields["leader"], elected.fields["previous_leader"]) == (False, 1, -1)

    def test_unclean_election_takes_a_live_one_at_once(self) -> None:
        """R14: no need to wait for a return when somebody is alive outside the ISR."""
        at = Desk(PartitionState((1, 2, 3), (1,), 1), configs=CLASSIC_UNCLEAN)
        at.die(1)
        assert (at.state().leader, at.state().isr) == (2, (2,))

    def test_the_default_of_the_brokers_counts_where_the_topic_says_nothing(self) -> None:
        """R14: unclean.leader.election.enable of the broker, overridden by the topic's."""
        config = ControllerConfig(unclean_leader_election=True)
        alone = PartitionState((1, 2), (1,), 1)
        at = Desk(alone, config=config)
        at.die(1)
        assert at.state().leader == 2
        at = Desk(alone, config=config, configs={"unclean.leader.election.enable": "false"})
        at.die(1)
        assert at.state().leader == NO_LEADER

    def test_the_result_goes_to_the_store(self) -> None:
        """R14: leader, ISR and epochs, as one record of the topic."""
        at = Desk(STATE)
        at.die(1)
        changes, _ = at.controller.take_changes()
        assert changes["topic/t"]["partitions"] == [
            {"replicas": [1, 2, 3], "isr": [2, 3], "leader": 2, "leaderEpoch": 1, "partitionEpoch": 1}
        ]
        assert changes["broker/1"]["fenced"] is True
        assert at.controller.take_changes() == ({}, [])


class TestOnRequest:
    """ElectLeaders: KIP-183 (preferred), KIP-460 (unclean)."""

    def test_preferred(self) -> None:
        """KIP-183: the preferred replica when it is in sync."""
        at = Desk(replace(STATE, leader=2))
        assert at.partitions.elect("t", 0, Election.PREFERRED) is ErrorCode.NONE
        assert at.state().leader == 1
        assert at.partitions.elect("t", 0, Election.PREFERRED) is ErrorCode.ELECTION_NOT_NEEDED

    def test_preferred_is_not_in_sync(self) -> None:
        """KIP-183: PREFERRED_LEADER_NOT_AVAILABLE, and nothing changes."""
        at = Desk(replace(STATE, leader=2, isr=(2, 3)))
        assert at.partitions.elect("t", 0, Election.PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        assert at.state().leader == 2

    def test_unclean(self) -> None:
        """KIP-460: only where nobody leads; counted as unclean, whatever the topic's configuration says."""
        at = Desk(PartitionState((1, 2, 3), (1,), 1))
        assert at.partitions.elect("t", 0, Election.UNCLEAN) is ErrorCode.ELECTION_NOT_NEEDED
        at.die(1)
        assert at.partitions.elect("t", 0, Election.UNCLEAN) is ErrorCode.NONE
        assert (at.state().leader, at.state().isr) == (2, (2,))

    def test_unclean_with_nobody_alive(self) -> None:
        """KIP-460: ELIGIBLE_LEADERS_NOT_AVAILABLE."""
        at = Desk(PartitionState((1,), (1,), 1))
        at.die(1)
        assert at.partitions.elect("t", 0, Election.UNCLEAN) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE

    @pytest.mark.parametrize(("topic", "index"), [("u", 0), ("t", 1), ("t", -1)])
    def test_of_what_is_not_there(self, topic: str, index: int) -> None:
        """KIP-183: UNKNOWN_TOPIC_OR_PARTITION."""
        assert Desk(STATE).partitions.elect(topic, index, Election.PREFERRED) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class TestAfterAPlannedStop:
    """R14: what a broker led before a roll took it away is its own again as soon as it is in sync (audit B11)."""

    def rolled(self, *, planned: bool = True, partitions: int = 50, **config: bool) -> Desk:
        """Broker 1, the preferred leader of everything, was stopped and is back, and behind."""
        at = Desk(*[STATE] * partitions, config=ControllerConfig(session_timeout=1e9, **config))
        if planned:
            at.brokers.heartbeat(1, 10, False, True, 0.0)
        at.die(1)
        assert {at.state(i).leader for i in range(partitions)} == {2}
        at.register(1, clean=planned)
        at.ready(1)
        return at

    @staticmethod
    def catch_up(at: Desk, *indexes: int) -> None:
        for index in indexes:
            assert at.partitions.alter(2, 20, at.proposal((1, 2, 3), index=index)).error is ErrorCode.NONE

    def leaders(self, at: Desk) -> set[int]:
        return {partition.leader for partition in at.image.topics["t"].partitions}

    def test_it_leads_again_once_it_is_in_sync_everywhere(self) -> None:
        at = self.rolled()
        self.catch_up(at, *range(49))
        at.controller.tick(1.0)
        assert self.leaders(at) == {2}, "one is still behind"
        self.catch_up(at, 49)
        at.controller.tick(2.0)
        assert self.leaders(at) == {1}
        assert not at.image.brokers[1].returning

    def test_once_only(self) -> None:
        """A broker that falls behind and catches up later waits for the periodic rebalance."""
        at = self.rolled(partitions=1)
        self.catch_up(at, 0)
        at.controller.tick(1.0)
        at.partitions.broker_gone(1, "test")
        self.catch_up(at, 0)
        at.controller.tick(2.0)
        assert self.leaders(at) == {2}

    def test_not_after_a_failure(self) -> None:
        """What fell over once may do so again; every move of a leader costs its clients a retry."""
        at = self.rolled(planned=False)
        self.catch_up(at, *range(50))
        at.controller.tick(1.0)
        assert self.leaders(at) == {2}

    def test_not_when_it_failed_after_the_planned_stop(self) -> None:
        at = self.rolled()
        at.die(1)
        at.ready(1)
        self.catch_up(at, *range(50))
        at.controller.tick(1.0)
        assert self.leaders(at) == {2}

    def test_not_when_rebalancing_is_switched_off(self) -> None:
        """R14: auto.leader.rebalance.enable=false."""
        at = self.rolled(auto_leader_rebalance=False)
        self.catch_up(at, *range(50))
        at.controller.tick(1.0)
        assert self.leaders(at) == {2}

    def test_a_new_controller_knows_of_it(self) -> None:
        """A roll replaces controllers, too, so it is in the store."""
        at = self.rolled(partitions=1)
        stored = at.image.brokers[1].to_json()
        assert BrokerState.from_json(1, stored).returning

    def test_a_broker_that_is_new_has_nothing_to_get_back(self) -> None:
        at = Desk(STATE)
        at.register(4)
        assert not at.image.brokers[4].returning

    def test_in_bounded_batches(self) -> None:
        at = self.rolled(partitions=5)
        self.catch_up(at, *range(5))
        assert not at.partitions.return_leadership(1, limit=3)
        assert sorted(at.state(i).leader for i in range(5)) == [1, 1, 1, 2, 2]
        assert at.partitions.return_leadership(1, limit=3)
        assert self.leaders(at) == {1}


class TestByTimer:
    def test_preferred_leaders_get_their_place_back(self) -> None:
        """R1, R14: leader.imbalance.check.interval.seconds; every imbalanced partition, no percentage gate."""
        moved = replace(STATE, leader=2)
        at = Desk(moved, STATE, moved)
        at.controller.tick(1.0)
        assert at.state(0).leader == 2
        for broker in (1, 2, 3):
            at.brokers.heartbeat(broker, broker * 10, False, False, 300.0)
        at.controller.tick(300.0)
        assert [at.state(i).leader for i in range(3)] == [1, 1, 1]
        assert [at.state(i).leader_epoch for i in range(3)] == [1, 0, 1]

    def test_not_when_it_is_switched_off(self) -> None:
        """R14: auto.leader.rebalance.enable=false."""
        at = Desk(replace(STATE, leader=2), config=ControllerConfig(auto_leader_rebalance=False, session_timeout=1e9))
        at.controller.tick(301.0)
        assert at.state().leader == 2

    def test_only_where_the_preferred_is_fit(self) -> None:
        """R14: in sync and alive; a leaderless partition is not this timer's."""
        at = Desk(
            replace(STATE, leader=2, isr=(2, 3)),
            PartitionState((1, 2), (), NO_LEADER, last_known_elr=(2,)),
            PartitionState((9, 2), (9, 2), 2),
        )
        assert at.partitions.rebalance_leaders() == 0
        assert [at.state(i).partition_epoch for i in range(3)] == [0, 0, 0]

    def test_no_more_at_once_than_is_good(self) -> None:
        """R14: in bounded batches; the rest follows in the next round."""
        at = Desk(*[replace(STATE, leader=2)] * 5)
        assert at.partitions.rebalance_leaders(limit=3) == 3
        assert [at.state(i).leader for i in range(5)] == [1, 1, 1, 2, 2]
        assert at.partitions.rebalance_leaders(limit=3) == 2

    def test_leaderless_partitions_are_tried_again(self) -> None:
        """R14: unclean.leader.election.interval.ms: the configuration may allow more by now."""
        config = ControllerConfig(session_timeout=1e9)
        at = Desk(PartitionState((1, 2), (), NO_LEADER, elr=(9,)), STATE, config=config)
        at.controller.tick(299.0)
        at.controller.tick(300.0)
        assert at.state().leader == NO_LEADER
        at.topics.set_configs("t", CLASSIC_UNCLEAN)
        at.controller.tick(500.0)
        assert at.state().leader == NO_LEADER
        at.controller.tick(600.0)
        assert (at.state(0).leader, at.state(1).leader_epoch) == (1, 0)
