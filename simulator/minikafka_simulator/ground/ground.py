"""The simulation ground: production's replication, controller, logs and recovery in one process, in virtual time.

A run is a function of the scenario and the seed: the same two make the same files, byte for byte. A broker dies between
two of its events; what it has not flushed is on an unflushed volume of its simulated disk, as it is on the other grounds.
At the end the disks are written out below `data`, where the replicas' logs are read as those of real brokers are.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from minikafka.log.checkpoints import read_offsets
from minikafka.log.injection import injected_error
from minikafka.log.simulated_disk import MemoryFileSystem
from minikafka.protocol.types import TopicPartition
from minikafka.telemetry.fault_verbs import LACKS, Verb
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.grounds import BrokerCondition
from minikafka_chaos.grounds.by_broker import BrokerVerbs, partial_losses
from minikafka_chaos.record.observe import ReplicaStatus, Sample
from minikafka_chaos.record.replica_logs import ReplicaLog, ReplicaLogError, read_replica_log
from minikafka_chaos.scenario.faults import Fault, Handle, Targets, healed, link_rules
from minikafka_chaos.scenario.scenario import ScenarioSpec

from minikafka_simulator.cluster.broker import SimBroker
from minikafka_simulator.ground.configured import ConfiguredCluster, RanWild, VirtualClock, refusals
from minikafka_simulator.ground.sim_clients import SimClients

CHECKPOINT = "replication-offset-checkpoint"
UP_DEADLINE_S = 30.0
SHUTDOWN_S_MAX = 15.0
"""A broker stops after ten without having moved its leaders away."""

ADDRESS = "the simulation"

REFUSED: Mapping[Verb, Mapping[str, int]] = {
    Verb.DISK_FULL: {"append": errno.ENOSPC, "write_atomic": errno.ENOSPC},
    Verb.FAILING_FSYNC: {"fsync": errno.EIO, "fsync_dir": errno.EIO},
}
"""What a disk refuses, by operation: the error's number. As on processes (``minikafka.log.injection``)."""


