"""Leaders and in-sync replicas: what the controller does with AlterPartition, broker deaths and elections."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from minikafka.controller.change import Election, PartitionAssignment, PartitionChange, change
from minikafka.controller.workspace import Workspace
from minikafka.metadata.image import NO_LEADER, PartitionState, TopicState
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.replication.isr import AlterPartitionAnswer, IsrProposal


class PartitionRegistry:
    """Decides on partition states."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    # -- ISR changes asked for by leaders -----------------------------------------------------------------------------

    def alter(self, broker_id: int, broker_epoch: int, proposal: IsrProposal) -> AlterPartitionAnswer:
        """Judge one AlterPartition (KIP-497) in Kafka's order of checks."""
        error = self.check_sender(broker_id, broker_epoch)
        if error:
            return AlterPartitionAnswer(error)
        topic = self.workspace.image.topics_by_id.get(proposal.topic_id)
        if topic is None:
            return AlterPartitionAnswer(ErrorCode.UNKNOWN_TOPIC_ID)
        index = proposal.topic_partition.partition
        if not 0 <= index < len(topic.partitions):
            return AlterPartitionAnswer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        old = topic.partitions[index]
        error = self.check_epochs(broker_id, old, proposal) or self.check_members(old, proposal)
        if error:
            return AlterPartitionAnswer(error)
        isr = tuple(member for member, _ in proposal.isr)
        new = change(old, self.workspace.rules(topic), isr=isr, recovered=not proposal.recovery_state)
        if new is None:
            # Of a leader that wants nothing else to come of what it has asked for under this partition epoch.
            new = PartitionChange(replace(old, partition_epoch=old.partition_epoch + 1))
        self.workspace.put_partitions(topic, {index: new}, "isr change")
        if new.state.leader_epoch != old.leader_epoch:
            return AlterPartitionAnswer(ErrorCode.NEW_LEADER_ELECTED)
        state = new.state
        return AlterPartitionAnswer(
            ErrorCode.NONE, state.leader_epoch, state.partition_epoch, state.isr, state.recovery_state
        )

    def check_sender(self, broker_id: int, broker_epoch: int) -> ErrorCode:
        """The request comes from the live incarnation of a registered broker."""
        broker = self.workspace.image.brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        return ErrorCode.NONE

    def check_epochs(self, broker_id: int, old: PartitionState, proposal: IsrProposal) -> ErrorCode:
        """Compare-and-set on leader epoch and partition epoch (R10, R12, KIP-497)."""
        if proposal.leader_epoch > old.leader_epoch or proposal.partition_epoch > old.partition_epoch:
            return ErrorCode.NOT_CONTROLLER  # the sender knows more than this controller
        if proposal.leader_epoch < old.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if old.leader != broker_id:
            return ErrorCode.INVALID_REQUEST
        if proposal.partition_epoch < old.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        return ErrorCode.NONE

    def check_members(self, old: PartitionState, proposal: IsrProposal) -> ErrorCode:
        """Only assigned, active replicas of the incarnation that fetched may be in the ISR (KIP-841, KIP-903)."""
        members = [member for member, _ in proposal.isr]
        if not set(members) <= set(old.replicas) or old.leader not in members or len(set(members)) != len(members):
            return ErrorCode.INVALID_REQUEST
        if proposal.recovery_state and (len(members) > 1 or not old.recovery_state):
            return ErrorCode.INVALID_REQUEST
        for member, epoch in proposal.isr:
            if not self.is_eligible(member, epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        return ErrorCode.NONE

    def is_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        """Active, and the same incarnation (-1: not checked)."""
        broker = self.workspace.image.brokers.get(broker_id)
        return broker is not None and broker.active and broker_epoch in (-1, broker.epoch)

    # -- brokers that come and go -------------------------------------------------------------------------------------

    def broker_gone(self, broker_id: int, reason: str, uncleanly: bool = False) -> None:
        """Take a broker out of every ISR and elect where it led (R14).

        Args:
            uncleanly: it is known to have come back without a clean shutdown, so it leaves the ELR too (KIP-966).
        """
        self._change_where(
            lambda old: broker_id in old.isr or broker_id == old.leader or (uncleanly and broker_id in old.elr),
            reason,
            leaves=broker_id,
            uncleanly_stopped=(broker_id,) if uncleanly else (),
        )

    def leader_restarted(self, broker_id: int) -> None:
        """Classic rules: end the terms of a leader that restarted; its places in ISRs stay as they are."""
        self._change_where(lambda old: old.leader == broker_id, f"leader {broker_id} restarted")

    def broker_back(self, broker_id: int) -> None:
        """Elect where nobody led and this broker may."""
        self._change_where(
            lambda old: old.leader == NO_LEADER and broker_id in old.replicas, f"broker {broker_id} is back"
        )

    def _change_where(
        self,
        chosen: Callable[[PartitionState], bool],
        reason: str,
        *,
        leaves: int | None = None,
        uncleanly_stopped: Collection[int] = (),
        election: Election | None = None,
        limit: int | None = None,
    ) -> int:
        """Change the partitions that are chosen, of each topic at once; return how many were chosen.

        Args:
            leaves: the broker that leaves the ISR.
            limit: how many are chosen at most.
        """
        count = 0
        for topic in list(self.workspace.image.topics.values()):
            indexes = [index for index, old in enumerate(topic.partitions) if chosen(old)]
            indexes = indexes if limit is None else indexes[: limit - count]
            count += len(indexes)
            self.workspace.change_partitions(
                topic,
                indexes,
                partial(self._changed, topic, leaves=leaves, uncleanly_stopped=uncleanly_stopped, election=election),
                reason,
            )
        return count

    def _changed(
        self,
        topic: TopicState,
        old: PartitionState,
        *,
        leaves: int | None = None,
        uncleanly_stopped: Collection[int] = (),
        election: Election | None = None,
    ) -> PartitionChange | None:
        return change(
            old,
            self.workspace.rules(topic),
            isr=None if leaves is None else tuple(replica for replica in old.isr if replica != leaves),
            election=election or self.workspace.election(topic),
            uncleanly_stopped=uncleanly_stopped,
        )

    # -- elections on request and by timer ------------------------------------------------------------------------------

    def elect(self, topic_name: str, index: int, election: Election) -> ErrorCode:
        """ElectLeaders (KIP-183, KIP-460) for one partition."""
        topic = self.workspace.image.topics.get(topic_name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        old = topic.partitions[index]
        if election is Election.PREFERRED and old.leader == old.replicas[0]:
            return ErrorCode.ELECTION_NOT_NEEDED
        if election is Election.UNCLEAN and old.leader != NO_LEADER:
            return ErrorCode.ELECTION_NOT_NEEDED
        made = self._changed(topic, old, election=election)
        if made is not None:
            self.workspace.put_partitions(topic, {index: made}, f"{election.value} election on request")
        new = old if made is None else made.state
        if election is Election.PREFERRED and new.leader != new.replicas[0]:
            return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        if new.leader == NO_LEADER:
            return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        return ErrorCode.NONE

    def rebalance_leaders(self, limit: int = 1000) -> int:
        """Give preferred replicas their leadership back where they are in sync (R1); at most ``limit`` a round."""
        return self._change_where(
            lambda old: (
                old.leader not in (old.replicas[0], NO_LEADER)
                and old.replicas[0] in old.isr
                and self.workspace.image.is_active(old.replicas[0])
            ),
            "preferred leader",
            election=Election.PREFERRED,
            limit=limit,
        )

    def return_leadership(self, broker_id: int, limit: int = 1000) -> bool:
        """Give a broker back what it is the preferred leader of; whether it has all of that now.

        Nothing as long as it is behind anywhere: until then it is busy enough, and leaders would move twice.
        """

        def has(old: PartitionState) -> bool:
            return old.leader != NO_LEADER and broker_id in old.replicas and broker_id not in old.adding

        partitions = [old for topic in self.workspace.image.topics.values() for old in topic.partitions if has(old)]
        if any(broker_id not in old.isr for old in partitions):
            return False

        def is_to_lead(old: PartitionState) -> bool:
            return has(old) and old.replicas[0] == broker_id != old.leader

        found = sum(map(is_to_lead, partitions))
        reason = "preferred leader, back from a planned stop"
        self._change_where(is_to_lead, reason, election=Election.PREFERRED, limit=limit)
        return found <= limit

    def elect_offline(self) -> None:
        """Try again where nobody leads; unclean where the topic allows it."""
        self._change_where(lambda old: old.leader == NO_LEADER, "periodic election")

    # -- reassignment -----------------------------------------------------------------------------------------------------

    def reassign(
        self, topic_name: str, index: int, target: tuple[int, ...] | None, allow_factor_change: bool = True
    ) -> ErrorCode:
        """Start (or with None cancel) moving a partition to ``target`` (KIP-455).

        Args:
            allow_factor_change: whether ``target`` may have another size than the assignment, or than the target of the move
                that is under way (KIP-860).
        """
        topic = self.workspace.image.topics.get(topic_name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        old = topic.partitions[index]
        stable = tuple(r for r in old.replicas if r not in old.adding)
        if target is None:
            if not old.adding and not old.removing:
                return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            target = stable
        elif not allow_factor_change and len(target) != len(set(old.replicas) - set(old.removing)):
            return ErrorCode.INVALID_REPLICATION_FACTOR
        elif (
            not target or len(set(target)) != len(target) or any(r not in self.workspace.image.brokers for r in target)
        ):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        adding = tuple(r for r in target if r not in stable)
        removing = tuple(r for r in stable if r not in target)
        replicas = (*target, *removing)
        isr = tuple(r for r in old.isr if r in replicas)
        holders = old.isr or old.elr or old.last_known_elr
        if holders and not set(holders) & set(replicas):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT  # nobody would be left who has what is committed
        made = change(
            old,
            self.workspace.rules(topic),
            isr=isr,
            election=self.workspace.election(topic),
            assignment=PartitionAssignment(replicas, adding, removing),
        )
        if made is not None and len(replicas) > len(old.replicas):
            try:
                self.workspace.check_room(topic.with_partitions({index: made.state}))
            except KafkaError as error:
                return error.code
        if made is not None:
            self.workspace.put_partitions(topic, {index: made}, "reassignment")
        return ErrorCode.NONE
