"""The cluster for tests of clients as processes: what only real ones can show."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from minikafka.local import process
from minikafka.testing import MiniKafkaCluster, Outcome

from tests.waiting import until_now

SECONDS = 120.0

ORPHANS = """
import multiprocessing, sys, time
from minikafka.testing import MiniKafkaCluster
cluster = MiniKafkaCluster(2, folder=sys.argv[1])
child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
child.start()
cluster.pause(2)
print(child.pid, *(cluster.ground.cluster.pid(broker) for broker in (1, 2)), cluster.ground._links.pid, flush=True)
time.sleep(600)
"""


def test_a_real_kill_and_a_real_power_loss_are_judged(tmp_path: Path) -> None:
    """Also where clients need TLS and log in."""
    with MiniKafkaCluster(folder=tmp_path, tls=True, users={"alice": "secret"}) as cluster:
        topic = cluster.create_topic(config={"flush.messages": "1"})
        producer = Producer({**cluster.client_config("alice"), "log_level": 0})
        for value in "ab":
            producer.produce(topic, value)
            assert producer.flush(SECONDS) == 0
            cluster.kill_leader(topic) if value == "a" else cluster.power_loss(cluster.leader(topic))
        verdict = cluster.verdict()
    assert (verdict.outcome, verdict.counts["acknowledged"]) == (Outcome.PASSED, 2)
    assert verdict.problems == []


@pytest.mark.full
def test_nothing_is_left_of_a_program_that_was_killed(tmp_path: Path) -> None:
    """Not even a broker that stood still, and so could notice nothing; also while a child by fork lives."""
    with subprocess.Popen(
        (sys.executable, "-c", ORPHANS, str(tmp_path)), stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as program:
        assert program.stdout is not None
        child, *pids = [int(pid) for pid in program.stdout.readline().split()]
        assert len(pids) == 3
        program.kill()
        try:
            program.wait()
            until_now(lambda: all(process.state(pid) in (None, "Z", "X") for pid in pids), seconds=SECONDS)
            assert process.state(child) not in (None, "Z", "X")
        finally:
            os.kill(child, signal.SIGKILL)
