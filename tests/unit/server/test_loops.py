"""Nothing that a broker does in the background ends unseen: it is told, tried again, and others take over what it held."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from minikafka.controller.controller import Controller
from minikafka.controller.topics import NewTopic
from minikafka.log.errors import LogDirFailure
from minikafka.metadata.image import ClusterImage
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.replication.hosted import HostedPartition
from minikafka.replication.replicas import ReplicaManager
from minikafka.replication.reporter import ReplicaReporter
from minikafka.server import supervision
from minikafka.server.broker import Broker
from minikafka.server.housekeeping import Housekeeping

from tests.unit.replication.test_replicas import Lab
from tests.unit.server.in_process import DEADLINE, Cluster, context, get, running
from tests.waiting import until

LONG = "x" * 249


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "PAUSE_SECONDS_FIRST", 0.01)


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Who follows a controller that resigned waits for a session; this one outlasts the pauses of a busy machine."""
    async with running(tmp_path, 3, broker_session_timeout_ms="3000") as cluster:
        await cluster.create("t", partitions=3)
        await cluster.has_controller()
        yield cluster


def told(cluster: Cluster, broker: Broker, event: str) -> list[dict[str, Any]]:
    lines = (cluster.data / f"events-{broker.broker_id}.jsonl").read_text().splitlines()
    return [record["fields"] for record in map(json.loads, lines) if record["event"] == event]


def reasons(cluster: Cluster, broker: Broker) -> list[str]:
    """Why its terms as the controller ended."""
    return [str(fields["reason"]) for fields in told(cluster, broker, "controller_resigned")]


def breaking(broken: list[bool], what: Callable[..., Any]) -> Callable[..., Any]:
    """``what``, which raises for as long as ``broken`` holds anything."""

    def sometimes(*args: Any, **kwargs: Any) -> Any:
        if broken:
            raise LookupError("a mistake that nobody made")
        return what(*args, **kwargs)

    return sometimes


def leads(broker: Broker) -> list[int]:
    return [p.topic_partition.partition for p in broker.replicas.all() if p.leader is not None]


async def test_a_topic_of_the_longest_name_is_deleted(tmp_path: Path) -> None:
    """Audit t1: it ended the loop that follows the image, and so the broker, without a word."""
    async with running(tmp_path, 1) as cluster:
        broker = cluster.brokers[1]
        for _ in range(2):
            await cluster.create(LONG)
            assert await cluster.delete(LONG) is ErrorCode.NONE
        await until(lambda: broker.replicas.get(LONG, 0) is None)
        await cluster.create("after")
        assert broker.context.health.problems() == {}


@pytest.mark.slow
async def test_a_topic_that_fails_keeps_no_other_from_being_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, 1) as cluster:
        broker = cluster.brokers[1]
        monkeypatch.setattr("minikafka.server.metadata_cache.WATCH_SECONDS", 0.05)
        await cluster.create("bad")
        delete = broker.logs.delete

        def refuse(*args: Any, **kwargs: Any) -> None:
            raise LogDirFailure("bad-0: cannot be deleted: Input/output error", permanent=False)

        broker.logs.delete = refuse  # type: ignore[method-assign]
        assert await cluster.delete("bad") is ErrorCode.NONE
        await cluster.create("good")
        status, body = await get(broker, "/healthz")
        assert (status, body.splitlines()) == (
            503,
            ["topic bad: LogDirFailure: bad-0: cannot be deleted: Input/output error"],
        )
        assert 'minikafka_component_failed{component="topic bad"} 1' in (await get(broker, "/metrics"))[1]
        assert leads(broker) == [0]
        broker.logs.delete = delete  # type: ignore[method-assign]
        await until(lambda: not broker.context.health.problems())
        assert (await get(broker, "/healthz")) == (200, "ok\n")
        assert not [tp for tp in broker.logs.logs if tp.topic == "bad"]
        assert [fields["component"] for fields in told(cluster, broker, "component_recovered")] == ["topic bad"]


