"""A broker's metrics as text, in Prometheus' exposition format 0.0.4.

Written here and not by prometheus_client: importing that costs a broker 7 MiB and 60 ms, and its generator is ten times
as slow for thousands of partitions. Tests read the output with prometheus_client's parser.
"""

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, islice
from operator import attrgetter

from minikafka import __version__
from minikafka.protocol.errors import ErrorCode
from minikafka.telemetry import metrics
from minikafka.telemetry.events import EventLog
from minikafka.telemetry.metric import Metric
from minikafka.telemetry.process import process_samples
from minikafka.telemetry.replica_status import ReplicaStatus
from minikafka.telemetry.stats import DURATION_BOUNDS, BrokerStats, Histogram

_LE = (*(f'le="{bound}"' for bound in DURATION_BOUNDS), 'le="+Inf"')
_PIECE = 500
"""Replicas or groups' offsets whose numbers are gathered, or written, at once: a millisecond or so."""
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class BrokerCollector:
    """Turns a broker's numbers into text when asked; keeps nothing but label texts.

    ``replicas`` is called once per scrape, is read while others are served in between, and gives the replicas of this broker
    (and, on the controller, a status with role 0 and ``offline`` for each leaderless partition without a replica here).
    ``api_names`` name the ``api`` label.
    ``failed`` gives the names of the components that cannot do their work now.
    """

    def __init__(
        self,
        stats: BrokerStats,
        replicas: Callable[[], Iterable[ReplicaStatus]],
        *,
        api_names: Mapping[int, str] | None = None,
        events: EventLog | None = None,
        failed: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._stats = stats
        self._replicas = replicas
        self._api_names = api_names or {}
        self._events = events
        self._failed = failed
        self._labels: dict[tuple[str, int], str] = {}

    def render(self) -> Iterator[bytes]:
        """The whole page of /metrics in pieces, between which others may be served."""
        replicas: list[ReplicaStatus] = []
        found = iter(self._replicas())
        while some := list(islice(found, _PIECE)):
            replicas += some
            yield b""
        for section in (self._partitions(replicas), self._topics(), self._groups(), self._rest(replicas)):
            for lines in section:
                yield "\n".join((*lines, "")).encode()

    def _rest(self, replicas: list[ReplicaStatus]) -> Iterator[list[str]]:
        lines: list[str] = []
        self._counts(lines, replicas)
        stats = self._stats
        for metric in metrics.BROKER_METRICS:
            _header(lines, metric)
            lines.append(f"{metric.name} {getattr(stats, metric.source)}")
        self._places(lines)
        _header(lines, metrics.ELECTIONS)
        lines.append(f'{metrics.ELECTIONS.name}{{clean="true"}} {stats.elections_clean}')
        lines.append(f'{metrics.ELECTIONS.name}{{clean="false"}} {stats.elections_unclean}')
        self._requests(lines)
        _header(lines, metrics.FLUSH_DURATION)
        _histogram(lines, metrics.FLUSH_DURATION.name, "", stats.flushes)
        _header(lines, metrics.COMMIT_DURATION)
        _histogram(lines, metrics.COMMIT_DURATION.name, "", stats.commits)
        if self._events is not None:
            _header(lines, metrics.EVENTS_TOTAL)
            name = metrics.EVENTS_TOTAL.name
            lines.extend(f'{name}{{event="{event}"}} {count}' for event, count in self._events.counts.items())
            _header(lines, metrics.EVENTS_DROPPED)
            lines.append(f"{metrics.EVENTS_DROPPED.name} {self._events.dropped}")
        _header(lines, metrics.COMPONENT_FAILED)
        name = metrics.COMPONENT_FAILED.name
        lines.extend(f'{name}{{component="{_escape(component)}"}} 1' for component in self._failed())
        _header(lines, metrics.BUILD_INFO)
        lines.append(f'{metrics.BUILD_INFO.name}{{version="{__version__}",python="{platform.python_version()}"}} 1')
        for sample in process_samples():
            lines.append(f"# HELP {sample.name} {sample.help}\n# TYPE {sample.name} {sample.kind}")
            lines.append(f"{sample.name} {sample.value}")
        yield lines

    def _partitions(self, replicas: list[ReplicaStatus]) -> Iterator[list[str]]:
        hosted = [r for r in replicas if r.is_here]
        known = self._labels
        labels = [
            known.get((r.topic, r.partition)) or f'{{topic="{_escape(r.topic)}",partition="{r.partition}"}}'
            for r in hosted
        ]
        # Rebuilt each time, so that deleted topics do not stay in memory.
        self._labels = {(r.topic, r.partition): label for r, label in zip(hosted, labels, strict=True)}
        for metric in metrics.PARTITION_METRICS:
            lines: list[str] = []
            _header(lines, metric)
            name, value = metric.name, attrgetter(metric.source)
            lines.extend([f"{name}{label} {value(r):d}" for label, r in zip(labels, hosted, strict=True)])
            yield lines
        lines = []
        _header(lines, metrics.FOLLOWER_LAG)
        name = metrics.FOLLOWER_LAG.name
        lines.extend(
            [
                f'{name}{label[:-1]},follower="{follower}"}} {lag}'
                for label, r in zip(labels, hosted, strict=True)
                for follower, lag in r.followers
            ]
        )
        yield lines

    def _topics(self) -> Iterator[list[str]]:
        topics = [(f'{{topic="{_escape(name)}"}}', traffic) for name, traffic in self._stats.topics.items()]
        for metric in metrics.TOPIC_METRICS:
            lines: list[str] = []
            _header(lines, metric)
            name, source = metric.name, metric.source
            lines.extend([f"{name}{label} {getattr(traffic, source)}" for label, traffic in topics])
            yield lines

    def _groups(self) -> Iterator[list[str]]:
        offsets, groups = iter(self._stats.group_offsets), self._stats.group_members
        lines: list[str] = []
        _header(lines, metrics.GROUP_OFFSET)
        yield lines
        name = metrics.GROUP_OFFSET.name
        while lines := [
            f'{name}{{group="{_escape(group)}",topic="{_escape(topic)}",partition="{partition}"}} {offset}'
            for group, topic, partition, offset in islice(offsets, _PIECE)
        ]:
            yield lines
        _header(lines, metrics.GROUP_MEMBERS)
        name = metrics.GROUP_MEMBERS.name
        lines.extend(f'{name}{{group="{_escape(group)}"}} {members}' for group, members in groups.items())
        yield lines

    def _places(self, lines: list[str]) -> None:
        """Listeners and log directories."""
        _header(lines, metrics.LISTENER_CONNECTIONS)
        name = metrics.LISTENER_CONNECTIONS.name
        lines.extend(f'{name}{{listener="{_escape(one)}"}} {count}' for one, count in self._stats.listeners.items())
        _header(lines, metrics.CONNECTIONS_LIMITED)
        name = metrics.CONNECTIONS_LIMITED.name
        lines.extend(f'{name}{{limit="{limit}"}} {count}' for limit, count in self._stats.limited.items())
        for metric, index in ((metrics.LOG_DIR_FREE, 0), (metrics.LOG_DIR_SIZE, 1)):
            _header(lines, metric)
            lines.extend(
                f'{metric.name}{{dir="{_escape(path)}"}} {sizes[index]}' for path, sizes in self._stats.log_dirs.items()
            )

    def _counts(self, lines: list[str], replicas: list[ReplicaStatus]) -> None:
        for metric in metrics.COUNT_METRICS:
            _header(lines, metric)
            lines.append(f"{metric.name} {sum(map(attrgetter(metric.source), replicas))}")

    def _requests(self, lines: list[str]) -> None:
        _header(lines, metrics.REQUEST_DURATION)
        requests = [(f'api="{self._api(key)}"', times) for key, times in sorted(self._stats.requests.items())]
        for api, times in requests:
            _histogram(lines, metrics.REQUEST_DURATION.name, api, times)
        _header(lines, metrics.REQUEST_PHASES)
        name = metrics.REQUEST_PHASES.name
        lines.extend(
            f'{name}{{{api},phase="{phase}"}} {spent}' for api, times in requests for phase, spent in times.phases
        )
        _header(lines, metrics.REQUEST_BYTES)
        lines.extend(f"{metrics.REQUEST_BYTES.name}{{{api}}} {times.bytes}" for api, times in requests)
        _header(lines, metrics.REQUEST_ERRORS)
        name = metrics.REQUEST_ERRORS.name
        for (api_key, code), count in sorted(self._stats.errors.items()):
            lines.append(f'{name}{{api="{self._api(api_key)}",error="{_error(code)}"}} {count}')
        for metric in (metrics.THROTTLED_REQUESTS, metrics.THROTTLE_SECONDS):
            _header(lines, metric)
            lines.extend(
                f'{metric.name}{{quota="{quota}"}} {getattr(times, metric.source)}'
                for quota, times in self._stats.throttled.items()
            )

    def _api(self, api_key: int) -> str:
        return self._api_names.get(api_key) or str(api_key)


def _header(lines: list[str], metric: Metric) -> None:
    lines.append(f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}")


def _histogram(lines: list[str], name: str, label: str, histogram: Histogram) -> None:
    before = f"{label}," if label else ""
    count = 0
    for le, count in zip(_LE, accumulate(histogram.counts), strict=True):
        lines.append(f"{name}_bucket{{{before}{le}}} {count}")
    labels = f"{{{label}}}" if label else ""
    lines.append(f"{name}_sum{labels} {histogram.seconds}")
    lines.append(f"{name}_count{labels} {count}")


def _escape(value: str) -> str:
    return value.translate(_ESCAPES)


def _error(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
