"""A small part of PromQL, over the samples of one scrape of all brokers.

`sum(minikafka_offline_logs) == 0`, `max by (broker) (minikafka_waiting_produces{listener=~"P.*"}) / 2 < 100`: numbers, metrics
with label matchers, `sum`, `min`, `max`, `avg`, `count` (with `by`), arithmetic and comparisons, with Prometheus' meaning: a
comparison keeps the samples for which it is true, and two sets of samples are matched by equal labels. There is one moment
only, so no ranges, rates or offsets. Every sample has the label `broker`.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Samples = Mapping[str, list[tuple[Labels, float]]]
"""Metric name -> its samples."""

TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)|(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<mark>==|!=|>=|<=|=~|!~|[-+*/()<>={},]))""",
    re.VERBOSE,
)
ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda one, other: one / other if other else math.nan if not one else math.copysign(math.inf, one),
}
COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
MATCHERS: Mapping[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "=~": lambda value, pattern: re.fullmatch(pattern, value) is not None,
    "!~": lambda value, pattern: re.fullmatch(pattern, value) is None,
}
AGGREGATIONS: Mapping[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "avg": lambda values: sum(values) / len(values),
    "count": len,
}
DEPTH_MAX = 50


class BadQuery(ValueError):
    """One line that says what is wrong with a query."""


Value = float | Vector
Node = Callable[[Samples], Value]


@dataclass(frozen=True, slots=True)
class Query:
    """A query that was understood; it is a comparison."""

    text: str
    _left: Node
    _comparison: str
    _right: Node

    def answer(self, samples: Samples) -> tuple[bool, str]:
        """Return whether it holds, which nothing does that no broker tells anything about; and what is compared."""
        left, right = self._left(samples), self._right(samples)
        compare = COMPARISONS[self._comparison]
        if isinstance(left, float) and isinstance(right, float):
            return compare(left, right), f"{left:g} {self._comparison} {right:g}"
        kept = [pair for pair in _pairs(left, right) if compare(*pair)]
        return bool(kept), f"{_shown(left)} {self._comparison} {_shown(right)}"


def parse_query(text: str) -> Query:
    """Raises BadQuery."""
    parser = _Parser(text)
    left = parser.sum()
    mark = parser.take(COMPARISONS)
    if mark is None:
        raise BadQuery(f"{text!r}: needs a comparison ({', '.join(COMPARISONS)}) {parser.where}")
    right = parser.sum()
    if parser.kind is not None:
        raise BadQuery(f"{text!r}: nothing can follow {parser.where}")
    return Query(text, left, mark, right)


def by_name(scrapes: Mapping[int, Iterable[tuple[str, Mapping[str, str], float]]]) -> Samples:
    """Samples (name, labels, value) of each broker, as queries take them."""
    found: dict[str, list[tuple[Labels, float]]] = {}
    for broker, samples in scrapes.items():
        for name, labels, value in samples:
            found.setdefault(name, []).append((frozenset({**labels, "broker": str(broker)}.items()), value))
    return found


def _shown(value: Value) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    found = [f"{number:g}" for number in sorted(value.values())]
    return "nothing" if not found else found[0] if len(found) == 1 else f"[{' '.join(found[:5])}]"


def _pairs(left: Value, right: Value) -> list[tuple[float, float]]:
    return [pair for _, pair in _matched(left, right)]


def _matched(left: Value, right: Value) -> list[tuple[Labels, tuple[float, float]]]:
    if isinstance(left, float):
        return [] if isinstance(right, float) else [(labels, (left, value)) for labels, value in right.items()]
    if isinstance(right, float):
        return [(labels, (value, right)) for labels, value in left.items()]
    return [(labels, (value, right[labels])) for labels, value in left.items() if labels in right]