@pytest.mark.slow
async def test_a_broker_that_cannot_follow_the_image_gives_up_what_it_leads(
    three: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is fenced at its own wish, resigns as the controller, says so, and comes back by itself."""
    victim = three.controller
    await until(lambda: sorted(i for b in three.brokers.values() for i in leads(b)) == [0, 1, 2])
    broken: list[bool] = [True]
    apply = ClusterImage.apply

    def sometimes(image: ClusterImage, key: str, value: Any) -> None:
        if broken and image is victim.metadata.image:
            raise LookupError("a record of the future")
        apply(image, key, value)

    monkeypatch.setattr(ClusterImage, "apply", sometimes)
    await three.has_controller()
    await three.controller.topics.create_anywhere(NewTopic("more", 1, 3))
    others = [b for b in three.brokers.values() if b is not victim]
    await until(lambda: any(b.membership.leads for b in others))
    await until(lambda: all(b.metadata.image.brokers[victim.broker_id].fenced for b in others))
    await until(lambda: sorted(i for b in others for i in leads(b)) == [0, 0, 1, 2])
    assert leads(victim) == []
    status, body = await get(victim, "/healthz")
    assert (status, body.splitlines()) == (503, ["cluster image: LookupError: a record of the future"])
    broken.clear()
    await until(lambda: not any(b.metadata.image.brokers[victim.broker_id].fenced for b in three.brokers.values()))
    await until(lambda: victim.replicas.get("more", 0) is not None)
    assert victim.context.health.problems() == {}
    assert "cannot follow the cluster image" in reasons(three, victim)


@pytest.mark.slow
async def test_changes_that_failed_half_way_are_taken_again(tmp_path: Path) -> None:
    """The revision is that of the store then, and still what it brought has not been seen to."""
    async with running(tmp_path, 1) as cluster:
        broker = cluster.brokers[1]
        broken: list[bool] = []
        broker.host.reconcile = breaking(broken, broker.host.reconcile)  # type: ignore[method-assign]
        broken.append(True)
        role = broker.topics.require_controller()
        await role.submit(lambda c: c.topics.create(NewTopic("t", 1, 1), False))
        await until(lambda: "cluster image" in broker.context.health.problems())
        assert broker.replicas.get("t", 0) is None
        broken.clear()
        await until(lambda: broker.replicas.get("t", 0) is not None)
        await until(lambda: leads(broker) == [0])


@pytest.mark.slow
async def test_a_controller_that_fails_on_a_decision_ends_its_term(three: Cluster) -> None:
    """Its loop ended, the lease was renewed all the same, and whoever asked waited for ever."""
    old = three.controller
    role = old.topics.require_controller()

    def decide(_: Controller) -> None:
        raise LookupError("a mistake that nobody made")

    with pytest.raises(KafkaError) as refused:
        async with asyncio.timeout(DEADLINE):
            await role.submit(decide)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR, "so that no client takes it to the next controller"
    await until(role.over.is_set)
    await until(lambda: any(b.membership.leads for b in three.brokers.values() if b is not old))
    await until(lambda: not old.context.health.problems())
    assert told(three, old, "component_failed") == [
        {"component": "controller", "error": "LookupError: a mistake that nobody made"}
    ]
    assert "internal error: LookupError('a mistake that nobody made')" in reasons(three, old)
    await three.create("after")


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["commit", "tick", "renew"])
async def test_whatever_ends_a_loop_of_the_controller_ends_its_term(
    three: Cluster, monkeypatch: pytest.MonkeyPatch, loop: str
) -> None:
    old = three.controller
    role = old.topics.require_controller()
    broken: list[bool] = [True]
    target, name = {
        "commit": (old.store, "commit"),
        "tick": (role.resignation, "is_due"),
        "renew": (old.store, "renew"),
    }[loop]
    monkeypatch.setattr(target, name, breaking(broken, getattr(target, name)))
    if loop == "commit":
        with pytest.raises(KafkaError):
            await role.submit(lambda c: c.topics.create(NewTopic("new", 1, 3), False))
    await until(role.over.is_set)
    await until(lambda: any(b.membership.leads for b in three.brokers.values() if b is not old))
    assert any("LookupError" in reason for reason in reasons(three, old))


@pytest.mark.parametrize(
    ("component", "attribute", "method"),
    [
        ("membership", "store", "lease"),
        ("ISR check", "replicas", "isr_tick"),
        ("high watermark checkpoint", "logs", "prepare_high_watermarks"),
        ("recovery point checkpoint", "logs", "prepare_recovery_points"),
        ("purge of deleted logs", "logs", "prepare_purge"),
        ("flush", "housekeeping", "_flush_due"),
    ],
)
async def test_a_periodic_task_survives_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, component: str, attribute: str, method: str
) -> None:
    """Each of them ended for ever, unseen, with the first exception that it did not expect."""
    monkeypatch.setattr("minikafka.server.housekeeping.PURGE_CHECK_SECONDS", 0.05)
    monkeypatch.setattr("minikafka.server.housekeeping.FLUSH_CHECK_IDLE_SECONDS", 0.05)
    broken: list[bool] = []
    if method == "isr_tick":  # the task keeps the method itself
        monkeypatch.setattr(ReplicaManager, method, breaking(broken, ReplicaManager.isr_tick))
    async with running(
        tmp_path,
        1,
        replica_lag_time_max_ms="100",
        replica_high_watermark_checkpoint_interval_ms="50",
        log_flush_offset_checkpoint_interval_ms="50",
    ) as cluster:
        broker = cluster.brokers[1]
        target = getattr(broker, attribute)
        if method != "isr_tick":
            monkeypatch.setattr(target, method, breaking(broken, getattr(target, method)))
        broken.append(True)
        if component == "membership":
            broker.topics.require_controller().resign("so that the lease is looked at")
        await until(lambda: component in broker.context.health.problems())
        assert (await get(broker, "/healthz"))[0] == 503
        broken.clear()
        await until(lambda: not broker.context.health.problems())
        assert (await get(broker, "/healthz")) == (200, "ok\n")


async def test_a_flush_that_breaks_down_keeps_no_later_one_from_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """With flush.messages no producer to it would ever be answered again (R17)."""
    about, lab = context(), Lab()
    broken: list[bool] = [True]
    monkeypatch.setattr(lab.replicas, "flushed", breaking(broken, lab.replicas.flushed))
    reporter = ReplicaReporter(about, lab.replicas, lambda *_: None)
    housekeeping = Housekeeping(about, lab.replicas, reporter, dict, lambda _: None)
    (partition, _) = lab.partitions
    lab.produce(0)
    housekeeping.flush_soon(partition)
    await until(about.health.problems)
    assert not partition.flushing
    broken.clear()
    lab.produce(0)
    housekeeping.flush_soon(partition)
    await until(lambda: partition.log.flushed_offset == 2)
    await housekeeping.stop()


async def test_a_topic_of_which_something_was_not_carried_out_is_not_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said at /healthz that all is well, and was not looked at again."""
    monkeypatch.setattr("minikafka.server.metadata_cache.WATCH_SECONDS", 0.05)
    async with running(tmp_path, 1) as cluster:
        broker = cluster.brokers[1]
        broken: list[bool] = [True]
        monkeypatch.setattr(broker.groups.host, "role_changed", breaking(broken, broker.groups.host.role_changed))
        await cluster.create("bad")
        assert list(broker.context.health.problems()) == ["topic bad"]
        broken.clear()
        await until(lambda: not broker.context.health.problems())


@pytest.mark.parametrize("method", ["_check_isr", "_retain_one"])
async def test_one_partition_keeps_no_other_from_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    owner: Any = ReplicaManager if method == "_check_isr" else Housekeeping
    seen: list[int] = []
    work = getattr(owner, method)

    def look(self: Any, partition: HostedPartition, now: Any) -> None:
        seen.append(partition.topic_partition.partition)
        if partition.topic_partition.partition == 0:
            raise LookupError("a mistake that nobody made")
        work(self, partition, now)

    monkeypatch.setattr(owner, method, look)
    interval = "replica_lag_time_max_ms" if method == "_check_isr" else "log_retention_check_interval_ms"
    async with running(tmp_path, 1, **{interval: "100"}) as cluster:
        await cluster.create("t", partitions=3)
        seen.clear()
        await until(lambda: seen[:6] == [0, 1, 2, 0, 1, 2])
        assert list(cluster.brokers[1].context.health.problems().values()) == [
            "LookupError: a mistake that nobody made"
        ]
