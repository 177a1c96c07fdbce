"""`python -m bench.many_tests`: 200 tests that break a cluster, in one run of pytest with 4 workers, several times over.

Each run has to pass whole, and to leave nothing: no process, no file. The last one has busy processors beside it. Prints the
times, and ends with 1 where a run was not so.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MARK = "MINIKAFKA_BENCH_RUN"
"""In the environment of all that a run starts, to find what is left of it."""
KEPT = ("pytest-of-", "minikafka-ports-")
"""What may stay in a folder for temporary files: pytest's own last runs, and the empty files by which ports are reserved."""
WORKERS = 4
TESTS = """
import pytest
from confluent_kafka import Consumer, Producer
from minikafka.testing import Outcome

NUMBERS = pytest.mark.parametrize("number", range({each}))


def send(cluster, topic, *values):
    producer = Producer({{"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0}})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(120) == 0


def values(cluster, topic):
    return [record.value for record in cluster.records(topic)]


@NUMBERS
def test_kill(minikafka_cluster, number):
    topic = minikafka_cluster.create_topic()
    send(minikafka_cluster, topic, "a")
    minikafka_cluster.kill_leader(topic)
    send(minikafka_cluster, topic, "b")
    assert values(minikafka_cluster, topic) == [b"a", b"b"]


@NUMBERS
def test_pause(minikafka_cluster, number):
    topic = minikafka_cluster.create_topic()
    leader = minikafka_cluster.leader(topic)
    minikafka_cluster.pause(leader)
    minikafka_cluster.leader(topic, other_than=leader)
    minikafka_cluster.resume(leader)
    send(minikafka_cluster, topic, "a")
    assert values(minikafka_cluster, topic) == [b"a"]


@NUMBERS
def test_cut(minikafka_cluster, number):
    topic = minikafka_cluster.create_topic()
    leader = minikafka_cluster.leader(topic)
    minikafka_cluster.cut(leader)
    minikafka_cluster.leader(topic, other_than=leader)
    minikafka_cluster.heal()
    send(minikafka_cluster, topic, "a")
    assert minikafka_cluster.verdict().outcome is Outcome.PASSED


@NUMBERS
def test_error(minikafka_cluster, number):
    topic = minikafka_cluster.create_topic()
    asked = minikafka_cluster.observe("Produce")
    minikafka_cluster.inject_error("Produce", "NOT_ENOUGH_REPLICAS", topic, 0, count=1)
    send(minikafka_cluster, topic, "a")
    assert asked.count == 2


@NUMBERS
def test_power_loss(minikafka_cluster, number):
    topic = minikafka_cluster.create_topic(config={{"flush.messages": "1"}})
    send(minikafka_cluster, topic, "a")
    minikafka_cluster.power_loss(minikafka_cluster.leader(topic))
    assert values(minikafka_cluster, topic) == [b"a"]


@NUMBERS
def test_move(minikafka_cluster, number):
    topic = minikafka_cluster.create_topic()
    before = minikafka_cluster.leader(topic)
    assert minikafka_cluster.move_leader(topic) != before


@NUMBERS
def test_group(minikafka_cluster, number):
    topic = minikafka_cluster.create_topic()
    send(minikafka_cluster, topic, "a", "b")
    group = f"of-{{topic}}"
    config = {{"bootstrap.servers": minikafka_cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}}
    consumer = Consumer({{**config, "log_level": 0}})
    consumer.subscribe([topic])
    assert len(consumer.consume(2, 120)) == 2
    consumer.commit(asynchronous=False)
    consumer.close()
    assert minikafka_cluster.groups()[group].offsets[topic, 0] == 2


@NUMBERS
def test_restart(minikafka_cluster, number):
    topic = minikafka_cluster.create_topic()
    send(minikafka_cluster, topic, "a")
    minikafka_cluster.restart(minikafka_cluster.leader(topic))
    assert values(minikafka_cluster, topic) == [b"a"]
"""
KINDS = TESTS.count("@NUMBERS")


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep so many processors busy."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def left_processes(mark: str) -> list[int]:
    """Find what still runs of a run."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:  # ended meanwhile, or another user's
            continue
    return found


def run(tests: int, mode: str) -> list[str]:
    """Run the tests once; what went wrong, a line each."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="many-tests-") as root:
        scratch, folder = Path(root, "tmp"), Path(root, "tests")
        scratch.mkdir()
        folder.mkdir()
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "test_many.py").write_text(TESTS.format(each=tests // KINDS))
        environment = {**os.environ, MARK: mark, "TMPDIR": str(scratch), "PYTHONDONTWRITEBYTECODE": "1"}
        options = ["-q", "-n", str(WORKERS), "--minikafka-mode", mode, "-p", "no:cacheprovider", "--tb", "short"]
        command = [sys.executable, "-m", "pytest", *options, str(folder)]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
        problems = [] if not done.returncode else [f"pytest ended with {done.returncode}:\n{done.stdout[-20_000:]}"]
        if f"{tests // KINDS * KINDS} passed" not in done.stdout:
            problems.append("not all tests have passed")
        if processes := left_processes(mark):
            problems.append(f"processes are left: {processes}")
        if files := [path.name for path in scratch.iterdir() if not path.name.startswith(KEPT)]:
            problems.append(f"files are left: {', '.join(sorted(files))}")
    return problems


def main() -> int:
    """Run, print the times, and end with 1 when anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=int, default=200, metavar="N", help=f"{KINDS} kinds, each N/{KINDS} times")
    parser.add_argument("--times", type=int, default=5, metavar="N", help="runs without other load")
    parser.add_argument("--mode", choices=("processes", "in-process"), default="in-process")
    parser.add_argument("--busy", type=int, default=os.cpu_count() or 1, metavar="N", help="of the last run; 0: none")
    args = parser.parse_args()
    wrong = 0
    for number in range(1, args.times + 1 + bool(args.busy)):
        loaded = number > args.times
        began = time.monotonic()
        with busy(args.busy if loaded else 0):
            problems = run(args.tests, args.mode)
        seconds = time.monotonic() - began
        beside = f", beside {args.busy} busy processes" if loaded else ""
        print(f"run {number}: {seconds:6.1f} s{beside}: {'well' if not problems else 'NOT WELL'}", flush=True)
        for problem in problems:
            print(problem, flush=True)
        wrong += bool(problems)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