class SimulationGround(BrokerVerbs):
    """A new simulated cluster; see the module."""

    name = "simulation"
    replayable = True
    lacks = LACKS["simulation"]
    address = ADDRESS

    def __init__(self, data: Path) -> None:
        self.data = data
        self.clock = VirtualClock()
        self.clients = SimClients(lambda: self.cluster)
        self._written_out = False
        self._disk_faults: dict[str, tuple[Verb, tuple[int, ...]]] = {}
        """By fault id: what disks refuse, and whose."""

    @property
    def cluster(self) -> ConfiguredCluster:
        cluster = self.clock.cluster
        if cluster is None:
            raise ToolTrouble("the simulated cluster is not up")
        return cluster

    def refusals(self, spec: ScenarioSpec) -> Iterable[str]:
        if spec.steady_state is not None and spec.steady_state.probes:
            yield "steadyState.probes: nobody scrapes a simulation; allowed: conditions"
        yield from partial_losses(spec)
        yield from refusals(spec)

    @property
    def brokers(self) -> Sequence[int]:
        return list(self.cluster.brokers)

    # -- up and down ------------------------------------------------------------------------------------------------------

    def up(self, spec: ScenarioSpec, seed: int) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        self.clock.cluster = ConfiguredCluster(spec.cluster, seed, self.data)
        for broker in self.cluster.brokers.values():
            broker.start()
        for number in self.brokers:
            self.wait_ready(number, UP_DEADLINE_S)

    def down(self) -> list[int]:
        cluster = self.clock.cluster
        if cluster is None or self._written_out:
            return []
        running = [broker for broker in cluster.brokers.values() if broker.up]
        for broker in running:
            broker.resume()
            broker.shut_down()
        with suppress(RanWild):
            self._until_down(running)
        killed = [broker.id for broker in running if broker.up]
        for broker in running:
            broker.crash(lossy=False, torn=False)
        cluster.close()
        for broker in cluster.brokers.values():
            for source, target in self._folders(broker):
                _write_out(broker.disk, source, target)
        self._written_out = True
        return killed

    def _until_down(self, brokers: Sequence[SimBroker]) -> bool:
        """Wait for the end of controlled shutdowns; whether all have come to it."""
        return self.cluster.run_until(lambda: not any(broker.up for broker in brokers), SHUTDOWN_S_MAX)

    def _folders(self, broker: SimBroker) -> list[tuple[str, Path]]:
        """Directories of a broker's disk, and where they are written out."""
        folder = self.data / f"broker-{broker.id}"
        found = [(self.cluster.data_dir, folder / "data")]
        if self.cluster.unflushed_dir is not None:
            found.append((self.cluster.unflushed_dir, folder / "unflushed"))
        return found

    # -- brokers ----------------------------------------------------------------------------------------------------------

    def condition(self, broker: int) -> BrokerCondition:
        found = self.cluster.brokers[broker]
        if not found.up:
            return BrokerCondition.DEAD
        return BrokerCondition.PAUSED if found.paused else BrokerCondition.RUNNING

    def is_ready(self, broker: int) -> bool:
        found = self.cluster.brokers[broker]
        me = found.image.brokers.get(broker)
        registered = me is not None and me.epoch == found.broker_epoch and not me.fenced
        return found.up and not found.paused and not found.stopping and registered

    def wait_ready(self, broker: int, deadline_s: float) -> None:
        if not self.cluster.run_until(lambda: self.is_ready(broker), deadline_s):
            raise ToolTrouble(f"broker {broker} is not ready after {deadline_s:g} s")

    def _living(self, broker: int) -> SimBroker:
        found = self.cluster.brokers[broker]
        if not found.up:
            raise ToolTrouble(f"broker {broker} does not run")
        return found

    def _dead(self, broker: int) -> SimBroker:
        found = self.cluster.brokers[broker]
        if found.up:
            raise ToolTrouble(f"broker {broker} runs; its files can be wiped only while it is down")
        return found

    def start(self, broker: int) -> None:
        found = self.cluster.brokers[broker]
        if found.up:
            raise ToolTrouble(f"broker {broker} runs already")
        found.start()

    def kill(self, brokers: Sequence[int]) -> None:
        for found in [self._living(broker) for broker in brokers]:
            found.crash(lossy=False, torn=False)

    def terminate(self, broker: int, seconds: float | None = None) -> None:
        del seconds  # of a session, which no simulation has
        found = self._living(broker)
        found.resume()
        found.shut_down()
        if not self._until_down([found]):
            raise ToolTrouble(f"broker {broker} still runs {SHUTDOWN_S_MAX:g} s after it was asked to stop")

    def pause(self, brokers: Sequence[int]) -> None:
        for broker in brokers:
            self._living(broker).pause()

    def resume(self, broker: int) -> None:
        self._living(broker).resume()

    def make(self, fault: Fault, targets: Targets) -> Mapping[str, Any]:
        connections = self.cluster.connections
        match fault.verb:
            case Verb.CUT | Verb.DELAY | Verb.LOSS:
                rules = link_rules(fault, targets)
                connections.change(lambda faults: faults.add(fault.id, rules))
            case Verb.HEAL:
                connections.change(lambda faults: faults.join(targets.links))
            case Verb.CLOCK_STEP:
                for broker in targets.brokers:
                    self.cluster.brokers[broker].clock_off_ms += fault.parameters.millis or 0
            case Verb.STORE_OUTAGE:
                self.cluster.store.down = True
            case Verb.DISK_FULL | Verb.FAILING_FSYNC:
                self._disk_faults[fault.id] = (fault.verb, tuple(targets.brokers))
                self._set_disks()
            case _:
                return super().make(fault, targets)
        return {}

    def unmake(self, handle: Handle) -> list[str]:
        fault = handle.fault
        match fault.verb:
            case Verb.CUT | Verb.DELAY | Verb.LOSS:
                ended = self.cluster.connections.change(lambda faults: faults.remove(fault.id))
                return healed(handle.targets) if ended else []
            case Verb.CLOCK_STEP:
                for broker in handle.targets.brokers:
                    self.cluster.brokers[broker].clock_off_ms -= fault.parameters.millis or 0
                return [f"set the clock of broker {broker}" for broker in handle.targets.brokers]
            case Verb.STORE_OUTAGE:
                return self._reopen_store()
            case Verb.DISK_FULL | Verb.FAILING_FSYNC:
                self._disk_faults.pop(fault.id, None)
                self._set_disks()
                done = [f"ended {fault.verb.value} of broker {broker}" for broker in handle.targets.brokers]
                return done + [line for one in handle.targets.brokers if (line := self.bring_back(one)) is not None]
        return super().unmake(handle)

    def _set_disks(self) -> None:
        """Have each disk refuse what the open faults say."""
        for broker in self.cluster.brokers.values():
            refused = {
                operation: number
                for verb, brokers in self._disk_faults.values()
                if broker.id in brokers
                for operation, number in REFUSED[verb].items()
            }
            broker.disk_may_refuse = broker.disk_may_refuse or bool(refused)
            broker.disk.fault_hook = partial(_refuse, refused) if refused else None

    def _reopen_store(self) -> list[str]:
        was, self.cluster.store.down = self.cluster.store.down, False
        return ["the store answers again"] if was else []

    def wipe_unflushed(self, broker: int) -> None:
        found = self._dead(broker)
        if self.cluster.unflushed_dir is None:
            raise ToolTrouble(f"broker {broker} has no unflushed directory, so what is unflushed cannot be lost")
        found.disk.rmtree(self.cluster.unflushed_dir)

    def wipe_volume(self, broker: int) -> None:
        self._dead(broker).disk = MemoryFileSystem()
        self._set_disks()

    def heal_all(self) -> list[str]:
        done = self._reopen_store()
        if self._disk_faults:
            self._disk_faults.clear()
            self._set_disks()
            done.append("ended the faults of every disk")
        if self.cluster.connections.change(lambda faults: faults.clear()):
            done.append("healed every link")
        for found in self.cluster.brokers.values():
            if found.clock_off_ms:
                found.clock_off_ms = 0
                done.append(f"set the clock of broker {found.id}")
        done += [line for broker in self.brokers if (line := self.bring_back(broker)) is not None]
        for broker in self.brokers:
            self.wait_ready(broker, UP_DEADLINE_S)
        return done

    # -- what can be seen -------------------------------------------------------------------------------------------------

    def metrics(self, broker: int) -> Sequence[Sample]:
        """None: nobody scrapes a simulation."""
        del broker
        return ()

    def observer(self, folder: Path) -> None:
        """None: nobody scrapes a simulation."""
        del folder

    def replica_status(self, broker: int, topic_partition: TopicPartition) -> ReplicaStatus:
        found = self.cluster.brokers[broker]
        partition = found.partitions.get(topic_partition)
        if not found.up or found.paused or partition is None:
            return ReplicaStatus()
        log = partition.log
        return ReplicaStatus(
            role=int(partition.role),
            leader_epoch=partition.leader_epoch,
            log_end_offset=log.log_end_offset,
            high_watermark=partition.high_watermark,
            flushed_offset=log.flushed_offset,
        )

    def checkpointed_high_watermark(self, broker: int, topic_partition: TopicPartition) -> int | None:
        disk, path = self.cluster.brokers[broker].disk, f"{self.cluster.data_dir}/{CHECKPOINT}"
        return read_offsets(disk, path).get(topic_partition) if disk.exists(path) else None

    def replica_log(self, broker: int, topic_partition: TopicPartition) -> ReplicaLog:
        folder = self.data / f"broker-{broker}"
        if not self._written_out:
            raise ReplicaLogError(f"broker {broker}: its disk is not written out before the cluster is down")
        return read_replica_log(broker, topic_partition, folder / "data", folder / "unflushed")

    def collect_events(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if self.clock.cluster is not None:
            for broker, path in self.clock.cluster.events_paths.items():
                if path.exists():
                    shutil.copyfile(path, folder / f"broker-{broker}.jsonl")


def _refuse(refused: Mapping[str, int], operation: str, path: str) -> None:
    number = refused.get(operation)
    if number is not None:
        raise injected_error(number, path)


def _write_out(disk: MemoryFileSystem, source: str, target: Path) -> None:
    """Copy a directory of a simulated disk to a real one."""
    target.mkdir(parents=True, exist_ok=True)
    if not disk.is_dir(source):
        return
    for name in disk.listdir(source):
        path = f"{source}/{name}"
        if disk.is_dir(path):
            _write_out(disk, path, target / name)
        else:
            (target / name).write_bytes(disk.read_bytes(path))
