"""How long three brokers take from exec to serving, on fresh data and on data that is there, and what they then hold.

python -m bench.startup [--contender minikafka|kafka] [--rounds 3]
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

from bench.contenders import NAMES, Contender, temporary
from bench.process_stats import Memory, cpu_seconds, memory
from bench.readiness import wait_for_first_ack
from bench.topics import fresh_topic


class Start(NamedTuple):
    """One start of three brokers, all at once. Seconds from the first exec."""

    what: str
    """``fresh`` or ``restart``."""
    ready_s: float
    """Until every broker lists all three in its Metadata."""
    first_ack_s: float
    """Until a record with acks=all is acknowledged; on fresh data this includes making the topic."""
    cpu_s: float
    memory: Memory


def measure_startup(subject: Contender) -> list[Start]:
    """Start on fresh data, stop, start again; the contender has to be down, and is down afterwards."""
    subject.prepare()
    starts = []
    began = time.monotonic()
    ready = subject.up()
    with fresh_topic(subject, "first-ack", partitions=1) as topic:
        wait_for_first_ack(subject.bootstrap, topic)
        acknowledged = time.monotonic() - began
        starts.append(_start("fresh", subject, ready, acknowledged))
        subject.down()
        began = time.monotonic()
        ready = subject.up()
        wait_for_first_ack(subject.bootstrap, topic)
        starts.append(_start("restart", subject, ready, time.monotonic() - began))
    subject.down()
    return starts


def _start(what: str, subject: Contender, ready_s: float, first_ack_s: float) -> Start:
    pids = subject.pids()
    return Start(what, round(ready_s, 3), round(first_ack_s, 3), cpu_seconds(pids), memory(pids))


def main() -> None:
    """The command of the module's docstring."""
    parser = argparse.ArgumentParser(description="start-up time of three brokers")
    parser.add_argument("--contender", choices=NAMES, default="minikafka")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    for _ in range(args.rounds):
        with temporary(args.contender) as subject:
            for start in measure_startup(subject):
                print(
                    f"{subject.name}, {start.what}: ready {start.ready_s:.2f} s, first acknowledgement "
                    f"{start.first_ack_s:.2f} s; {start.cpu_s:.2f} CPU s and {start.memory.resident:.0f} MB RSS in all"
                )


if __name__ == "__main__":
    main()