class _Parser:
    """Recursive descent; `kind` and `value` are the token to come."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self.kind: str | None = None
        self.value = ""
        self._next()

    @property
    def where(self) -> str:
        return f"before {self.value!r}" if self.kind is not None else "at the end"

    def _next(self) -> None:
        rest = self._text[self._at :]
        if not rest.strip():
            self.kind, self.value = None, ""
            return
        match = TOKEN.match(rest)
        if match is None:
            raise BadQuery(f"{self._text!r}: cannot be read from {rest.strip()[:10]!r} on")
        self._at += match.end()
        self.kind = str(match.lastgroup)
        self.value = match[self.kind]

    def take(self, wanted: Iterable[str]) -> str | None:
        """The mark to come, if it is one of these."""
        if self.kind != "mark" or self.value not in wanted:
            return None
        found = self.value
        self._next()
        return found

    def _need(self, wanted: str) -> None:
        if self.take((wanted,)) is None:
            raise BadQuery(f"{self._text!r}: needs {wanted!r} {self.where}")

    def _name(self) -> str:
        if self.kind != "name":
            raise BadQuery(f"{self._text!r}: needs a name {self.where}")
        found = self.value
        self._next()
        return found

    def sum(self) -> Node:
        return self._chain(("+", "-"), lambda: self._chain(("*", "/"), self._part))

    def _chain(self, marks: tuple[str, ...], part: Callable[[], Node]) -> Node:
        left = part()
        while (mark := self.take(marks)) is not None:
            left = _combined(ARITHMETIC[mark], left, part())
        return left

    def _part(self) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise BadQuery(f"{self._text!r}: is nested too deeply")
        try:
            if self.take(("-",)):
                return _combined(operator.sub, lambda _: 0.0, self._part())
            if self.take(("(",)):
                inner = self.sum()
                self._need(")")
                return inner
            if self.kind == "number":
                number = float(self.value)
                self._next()
                return lambda _: number
            name = self._name()
            return self._aggregation(name) if name in AGGREGATIONS else self._metric(name)
        finally:
            self._depth -= 1

    def _aggregation(self, name: str) -> Node:
        by: tuple[str, ...] = ()
        if self.kind == "name" and self.value == "by":
            self._next()
            by = self._names()
        self._need("(")
        inner = self.sum()
        self._need(")")
        if self.kind == "name" and self.value == "by":
            self._next()
            by = self._names()
        return lambda samples: _aggregated(AGGREGATIONS[name], by, inner(samples))

    def _names(self) -> tuple[str, ...]:
        self._need("(")
        found = [self._name()]
        while self.take((",",)):
            found.append(self._name())
        self._need(")")
        return tuple(found)

    def _metric(self, name: str) -> Node:
        matchers: list[tuple[str, Callable[[str, str], bool], str]] = []
        if self.take(("{",)):
            while not self.take(("}",)):
                label = self._name()
                mark = self.take(MATCHERS)
                if mark is None or self.kind != "text":
                    raise BadQuery(f'{self._text!r}: needs {label}="..." {self.where}')
                wanted = re.sub(r"\\(.)", r"\1", self.value[1:-1]) if mark in ("=", "!=") else self.value[1:-1]
                self._check(wanted)
                self._next()
                matchers.append((label, MATCHERS[mark], wanted))
                if not self.take((",",)):
                    self._need("}")
                    break

        def found(samples: Samples) -> Vector:
            return {
                labels: value
                for labels, value in samples.get(name, ())
                if all(matches(dict(labels).get(label, ""), wanted) for label, matches, wanted in matchers)
            }

        return found

    def _check(self, pattern: str) -> None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise BadQuery(f"{self._text!r}: {pattern!r} is no regular expression: {error}") from error


def _combined(act: Callable[[float, float], float], left: Node, right: Node) -> Node:
    def value(samples: Samples) -> Value:
        one, other = left(samples), right(samples)
        if isinstance(one, float) and isinstance(other, float):
            return act(one, other)
        return {labels: act(*pair) for labels, pair in _matched(one, other)}

    return value


def _aggregated(act: Callable[[list[float]], float], by: tuple[str, ...], value: Value) -> Vector:
    if isinstance(value, float):
        return {frozenset(): value}
    groups: dict[Labels, list[float]] = {}
    for labels, number in value.items():
        key = frozenset((name, text) for name, text in labels if name in by)
        groups.setdefault(key, []).append(number)
    return {key: float(act(numbers)) for key, numbers in groups.items()}
