"""A client outside Kubernetes that writes down what it was told, and a verdict on it: `minikafka verify` with faults between.

The producers and readers are librdkafka, as everywhere in the project; the verdict is the verifier's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from minikafka_chaos.load.clients import TopicPlan
from minikafka_chaos.load.kafka_clients import KafkaClients
from minikafka_chaos.load.load import LoadSettings, ProducerSettings, Tally
from minikafka_chaos.record.history import FILE_NAME, OK, HistoryWriter, read_history
from minikafka_chaos.verdict.gaps import gaps_around
from minikafka_chaos.verdict.verdict import Outcome, Verdict, judge

from tests.e2e.kubectl import eventually

TOPIC_SECONDS_MAX = 360
DRAIN_SECONDS_MAX = 360
READ_SECONDS_MAX = 480
ACK_SECONDS_MAX = 240
GAP_WITHIN_S = 5.0
"""A fault's gap in acknowledgements begins within so many seconds after it."""


@dataclass
class Watched:
    """A load that runs, and what came of it once it has ended."""

    bootstrap: str
    topic: str
    folder: Path
    tally: Tally = field(default_factory=Tally)
    verdict: Verdict | None = None

    @property
    def acknowledged(self) -> int:
        return self.tally.total(OK)

    def wait_for_acknowledged(self, more: int, seconds: float = ACK_SECONDS_MAX) -> float:
        """Wait for so many more acknowledgements; the seconds until then."""
        began, before = time.monotonic(), self.acknowledged
        what = f"{more} more records of {self.topic} acknowledged"
        eventually(lambda: self.acknowledged - before, lambda new: new >= more, seconds=seconds, what=what)
        return time.monotonic() - began

    def gaps(self, moments: Sequence[float]) -> list[float]:
        """For each moment (Unix time) the longest pause in acknowledgements of a partition around it, in seconds."""
        found = gaps_around(read_history(self.folder / FILE_NAME), moments, GAP_WITHIN_S)
        return [gap.seconds if gap is not None else 0.0 for gap in found]

    def must_have_passed(self) -> Verdict:
        """The verdict, which has to be Passed."""
        assert self.verdict is not None, "the load has not ended"
        told = json.dumps(self.verdict.as_json(), indent=1)
        assert self.verdict.outcome is Outcome.PASSED, f"{self.verdict.summary}\n{told}"
        return self.verdict


def _clients(bootstrap: str) -> KafkaClients:
    return KafkaClients(lambda: bootstrap, lambda: bootstrap)


class Scripted:
    """Single records sent one after the other with acks=all, and a verdict on them: for what has to be counted exactly."""

    def __init__(self, bootstrap: str, plan: TopicPlan, folder: Path) -> None:
        self.plan = plan
        self._clients = _clients(bootstrap)
        self._clients.create_topic(plan, TOPIC_SECONDS_MAX)
        self._path = folder / FILE_NAME
        self._sent = 0

    def send(self, count: int) -> None:
        """Send so many records to partition 0; each has to be acknowledged."""
        with HistoryWriter(self._path) as history:
            script = self._clients.script(ProducerSettings(acks="all"), history, Tally())
            values = [f"r{self._sent + number}" for number in range(count)]
            outcomes = script.send(self.plan.name, 0, values, ACK_SECONDS_MAX)
        self._sent += count
        assert outcomes[OK] == count, f"{outcomes[OK]} of {count} records acknowledged"

    def verdict(self) -> Verdict:
        """Read everything back, and judge."""
        with HistoryWriter(self._path) as history:
            self._clients.read_back(self.plan.topic_partitions, history, READ_SECONDS_MAX)
        return judge(self._path)


@contextmanager
def under_load(
    bootstrap: str,
    topic: str,
    folder: Path,
    *,
    partitions: int = 3,
    rate_per_s: int = 300,
    assignment: Sequence[Sequence[int]] | None = None,
    delivery_timeout_ms: int = 300_000,
) -> Iterator[Watched]:
    """A topic, with replication factor 3, and producers with acks=all on it for as long as the body takes.

    Then everything is read back and judged: see `Watched.verdict`. A body that fails ends the load, and nothing is judged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plan = TopicPlan(topic, partitions, 3, assignment, {"min.insync.replicas": "2"})
    clients = _clients(bootstrap)
    clients.create_topic(plan, TOPIC_SECONDS_MAX)
    watched = Watched(bootstrap, topic, folder)
    client = ProducerSettings(acks="all", delivery_timeout_ms=delivery_timeout_ms)
    settings = LoadSettings(topic, len(plan.topic_partitions), rate_per_s=rate_per_s, client=client)
    with HistoryWriter(folder / FILE_NAME) as history:
        load = clients.load(settings, history, watched.tally)
        tail = clients.tail(plan.topic_partitions, history)
        patience = 0.0
        try:
            tail.start()
            load.start()
            watched.wait_for_acknowledged(rate_per_s)
            yield watched
            patience = DRAIN_SECONDS_MAX
        finally:
            load.stop(patience)
            tail.stop()
        for part in (load, tail):
            assert part.failure is None, f"{type(part).__name__} ended: {part.failure!r}"
        clients.read_back(plan.topic_partitions, history, READ_SECONDS_MAX)
    watched.verdict = judge(folder / FILE_NAME)
