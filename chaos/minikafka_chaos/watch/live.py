"""Watches a cluster that `minikafka up` started: its brokers' event logs and the session's journal as they grow, its metrics."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from minikafka.local.cluster import LocalCluster
from minikafka.local.errors import ClusterError
from minikafka.protocol.types import TopicPartition

from minikafka_chaos.errors import BadScenario
from minikafka_chaos.record import journal
from minikafka_chaos.record.observe import STATUS_TIMEOUT_S, parse_metrics, reader
from minikafka_chaos.watch.acknowledgement_rules import acknowledgement_of, put_together
from minikafka_chaos.watch.evidence import Acknowledgements, EventLine, Evidence, JournalLine, ProcessCondition, Scrape
from minikafka_chaos.watch.run_folder import event_of
from minikafka_chaos.watch.sample_rules import WATCHED
from minikafka_chaos.watch.state import WatchedCondition

LOOK_S = 0.1
"""From one look into the files to the next."""
SCRAPE_EVERY = 3
"""Looks, from one scrape to the next."""
BYTES_FIRST_MAX = 16 << 20
"""Of a file that is there already the end is read only: some hundred thousand events."""
CONDITIONS = {
    "up": WatchedCondition.UP,
    "not ready": WatchedCondition.NOT_READY,
    "paused": WatchedCondition.PAUSED,
    "down": WatchedCondition.DEAD,
}
"""What `LocalCluster.state` says."""
ANSWER = ("up", "not ready")
"""The states in which metrics are to be had."""


class GrowingFile:
    """A file of JSON lines that others append to, and may begin anew under the same name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._rest = b""
        self._begun = False

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield what has come since it was looked into last; a line that is none is left out."""
        while True:
            if self._descriptor is None and not self._open():
                return
            yield from self._read()
            if not self._is_another():
                return
            self.close()

    def _open(self) -> bool:
        try:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        size = os.fstat(self._descriptor).st_size
        if not self._begun and size > BYTES_FIRST_MAX:
            os.lseek(self._descriptor, size - BYTES_FIRST_MAX, os.SEEK_SET)
            self._rest = b"\0"  # makes no line of what is left of the first
        self._begun = True
        return True

    def _read(self) -> Iterator[dict[str, Any]]:
        assert self._descriptor is not None
        while data := os.read(self._descriptor, 1 << 20):
            *whole, self._rest = (self._rest + data).split(b"\n")
            for raw in whole:
                try:
                    line = json.loads(raw)
                except (ValueError, RecursionError):
                    continue
                if isinstance(line, dict):
                    yield line

    def _is_another(self) -> bool:
        """Return whether a new file has the name by now."""
        assert self._descriptor is not None
        try:
            named = os.stat(self._path)
        except OSError:
            return False
        opened = os.fstat(self._descriptor)
        return (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino)

    def close(self) -> None:
        """Let it go; the next look opens what has the name then."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._rest = None, b""


class LiveCluster:
    """The cluster of a data directory. Raises BadScenario where there is none."""

    def __init__(self, data: Path) -> None:
        self.data = data.absolute()
        self._cluster = LocalCluster(self.data)
        try:
            info = self._cluster.info()
        except ClusterError as error:
            raise BadScenario(f"--data: {error}") from error
        self.brokers = [broker.id for broker in info.brokers]
        self.bootstrap = info.bootstrap
        self._urls = {broker.id: broker.metrics_url for broker in info.brokers}
        self._fetch = reader(self._cluster.metrics_access)
        self._events = [GrowingFile(Path(broker.events_path)) for broker in info.brokers]
        self._journal = GrowingFile(self.data / journal.FILE_NAME)
        self._conditions: dict[int, str] = {}
        self._pool = ThreadPoolExecutor(2 * len(self.brokers), "watch")

    def read_files(self) -> list[Evidence]:
        """Return what brokers and the session have written since the last time, in the order of its times."""
        events = [event for file in self._events for line in file.lines() if (event := event_of(line)) is not None]
        found: list[Evidence] = list(_few_acknowledgements(events))
        found += [
            JournalLine(line["time"], line)
            for line in self._journal.lines()
            if isinstance(line.get("time"), int | float)
        ]
        return sorted(found, key=lambda each: each.time)

    def ask_brokers(self) -> list[Evidence]:
        """Return what all brokers say of themselves now, and which of their processes run; a few tenths of a second at most."""
        now = time.time()
        states = dict(zip(self.brokers, self._pool.map(self._cluster.state, self.brokers), strict=True))
        # Whoever is dead or hangs is not asked: waiting for it would hold up all others.
        scrapes = self._pool.map(lambda broker: self._scrape(now, broker, states[broker] in ANSWER), self.brokers)
        found: list[Evidence] = []
        for broker, state in states.items():
            condition = CONDITIONS[state]
            if self._conditions.get(broker) != condition:
                text = "" if broker not in self._conditions else f"it is {condition.value}"
                found.append(ProcessCondition(now, broker, condition, text))
            self._conditions[broker] = condition
        return [*found, *scrapes]

    def _scrape(self, now: float, broker: int, answers: bool) -> Scrape:
        if not answers:
            return Scrape(now, broker, None)
        try:
            samples = parse_metrics(self._fetch(self._urls[broker], STATUS_TIMEOUT_S), tuple(WATCHED))
        except (OSError, ValueError):
            return Scrape(now, broker, None)
        return Scrape(now, broker, samples)

    def close(self) -> None:
        """Look no more."""
        self._pool.shutdown(cancel_futures=True)
        for file in (*self._events, self._journal):
            file.close()


def _few_acknowledgements(events: Iterable[EventLine]) -> Iterator[Evidence]:
    """Yield events as they are, but of a partition's acknowledgements one for each tenth of a second: a load has a thousand in
    a second, and would take the room of everything else that is remembered."""
    several: dict[tuple[int, TopicPartition, int], list[Acknowledgements]] = defaultdict(list)
    for event in events:
        if (acknowledged := acknowledgement_of(event)) is None:
            yield event
        else:
            several[event.broker, acknowledged.topic_partition, int(event.time / LOOK_S)].append(acknowledged)
    yield from map(put_together, several.values())


class ClusterWatcher:
    """Looks at a live cluster again and again in a thread of its own, and hands on what is new.

    `take` gets it, and `fail` one line should there be nothing more to come; both in that thread.
    """

    def __init__(
        self, cluster: LiveCluster, take: Callable[[list[Evidence]], object], fail: Callable[[str], object]
    ) -> None:
        self._cluster = cluster
        self._take = take
        self._fail = fail
        self._stop_asked = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and return when it has."""
        self._stop_asked.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._cluster.close()

    def _run(self) -> None:
        look = 0
        try:
            while not self._stop_asked.is_set():
                # Brokers first: what happened before they were asked is in the files then, and comes before what they said.
                found = self._cluster.ask_brokers() if look % SCRAPE_EVERY == 0 else []
                found += self._cluster.read_files()
                if found:
                    self._take(sorted(found, key=lambda each: each.time))
                look += 1
                self._stop_asked.wait(LOOK_S)
        except Exception as error:  # whoever looks must hear that what is shown is old
            self._fail(f"nobody looks at the cluster any more: {type(error).__name__}: {' '.join(str(error).split())}")
