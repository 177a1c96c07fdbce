"""Changes of min.insync.replicas: what becomes of eligible leader replicas and of the partition epoch (KIP-966)."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from minikafka.controller.change import ChangeRules, change_min_isr
from minikafka.controller.controller import Controller
from minikafka.controller.workspace import ControllerConfig
from minikafka.metadata.image import CLUSTER_CONFIG, MIN_ISR, NO_LEADER, ClusterImage, PartitionState, TopicState
from minikafka.protocol.errors import ErrorCode

from .desk import TOPIC_ID, Desk, broker

FULL = PartitionState((1, 2, 3), (1, 2, 3), 1)


def alone(config: ControllerConfig | None = None, configs: dict[str, str] | None = None) -> Desk:
    """Broker 1 is the whole ISR, below a minimum of 2; broker 3 is eligible, broker 2 left before it counted."""
    at = Desk(FULL, config=config, configs=configs)
    at.die(2)
    at.die(3)
    assert (at.state().isr, at.state().elr) == ((1,), (3,))
    at.events()
    return at


class TestOfATopic:
    def test_lowering_it_ends_the_elr(self) -> None:
        """Simulator bug min-isr-keeps-elr (audit t2): broker 1 commits alone from here on, so 3 must not lead."""
        at = alone(configs={MIN_ISR: "2"})
        epoch = at.state().partition_epoch
        at.topics.set_configs("t", {MIN_ISR: "1"})
        assert at.state().elr == ()
        assert at.state().partition_epoch == epoch + 1
        at.die(1)
        at.ready(3)
        assert at.state().leader == NO_LEADER
        at.ready(1)
        assert at.state().leader == 1

    def test_removing_the_override_ends_the_elr_too(self) -> None:
        at = alone(configs={MIN_ISR: "2"})
        at.topics.set_configs("t", {})
        assert at.state().elr == ()

    def test_lowering_it_where_it_still_is_too_much_keeps_the_elr(self) -> None:
        """The high watermark goes on standing still."""
        at = Desk(FULL, configs={MIN_ISR: "3"})
        at.die(2)
        at.die(3)
        assert at.state().elr == (2, 3)
        at.topics.set_configs("t", {MIN_ISR: "2"})
        assert (at.state().isr, at.state().elr) == ((1,), (2, 3))

    def test_a_leader_that_has_not_heard_of_a_higher_minimum_cannot_shrink_its_isr(self) -> None:
        """Simulator bug min-isr-keeps-epoch: it would commit alone by the old minimum, and who left is eligible by the new."""
        at = Desk(FULL, configs={MIN_ISR: "1"})
        unheard = at.proposal((1,))
        at.topics.set_configs("t", {MIN_ISR: "2"})
        assert at.ask(unheard).error is ErrorCode.INVALID_UPDATE_VERSION
        assert at.state().isr == (1, 2, 3)
        assert at.set_isr(1).error is ErrorCode.NONE
        assert at.state().elr == (2, 3)

    def test_what_does_not_count_changes_nothing(self) -> None:
        """More than the replication factor counts as the replication factor; so do other settings."""
        at = Desk(FULL, configs={MIN_ISR: "3"})
        before = at.state()
        at.topics.set_configs("t", {MIN_ISR: "5", "retention.ms": "1000"})
        assert at.state() == before

    def test_validate_only_changes_nothing(self) -> None:
        at = alone(configs={MIN_ISR: "2"})
        at.topics.set_configs("t", {MIN_ISR: "1"}, validate_only=True)
        assert at.state().elr == (3,)


class TestOfTheCluster:
    """Simulator bug own-min-isr: the default is a record of the cluster, so that brokers with other files judge alike."""

    def controller(self, image: ClusterImage, min_isr: int) -> Controller:
        return Controller(image, 2, ControllerConfig(min_insync_replicas=min_isr), 0.0, lambda: UUID(int=7))

    def image(self, known: str | None, state: PartitionState, configs: dict[str, str] | None = None) -> ClusterImage:
        image = ClusterImage("c")
        for broker_id in (1, 2, 3):
            image.brokers[broker_id] = broker(broker_id)
        image.put_topic(TopicState("t", TOPIC_ID, (state,), configs or {}))
        if known is not None:
            image.apply(CLUSTER_CONFIG, {MIN_ISR: known})
        return image

    def test_a_new_controller_writes_its_own_and_ends_the_elr_in_one_step(self) -> None:
        """Audit t2, by a rolling change of the brokers' files."""
        image = self.image("2", replace(FULL, isr=(1,), elr=(3,), partition_epoch=4))
        changes, events = self.controller(image, 1).take_changes()
        assert changes[CLUSTER_CONFIG] == {MIN_ISR: "1"}
        assert "eligibleLeaderReplicas" not in changes["topic/t"]["partitions"][0]
        assert changes["topic/t"]["partitions"][0]["partitionEpoch"] == 5
        assert [(e.name, dict(e.fields)) for e in events] == [
            ("cluster_config_changed", {"key": MIN_ISR, "value": "1", "previous": "2"})
        ]

    def test_a_controller_that_agrees_writes_nothing(self) -> None:
        assert self.controller(self.image("2", FULL), 2).take_changes() == ({}, [])

    def test_a_topic_with_its_own_value_is_left_alone(self) -> None:
        image = self.image("2", replace(FULL, isr=(1,), elr=(3,)), {MIN_ISR: "2"})
        assert list(self.controller(image, 1).take_changes()[0]) == [CLUSTER_CONFIG]

    def test_the_first_record_fences_leaders_that_went_by_their_own_files(self) -> None:
        """A store from before there was a default: nobody knows what the leaders went by."""
        changes, _ = self.controller(self.image(None, FULL), 1).take_changes()
        assert changes["topic/t"]["partitions"][0]["partitionEpoch"] == FULL.partition_epoch + 1

    def test_decisions_follow_the_record(self) -> None:
        at = alone(config=ControllerConfig(min_insync_replicas=2))
        assert at.controller.workspace.min_isr(at.image.topics["t"]) == 2

    def test_the_image_prefers_the_topic_then_the_cluster_then_what_it_is_told(self) -> None:
        topic = TopicState("t", TOPIC_ID, (FULL,), {MIN_ISR: "3"})
        plain = replace(topic, configs={})
        assert self.image("2", FULL).min_insync_replicas(topic, 1) == 3
        assert self.image("2", FULL).min_insync_replicas(plain, 1) == 2
        assert self.image(None, FULL).min_insync_replicas(plain, 1) == 1


@pytest.mark.parametrize(("before", "now", "bumped"), [(2, 2, False), (4, 3, False), (2, 3, True), (None, 2, True)])
def test_the_partition_epoch_tells_of_another_effective_minimum(before: int | None, now: int, bumped: bool) -> None:
    made = change_min_isr(FULL, ChangeRules(now, lambda _: True), before)
    assert (made is not None) is bumped
    if made is not None:
        assert made.state == replace(FULL, partition_epoch=FULL.partition_epoch + 1)
