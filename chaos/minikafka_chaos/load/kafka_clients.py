"""librdkafka's clients, for every ground with real brokers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minikafka.client.security import PLAINTEXT, ClientSecurity
from minikafka.protocol.types import TopicPartition
from minikafka.reliability.record import ConsumedRecord

from minikafka_chaos.load.clients import GroupSettings, ReadBack, ReadProgress, TopicPlan
from minikafka_chaos.load.cluster_view import ClusterView
from minikafka_chaos.load.consumer_group import ConsumerGroup
from minikafka_chaos.load.load import LoadSettings, ProducerSettings, Tally
from minikafka_chaos.load.reader import TailReader, read_back, read_records
from minikafka_chaos.load.topics import create_topic
from minikafka_chaos.load.workload import Load, Script
from minikafka_chaos.record.history import HistoryWriter


class KafkaClients:
    """See `minikafka_chaos.load.clients.Clients`.

    `bootstrap` gives all brokers' addresses, `live_bootstrap` those of the brokers that run now: a client that asks
    only these is not kept waiting. `security` says how to connect and as whom: asked anew for each client that is made.
    """

    def __init__(
        self,
        bootstrap: Callable[[], str],
        live_bootstrap: Callable[[], str],
        security: Callable[[], ClientSecurity] = lambda: PLAINTEXT,
    ) -> None:
        self._bootstrap = bootstrap
        self._live_bootstrap = live_bootstrap
        self._security = security

    def view(self) -> ClusterView:
        return ClusterView(self._live_bootstrap, self._security)

    def create_topic(self, plan: TopicPlan, deadline_s: float) -> None:
        create_topic(self._bootstrap(), self._security(), plan, deadline_s)

    def script(self, settings: ProducerSettings, history: HistoryWriter, tally: Tally) -> Script:
        return Script(self._bootstrap(), self._security(), settings, history, tally)

    def load(self, settings: LoadSettings, history: HistoryWriter, tally: Tally) -> Load:
        return Load(self._bootstrap(), self._security(), settings, history, tally)

    def tail(self, partitions: Sequence[TopicPartition], history: HistoryWriter) -> TailReader:
        return TailReader(self._bootstrap(), self._security(), partitions, history)

    def group(
        self, settings: GroupSettings, partitions: Sequence[TopicPartition], history: HistoryWriter
    ) -> ConsumerGroup:
        return ConsumerGroup(self._bootstrap(), self._security, settings, partitions, history)

    def read_back(
        self,
        partitions: Sequence[TopicPartition],
        history: HistoryWriter,
        deadline_s: float,
        progress: ReadProgress | None = None,
    ) -> ReadBack:
        return read_back(self._live_bootstrap(), self._security(), partitions, history, deadline_s, progress=progress)

    def committed_records(self, partitions: Sequence[TopicPartition], deadline_s: float) -> list[ConsumedRecord]:
        return [
            ConsumedRecord(where, each.offset, each.timestamp, each.key, each.value, each.headers)
            for where in partitions
            for each in read_records(self._live_bootstrap(), self._security(), [where], deadline_s)
        ]
