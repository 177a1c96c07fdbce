"""kill -9 of a partition's leader, again and again, under load: how long do acknowledgements stay away?

    python -m bench.failover [--contender minikafka|kafka] [--kills 20]

A confluent-kafka producer (acks=all, idempotent, linger 0, about 200 records a second) writes unique values to one
partition with three replicas. Each time all replicas are in sync, the leader is killed; once records that were sent
after the kill are acknowledged, it is started again. The gap of a kill is the longest time between two successive
acknowledgements around it. At the end the partition is read back: an acknowledged record that is not at its offset is
lost. Prints one line a kill, then the median and the worst gap; exit code 1 when a record was lost.

Each kill gets a producer of its own. One that lived through all of them would measure itself: librdkafka waits up to
10 s (reconnect.backoff.max.ms) before it tries a broker again whose connections it has seen refused, and the broker
that was killed a moment ago is the next leader.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import threading
import time
from types import TracebackType
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.apache_kafka import NODES
from bench.contenders import NAMES, Contender, temporary
from bench.readiness import wait_for_replicas
from bench.topics import fresh_topic
from tests.interop.raw_client import ClusterInfo

RECORDS_PER_SECOND = 200
VALUE_BYTES = 200
STEADY_SECONDS = 1.0
RECOVERY_SECONDS_MAX = 60.0
TAIL_SECONDS = 0.5
"""How long after the first acknowledgement a second gap still belongs to the same kill."""


class Kill(NamedTuple):
    """One kill: who it was, the gap in acknowledgements, and how soon a record sent after it was acknowledged."""

    leader: int
    was_controller: bool
    gap_s: float
    kill_to_new_ack_s: float


class Verdict(NamedTuple):
    """What became of the records."""

    acknowledged: int
    failed: int
    lost: int
    duplicated: int


class FailoverFigures(NamedTuple):
    """All kills of a run, and what was lost by them."""

    kills: list[Kill]
    verdict: Verdict

    @property
    def median_gap_s(self) -> float:
        return statistics.median(kill.gap_s for kill in self.kills)

    @property
    def worst_gap_s(self) -> float:
        return max(kill.gap_s for kill in self.kills)


class SteadyProducer:
    """Writes numbered records to partition 0 at a steady rate, in a thread, until the block ends."""

    def __init__(self, bootstrap: str, topic: str, first_number: int = 0) -> None:
        self.topic = topic
        self.next_number = first_number
        self.acks: list[tuple[float, float, int, int]] = []
        """(when acknowledged, when sent, number, offset), times monotonic; appended by librdkafka's callback."""
        self.failed = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": 60_000,
                "log_level": 0,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> SteadyProducer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(RECOVERY_SECONDS_MAX)

    def _run(self) -> None:
        begin, first = time.monotonic(), self.next_number
        while not self._stop.is_set():
            while self.next_number - first <= (time.monotonic() - begin) * RECORDS_PER_SECOND:
                try:
                    self._send(self.next_number)
                except BufferError:
                    break
                self.next_number += 1
            self._producer.poll(0.001)

    def _send(self, number: int) -> None:
        sent_at = time.monotonic()

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.acks.append((time.monotonic(), sent_at, number, message.offset() or 0))
            else:
                self.failed += 1

        self._producer.produce(self.topic, value_of(number), partition=0, on_delivery=on_delivery)

    def wait_for_ack_of_record_sent_after(self, moment: float) -> float:
        """Return when the first such record was acknowledged; raises ``TimeoutError``."""
        deadline = time.monotonic() + RECOVERY_SECONDS_MAX
        start = 0
        while time.monotonic() < deadline:
            acks = self.acks
            for index in range(max(0, start), len(acks)):
                if acks[index][1] > moment:
                    return acks[index][0]
            start = len(acks)
            time.sleep(0.005)
        raise TimeoutError(f"nothing acknowledged for {RECOVERY_SECONDS_MAX:g} s")

    def longest_gap(self, since: float, until: float) -> float:
        """The longest time between two successive acknowledgements that begins or ends in the window."""
        times = [ack[0] for ack in self.acks]
        return max(after - before for before, after in itertools.pairwise(times) if since <= after <= until)


