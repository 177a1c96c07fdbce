"""A ground whose brokers are threads of this process (`minikafka.testing.broker_thread`), with the verbs of every other."""

from __future__ import annotations

import random
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from minikafka_chaos.clock import MACHINE_CLOCK
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.grounds import BrokerCondition
from minikafka_chaos.grounds.by_broker import BrokerVerbs, loss_seed
from minikafka_chaos.links.thread import LinkThread
from minikafka_chaos.load.kafka_clients import KafkaClients
from minikafka_chaos.record.observe import ReplicaStatus, Sample, reader, scrape_or_nothing, scrape_status
from minikafka_chaos.record.replica_logs import ReplicaLog, read_replica_log
from minikafka_chaos.scenario.faults import Fault, Handle, Targets, WipeMode, healed, link_rules
from minikafka_chaos.scenario.scenario import ScenarioSpec

from minikafka.client.metrics_access import MetricsAccess, own_access
from minikafka.client.security import PLAINTEXT, ClientSecurity
from minikafka.config import BrokerConfig, ConfigError
from minikafka.local.cluster import DOWN_TIMEOUT, READY_TIMEOUT, is_ready
from minikafka.local.forks import call_in_children, close_sockets
from minikafka.local.layout import CLIENTS, INTER_BROKER, KEYS_SET_PER_BROKER, lab_defaults, new_cluster_id
from minikafka.local.ports import HOST
from minikafka.log.filesystem import MemoryFileSystem
from minikafka.protocol.types import TopicPartition
from minikafka.telemetry.fault_verbs import Verb
from minikafka.testing.broker_thread import BrokerThread, SharedDatabase

DATA = "/data"
"""Each broker's log directory, on its disk."""
POLL_SECONDS = 0.005
OF_THREADS = frozenset({"minikafka.metadata.store", "listener.security.protocol.map"})
"""Settings that brokers in this process have for themselves, and no others may be had; beside those of every local cluster."""
NOT_HERE = "brokers in this process have their disk and clock from it; start the cluster as processes"


