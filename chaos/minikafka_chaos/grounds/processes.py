"""The processes ground: real brokers, sockets and files on this machine, and no privileges.

Kill is SIGKILL, pause is SIGSTOP, power loss is SIGKILL and an emptied unflushed directory. Faults of the network are made by a
proxy before the brokers' listeners, which is there only when a scenario asks for them (`minikafka_chaos.links`); those of
disk and clock by the broker's own injection points (`minikafka.log.injection`), likewise; a store outage by holding the write
lock of its database. Proxy and lock end with this process, however it ends.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from minikafka.agent.power_loss import PowerLossMode, carry_out, plan
from minikafka.client.metrics_access import MetricsAccess
from minikafka.client.security import ClientSecurity
from minikafka.local import process
from minikafka.local.clients_listener import own_security
from minikafka.local.cluster import DOWN_TIMEOUT, READY_TIMEOUT, LocalCluster
from minikafka.local.errors import ClusterError
from minikafka.local.layout import CLIENTS, INTER_BROKER, STORE, ClusterInfo, ClusterRecord, faults_path
from minikafka.local.ports import HOST, PROXY_PORT_OFFSET, free_base_port, is_free
from minikafka.protocol.types import TopicPartition
from minikafka.telemetry.event_file import file_before
from minikafka.telemetry.fault_verbs import LACKS, Serving, Verb

from minikafka_chaos.clock import MACHINE_CLOCK
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.grounds import BrokerCondition
from minikafka_chaos.grounds.by_broker import BrokerVerbs, loss_seed
from minikafka_chaos.grounds.injected import VERBS as FAULT_FILE_VERBS
from minikafka_chaos.grounds.injected import FaultFiles
from minikafka_chaos.grounds.store_outage import StoreOutage
from minikafka_chaos.links.control import LinkControl
from minikafka_chaos.load.kafka_clients import KafkaClients
from minikafka_chaos.record.observe import Observer, ReplicaStatus, Sample, reader, scrape_or_nothing, scrape_status
from minikafka_chaos.record.replica_logs import ReplicaLog, ReplicaLogError, read_replica_log
from minikafka_chaos.scenario.document import UnflushedVolume, as_config
from minikafka_chaos.scenario.faults import Fault, Handle, Targets, WipeMode, healed, link_rules
from minikafka_chaos.scenario.scenario import ScenarioSpec
from minikafka_chaos.scenario.steps import FaultSpec, TargetType

NO_PROXY = (
    "there is no proxy between the brokers, and a cluster that was made without one cannot get it later: make a new one with "
    "minikafka up --data NEW_DIR --control 0"
)
PROXY_ENDED = (
    "the proxy between the brokers has ended, with the `minikafka up --control` that kept it: bring the brokers down, and start "
    "them with minikafka up --control 0"
)
CHECKPOINT = "replication-offset-checkpoint"
STORE_IS_BACK = "the store takes writes again"


@contextlib.contextmanager
def _as_tool_trouble() -> Iterator[None]:
    try:
        yield
    except (ClusterError, OSError, sqlite3.Error) as error:
        raise ToolTrouble(str(error)) from error


def _proxied(faults: Iterable[FaultSpec]) -> list[str]:
    """The listeners that need a proxy before them."""
    found = set()
    for fault in faults:
        if any(verb.rule.is_of_links for verb in fault.verbs):
            to_clients = fault.peer is not None and fault.peer.type is TargetType.CLIENTS
            found.add(CLIENTS if to_clients else INTER_BROKER)
    return sorted(found)


def _ports(record: ClusterRecord) -> Iterator[tuple[int, int, int, bool]]:
    """As `LinkControl` takes them."""
    for broker in record.ids:
        for name, port in ((CLIENTS, record.port(broker)), (INTER_BROKER, record.replication_port(broker))):
            if name in record.proxied:
                yield port + PROXY_PORT_OFFSET, port, broker, name == CLIENTS


class ProcessesGround(BrokerVerbs):
    """A new local cluster in `data`, on free ports unless `base_port` says which.

    `cluster` is for a cluster whose brokers are started in another way than a detached one's; `first_id` is the first broker's.
    """

    name = "processes"
    clock = MACHINE_CLOCK
    replayable = False
    lacks = LACKS["processes"]

    def __init__(
        self,
        data: Path,
        base_port: int | None = None,
        *,
        cluster: LocalCluster | None = None,
        first_id: int = 0,
    ) -> None:
        self.cluster = cluster or LocalCluster(data)
        self._base_port = base_port
        self._ids = range(first_id, first_id)
        self._seed = 0
        self._links: LinkControl | None = None
        self._has_fault_files = False
        self._fault_files = FaultFiles(lambda broker: faults_path(self.cluster.data, broker))
        self._store_outage = StoreOutage(self.cluster.data / STORE)
        self.clients = KafkaClients(lambda: self.address, lambda: self.live_bootstrap, lambda: self.security)

    def refusals(self, spec: ScenarioSpec) -> Iterable[str]:
        protocols = as_config(spec.cluster.config).get("listener.security.protocol.map", "")
        for item in filter(None, protocols.replace(" ", "").upper().split(",")):
            if item.startswith(f"{CLIENTS}:") and item != f"{CLIENTS}:PLAINTEXT":
                yield (
                    f"cluster.config listener.security.protocol.map: {item}: the clients of experiments have neither TLS nor "
                    f"SASL; allowed: another protocol for {INTER_BROKER} only"
                )

    @property
    def security(self) -> ClientSecurity:
        """How a broker's listener for clients is asked."""
        return own_security(self.cluster.record.config)

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
        return self._ids

    def up(self, spec: ScenarioSpec, seed: int) -> None:
        cluster = spec.cluster
        faults = [step.fault for step in spec.steps if step.fault is not None]
        self.launch(
            cluster.brokers,
            as_config(cluster.config),
            racks=cluster.racks or None,
            unflushed=cluster.unflushed_volume is UnflushedVolume.SEPARATE,
            proxied=_proxied(faults),
            fault_files=any(FAULT_FILE_VERBS.intersection(fault.verbs) for fault in faults),
            seed=seed,
        )

    def attach(self) -> None:
        """Take up the cluster that the data directory has, running or not. Raises ToolTrouble where there is none."""
        with _as_tool_trouble():
            record = self.cluster.record
        self._ids = record.ids
        self._has_fault_files = record.faults

    def take_up(self, **asked: Any) -> ClusterInfo:
        """Do what `LocalCluster.up` does, with a proxy where the record wants one. Raises what it raises."""
        info = self.cluster.up(**asked, prepare=self._start_links)
        self.attach()
        return info

    def _start_links(self, record: ClusterRecord) -> None:
        if record.proxied:
            self._links = LinkControl(self.cluster.data, _ports(record), self._seed)

    def launch(
        self,
        brokers: int,
        config: Mapping[str, str],
        *,
        racks: Sequence[str] | None = None,
        unflushed: bool = True,
        proxied: Sequence[str] = (),
        fault_files: bool = False,
        seed: int = 0,
    ) -> None:
        """Make a new cluster, and wait until it is ready: `up` without a scenario.

        `proxied` are the listeners whose links can be broken; with `fault_files` those of disk and clock can be.
        """
        self._seed = seed
        with _as_tool_trouble():
            self.take_up(
                brokers=brokers,
                base_port=self._base_port if self._base_port is not None else free_base_port(brokers),
                config=config,
                racks=racks,
                unflushed=unflushed,
                first_id=self._ids.start,
                proxied=proxied,
                faults=fault_files,
            )

    def down(self) -> list[int]:
        with contextlib.suppress(ToolTrouble):  # brokers are to be stopped, whatever else does not work
            self._clear()  # a clean shutdown needs the controller and the disk
        try:
            with _as_tool_trouble():
                return self.cluster.down() if self.cluster.exists else []
        finally:
            if self._links is not None:
                self._links.close()

    def crash(self) -> None:
        """End every broker that runs, at once; for a cluster whose data nobody wants."""
        self.kill([broker for broker in self.brokers if self.condition(broker) is not BrokerCondition.DEAD])

    def condition(self, broker: int) -> BrokerCondition:
        pid = self.cluster.pid(broker)
        if pid is None:
            return BrokerCondition.DEAD
        return BrokerCondition.PAUSED if process.state(pid) in process.STOPPED else BrokerCondition.RUNNING

    def start(self, broker: int) -> None:
        with _as_tool_trouble():
            self.cluster.start(broker)

    def wait_ready(self, broker: int, deadline_s: float) -> None:
        with _as_tool_trouble():
            self.cluster.wait_ready(deadline_s, [broker])

    def is_ready(self, broker: int) -> bool:
        return self.cluster.state(broker) == "up"

    def kill(self, brokers: Sequence[int]) -> None:
        with _as_tool_trouble():
            if len(brokers) > 1:
                # Nobody may act on the death of the first while the others still live.
                for broker in brokers:
                    if self.condition(broker) is BrokerCondition.RUNNING:
                        self.cluster.pause(broker)
            for broker in brokers:
                self.cluster.kill(broker)

    def terminate(self, broker: int, seconds: float | None = None) -> None:
        with _as_tool_trouble():
            self.cluster.terminate(broker, DOWN_TIMEOUT if seconds is None else seconds)

    def pause(self, brokers: Sequence[int]) -> None:
        with _as_tool_trouble():
            for broker in brokers:
                self.cluster.pause(broker)

    def resume(self, broker: int) -> None:
        with _as_tool_trouble():
            self.cluster.resume(broker)

    # -- network, disk, clock, store -----------------------------------------------------------------------------------

    @property
    def without_links(self) -> str | None:
        """Why no link can be broken; None where it can."""
        if self._links is not None:
            return None
        with _as_tool_trouble():
            return PROXY_ENDED if self.cluster.record.proxied else NO_PROXY

    def _network(self) -> LinkControl:
        if self._links is None:
            raise ToolTrouble(self.without_links)
        return self._links

    def make(self, fault: Fault, targets: Targets) -> Mapping[str, Any]:
        with _as_tool_trouble():
            match fault.verb:
                case Verb.CUT | Verb.DELAY | Verb.LOSS:
                    rules = link_rules(fault, targets)
                    self._network().change(lambda faults: faults.add(fault.id, rules))
                case Verb.HEAL:
                    if self._links is not None:
                        self._links.change(lambda faults: faults.join(targets.links))
                case Verb.STORE_OUTAGE:
                    self._store_outage.begin(fault.id)
                case verb if verb in FAULT_FILE_VERBS:
                    if not self._has_fault_files:
                        raise ToolTrouble("no broker looks for injected faults: no step of the scenario asked for them")
                    self._fault_files.add(fault, targets.brokers)
                case _:
                    return super().make(fault, targets)
        return {}

    def unmake(self, handle: Handle) -> list[str]:
        fault = handle.fault
        with _as_tool_trouble():
            match fault.verb:
                case Verb.CUT | Verb.DELAY | Verb.LOSS:
                    ended = self._links is not None and self._links.change(lambda faults: faults.remove(fault.id))
                    return healed(handle.targets) if ended else []
                case Verb.STORE_OUTAGE:
                    return [STORE_IS_BACK] if self._store_outage.end(fault.id) else []
                case verb if verb not in FAULT_FILE_VERBS:
                    return super().unmake(handle)
            done = [f"ended {fault.verb.value} of broker {broker}" for broker in self._fault_files.remove(fault.id)]
        if fault.rule.serving is Serving.GIVES_UP:
            done += [line for broker in handle.targets.brokers if (line := self.bring_back(broker)) is not None]
        return done

    def _clear(self) -> list[str]:
        """End everything that is not the state of a process."""
        done = []
        with _as_tool_trouble():
            if self._store_outage.end(None):
                done.append(STORE_IS_BACK)
            done += [f"ended the faults of disk and clock of broker {broker}" for broker in self._fault_files.clear()]
            if self._links is not None and self._links.change(lambda faults: faults.clear()):
                done.append("healed every link")
        return done

    def wipe_unflushed(self, broker: int) -> None:
        with _as_tool_trouble():
            self.cluster.wipe_unflushed(broker)

    def lose_unflushed(self, fault: Fault, broker: int) -> None:
        mode = PowerLossMode((fault.parameters.mode or WipeMode.ALL).value.lower())
        with _as_tool_trouble():
            info = self.cluster.broker(broker)
            if info.pid is None and info.unflushed_dir is not None:
                seed = loss_seed(self._seed, fault, broker)
                carry_out(plan([Path(info.data_dir)], Path(info.unflushed_dir), mode, seed))
            self.cluster.wipe_unflushed(broker)

    def wipe_volume(self, broker: int) -> None:
        with _as_tool_trouble():
            self.cluster.wipe_volume(broker)

    def heal_all(self, deadline_s: float = READY_TIMEOUT) -> list[str]:
        if self._links is None:
            with _as_tool_trouble():
                ended = any(is_free(proxy) for proxy, *_ in _ports(self.cluster.record))
            if ended:  # brokers look ready, but hear nothing of each other, and never will
                raise ToolTrouble(PROXY_ENDED)
        return self._clear() + self.heal_brokers(deadline_s)

    def broker_address(self, broker: int) -> str:
        """HOST:PORT of its listener for clients."""
        with _as_tool_trouble():
            return f"{HOST}:{self.cluster.broker(broker).port}"

    def metrics_url(self, broker: int) -> str:
        """Return where the broker's metrics are scraped."""
        with _as_tool_trouble():
            return self.cluster.broker(broker).metrics_url

    @property
    def metrics_access(self) -> MetricsAccess:
        """How they are read."""
        with _as_tool_trouble():
            return self.cluster.metrics_access

    def metrics(self, broker: int) -> Sequence[Sample]:
        return scrape_or_nothing(self.metrics_url(broker), reader(self.metrics_access))

    def observer(self, folder: Path) -> Observer:
        urls = {broker: self.metrics_url(broker) for broker in self.brokers}
        return Observer(folder, urls, fetch=reader(self.metrics_access))

    def replica_status(self, broker: int, topic_partition: TopicPartition) -> ReplicaStatus:
        return scrape_status(self.metrics_url(broker), topic_partition, reader(self.metrics_access))

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
        with _as_tool_trouble():
            for broker in self.cluster.info().brokers if self.cluster.exists else ():
                there, here = Path(broker.events_path), folder / f"broker-{broker.id}.jsonl"
                for source, copy in ((file_before(there), file_before(here)), (there, here)):
                    if source.exists():
                        shutil.copyfile(source, copy)
