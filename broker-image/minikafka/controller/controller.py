"""The controller: one object that takes requests and ticks, and hands out what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from minikafka.controller.acls import AclRegistry
from minikafka.controller.brokers import BrokerRegistry
from minikafka.controller.partitions import PartitionRegistry
from minikafka.controller.quotas import QuotaRegistry
from minikafka.controller.topics import ConfigCheck, TopicRegistry
from minikafka.controller.users import UserRegistry
from minikafka.controller.workspace import ControllerConfig, Event, RoomIn, Workspace
from minikafka.metadata.image import ClusterImage
from minikafka.metadata.store import no_limit


class Controller:
    """All decisions of one controller epoch.

    Use: call methods of ``brokers``, ``partitions``, ``topics``, ``users``, ``acls`` and ``quotas``; then :meth:`take_changes`,
    write them to the store under ``epoch``, and only then release the answers. When the store refuses (another controller,
    a conflicting record) throw this object away.
    """

    def __init__(
        self,
        image: ClusterImage,
        epoch: int,
        config: ControllerConfig,
        now: float,
        new_uuid: Callable[[], UUID],
        check_configs: ConfigCheck = lambda _: None,
        room_in: RoomIn = lambda _image: no_limit,
    ) -> None:
        self.epoch = epoch
        self.config = config
        self.workspace = Workspace(image, config, room_in)
        self.partitions = PartitionRegistry(self.workspace)
        self.brokers = BrokerRegistry(self.workspace, self.partitions, now)
        self.topics = TopicRegistry(self.workspace, new_uuid, check_configs)
        self.users = UserRegistry(self.workspace)
        self.acls = AclRegistry(self.workspace)
        self.quotas = QuotaRegistry(self.workspace)
        self.topics.adopt_defaults()  # written with the first decisions, none of which is made by another value
        self._next_rebalance = now + config.leader_imbalance_check_interval
        self._next_election = now + config.unclean_leader_election_interval

    @property
    def image(self) -> ClusterImage:
        return self.workspace.image

    def tick(self, now: float) -> None:
        """Sessions, leadership after planned stops, and the two periodic elections. Call it several times a session."""
        self.brokers.tick(now)
        if self.config.auto_leader_rebalance:
            self.brokers.give_leadership_back()
        if self.config.auto_leader_rebalance and now >= self._next_rebalance:
            self._next_rebalance = now + self.config.leader_imbalance_check_interval
            self.partitions.rebalance_leaders()
        if now >= self._next_election:
            self._next_election = now + self.config.unclean_leader_election_interval
            self.partitions.elect_offline()

    def take_changes(self) -> tuple[dict[str, Any], list[Event]]:
        """See :meth:`Workspace.take_changes`."""
        return self.workspace.take_changes()
