"""Hold the doubles of the tests on Kubernetes to the broker that they wrap: each still serves, and lies as it should."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from minikafka.log.log import Log
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.produce import ProduceRequest
from minikafka.protocol.records import Record, build_batch, parse_records
from minikafka.replication.replicas import ReplicaManager
from minikafka.server.broker import Broker

from tests.e2e.doubles import double
from tests.unit.server.in_process import running


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the faults out again after the test."""
    for owner, name in ((Log, "append_as_leader"), (Log, "append_as_follower"), (ReplicaManager, "produce")):
        monkeypatch.setattr(owner, name, getattr(owner, name))


async def written(broker: Broker, count: int) -> tuple[list[int], list[str]]:
    """Send one record after the other, all answered; the offsets that were told, and the values that the log has."""
    loop = asyncio.get_running_loop()
    answers: list[asyncio.Future[Any]] = [loop.create_future() for _ in range(count)]
    for number, answer in enumerate(answers):
        batch = memoryview(bytearray(build_batch([Record(0, -1, None, f"{number:02}".encode())])))
        broker.replicas.produce(
            ProduceRequest(None, 1, 1000, [(double.TOPIC, [(0, batch)])]), answer.set_result, ahead={}
        )
    results = [answer[0][1][0] for answer in await asyncio.gather(*answers)]
    assert {result.error for result in results} == {ErrorCode.NONE}
    hosted = broker.replicas.get(double.TOPIC, 0)
    assert hosted is not None
    batches = list(hosted.log.read_batches(0, hosted.log.log_end_offset))
    values = [str(record.value, "ascii") for batch in batches for record in parse_records(batch.data) if record.value]
    return [result.base_offset for result in results], values


@pytest.mark.parametrize("name", ["loses", "duplicates", "reorders"])
async def test_a_double_lies_as_its_name_says(tmp_path: Path, name: str) -> None:
    double.plant(name)
    sent = [f"{number:02}" for number in range(12)]
    async with running(tmp_path, 1) as cluster:
        await cluster.create(double.TOPIC)
        told, values = await written(cluster.brokers[1], len(sent))
    match name:
        case "loses":
            assert told[9] == told[10] and values == [*sent[:9], *sent[10:]]
        case "duplicates":
            assert values == [*sent[:10], sent[9], *sent[10:]]
        case "reorders":
            assert told[9:11] == [10, 9] and values == [*sent[:9], sent[10], sent[9], sent[11]]