def value_of(number: int) -> bytes:
    """The unique value of a record."""
    return b"%012d" % number + b"." * (VALUE_BYTES - 12)


def measure_failover(subject: Contender, kills: int, progress: bool = False) -> FailoverFigures:
    """Kill the leader of a partition ``kills`` times; the contender has to be up with all its brokers."""
    done: list[Kill] = []
    producers: list[SteadyProducer] = []
    with fresh_topic(subject, "failover", partitions=1) as topic:
        for number in range(1, kills + 1):
            first_number = producers[-1].next_number if producers else 0
            with SteadyProducer(subject.bootstrap, topic, first_number) as producer:
                producers.append(producer)
                producer.wait_for_ack_of_record_sent_after(time.monotonic() + STEADY_SECONDS)
                kill = _kill_leader(subject, topic, producer)
            done.append(kill)
            subject.start(kill.leader)
            wait_for_replicas(subject.bootstrap, topic, NODES)
            if progress:
                role = "leader and controller" if kill.was_controller else "leader"
                print(f"{number:3d}  broker {kill.leader} ({role}): {kill.gap_s:.3f} s without an acknowledgement")
        return FailoverFigures(done, _verify(subject.bootstrap, topic, producers))


def _kill_leader(subject: Contender, topic: str, producer: SteadyProducer) -> Kill:
    cluster = _newest_view(subject.bootstrap, topic)
    leader = cluster.topics[topic][0].leader
    killed_at = time.monotonic()
    subject.kill(leader)
    recovered_at = producer.wait_for_ack_of_record_sent_after(killed_at)
    producer.wait_for_ack_of_record_sent_after(recovered_at + TAIL_SECONDS)
    gap = producer.longest_gap(killed_at, recovered_at + TAIL_SECONDS)
    return Kill(leader, cluster.controller == leader, round(gap, 3), round(recovered_at - killed_at, 3))


def _newest_view(bootstrap: str, topic: str) -> ClusterInfo:
    """Return what the broker says that knows of the latest leader epoch: brokers learn of an election one after another."""
    views = [wait_for_replicas(address, topic, NODES) for address in bootstrap.split(",")]
    return max(views, key=lambda view: view.topics[topic][0].leader_epoch)


def _verify(bootstrap: str, topic: str, producers: list[SteadyProducer]) -> Verdict:
    """Read everything back, and look for every acknowledged record at the offset that was promised."""
    found: dict[int, bytes] = {}
    acks = [ack for producer in producers for ack in producer.acks]
    end = max(ack[3] for ack in acks) + 1
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest", "log_level": 0}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + RECOVERY_SECONDS_MAX
        while (max(found, default=-1) + 1) < end and time.monotonic() < deadline:
            for message in consumer.consume(1000, timeout=0.5):
                if message.error() is None:
                    found[message.offset() or 0] = message.value() or b""
    finally:
        consumer.close()
    lost = sum(found.get(offset) != value_of(number) for _, _, number, offset in acks)
    duplicated = len(found) - len(set(found.values()))
    return Verdict(len(acks), sum(producer.failed for producer in producers), lost, duplicated)


def main() -> int:
    """The command of the module's docstring."""
    parser = argparse.ArgumentParser(description="gap in acknowledgements after kill -9 of the leader")
    parser.add_argument("--contender", choices=NAMES, default="minikafka")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    args = parser.parse_args()
    with temporary(args.contender) as subject:
        subject.up()
        figures = measure_failover(subject, args.kills, progress=not args.json)
    if args.json:
        shown = {"kills": [kill._asdict() for kill in figures.kills], "verdict": figures.verdict._asdict()}
        print(json.dumps(shown | {"median_gap_s": figures.median_gap_s, "worst_gap_s": figures.worst_gap_s}))
    else:
        verdict = figures.verdict
        print(f"{subject.name}: median gap {figures.median_gap_s:.3f} s, worst {figures.worst_gap_s:.3f} s; {verdict}")
    return 1 if figures.verdict.lost else 0


if __name__ == "__main__":
    sys.exit(main())
