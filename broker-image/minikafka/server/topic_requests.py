"""What a broker has the controller do with topics, and waits for until its own image shows it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

from minikafka.controller.controller import Controller
from minikafka.controller.topics import NewTopic
from minikafka.metadata.image import TopicState
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.server.controller_role import ControllerRole
from minikafka.server.membership import Membership
from minikafka.server.metadata_cache import MetadataCache
from minikafka.transport.turn import Turn, TurnQueue

W = TypeVar("W")
R = TypeVar("R")

CREATE_TOPICS_VERSION = 7
CALL_TIMEOUT_MS = 5_000
FEW_TOPICS = 16
"""What is made of so few in a request takes nobody's time."""
CREATED_AT_ONCE_MAX = 1_000
"""Of topics that clients make by asking for them; more are begun when clients ask again."""


class TopicRequests:
    """Of one broker.

    Args:
        membership: knows the controller.
        metadata: what this broker's image shows.
        now: seconds.
        turn_queue: where requests of many topics wait before their answers are made.
    """

    def __init__(
        self, membership: Membership, metadata: MetadataCache, now: Callable[[], float], turn_queue: TurnQueue
    ) -> None:
        self._membership = membership
        self._metadata = metadata
        self._now = now
        self._turn_queue = turn_queue
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

    async def decide_each(self, wishes: Sequence[W], decide: Callable[[Controller, W], R]) -> list[R | KafkaError]:
        """Have the controller (this broker) decide on each wish of a request, and wait until this broker's image shows it.

        As many are decided, and written, at once as others may have to wait for. What one is refused with is its result; where
        this is no controller (any more) that of all that are left.
        """
        results: list[R | KafkaError] = []

        def decide_some(controller: Controller) -> list[R | KafkaError]:
            turn, some = Turn(self._now), list[R | KafkaError]()
            for wish in itertools.islice(wishes, len(results), None):
                try:
                    some.append(decide(controller, wish))
                except KafkaError as refused:
                    some.append(refused.with_traceback(None))
                if turn.is_over:
                    break
            return some

        try:
            while len(results) < len(wishes):
                results += await self.require_controller().submit(decide_some)
        except KafkaError as refused:
            results += [refused] * (len(wishes) - len(results))
        await self._metadata.caught_up()
        if len(results) > FEW_TOPICS:  # many may have been waiting for the same commit
            await self._turn_queue.first()
        return results

    async def create(self, desired: NewTopic) -> TopicState:
        """Create a topic (as the controller) and wait until this broker's image shows it.

        Raises:
            KafkaError: it is refused, or NOT_CONTROLLER.
        """
        (result,) = await self.decide_each([desired], lambda c, wish: c.topics.create(wish))
        if isinstance(result, KafkaError):
            raise result
        return result

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
