"""What a broker has the controller do with topics, and waits for until its own image shows it."""

from __future__ import annotations

import asyncio
from uuid import UUID

from minikafka.config import BrokerConfig
from minikafka.controller.topics import Count, NewTopic, uncounted
from minikafka.metadata.image import TopicState
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.server.controller_role import ControllerRole
from minikafka.server.membership import Membership
from minikafka.server.metadata_cache import MetadataCache

CREATE_TOPICS_VERSION = 7
CALL_TIMEOUT_MS = 5_000
CREATED_AT_ONCE_MAX = 1_000
"""Of topics that clients make by asking for them; more are begun when clients ask again."""


class TopicRequests:
    """Of one broker.

    Args:
        config: ``delete.topic.enable``.
        membership: knows the controller.
        metadata: what this broker's image shows.
    """

    def __init__(self, config: BrokerConfig, membership: Membership, metadata: MetadataCache) -> None:
        self._config = config
        self._membership = membership
        self._metadata = metadata
        self._being_created: dict[str, asyncio.Task[bool]] = {}

    def stop(self) -> None:
        """Give up what :meth:`create_soon` has begun."""
        for task in self._being_created.values():
            task.cancel()

    def require_controller(self) -> ControllerRole:
        """The controller role of this broker; raises KafkaError NOT_CONTROLLER when another broker has it."""
        role = self._membership.role
        if role is None:
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER,
                f"broker {self._membership.controller_id} is the controller, not this one",
            )
        return role

    async def create(self, desired: NewTopic, validate_only: bool = False, count: Count = uncounted) -> TopicState:
        """Create a topic (as the controller) and wait until this broker's image shows it.

        Raises:
            KafkaError: it is refused, or NOT_CONTROLLER.
        """
        role = self.require_controller()
        topic = await role.submit(lambda c: c.topics.create(desired, validate_only, count))
        if not validate_only:
            await self._metadata.caught_up()
        return topic

    async def create_anywhere(self, desired: NewTopic, principal: str = "") -> None:
        """Create a topic for ``principal``, through the controller when that is another broker.

        Raises:
            KafkaError: it is refused.
        """
        if self._membership.leads:
            await self.create(desired)
            return
        answer = await self._membership.call(
            ApiKey.CREATE_TOPICS,
            CREATE_TOPICS_VERSION,
            {
                "topics": [
                    {
                        "name": desired.name,
                        "num_partitions": desired.partitions,
                        "replication_factor": desired.replication_factor,
                        "configs": [{"name": k, "value": v} for k, v in desired.configs.items()],
                    }
                ],
                "timeout": CALL_TIMEOUT_MS,
            },
            principal,
        )
        code = ErrorCode(int(answer.topics[0].error_code))
        if code:
            raise KafkaError(code, answer.topics[0].error_message or "")
        await self._metadata.caught_up()

    def create_soon(self, desired: NewTopic, principal: str) -> None:
        """Create a topic for ``principal`` without waiting for it; one that is being created already is left alone."""
        name = desired.name
        if name not in self._being_created and len(self._being_created) < CREATED_AT_ONCE_MAX:
            supervisor = self._membership.context.supervisor
            self._being_created[name] = task = supervisor.once(
                "creation of topics on demand", self._create, desired, principal
            )
            task.add_done_callback(lambda _: self._being_created.pop(name))

    async def _create(self, desired: NewTopic, principal: str) -> None:
        try:
            await self.create_anywhere(desired, principal)
        except KafkaError as refused:
            if refused.code not in (
                ErrorCode.TOPIC_ALREADY_EXISTS,
                ErrorCode.NOT_CONTROLLER,
            ):  # another's; asked for again
                line = f"topic {desired.name!r} was not created on demand: {refused}"
                self._membership.context.warn_rarely(f"creation of {desired.name}", line)

    async def delete(self, name: str, count: Count = uncounted, topic_id: UUID | None = None) -> ErrorCode:
        """Delete a topic; None: whatever id it has. Raises KafkaError NOT_CONTROLLER, and what ``count`` raises."""
        if not self._config.delete_topic_enable:
            return ErrorCode.TOPIC_DELETION_DISABLED
        role = self.require_controller()
        code = await role.submit(lambda c: c.topics.delete(name, count, topic_id))
        await self._metadata.caught_up()
        return code
