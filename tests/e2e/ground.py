"""The Kubernetes ground for scenarios: the documents that run on processes run here unchanged, on pods and volumes.

Kill is SIGKILL from the node, and the container's shim is stopped first, so that the kubelet starts nothing again before
the scenario does. Power loss is that, and then the pod is deleted: its volume in memory goes with it. Scenarios number
brokers from 1, a StatefulSet from 0: a scenario that names brokers gets one more, which has no part in the story.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

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

from tests.e2e.broker_cluster import METRICS_PORT, SMALL, BrokerCluster
from tests.e2e.kubectl import KubectlError, eventually
from tests.e2e.node import NodeError, Process
from tests.e2e.objects import NotInTime, ObjectsError

UP_SECONDS_MAX = 90
STOP_SECONDS_MAX = 40
RESTART_SECONDS_MAX = 60
"""The kubelet waits longer from one restart of a container to the next: 0, 10, 20 s."""

STRETCH = 3
"""A container is back seconds after it was told to start, a process tenths. What a scenario lets happen within a session
of the old one, such as a follower's restart, needs sessions that are so much longer."""
SESSION = "broker.session.timeout.ms"

LOG_FOLDER = "log"
CHECKPOINT = "replication-offset-checkpoint"
PROXY_SAYS = re.compile(r"127\.0\.0\.1:(\d+)")


@contextlib.contextmanager
def _trouble() -> Iterator[None]:
    try:
        yield
    except (KubectlError, NodeError, NotInTime, ObjectsError) as error:
        raise ToolTrouble(str(error)) from error


