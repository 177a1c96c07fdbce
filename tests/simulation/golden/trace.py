"""Runs the schedule of a golden trace on a simulated cluster and tells what was decided.

A trace is a text file. Lines that begin with ``#`` say what it shows and where the rule comes from, lines that begin with ``>``
are the schedule, and below each of these stands what came of it: the brokers' events in their order, the outcomes of records
that were sent, then the partition as the store has it (``store``) and each replica (``bN``), where they have changed::

    b1 leads epoch 3   0:m0@1 1:m1@3   hw 1 flushed 0

is a replica with record m0 of leader epoch 1 at offset 0, m1 of epoch 3 at offset 1, high watermark 1, nothing flushed.

Schedule: ``cluster N KEY=VALUE...`` first, then ``topic LEADER,FOLLOWER...  KEY=VALUE...`` (one partition); ``send VALUE
[acks=all|1|0]``; ``run SECONDS``; ``kill``, ``power-loss``, ``wipe``, ``start``, ``stop``, ``pause``, ``resume``, ``flush``
(each with brokers); ``cut A>B...`` and ``heal``; ``store away``, ``store back``. A line that ends with ``for SECONDS`` says
how much time goes by after it.

Every delay is the middle of its range and every choice the first, so that a trace changes only when a decision does.
``python -m tests.simulation.golden.trace --write [NAME...]`` writes what is decided now: read the difference before you
commit it.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from minikafka.controller.topics import NewTopic
from minikafka.log.simulated_disk import MemoryFileSystem
from minikafka.metadata.image import ClusterImage
from minikafka.protocol.records import Record, build_batch
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.links.rules import LinkRule, Way
from minikafka_chaos.scenario.document import ConfigEntry
from minikafka_chaos.scenario.scenario import ClusterSpec
from minikafka_simulator.cluster.broker import SimBroker
from minikafka_simulator.ground.configured import ConfiguredCluster
from minikafka_simulator.machine.network import Reply

T = TypeVar("T")

FOLDER = Path(__file__).parent
SUFFIX = ".txt"
TP = TopicPartition("t", 0)

SETTLED_S = 1.0
"""Virtual seconds that go by after each line of the schedule, unless it says how many: what it leads to at once."""
UP_S = 5.0

OF_NO_INTEREST = {"broker_starting", "broker_ready", "broker_stopping", "log_recovered", "topic_created"}
UNTOLD = {"seconds", "version", "cluster_id", "listeners", "silent_ms", "broker_epoch", "topic_id", "truncated_bytes"}
"""Fields that tell of times and identities."""


class Even(random.Random):
    """No chance: the middle of each range, and the first of each choice."""

    def random(self) -> float:
        return 0.5

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2

    def choice(self, seq: Any) -> Any:
        return seq[0]


class BadSchedule(ValueError):
    """A line of a schedule that cannot be carried out; one line."""


class TracedCluster(ConfiguredCluster):
    """Notes the events of its brokers."""

    def __init__(self, cluster: ClusterSpec, folder: Path) -> None:
        self.told: list[str] = []
        super().__init__(cluster, 0, folder)
        self.random = self.scheduler.random = Even()

    def event(
        self, broker: SimBroker, name: str, topic: str | None = None, partition: int | None = None, **fields: Any
    ) -> None:
        if name not in OF_NO_INTEREST:
            told = " ".join(f"{key}={_plain(value)}" for key, value in fields.items() if key not in UNTOLD)
            self.told.append(f"  b{broker.id} {name} {told}".rstrip())


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple | set | frozenset):
        return "[" + ",".join(map(str, sorted(value) if isinstance(value, set | frozenset) else value)) + "]"
    return str(value).replace(" ", "_")


class Trace:
    """One schedule as it is carried out; `lines` is what it tells."""

    def __init__(self, folder: Path, watch: Callable[[TracedCluster], Any] | None = None) -> None:
        self._folder, self._watch = folder, watch
        self._cluster: TracedCluster | None = None
        self._image = ClusterImage("")
        self._shown: dict[str, str] = {}
        self._seconds: float | None = None

    @property
    def cluster(self) -> TracedCluster:
        if self._cluster is None:
            raise BadSchedule("the first line has to be: cluster N")
        return self._cluster

    def close(self) -> None:
        """Close what the cluster has open."""
        if self._cluster is not None:
            self._cluster.close()

    def carry_out(self, line: str) -> list[str]:
        """One line of the schedule; what came of it. Raises BadSchedule."""
        verb, *words = line.split()
        self._seconds = None
        if words[-2:-1] == ["for"]:
            self._seconds = float(words[-1])
            del words[-2:]
        act: Callable[[list[str]], None] | None = getattr(self, f"_do_{verb.replace('-', '_')}", None)
        if act is None:
            raise BadSchedule(f"{line}: unknown; allowed: see tests/simulation/golden/trace.py")
        try:
            act(words)
        except (IndexError, KeyError, ValueError) as error:
            raise BadSchedule(f"{line}: {error!r}") from error
        told, self.cluster.told = self.cluster.told, []
        return [*told, *self._changes()]

    # -- what there is to see -------------------------------------------------------------------------------------------------

    def _changes(self) -> list[str]:
        """The partition and its replicas, where they are not as they were last told."""
        seen = {"store": self._metadata()} | {
            f"b{each.id}": self._replica(each) for each in self.cluster.brokers.values()
        }
        changed = [f"  {name} {text}" for name, text in seen.items() if text and self._shown.get(name) != text]
        self._shown |= seen
        return changed

    def _metadata(self) -> str:
        changes = self.cluster.store.changes(self._image.revision)
        for key, value in changes.records.items():
            self._image.apply(key, value)
        self._image.revision = changes.revision
        topic = self._image.topics.get(TP.topic)
        if topic is None:
            return ""
        state = topic.partitions[TP.partition]
        text = f"leader {state.leader} epoch {state.leader_epoch}.{state.partition_epoch} isr {_plain(state.isr)}"
        return text + (f" elr {_plain(state.elr)}" if state.elr else "")

    def _replica(self, broker: SimBroker) -> str:
        if not broker.up:
            return "is down"
        partition = broker.partitions.get(TP)
        if partition is None:
            return ""
        log = partition.log
        role = "leads" if partition.leader is not None else "follows" if partition.follower is not None else "holds"
        records = [
            f"{record.offset}:{(record.value or b'').decode()}@{batch.header.partition_leader_epoch}"
            for batch in log.read_batches(log.log_start_offset, log.log_end_offset)
            for record in batch.records()
        ]
        frozen = " (paused)" if broker.paused else ""
        text = f"{role} epoch {partition.leader_epoch}   {' '.join(records) or '-'}   hw {partition.high_watermark}"
        return f"{text} flushed {log.flushed_offset}{frozen}"

    # -- the schedule ---------------------------------------------------------------------------------------------------------

    def _run(self, seconds: float = SETTLED_S) -> None:
        self.cluster.run_for(seconds if self._seconds is None else self._seconds)

    def _brokers(self, words: list[str]) -> list[SimBroker]:
        if not words:
            raise ValueError("no broker is named")
        return [self.cluster.brokers[int(word)] for word in words]

    def _do_cluster(self, words: list[str]) -> None:
        config = [ConfigEntry(name=key, value=value) for key, _, value in (word.partition("=") for word in words[1:])]
        self._cluster = TracedCluster(ClusterSpec(brokers=int(words[0]), config=config), self._folder)
        if self._watch is not None:
            self._cluster.watcher = self._watch(self._cluster)
        for broker in self._cluster.brokers.values():
            broker.start()
        self._run(UP_S)
        self._cluster.told.clear()  # every cluster begins so

    def _do_topic(self, words: list[str]) -> None:
        replicas = tuple(map(int, words[0].split(",")))
        config = dict(word.split("=", 1) for word in words[1:])
        wish = NewTopic(TP.topic, assignment={0: replicas}, configs=config)
        controller = next(broker.role for broker in self.cluster.brokers.values() if broker.role is not None)
        answers: list[Any] = []
        controller.submit(lambda c: c.topics.create(wish), answers.append)
        self._run()
        if not answers or isinstance(answers[0], Exception):
            raise ValueError(f"the topic was not made: {answers}")

    def _do_send(self, words: list[str]) -> None:
        value, *options = words
        acks = {"": -1, "acks=all": -1, "acks=1": 1, "acks=0": 0}["".join(options)]
        up = [broker for broker in self.cluster.brokers.values() if broker.up and not broker.paused]
        newest = max(up, key=lambda broker: broker.image.revision)
        leader = newest.image.topics[TP.topic].partitions[TP.partition].leader
        told = self.cluster.told
        if leader < 0:
            told.append(f"  client: {value}: there is no leader")
            return
        batch = bytes(build_batch([Record(0, self.cluster.now_ms, None, value.encode())]))

        def serve(broker: SimBroker, reply: Reply) -> None:
            broker.gate.produce([(TP, batch)], acks, reply)

        def answered(answer: Any) -> None:
            if not acks:
                return
            ((error, offset),) = answer
            self.cluster.told.append(
                f"  client: {value}: {error.name if error else f'acknowledged at offset {offset}'}"
            )

        def refused() -> None:
            self.cluster.told.append(f"  client: {value}: the connection was closed")

        self.cluster.network.request(leader, serve, answered, refused)
        self._run()

    def _do_run(self, words: list[str]) -> None:
        self._run(float(words[0]))

    def _do_kill(self, words: list[str]) -> None:
        for broker in self._brokers(words):
            broker.crash(lossy=False, torn=False)
        self._run()

    def _do_power_loss(self, words: list[str]) -> None:
        for broker in self._brokers(words):
            broker.crash(lossy=False, torn=False)
            assert self.cluster.unflushed_dir is not None
            broker.disk.rmtree(self.cluster.unflushed_dir)
        self._run()

    def _do_wipe(self, words: list[str]) -> None:
        for broker in self._brokers(words):
            if broker.up:
                raise ValueError(f"broker {broker.id} runs")
            broker.disk = MemoryFileSystem()

    def _do_start(self, words: list[str]) -> None:
        for broker in self._brokers(words):
            broker.start()
        self._run(UP_S)

    def _do_stop(self, words: list[str]) -> None:
        for broker in self._brokers(words):
            broker.shut_down()
        self._run(UP_S)

    def _do_pause(self, words: list[str]) -> None:
        for broker in self._brokers(words):
            broker.pause()
        self._run()

    def _do_resume(self, words: list[str]) -> None:
        for broker in self._brokers(words):
            broker.resume()
        self._run()

    def _do_flush(self, words: list[str]) -> None:
        for broker in self._brokers(words):
            broker.partitions[TP].log.flush()

    def _do_cut(self, words: list[str]) -> None:
        ways = [Way(*map(int, word.split(">"))) for word in words]
        self.cluster.connections.change(lambda faults: faults.add("cut", [(way, LinkRule(cut=True)) for way in ways]))
        self._run()

    def _do_heal(self, words: list[str]) -> None:
        del words
        self.cluster.connections.change(lambda faults: faults.clear())
        self._run()

    def _do_store(self, words: list[str]) -> None:
        self.cluster.store.down = {"away": True, "back": False}[words[0]]
        self._run()


def told(text: str) -> str:
    """The trace of a file's schedule, as it is now: comments and schedule as they stand, the rest anew. Raises BadSchedule."""
    out: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        trace = Trace(Path(folder))
        try:
            for line in text.splitlines():
                if line.startswith(">"):
                    out.append(line)
                    out += trace.carry_out(line[1:])
                elif line.startswith("#") or not line.strip():
                    out.append(line)
        finally:
            trace.close()
    return "\n".join(out).rstrip("\n") + "\n"


def files() -> list[Path]:
    """All golden traces."""
    return sorted(FOLDER.glob(f"*{SUFFIX}"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 all are as they were, or were written; 1 some differ; 2 bad input."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.golden.trace", description="Golden traces.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="without .txt (default: all)")
    parser.add_argument("--write", action="store_true", help="write what is decided now")
    given = parser.parse_args(arguments)
    wanted = [FOLDER / f"{name}{SUFFIX}" for name in given.names] or files()
    differ = 0
    for path in wanted:
        try:
            before = path.read_text(encoding="utf-8")
            now = told(before)
        except (OSError, BadSchedule) as error:
            print(f"{path.name}: {error}", file=sys.stderr)
            return 2
        if now == before:
            continue
        if given.write:
            path.write_text(now, encoding="utf-8")
        else:
            differ = 1
        print(f"{path.name} {'written' if given.write else 'differs'}")
    return differ


if __name__ == "__main__":
    sys.exit(main())
