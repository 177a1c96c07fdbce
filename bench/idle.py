"""What three brokers cost that have nothing to do.

python -m bench.idle [--contender minikafka|kafka] [--seconds 20] [--settle 5]
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

from bench.contenders import NAMES, Contender, temporary
from bench.process_stats import Memory, cpu_seconds, memory
from bench.topics import fresh_topic


class Idle(NamedTuple):
    """All brokers together, while no client is connected."""

    cores: float
    memory: Memory


def measure_idle(subject: Contender, seconds: float, settle_s: float) -> Idle:
    """Watch a contender that is up, with one topic, for ``seconds`` after ``settle_s`` of peace."""
    with fresh_topic(subject, "idle"):
        time.sleep(settle_s)
        pids = subject.pids()
        before, began = cpu_seconds(pids), time.monotonic()
        time.sleep(seconds)
        cores = (cpu_seconds(pids) - before) / (time.monotonic() - began)
        return Idle(round(cores, 4), memory(pids))


def main() -> None:
    """The command of the module's docstring."""
    parser = argparse.ArgumentParser(description="memory and CPU of three idle brokers")
    parser.add_argument("--contender", choices=NAMES, default="minikafka")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--settle", type=float, default=5.0)
    args = parser.parse_args()
    with temporary(args.contender) as subject:
        subject.up()
        idle = measure_idle(subject, args.seconds, args.settle)
        brokers = len(subject.pids())
    print(
        f"{subject.name}, {brokers} idle brokers: {idle.cores * 100:.2f} % of a core together; each RSS "
        f"{idle.memory.resident / brokers:.1f} MB (PSS {idle.memory.proportional / brokers:.1f} MB)"
    )


if __name__ == "__main__":
    main()
