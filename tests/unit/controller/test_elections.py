"""Elections on death, on return, on request and by timer."""

from dataclasses import replace

import pytest
from minikafka.controller.change import Election
from minikafka.controller.workspace import ControllerConfig
from minikafka.metadata.image import NO_LEADER, PartitionState
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
