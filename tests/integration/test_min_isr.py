"""min.insync.replicas changed on a running cluster: nothing that was acknowledged may be lost by it (KIP-966, audit t2)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from minikafka.local.cluster import LocalCluster
from minikafka.local.layout import read_record, write_record

from tests.interop.raw_client import PartitionInfo, RawConnection, metadata

Until = Callable[..., Any]
RunCli = Callable[..., "subprocess.CompletedProcess[str]"]

QUICK = {"broker.session.timeout.ms": "6000", "broker.heartbeat.interval.ms": "500"}


def of(cluster: LocalCluster, broker: int) -> str:
    return f"127.0.0.1:{cluster.broker(broker).port}"


def partition(address: str, topic: str = "t") -> PartitionInfo:
    with RawConnection(address, 30.0) as connection:
        return metadata(connection, [topic]).topics[topic][0]


def done(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture
def eligible(make_cluster: Callable[..., LocalCluster], call_cli: RunCli, until: Until) -> LocalCluster:
    """Topic t with a minimum of 2: broker 1 leads alone, 2 is dead, 3 is paused and in the eligible leader replicas."""
    cluster = make_cluster(3, QUICK)
    assignment = ("--replica-assignment", "1:2:3", "--config", "min.insync.replicas=2")
    done(call_cli("topic", "create", "t", *assignment, "--bootstrap", cluster.info().bootstrap))
    done(call_cli("produce", "t", "--partition", 0, "--bootstrap", of(cluster, 1), stdin="before\n"))
    until(lambda: partition(of(cluster, 1)).in_sync, lambda isr: len(isr) == 3)
    cluster.kill(2)
    until(lambda: partition(of(cluster, 1)).in_sync, lambda isr: sorted(isr) == [1, 3])
    cluster.pause(3)
    until(lambda: partition(of(cluster, 1)).in_sync, lambda isr: list(isr) == [1])
    return cluster


@pytest.mark.full
def test_what_the_last_member_commits_alone_is_not_cut_off(
    eligible: LocalCluster, call_cli: RunCli, until: Until
) -> None:
    """Simulator bug min-isr-keeps-elr: the member of the ELR would lead, and cut ten acknowledged records off everywhere."""
    one = of(eligible, 1)
    done(call_cli("topic", "alter", "t", "--config", "min.insync.replicas=1", "--bootstrap", one))
    records = [f"acknowledged-{n}" for n in range(10)]
    lines = "\n".join(records) + "\n"
    done(call_cli("produce", "t", "--acks", "all", "--partition", 0, "--bootstrap", one, stdin=lines))
    eligible.kill(1)
    eligible.resume(3)
    until(lambda: partition(of(eligible, 3)).leader, lambda leader: leader == -1)
    eligible.start(2)
    eligible.start(1)
    bootstrap = eligible.info().bootstrap
    until(lambda: sorted(partition(of(eligible, 3)).in_sync), lambda isr: isr == [1, 2, 3])
    seen = done(call_cli("consume", "t", "--offset", "earliest", "--until-end", "--bootstrap", bootstrap)).splitlines()
    assert seen == ["before", *records]


@pytest.mark.full
def test_brokers_with_other_files_judge_alike(
    make_cluster: Callable[..., LocalCluster], call_cli: RunCli, until: Until
) -> None:
    """Simulator bug own-min-isr: a leader whose own file says 1 does not acknowledge alone where the cluster says 2."""
    cluster = make_cluster(3, {**QUICK, "min.insync.replicas": "2"})
    bootstrap = cluster.info().bootstrap
    done(call_cli("topic", "create", "t", "--replica-assignment", "1:2", "--bootstrap", bootstrap))
    _make_controller(cluster, 3, until)  # else broker 1 could become it below, and write its own file's value
    cluster.terminate(1)
    record = read_record(cluster.data)
    assert record is not None
    write_record(cluster.data, replace(record, config={**record.config, "min.insync.replicas": "1"}))
    cluster.start(1)
    until(lambda: partition(of(cluster, 3)).in_sync, lambda isr: sorted(isr) == [1, 2])
    done(call_cli("topic", "alter", "t", "--config", "retention.ms=100000", "--bootstrap", bootstrap))
    cluster.kill(2)
    until(lambda: partition(of(cluster, 1)).in_sync, lambda isr: list(isr) == [1])
    refused = call_cli(
        "produce", "t", "--acks", "all", "--partition", 0, "--timeout", 3, "--bootstrap", of(cluster, 1), stdin="x\n"
    )
    assert refused.returncode != 0, "acknowledged by a lone replica, below the cluster's minimum"


def _make_controller(cluster: LocalCluster, wanted: int, until: Until) -> None:
    """Have a broker be the controller: stop whoever else is, in turn."""
    while (found := until(lambda: _controller(cluster, wanted), lambda controller: controller > 0)) != wanted:
        cluster.kill(found)
        until(lambda: _controller(cluster, wanted), lambda controller, old=found: controller not in (-1, old))
        cluster.start(found)


def _controller(cluster: LocalCluster, asked: int) -> int:
    with RawConnection(of(cluster, asked), 30.0) as connection:
        return metadata(connection, []).controller