class _Ports:
    """Ports that nobody else gets, also while their broker is down: bound, and not listened on."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self) -> int:
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((HOST, 0))
        self._held.append(held)
        return int(held.getsockname()[1])

    def close(self) -> None:
        for held in self._held:
            held.close()


class ThreadsGround(BrokerVerbs):
    """Brokers 1 to N. `folder` gets event logs and what each broker says; data is in memory until `write_disks`."""

    name = "threads"
    clock = MACHINE_CLOCK
    replayable = False
    lacks: Mapping[Verb, str] = dict.fromkeys(
        (Verb.SLOW_FSYNC, Verb.FAILING_FSYNC, Verb.DISK_FULL, Verb.CLOCK_STEP, Verb.STORE_OUTAGE), NOT_HERE
    )

    def __init__(self, folder: Path, security: ClientSecurity = PLAINTEXT) -> None:
        self.folder = folder
        self.security = security
        self._ids: Sequence[int] = ()
        self._ports = _Ports()
        self._own: set[int] = set()
        self._reached: set[int] = set()
        """Ports of the brokers and the proxy, and those of them that nobody else connects to."""
        self._config: dict[int, BrokerConfig] = {}
        self._threads: dict[int, BrokerThread] = {}
        self._disks: dict[int, MemoryFileSystem] = {}
        self._shared = SharedDatabase()
        self._links: LinkThread | None = None
        self._seed = 0
        self.clients = KafkaClients(lambda: self.address, lambda: self.live_bootstrap, lambda: security)

    def refusals(self, spec: ScenarioSpec) -> Iterable[str]:
        del spec
        return ("brokers in threads are for tests of clients, not for scenarios",)

    def up(self, spec: ScenarioSpec, seed: int) -> None:
        raise ToolTrouble(next(iter(self.refusals(spec))) + f" (seed {seed})")

    @property
    def brokers(self) -> Sequence[int]:
        return self._ids

    def launch(self, brokers: int, config: Mapping[str, str], *, seed: int = 0) -> None:
        """Make a new cluster, and wait until it is ready. Raises ToolTrouble."""
        self._seed = seed
        self._ids = range(1, brokers + 1)
        cluster_id = new_cluster_id()
        links = []
        call_in_children(self._let_go)
        if own := sorted((KEYS_SET_PER_BROKER | OF_THREADS) & config.keys()):
            raise ToolTrouble(f"config: {own[0]}: a cluster in this process sets it for each of its brokers by itself")
        for broker in self.brokers:
            clients, inter_broker, proxy, metrics = (self._ports.take() for _ in range(4))
            links.append((proxy, inter_broker, broker, False))
            self._own |= {clients, inter_broker, proxy, metrics}
            self._reached |= {inter_broker, proxy}
            folder = self.folder / f"broker-{broker}"
            ports = {CLIENTS: clients, INTER_BROKER: inter_broker}
            advertised = {CLIENTS: clients, INTER_BROKER: proxy}
            values = {
                "node.id": str(broker),
                "cluster.id": cluster_id,
                "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items()),
                "advertised.listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in advertised.items()),
                "listener.security.protocol.map": f"{CLIENTS}:{self.security.protocol},{INTER_BROKER}:PLAINTEXT",
                "inter.broker.listener.name": INTER_BROKER,
                "log.dirs": DATA,
                "minikafka.metadata.store": "memory",
                "minikafka.metrics.port": str(metrics),
                "minikafka.events.path": str(folder / "events.jsonl"),
                **lab_defaults(brokers),
                **config,
            }
            try:
                self._config[broker] = BrokerConfig.from_properties(values)
            except ConfigError as error:
                raise ToolTrouble(f"config: {error}") from error
            self._disks[broker] = _new_disk()
        for broker in self.brokers:
            (self.folder / f"broker-{broker}").mkdir(parents=True)
        self._links = LinkThread(links, seed)
        for broker in self.brokers:
            self.start(broker)
        for broker in self.brokers:
            self.wait_ready(broker, READY_TIMEOUT)

    def _let_go(self) -> None:
        close_sockets(self._own, self._reached)

    def down(self) -> list[int]:
        """End everything at once."""
        for thread in self._threads.values():
            if thread.alive:
                thread.kill()
        if self._links is not None:
            self._links.close()
        self._ports.close()
        return []

    def write_disks(self) -> None:
        """Write what the brokers' disks hold to where brokers that are processes have it; once, when all have ended."""
        while self._disks:
            broker, disk = self._disks.popitem()
            target = self.folder / f"broker-{broker}" / "data"
            target.mkdir()
            _copy(disk, DATA, target)

    # -- a look --------------------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        return ",".join(map(self.broker_address, self.brokers))

    @property
    def live_bootstrap(self) -> str:
        live = [each for each in self.brokers if self.condition(each) is BrokerCondition.RUNNING]
        return ",".join(map(self.broker_address, live or self.brokers))

    def broker_address(self, broker: int) -> str:
        return next(f"{each.host}:{each.port}" for each in self._config[broker].listeners if each.name == CLIENTS)

    def metrics_url(self, broker: int) -> str:
        return self.metrics_access.url(HOST, self._config[broker].minikafka_metrics_port)

    @property
    def metrics_access(self) -> MetricsAccess:
        return own_access(self._config[self.brokers[0]].static)

    def condition(self, broker: int) -> BrokerCondition:
        thread = self._threads.get(broker)
        if thread is None or not thread.alive:
            return BrokerCondition.DEAD
        return BrokerCondition.PAUSED if thread.paused else BrokerCondition.RUNNING

    def is_ready(self, broker: int) -> bool:
        port = self._config[broker].minikafka_metrics_port
        assert port is not None
        return self.condition(broker) is BrokerCondition.RUNNING and is_ready(port, self.metrics_access)

    def wait_ready(self, broker: int, deadline_s: float) -> None:
        deadline = time.monotonic() + deadline_s
        thread = self._threads.get(broker)
        started = thread is not None and thread.wait_started(deadline)
        while not (started and self.is_ready(broker)):
            if thread is None or not thread.alive:
                raise ToolTrouble(
                    f"broker {broker} does not run: {thread.last_words if thread else 'nobody started it'}"
                )
            if time.monotonic() > deadline:
                raise ToolTrouble(f"broker {broker} was not ready after {deadline_s:g} s")
            time.sleep(POLL_SECONDS)

    # -- brokers -------------------------------------------------------------------------------------------------------

    def start(self, broker: int) -> None:
        if self.condition(broker) is BrokerCondition.DEAD:
            log = self.folder / f"broker-{broker}" / "broker.log"
            self._threads[broker] = BrokerThread(self._config[broker], self._shared, self._disks[broker], log)

    def kill(self, brokers: Sequence[int]) -> None:
        for broker in brokers if len(brokers) > 1 else ():
            if self.condition(broker) is BrokerCondition.RUNNING:
                self._threads[broker].pause()
        for broker in brokers:
            self._living(broker).kill()

    def terminate(self, broker: int, seconds: float | None = None) -> None:
        seconds = DOWN_TIMEOUT if seconds is None else seconds
        if not self._living(broker).terminate(seconds):
            raise ToolTrouble(f"broker {broker} still runs {seconds:g} s after it was asked to stop")

    def pause(self, brokers: Sequence[int]) -> None:
        for broker in brokers:
            self._living(broker).pause()

    def resume(self, broker: int) -> None:
        self._living(broker).resume()

    def _living(self, broker: int) -> BrokerThread:
        if self.condition(broker) is BrokerCondition.DEAD:
            raise ToolTrouble(f"broker {broker} does not run")
        return self._threads[broker]

    def wipe_unflushed(self, broker: int) -> None:
        self._dead_disk(broker).power_loss()

    def lose_unflushed(self, fault: Fault, broker: int) -> None:
        mode = fault.parameters.mode or WipeMode.ALL
        if mode is WipeMode.ALL:
            self.wipe_unflushed(broker)
        else:
            rng = random.Random(loss_seed(self._seed, fault, broker))
            self._dead_disk(broker).crash(rng, tear=mode is WipeMode.GARBAGE)

    def wipe_volume(self, broker: int) -> None:
        self._dead_disk(broker)
        self._disks[broker] = _new_disk()

    def _dead_disk(self, broker: int) -> MemoryFileSystem:
        if self.condition(broker) is not BrokerCondition.DEAD:
            raise ToolTrouble(f"broker {broker} runs; its files can be wiped only while it is down")
        return self._disks[broker]

    # -- network -------------------------------------------------------------------------------------------------------

    @property
    def without_links(self) -> None:
        """Every link can be broken."""

    def make(self, fault: Fault, targets: Targets) -> Mapping[str, Any]:
        assert self._links is not None, "launched"
        match fault.verb:
            case Verb.CUT | Verb.DELAY | Verb.LOSS:
                rules = link_rules(fault, targets)
                self._links.change(lambda faults: faults.add(fault.id, rules))
            case Verb.HEAL:
                self._links.change(lambda faults: faults.join(targets.links))
            case _:
                raise ToolTrouble(f"{fault.verb.value}: {NOT_HERE}")
        return {}

    def unmake(self, handle: Handle) -> list[str]:
        ended = self._links is not None and self._links.change(lambda faults: faults.remove(handle.fault.id))
        return healed(handle.targets) if ended else []

    def heal_all(self, deadline_s: float = READY_TIMEOUT) -> list[str]:
        done = ["healed every link"] if self._links and self._links.change(lambda faults: faults.clear()) else []
        return done + self.heal_brokers(deadline_s)

    # -- evidence ------------------------------------------------------------------------------------------------------

    def metrics(self, broker: int) -> Sequence[Sample]:
        return scrape_or_nothing(self.metrics_url(broker), reader(self.metrics_access))

    def observer(self, folder: Path) -> None:
        del folder

    def replica_status(self, broker: int, topic_partition: TopicPartition) -> ReplicaStatus:
        return scrape_status(self.metrics_url(broker), topic_partition, reader(self.metrics_access))

    def checkpointed_high_watermark(self, broker: int, topic_partition: TopicPartition) -> None:
        del broker, topic_partition

    def replica_log(self, broker: int, topic_partition: TopicPartition) -> ReplicaLog:
        with tempfile.TemporaryDirectory(prefix="minikafka-replica-") as scratch:
            thread, disk = self._threads[broker], self._disks[broker]
            thread.call(lambda: _copy(disk, DATA, Path(scratch), str(topic_partition)))
            return read_replica_log(broker, topic_partition, Path(scratch))

    def collect_events(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for broker in self.brokers:
            events = self.folder / f"broker-{broker}" / "events.jsonl"
            if events.exists():
                shutil.copyfile(events, folder / f"broker-{broker}.jsonl")


def _new_disk() -> MemoryFileSystem:
    disk = MemoryFileSystem()
    disk.now_ms = int(time.time() * 1000)
    disk.makedirs(DATA)
    return disk


def _copy(disk: MemoryFileSystem, source: str, target: Path, replica: str | None = None) -> None:
    """The checkpoints, and the files of one replica, or of all."""
    for name in disk.listdir(source):
        path = f"{source}/{name}"
        if not disk.is_dir(path):
            (target / name).write_bytes(disk.read_bytes(path))
        elif replica in (None, name):
            (target / name).mkdir()
            _copy(disk, path, target / name)
