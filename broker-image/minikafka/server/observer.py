"""Lets somebody watch a broker from inside: a simulation that checks it after every event."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from minikafka.controller.term import Effect
from minikafka.log.errors import LogError
from minikafka.log.manager import LogManager
from minikafka.protocol.fetch import FetchRequest
from minikafka.protocol.types import TopicPartition
from minikafka.replication.fetch_loop import Taken
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.isr import IsrProposal
from minikafka.replication.purgatory import FetchDone

if TYPE_CHECKING:
    from minikafka.server.controller_role import ControllerRole

NOTHING_TO_DO = nullcontext()


class BrokerObserver:
    """Hears of these moments, and does nothing. Who watches overrides what it wants to hear.

    Calls come on the broker's event loop, in the middle of what they tell of. Nothing here is called for the Produce or the
    Fetch of a client.
    """

    def failed(self, error: BaseException) -> None:
        """Something broke that nobody expected to: a mistake of the program."""

    def closed(self, clean: bool) -> None:
        """All has ended. ``clean``: all logs were flushed and closed, and the checkpoint was written."""

    # -- the controller -----------------------------------------------------------------------------------------------------

    def decided(self, role: ControllerRole, effects: Sequence[Effect]) -> None:
        """The term wants these carried out; none of them is yet."""

    # -- replicas -----------------------------------------------------------------------------------------------------------

    def logs_opened(self, logs: LogManager) -> None:
        """All logs are open, and nothing is hosted yet."""

    def hosted(self, partition: HostedPartition) -> None:
        """A replica was opened."""

    def dropped(self, partition: HostedPartition) -> None:
        """A replica was deleted."""

    def registration_lost(self) -> None:
        """All replicas are about to lead and follow nothing, until this broker is registered again."""

    def image_changes(self) -> None:
        """The replicas are about to be brought in line with the cluster image."""

    def image_applied(self) -> None:
        """They are in line with it, as far as each can be."""

    def isr_proposed(self, proposal: IsrProposal) -> None:
        """A leader asks for another ISR."""

    def follower_asked(self, request: FetchRequest, respond: FetchDone) -> FetchDone:
        """A follower's Fetch is about to be carried out, and may be altered; whom to give the answer to."""
        del request
        return respond

    def fetched(self, taken: Taken[HostedPartition], leader_id: int) -> None:
        """A follower has taken in what a leader answered for one partition."""

    # -- disks --------------------------------------------------------------------------------------------------------------

    def log_refused(self, partition: HostedPartition, error: LogError) -> None:
        """A log refused an append or a read."""

    def log_reopened(self, topic_partition: TopicPartition) -> None:
        """A log that was offline is in use again."""

    def checkpoint(self) -> AbstractContextManager[None]:
        """Around the writing of the checkpoint of high watermarks, and what it raises."""
        return NOTHING_TO_DO

    def retention(self, partition: HostedPartition) -> AbstractContextManager[None]:
        """Around the deletion of what of a replica is old."""
        del partition
        return NOTHING_TO_DO
