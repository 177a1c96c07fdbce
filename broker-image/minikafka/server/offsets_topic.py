"""Creating ``__consumer_offsets`` when somebody first asks for a coordinator, from whichever broker is asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from minikafka.controller.topics import NewTopic
from minikafka.groups.config import offsets_topic_overrides
from minikafka.groups.placement import OFFSETS_TOPIC
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.server.peer import connect

if TYPE_CHECKING:
    from minikafka.server.broker import Broker

CREATE_TOPICS, CREATE_TOPICS_VERSION = 19, 5

CONNECT_SECONDS_MAX = 1.0


class OffsetsTopic:
    """Wishes for the topic, one at a time however many ask."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
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
        config = self._broker.config
        wish = NewTopic(
            OFFSETS_TOPIC,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            configs=offsets_topic_overrides(config),
        )
        try:
            await self._broker.create_topic(wish)
        except KafkaError as error:
            if error.code is ErrorCode.NOT_CONTROLLER:
                await self._ask_controller(wish)
            elif error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        await self._broker.image_caught_up()

    async def _ask_controller(self, wish: NewTopic) -> None:
        address = self._broker.address_of(self._broker.membership.controller_id)
        if address is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "no controller is known")
        try:
            peer = await connect(*address, self._broker.client_id("offsets-topic"), CONNECT_SECONDS_MAX)
            try:
                answer = await peer.request(CREATE_TOPICS, CREATE_TOPICS_VERSION, _create_topics(wish))
            finally:
                peer.close()
        except (OSError, TimeoutError) as error:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"the controller cannot be asked: {error}") from error
        code = ErrorCode(answer.topics[0].error_code.value)
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise KafkaError(code, answer.topics[0].error_message or code.name)


def _create_topics(wish: NewTopic) -> dict[str, object]:
    return {
        "topics": [
            {
                "name": wish.name,
                "num_partitions": wish.partitions,
                "replication_factor": wish.replication_factor,
                "assignments": [],
                "configs": [{"name": name, "value": value} for name, value in wish.configs.items()],
            }
        ],
        "timeout": int(CONNECT_SECONDS_MAX * 1000),
        "validate_only": False,
    }
