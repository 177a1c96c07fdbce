"""Observing a run: what every broker's /metrics said, every half second, as JSON lines.

A scrape that fails is a line as well: that a broker did not answer is part of the story.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from minikafka.client.metrics_access import OPEN, MetricsAccess
from minikafka.protocol.types import TopicPartition
from prometheus_client.parser import text_string_to_metric_families

SAMPLES_FILE = "samples.jsonl"
INTERVAL_S = 0.5
SCRAPE_TIMEOUT_S = 0.4
"""Below the interval: a paused broker must not hold up the others' next scrape for long."""

STATUS_TIMEOUT_S = 1.0
"""For a condition that is waited for."""

KEPT_PREFIXES = ("minikafka_", "process_")
SERIES_MAX = 20_000
"""Whose names and labels are remembered from page to page."""


class Sample(NamedTuple):
    """One value of Prometheus' text format."""

    name: str
    labels: Mapping[str, str]
    value: float


def parse_metrics(text: str, prefixes: tuple[str, ...] = KEPT_PREFIXES) -> list[Sample]:
    """The samples with these name prefixes. Raises ValueError for a line that is none."""
    found = []
    # Not splitlines: only a newline ends a line, and a group's name may have any of the others (U+2028, a form feed).
    for line in text.split("\n"):
        if line.startswith(prefixes):
            series, _, value = line.rpartition(" ")
            name, labels = _series(series)
            found.append(Sample(name, labels, _value(value)))
    return found


def _value(text: str) -> float:
    """A whole number stays one, as a run's files have it."""
    try:
        return int(text)
    except ValueError:
        return float(text)


@lru_cache(maxsize=SERIES_MAX)
def _series(text: str) -> tuple[str, Mapping[str, str]]:
    """The name and the labels of a line, by Prometheus' own parser: that is slow, and page after page has the same series."""
    ((sample,),) = (family.samples for family in text_string_to_metric_families(f"{text} 0\n"))
    if sample.timestamp is not None:  # then the number behind it is no value
        raise ValueError(f"{text}: a sample with a timestamp, which no broker tells")
    return sample.name, MappingProxyType(sample.labels)


Fetch = Callable[[str, float], str]
"""The page at a URL, given the seconds it may take. Raises OSError."""


def reader(access: MetricsAccess, through: socket.socket | None = None) -> Fetch:
    """Return what gets a page by HTTP, or HTTPS. ``through``: see `MetricsAccess.ask`."""

    def fetch(url: str, timeout_s: float) -> str:
        status, page = access.ask(url, timeout_s, through=through)
        if status != HTTPStatus.OK:
            raise OSError(f"HTTP status {status}")
        return page.decode(errors="replace")

    return fetch


fetch = reader(OPEN)


def scrape(
    url: str, timeout_s: float = SCRAPE_TIMEOUT_S, fetch: Fetch = fetch, prefixes: tuple[str, ...] = KEPT_PREFIXES
) -> list[Sample]:
    """The broker's metrics now. Raises OSError when it does not answer in time."""
    try:
        return parse_metrics(fetch(url, timeout_s), prefixes)
    except ValueError as error:
        raise OSError(str(error)) from error


class ReplicaStatus(NamedTuple):
    """One replica as its own broker tells it (`minikafka_*` gauges); None where it says nothing."""

    role: int | None = None
    leader_epoch: int | None = None
    log_end_offset: int | None = None
    high_watermark: int | None = None
    flushed_offset: int | None = None


FOLLOWER, LEADER = 1, 2
"""Values of `minikafka_replica_role`."""

METRICS_OF_A_REPLICA = {
    "minikafka_replica_role": "role",
    "minikafka_leader_epoch": "leader_epoch",
    "minikafka_log_end_offset": "log_end_offset",
    "minikafka_high_watermark": "high_watermark",
    "minikafka_log_flushed_offset": "flushed_offset",
}


def replica_status(samples: Iterable[Sample], topic_partition: TopicPartition) -> ReplicaStatus:
    """Return what the samples of one scrape say of one partition."""
    found: dict[str, int] = {}
    partition = str(topic_partition.partition)
    for sample in samples:
        labels = sample.labels
        here = labels.get("topic") == topic_partition.topic and labels.get("partition") == partition
        if here and sample.name in METRICS_OF_A_REPLICA:
            found[METRICS_OF_A_REPLICA[sample.name]] = int(sample.value)
    return ReplicaStatus(**found)


def scrape_status(url: str, topic_partition: TopicPartition, fetch: Fetch = fetch) -> ReplicaStatus:
    """One replica as the metrics at `url` tell it now; nothing at all when nobody answers."""
    return replica_status(scrape_or_nothing(url, fetch, tuple(METRICS_OF_A_REPLICA)), topic_partition)


def scrape_or_nothing(url: str, fetch: Fetch = fetch, prefixes: tuple[str, ...] = KEPT_PREFIXES) -> list[Sample]:
    """The broker's metrics now; none when nobody answers."""
    try:
        return scrape(url, STATUS_TIMEOUT_S, fetch, prefixes)
    except OSError:
        return []


class Observer:
    """Scrapes all brokers at once, again and again, in threads of its own, and writes `samples.jsonl`.

    The lines of one round have one time. `interval_s` seconds from round to round, `timeout_s` seconds for one answer.
    """

    def __init__(
        self,
        folder: Path,
        urls: Mapping[int, str],
        interval_s: float = INTERVAL_S,
        clock: Callable[[], float] = time.time,
        timeout_s: float = SCRAPE_TIMEOUT_S,
        fetch: Fetch = fetch,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / SAMPLES_FILE
        self._urls = dict(urls)
        self._interval_s = interval_s
        self._clock = clock
        self._timeout_s = timeout_s
        self._fetch = fetch
        self._stop_asked = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Make a last scrape and end."""
        self._stop_asked.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            with (
                self.path.open("a", encoding="utf-8") as file,
                ThreadPoolExecutor(max(len(self._urls), 1), "scrape") as pool,
            ):
                while not self._stop_asked.is_set():
                    began = time.monotonic()
                    self._round(pool, file.write)
                    file.flush()
                    self._stop_asked.wait(max(0.0, self._interval_s - (time.monotonic() - began)))
                self._round(pool, file.write)
        except BaseException as error:
            self.failure = error

    def _round(self, pool: ThreadPoolExecutor, write: Callable[[str], object]) -> None:
        """Ask all brokers at once: asked one after the other, whoever is last looks furthest, and a broker that does not
        answer makes the others' samples late."""
        now = self._clock()
        for line in pool.map(lambda each: self._line(now, *each), self._urls.items()):
            write(line + "\n")

    def _line(self, now: float, broker: int, url: str) -> str:
        try:
            samples: Sequence[Sample] = scrape(url, self._timeout_s, self._fetch)
        except OSError as error:
            return json.dumps({"time": round(now, 6), "broker": broker, "error": str(error)})
        line = {
            "time": round(now, 6),
            "broker": broker,
            "samples": [[s.name, dict(s.labels), s.value] for s in samples],
        }
        return json.dumps(line, separators=(",", ":"))
