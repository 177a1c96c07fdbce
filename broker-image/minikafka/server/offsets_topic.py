"""Creating ``__consumer_offsets`` when somebody first asks for a coordinator, from whichever broker is asked."""

from __future__ import annotations

import asyncio

from minikafka.config import BrokerConfig
from minikafka.controller.topics import NewTopic
from minikafka.groups.config import offsets_topic_overrides
from minikafka.groups.placement import OFFSETS_TOPIC
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.server.metadata_cache import MetadataCache
from minikafka.server.topic_requests import TopicRequests


class OffsetsTopic:
    """Asks for the topic, one at a time however many ask."""

    def __init__(self, config: BrokerConfig, topics: TopicRequests, metadata: MetadataCache) -> None:
        self._config = config
        self._topics = topics
        self._metadata = metadata
        self._creating: asyncio.Task[None] | None = None

    async def ensure(self) -> None:
        """Return when this broker's metadata shows the topic, or the controller has been asked for it.

        Raises:
            KafkaError: the controller refuses, or cannot be reached.
        """
        if self._creating is None or self._creating.done():
            self._creating = asyncio.ensure_future(self._create())
            # who asked may have stopped to wait; the next one to ask finds out again what is wrong
            self._creating.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._creating)

    async def _create(self) -> None:
        config = self._config
        desired = NewTopic(
            OFFSETS_TOPIC,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            configs=offsets_topic_overrides(config),
        )
        try:
            await self._topics.create_anywhere(desired)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            await self._metadata.caught_up()
