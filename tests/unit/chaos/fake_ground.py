"""A ground without brokers, that writes down what was asked of it; for the tests of the story and the runner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from minikafka.protocol.types import TopicPartition
from minikafka.telemetry.fault_verbs import Verb
from minikafka_chaos.clock import MACHINE_CLOCK
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.grounds import BrokerCondition
from minikafka_chaos.grounds.by_broker import BrokerVerbs
from minikafka_chaos.load.kafka_clients import KafkaClients
from minikafka_chaos.record.observe import ReplicaStatus, Sample
from minikafka_chaos.record.replica_logs import ReplicaLog, ReplicaLogError
from minikafka_chaos.scenario.faults import Fault, Handle, Targets
from minikafka_chaos.scenario.scenario import ScenarioSpec


class FakeGround(BrokerVerbs):
    name = "fake"

    def __init__(self, fail_at: str | None = None, error: BaseException | None = None) -> None:
        self.asked: list[str] = []
        self.conditions: dict[int, BrokerCondition] = {}
        self.statuses: dict[int, ReplicaStatus] = {}
        self.refused: list[str] = []
        self.samples: list[Sample] = []
        self.lacks: dict[Verb, str] = {}
        self._fail_at = fail_at
        self._error = error or ToolTrouble("the ground is wet")

    clock = MACHINE_CLOCK
    replayable = False
    address = "127.0.0.1:1"
    clients = KafkaClients(lambda: "127.0.0.1:1", lambda: "127.0.0.1:1")

    def refusals(self, spec: ScenarioSpec) -> Iterable[str]:
        return self.refused

    @property
    def brokers(self) -> Sequence[int]:
        return sorted(self.conditions)

    def _asked(self, what: str) -> None:
        self.asked.append(what)
        if what.split(maxsplit=1)[0] == self._fail_at:
            raise self._error

    def up(self, spec: ScenarioSpec, seed: int) -> None:
        self._asked("up")
        self.conditions = dict.fromkeys(range(spec.cluster.brokers), BrokerCondition.RUNNING)

    def down(self) -> list[int]:
        self._asked("down")
        return []

    def condition(self, broker: int) -> BrokerCondition:
        return self.conditions[broker]

    def start(self, broker: int) -> None:
        self._asked(f"start {broker}")
        self.conditions[broker] = BrokerCondition.RUNNING

    def wait_ready(self, broker: int, deadline_s: float) -> None:
        self._asked(f"wait_ready {broker}")

    def is_ready(self, broker: int) -> bool:
        return self.conditions[broker] is BrokerCondition.RUNNING

    def kill(self, brokers: Sequence[int]) -> None:
        self._asked(f"kill {' '.join(map(str, brokers))}")
        self.conditions.update(dict.fromkeys(brokers, BrokerCondition.DEAD))

    def terminate(self, broker: int, seconds: float | None = None) -> None:
        self._asked(f"terminate {broker}")
        self.conditions[broker] = BrokerCondition.DEAD

    def pause(self, brokers: Sequence[int]) -> None:
        self._asked(f"pause {' '.join(map(str, brokers))}")
        self.conditions.update(dict.fromkeys(brokers, BrokerCondition.PAUSED))

    def resume(self, broker: int) -> None:
        self._asked(f"resume {broker}")
        self.conditions[broker] = BrokerCondition.RUNNING

    def make(self, fault: Fault, targets: Targets) -> Mapping[str, Any]:
        links = " ".join(f"{broker}-{peer}" for broker, peer in targets.links)
        brokers = " ".join(map(str, targets.brokers))
        self._asked(f"{fault.verb.value} {links or brokers}".strip())
        return {"made": fault.id}

    def unmake(self, handle: Handle) -> list[str]:
        assert handle.state == {"made": handle.fault.id}
        self._asked(f"undo {handle.fault.verb.value}")
        return [f"undid {handle.fault.id}"]

    def wipe_unflushed(self, broker: int) -> None:
        self._asked(f"wipe_unflushed {broker}")

    def wipe_volume(self, broker: int) -> None:
        self._asked(f"wipe_volume {broker}")

    def heal_all(self) -> list[str]:
        self._asked("heal_all")
        return []

    def metrics(self, broker: int) -> Sequence[Sample]:
        return self.samples

    def observer(self, folder: Path) -> None:
        return None

    def replica_status(self, broker: int, topic_partition: TopicPartition) -> ReplicaStatus:
        return self.statuses.get(broker, ReplicaStatus())

    def checkpointed_high_watermark(self, broker: int, topic_partition: TopicPartition) -> int | None:
        return None

    def replica_log(self, broker: int, topic_partition: TopicPartition) -> ReplicaLog:
        raise ReplicaLogError("a fake ground has no logs")

    def collect_events(self, folder: Path) -> None:
        self._asked("collect_events")
