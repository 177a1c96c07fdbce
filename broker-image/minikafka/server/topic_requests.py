"""What a broker has the controller do with topics, and waits for until its own image shows it."""

from __future__ import annotations

from minikafka.config import BrokerConfig
from minikafka.controller.topics import NewTopic
from minikafka.metadata.image import TopicState
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.server.controller_role import ControllerRole
from minikafka.server.membership import Membership
from minikafka.server.metadata_cache import MetadataCache

CREATE_TOPICS_VERSION = 7
CALL_TIMEOUT_MS = 5_000


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

    def require_controller(self) -> ControllerRole:
        """The controller role of this broker; raises KafkaError NOT_CONTROLLER when another broker has it."""
        role = self._membership.role
        if role is None:
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER,
                f"broker {self._membership.controller_id} is the controller, not this one",
            )
        return role

    async def create(self, desired: NewTopic, validate_only: bool = False) -> TopicState:
        """Create a topic (as the controller) and wait until this broker's image shows it.

        Raises:
            KafkaError: it is refused, or NOT_CONTROLLER.
        """
        role = self.require_controller()
        topic = await role.submit(lambda c: c.topics.create(desired, validate_only))
        if not validate_only:
            await self._metadata.caught_up()
        return topic

    async def create_anywhere(self, desired: NewTopic) -> None:
        """Create a topic, through the controller when that is another broker; raises KafkaError when it is refused."""
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
        )
        code = ErrorCode(int(answer.topics[0].error_code))
        if code:
            raise KafkaError(code, answer.topics[0].error_message or "")
        await self._metadata.caught_up()

    async def delete(self, name: str) -> ErrorCode:
        """Delete a topic; raises KafkaError NOT_CONTROLLER."""
        if not self._config.delete_topic_enable:
            return ErrorCode.TOPIC_DELETION_DISABLED
        role = self.require_controller()
        code = await role.submit(lambda c: c.topics.delete(name))
        await self._metadata.caught_up()
        return code
