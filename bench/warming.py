"""Warming a contender until it costs no less any more: a JVM that is still compiling is no Kafka to compare with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.loads import raw_load
from bench.measurements import PACED_RECORDS_PER_SECOND, Bench, java_produce, raw_compressed
from bench.process_stats import cpu_seconds

GAIN_MAX = 0.1
"""A look that costs at least this share less than the best before it shows that there is more to gain."""

LOOKS_STEADY = 2
"""So many successive looks without such a gain, and the contender is warm."""

LOOKS_MAX = 15
"""Some ten seconds each. What is not steady by then is measured as it is, and that is told."""

PACED_SECONDS = 8


def is_steady(looks: Sequence[float]) -> bool:
    """Return whether the last looks gained nothing on the best before them; ``looks`` are CPU seconds a GB, in their order."""
    before, last = looks[:-LOOKS_STEADY], looks[-LOOKS_STEADY:]
    return bool(before) and min(last) > (1 - GAIN_MAX) * min(before)


def until_steady(look: Callable[[], float], most: int = LOOKS_MAX) -> list[float]:
    """Look until it is steady, ``most`` times at most; all looks."""
    looks: list[float] = []
    while len(looks) < most and not is_steady(looks):
        looks.append(look())
    return looks


def warm_up(bench: Bench) -> list[float]:
    """Load every path that is measured until the brokers' CPU a GB is steady: the looks, in CPU seconds a GB."""

    def look() -> float:
        pids = bench.subject.pids()
        with bench.topic("warm-up") as topic:
            before = cpu_seconds(pids)
            produced = [java_produce(bench, topic, batch_bytes, share=0.5) for batch_bytes in (262_144, 65_536)]
            options = {"records": 61, "inflight": 5, "total_mb": bench.size.raw_mb}
            produced.append(raw_load(bench.subject.bootstrap, topic, "produce", **options))
            produced += [raw_compressed(bench, topic, codec) for codec in ("lz4", "zstd")]
            used = cpu_seconds(pids) - before
            raw_load(bench.subject.bootstrap, topic, "fetch", fetch_bytes=1 << 20)
        return round(used / (sum(figures.bytes for figures in produced) / 1e9), 2)

    looks = until_steady(look)
    with bench.topic("warm-up") as topic:
        raw_load(bench.subject.bootstrap, topic, "paced", rate=PACED_RECORDS_PER_SECOND, seconds=PACED_SECONDS)
    return looks