class KubernetesGround(BrokerVerbs):
    """A new MiniKafkaCluster for one scenario. `scratch` is where its volumes' files are copied to at the end."""

    name = "kubernetes"
    clock = MACHINE_CLOCK
    replayable = False
    lacks = LACKS["kubernetes"]

    def __init__(self, cluster: BrokerCluster, scratch: Path) -> None:
        self.cluster = cluster
        self.scratch = scratch
        self.clients = KafkaClients(lambda: self.address, lambda: self.live_bootstrap)
        self._count = 0
        self._held: dict[int, Process] = {}
        self._addresses: dict[int, str] = {}
        self._folders: dict[tuple[str, int], str] = {}
        self._proxy = cluster.kubectl.start("proxy", "--port=0")
        assert self._proxy.stdout is not None
        said = PROXY_SAYS.search(self._proxy.stdout.readline())
        if said is None:
            raise ToolTrouble("kubectl proxy did not say where it listens")
        self._proxy_port = int(said[1])

    def close(self) -> None:
        """End what runs beside the cluster."""
        self._proxy.terminate()
        self._proxy.wait(10)

    # -- what there is -------------------------------------------------------------------------------------------------

    def refusals(self, spec: ScenarioSpec) -> Iterable[str]:
        return ["cluster.racks: one node is one rack"] if spec.cluster.racks else []

    @property
    def brokers(self) -> Sequence[int]:
        return range(self._count)

    @property
    def address(self) -> str:
        return ",".join(self._addresses.values())

    @property
    def live_bootstrap(self) -> str:
        """The addresses of the brokers that run now: a client that asks only these is not kept waiting."""
        live = [where for broker, where in self._addresses.items() if broker not in self._held]
        return ",".join(live or self._addresses.values())

    def metrics_url(self, broker: int) -> str:
        pod = f"namespaces/{self.cluster.kubectl.namespace}/pods/{self.cluster.pod_name(broker)}:{METRICS_PORT}"
        return f"http://127.0.0.1:{self._proxy_port}/api/v1/{pod}/proxy/metrics"

    def metrics(self, broker: int) -> Sequence[Sample]:
        return scrape_or_nothing(self.metrics_url(broker))

    def observer(self, folder: Path) -> Observer:
        return Observer(folder, {broker: self.metrics_url(broker) for broker in self.brokers})

    def replica_status(self, broker: int, topic_partition: TopicPartition) -> ReplicaStatus:
        return scrape_status(self.metrics_url(broker), topic_partition)

    # -- up and down ---------------------------------------------------------------------------------------------------

    def up(self, scenario: ScenarioSpec, seed: int) -> None:
        del seed
        cluster = scenario.cluster
        config = as_config(cluster.config)
        if SESSION in config:
            config[SESSION] = str(int(config[SESSION]) * STRETCH)
        # A scenario that starts a broker and waits for it waits until it serves; it may not be in sync for a reason.
        config.setdefault("minikafka.ready.in.sync.timeout.ms", "0")
        self._count = cluster.brokers
        spec = {
            "brokers": {"replicas": self._count, "resources": SMALL},
            "replication": {
                "defaultFactor": min(3, self._count),
                "minInsyncReplicas": int(config.pop("min.insync.replicas", "1")),
            },
            "config": config,
            "storage": {"size": "100Mi"},
            "flightRecorder": {"type": "PersistentClaim", "size": "100Mi"},
            "listeners": {"external": {"type": "NodePort"}},
        }
        if cluster.unflushed_volume is UnflushedVolume.SEPARATE:
            spec["unflushedVolume"] = {"sizeLimit": "64Mi"}
        with _trouble():
            self.cluster.up(spec, UP_SECONDS_MAX)
            self._addresses = self.cluster.external()
            for broker in range(self._count):
                for volume in ("data", "events"):
                    folder = self.cluster.volume_path(volume, broker)
                    if folder is None:
                        raise ToolTrouble(f"broker {broker} has no volume {volume}")
                    self._folders[volume, broker] = folder

    def down(self) -> list[int]:
        """Delete the cluster, whose claims stay; then copy what the volumes hold."""
        if not self._folders:
            return []
        with _trouble():
            for broker in list(self._held):
                self.bring_back(broker)
            self.cluster.down()
        for (volume, broker), folder in self._folders.items():
            target = self.scratch / f"{volume}-{broker}"
            if not self.cluster.node.copy_folder(folder, target):
                raise ToolTrouble(f"could not copy {folder} from the node")
        return []

    # -- brokers -------------------------------------------------------------------------------------------------------

    def condition(self, broker: int) -> BrokerCondition:
        if broker in self._held:
            return BrokerCondition.DEAD
        with _trouble():
            process = self.cluster.process(broker)
        if process is None or process.state in ("Z", "X"):
            return BrokerCondition.DEAD
        return BrokerCondition.PAUSED if process.state == "T" else BrokerCondition.RUNNING

    def is_ready(self, broker: int) -> bool:
        with _trouble():
            return broker not in self._held and self.cluster.is_ready(broker)

    def wait_ready(self, broker: int, deadline_s: float) -> None:
        with _trouble():
            self.cluster.wait_broker_ready(broker, deadline_s)

    def start(self, broker: int) -> None:
        """Let the kubelet start it again. One whose pod was deleted is on its way back by itself."""
        with _trouble():
            held = self._held.pop(broker, None)
            if held is not None:
                self.cluster.node.release(held)

            def runs() -> bool:
                process = self.cluster.process(broker)
                return process is not None and process.pid != (held.pid if held else None) and process.state != "Z"

            eventually(runs, seconds=RESTART_SECONDS_MAX, what=f"broker {broker} runs again")

    def kill(self, brokers: Sequence[int]) -> None:
        self._end(brokers, "KILL")

    def terminate(self, broker: int) -> None:
        self._end([broker], "TERM")

    def _end(self, brokers: Sequence[int], signal: str) -> None:
        if dead := [broker for broker in brokers if self.condition(broker) is BrokerCondition.DEAD]:
            raise ToolTrouble(f"brokers {dead} do not run")
        with _trouble():
            processes = self.cluster.processes(brokers)
            self.cluster.node.kill_and_hold(processes, signal, frozen_first=signal == "KILL")
            self._held.update(zip(brokers, processes, strict=True))
            pids = {process.pid for process in processes}
            # By process id, for a zombie has left its cgroup.
            script = (
                'for pid; do read -r _ _ state _ < "/proc/$pid/stat" && [ "$state" != Z ] && echo "$pid"; done; true'
            )
            eventually(
                lambda: self.cluster.node.run("bash", "-c", script, "alive", *map(str, pids)).split(),
                lambda alive: not alive,
                seconds=STOP_SECONDS_MAX,
                what=f"brokers {list(brokers)} ended",
            )

    def pause(self, brokers: Sequence[int]) -> None:
        with _trouble():
            self.cluster.node.signal("STOP", [process.pid for process in self.cluster.processes(brokers)])

    def resume(self, broker: int) -> None:
        with _trouble():
            self.cluster.node.signal("CONT", [process.pid for process in self.cluster.processes([broker])])

    def wipe_unflushed(self, broker: int) -> None:
        """Delete the pod: what it kept in memory is gone. The StatefulSet makes a new one at once."""
        held = self._held.pop(broker, None)
        if held is None:
            raise ToolTrouble(f"broker {broker} is not dead: kill it first")
        with _trouble():
            self.cluster.replace_held(broker, held)

    def wipe_volume(self, broker: int) -> None:
        raise ToolTrouble(f"this ground cannot take broker {broker}'s volume away")

    def heal_all(self) -> list[str]:
        done = [line for broker in self.brokers if (line := self.bring_back(broker)) is not None]
        deadline = time.monotonic() + RESTART_SECONDS_MAX
        for broker in self.brokers:
            self.wait_ready(broker, max(1.0, deadline - time.monotonic()))
        return done

    # -- files ---------------------------------------------------------------------------------------------------------

    def checkpointed_high_watermark(self, broker: int, topic_partition: TopicPartition) -> int | None:
        with _trouble():
            text = self.cluster.node.read(f"{self._folders['data', broker]}/{LOG_FOLDER}/{CHECKPOINT}")
        rows = [line.split() for line in (text or "").splitlines()[2:]]
        wanted = [topic_partition.topic, str(topic_partition.partition)]
        return next((int(row[2]) for row in rows if row[:2] == wanted), None)

    def replica_log(self, broker: int, topic_partition: TopicPartition) -> ReplicaLog:
        folder = self.scratch / f"data-{broker}" / LOG_FOLDER
        if not folder.is_dir():
            raise ReplicaLogError(f"no files of broker {broker} were copied")
        return read_replica_log(broker, topic_partition, folder)

    def collect_events(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for broker in range(self._count):
            for file in (self.scratch / f"events-{broker}").glob("*.jsonl"):
                shutil.copyfile(file, folder / file.name)
