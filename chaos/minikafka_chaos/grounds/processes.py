"""The processes ground: real brokers, sockets and files on this machine.

Kill is SIGKILL, pause is SIGSTOP, power loss is SIGKILL and an emptied unflushed directory. Cutting links between
processes of one machine would need privileges, so this ground does not offer it.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from minikafka.local import process
from minikafka.local.cluster import LocalCluster
from minikafka.local.errors import ClusterError
from minikafka.local.ports import free_base_port
from minikafka.protocol.types import TopicPartition

from minikafka_chaos.clock import MACHINE_CLOCK
from minikafka_chaos.document import UnflushedVolume, as_config
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.grounds import BrokerCondition
from minikafka_chaos.grounds.abilities import LACKS
from minikafka_chaos.grounds.by_broker import BrokerVerbs
from minikafka_chaos.grounds.kafka_clients import KafkaClients
from minikafka_chaos.observe import Observer, ReplicaStatus, Sample, scrape_or_nothing, scrape_status
from minikafka_chaos.replica_logs import ReplicaLog, ReplicaLogError, read_replica_log
from minikafka_chaos.scenario import ScenarioSpec

CHECKPOINT = "replication-offset-checkpoint"


@contextlib.contextmanager
def _trouble() -> Iterator[None]:
    try:
        yield
    except (ClusterError, OSError) as error:
        raise ToolTrouble(str(error)) from error


class ProcessesGround(BrokerVerbs):
    """A new local cluster in `data`, on free ports unless `base_port` says which."""

    name = "processes"
    clock = MACHINE_CLOCK
    replayable = False
    lacks = LACKS["processes"]

    def __init__(self, data: Path, base_port: int | None = None) -> None:
        self.cluster = LocalCluster(data)
        self._base_port = base_port
        self._count = 0
        self._unflushed = True
        self.clients = KafkaClients(lambda: self.address, lambda: self.live_bootstrap)

    def refusals(self, spec: ScenarioSpec) -> Iterable[str]:
        del spec
        return ()

    @property
    def address(self) -> str:
        return self.cluster.bootstrap

    @property
    def live_bootstrap(self) -> str:
        """The addresses of the brokers that run now; of all when none does."""
        info = self.cluster.info()
        addresses = info.bootstrap.split(",")
        live = [
            address
            for address, broker in zip(addresses, info.brokers, strict=True)
            if self.condition(broker.id) is BrokerCondition.RUNNING
        ]
        return ",".join(live or addresses)

    @property
    def brokers(self) -> Sequence[int]:
        return range(self._count)

    def up(self, spec: ScenarioSpec, seed: int) -> None:
        del seed
        cluster = spec.cluster
        self._count = cluster.brokers
        self._unflushed = cluster.unflushed_volume is UnflushedVolume.SEPARATE
        with _trouble():
            self.cluster.up(
                cluster.brokers,
                self._base_port if self._base_port is not None else free_base_port(cluster.brokers),
                as_config(cluster.config),
                racks=cluster.racks or None,
                unflushed=self._unflushed,
                first_id=0,
            )

    def down(self) -> list[int]:
        with _trouble():
            return self.cluster.down() if self.cluster.exists else []

    def condition(self, broker: int) -> BrokerCondition:
        pid = self.cluster.pid(broker)
        if pid is None:
            return BrokerCondition.DEAD
        return BrokerCondition.PAUSED if process.state(pid) in process.STOPPED else BrokerCondition.RUNNING

    def start(self, broker: int) -> None:
        with _trouble():
            self.cluster.start(broker)

    def wait_ready(self, broker: int, deadline_s: float) -> None:
        with _trouble():
            self.cluster.wait_ready(deadline_s, [broker])

    def is_ready(self, broker: int) -> bool:
        return self.cluster.state(broker) == "up"

    def kill(self, brokers: Sequence[int]) -> None:
        with _trouble():
            if len(brokers) > 1:
                # Nobody may act on the death of the first while the others still live.
                for broker in brokers:
                    if self.condition(broker) is BrokerCondition.RUNNING:
                        self.cluster.pause(broker)
            for broker in brokers:
                self.cluster.kill(broker)

    def terminate(self, broker: int) -> None:
        with _trouble():
            self.cluster.terminate(broker)

    def pause(self, brokers: Sequence[int]) -> None:
        with _trouble():
            for broker in brokers:
                self.cluster.pause(broker)

    def resume(self, broker: int) -> None:
        with _trouble():
            self.cluster.resume(broker)

    def wipe_unflushed(self, broker: int) -> None:
        with _trouble():
            self.cluster.wipe_unflushed(broker)

    def wipe_volume(self, broker: int) -> None:
        with _trouble():
            self.cluster.wipe_volume(broker)

    def heal_all(self) -> list[str]:
        done = [line for broker in self.brokers if (line := self.bring_back(broker)) is not None]
        with _trouble():
            self.cluster.wait_ready()
        return done

    def metrics_url(self, broker: int) -> str:
        """Where the broker's metrics are scraped."""
        with _trouble():
            return f"http://127.0.0.1:{self.cluster.broker(broker).metrics_port}/metrics"

    def metrics(self, broker: int) -> Sequence[Sample]:
        return scrape_or_nothing(self.metrics_url(broker))

    def observer(self, folder: Path) -> Observer:
        return Observer(folder, {broker: self.metrics_url(broker) for broker in self.brokers})

    def replica_status(self, broker: int, topic_partition: TopicPartition) -> ReplicaStatus:
        return scrape_status(self.metrics_url(broker), topic_partition)

    def checkpointed_high_watermark(self, broker: int, topic_partition: TopicPartition) -> int | None:
        path = Path(self.cluster.broker(broker).data_dir) / CHECKPOINT
        try:
            rows = [line.split() for line in path.read_text().splitlines()[2:]]
        except FileNotFoundError:
            return None
        wanted = [topic_partition.topic, str(topic_partition.partition)]
        return next((int(row[2]) for row in rows if row[:2] == wanted), None)

    def replica_log(self, broker: int, topic_partition: TopicPartition) -> ReplicaLog:
        try:
            info = self.cluster.broker(broker)
        except ClusterError as error:
            raise ReplicaLogError(str(error)) from error
        unflushed = Path(info.unflushed_dir) if info.unflushed_dir else None
        return read_replica_log(broker, topic_partition, Path(info.data_dir), unflushed)

    def collect_events(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with _trouble():
            for broker in self.cluster.info().brokers if self.cluster.exists else ():
                if Path(broker.events_path).exists():
                    shutil.copyfile(broker.events_path, folder / f"broker-{broker.id}.jsonl")
