"""Raw samples of a run's brokers from a Prometheus: asked for by metric and time, several parts at once, and what did not come.

A part is one metric in one window: a range vector selector in an instant query
(https://prometheus.io/docs/prometheus/latest/querying/api/), so that nothing is interpolated. A part that fails is asked for
again; one that times out or is too large, in halves. What is still not answered, or only by some of those that a Prometheus
itself asks (`warnings`), is told as missing, with its time and the reason.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Any, Final, NamedTuple

WANTED: Final = '__name__=~"minikafka_.*|process_.*|up"'
WINDOW_SECONDS: Final = 300
"""Of a part: Prometheus refuses an answer of more than 50 million samples, and holds all of one in memory."""
LEAST_SECONDS: Final = 20
"""Of a part: what is not answered for so short a time is not asked for in halves."""
REQUEST_SECONDS_MAX: Final = 60.0
ANSWER_BYTES_MAX: Final = 256 << 20
"""Of one answer: what is larger is asked for in halves."""
AT_ONCE: Final = 4
"""A Prometheus answers 20 queries at a time by default, and others ask it, too."""
PAUSES_SECONDS: Final = (0.5, 2.0)
"""Before a part is asked for again: so often, and no more."""
FAILURES_IN_A_ROW_MAX: Final = 8
"""Parts: then nobody is there, and the rest is not asked for."""
HALVED: Final = frozenset((408, 413, 422, 503, 504))
"""Answers to what may be answered in smaller parts: timed out, too many samples (422), shut off by a proxy."""
AGAIN: Final = frozenset((429, 500, 502, 503, 504))

Series = dict[str, Any]


class PrometheusError(RuntimeError):
    """A Prometheus that tells nothing of what it was asked; one line."""


class MetricRange(NamedTuple):
    """A metric from when to when, in Unix seconds."""

    metric: str
    began: float
    ended: float


class Missing(NamedTuple):
    """What was not answered, or not by all: `part` is known to be whole nowhere in this time."""

    metric: str
    began: float
    ended: float
    reason: str


class _Refused(Exception):
    """One request that failed. `again`: it may be answered another time; `halved`: in smaller parts."""

    def __init__(self, reason: str, *, again: bool, halved: bool) -> None:
        super().__init__(reason)
        self.reason, self.again, self.halved = reason, again, halved


@dataclass
class Prometheus:
    """Where a Prometheus answers, and which series are the brokers' (`selector`: matchers without braces, or nothing).

    `asked` counts parts, `missing` grows with what did not come. May be asked from several threads.
    """

    url: str
    selector: str = ""
    asked: int = 0
    missing: list[Missing] = field(default_factory=list)
    _failures: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def windows(self, began: float, ended: float) -> Iterator[list[Series]]:
        """Every series with its samples, of one window after the other. Raises PrometheusError where nothing was answered."""
        metrics, answered = self.metrics(began, ended), False
        with ThreadPoolExecutor(AT_ONCE) as threads:
            until = began
            while until < ended:
                since, until = until, min(until + WINDOW_SECONDS, ended)
                parts = [MetricRange(metric, since, until) for metric in metrics]
                found = [each for part in threads.map(self._part, parts) for each in part]
                answered = answered or bool(found)
                yield found
        if self.missing and not answered:
            raise PrometheusError(f"{self.url}: {self.missing[0].reason}")

    def metrics(self, began: float, ended: float) -> list[str]:
        """The names of the brokers' metrics; from a Prometheus that tells only some names others are missing. Raises
        PrometheusError.
        """
        asked = {"match[]": self._matching(WANTED), "start": f"{began:.3f}", "end": f"{ended:.3f}"}
        try:
            names, warnings = self._again("label/__name__/values", asked, list)
        except _Refused as refused:
            raise PrometheusError(f"{self.url}: {refused.reason}") from refused
        if warnings:
            self._is_missing(MetricRange("", began, ended), warnings)
        return sorted(map(str, names))

    def wait(self, seconds: float) -> None:
        """Let a Prometheus that failed come to itself."""
        time.sleep(seconds)

    def _part(self, part: MetricRange) -> list[Series]:
        """The series of a part; what is not answered is missing."""
        with self._lock:
            self.asked += 1
            nobody = self._failures >= FAILURES_IN_A_ROW_MAX
        if nobody:
            self._is_missing(part, "not asked for, because nothing before was answered")
            return []
        seconds = max(int(part.ended - part.began + 0.999), 1)
        name = '__name__="{}"'.format(part.metric.replace("\\", r"\\").replace('"', r"\""))
        query = {"query": f"{self._matching(name)}[{seconds}s]", "time": f"{part.ended:.3f}"}
        try:
            found, warnings = self._again("query", query, dict)
            series = _series(found)
        except _Refused as refused:
            if refused.halved and seconds > LEAST_SECONDS:
                middle = (part.began + part.ended) / 2
                return [*self._part(part._replace(ended=middle)), *self._part(part._replace(began=middle))]
            with self._lock:
                self._failures += 1
            self._is_missing(part, refused.reason)
            return []
        with self._lock:
            self._failures = 0
        if warnings:
            self._is_missing(part, warnings)
        return series

    def _is_missing(self, part: MetricRange, reason: str) -> None:
        with self._lock:
            self.missing.append(Missing(*part, reason))

    def _matching(self, matcher: str) -> str:
        return f"{{{','.join(each for each in (self.selector, matcher) if each)}}}"

    def _again(self, path: str, query: dict[str, str], kind: type) -> tuple[Any, str]:
        """The data of an answer, and what it warns of; asked for again where that may help. Raises _Refused."""
        for pause in (*PAUSES_SECONDS, None):
            try:
                data, warnings = self._ask(path, query, kind)
            except _Refused as refused:
                if pause is None or not refused.again:
                    raise
            else:
                if pause is None or not warnings:
                    return data, warnings
            self.wait(pause)
        raise AssertionError("the last answer is given or raised")

    def _ask(self, path: str, query: dict[str, str], kind: type) -> tuple[Any, str]:
        url = f"{self.url.rstrip('/')}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=REQUEST_SECONDS_MAX) as answer:
                found = json.loads(_whole(answer))
            if found.get("status") != "success":
                raise ValueError(f"status {found.get('status')}: {found.get('error', 'no error is told')}")
            data, warnings = found["data"], found.get("warnings") or []
            if not isinstance(data, kind):
                raise TypeError(f"data is no {kind.__name__}")
            if not isinstance(warnings, list):
                raise TypeError("warnings are no list")
        except urllib.error.HTTPError as error:
            reason = f"answers {error.code}: {_first_words(error)}"
            raise _Refused(reason, again=error.code in AGAIN, halved=error.code in HALVED) from error
        except TimeoutError as error:
            raise _Refused(f"no answer within {REQUEST_SECONDS_MAX:g} s", again=False, halved=True) from error
        except (OSError, HTTPException) as error:
            late = isinstance(getattr(error, "reason", None), TimeoutError)
            reason = str(getattr(error, "reason", error) or type(error).__name__)
            raise _Refused(reason, again=not late, halved=late) from error
        except _TooLarge as error:
            raise _Refused(f"answers more than {ANSWER_BYTES_MAX:,} bytes", again=False, halved=True) from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise _Refused(_no_prometheus(error), again=True, halved=False) from error
        # A Prometheus that asks others tells so of an answer from only some of them.
        return data, f"only a part of it answered: {'; '.join(map(str, warnings))}" if warnings else ""


class _TooLarge(Exception):
    """An answer of more than `ANSWER_BYTES_MAX`."""


def _whole(answer: HTTPResponse) -> bytes:
    """The body. A timeout of a socket is of one read; who sends a byte now and then is held to it here. Raises TimeoutError."""
    until, read, size = time.monotonic() + REQUEST_SECONDS_MAX, [], 0
    while piece := answer.read1(1 << 20):
        read.append(piece)
        size += len(piece)
        if size > ANSWER_BYTES_MAX:
            raise _TooLarge
        if time.monotonic() > until:
            raise TimeoutError
    if answer.length:
        raise IncompleteRead(b"", answer.length)
    return b"".join(read)


def _first_words(error: urllib.error.HTTPError) -> str:
    try:
        return " ".join(error.read(300).decode(errors="replace").split())
    except (OSError, HTTPException) as cut:
        return f"and no more ({type(cut).__name__})"


def _no_prometheus(error: Exception) -> str:
    return f"its answer is none of a Prometheus: {error or type(error).__name__}"


def _series(data: dict[str, Any]) -> list[Series]:
    try:
        series = list(data["result"])
        for each in series:
            labels = each["metric"]
            if not all(isinstance(text, str) for text in labels.values()):
                raise TypeError("a label is no text")
            labels["__name__"]
            for moment, value in each["values"]:
                float(moment), float(value)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _Refused(_no_prometheus(error), again=False, halved=False) from error
    return series
