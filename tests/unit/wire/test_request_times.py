"""Where the time of a request goes (Kafka's RequestMetrics), and what is counted of its topic (BrokerTopicMetrics)."""

from __future__ import annotations

import time

from minikafka.server.api.fetch import FOLLOWER_FETCH
from minikafka.server.connection import FETCH, PRODUCE

from tests.unit.wire.client import ALL, LEADER, produced
from tests.unit.wire.stage import Stage
from tests.unit.wire.test_acknowledgement import lead


async def test_waiting_for_a_replica_is_remote_and_waiting_for_another_answer_is_not(stage: Stage) -> None:
    """acks=all waits for the follower; the acks=1 behind it has its answer at once, which may not overtake the first."""
    client, follower = await lead(stage)
    client_requests = stage.broker.stats.requests
    first, second = client.produce(b"a", acks=ALL), client.produce(b"b", acks=LEADER)
    await stage.until(lambda: stage.broker.replicas.get("t", 0).log.log_end_offset == 2)
    assert PRODUCE not in client_requests, "nothing is answered yet"
    await stage.has(follower, 2)
    await produced(first)
    await produced(second)
    times = client_requests[PRODUCE]
    assert sum(times.counts) == 2
    assert times.remote > 0
    assert times.response_queued > 0
    assert times.queued == 0
    phases = dict(times.phases)
    assert abs(sum(phases.values()) - times.seconds) < 1e-9
    assert times.bytes > 0


async def test_fetches_of_followers_are_told_from_those_of_clients(stage: Stage) -> None:
    client, follower = await lead(stage)
    requests = stage.broker.stats.requests
    assert (FOLLOWER_FETCH in requests, FETCH in requests) == (True, False)
    await produced(client.produce(b"a", acks=LEADER))
    await stage.has(follower, 1)
    traffic = stage.broker.stats.topics["t"]
    fetches = traffic.fetch_requests
    assert traffic.bytes_out == 0, "what followers get is replication"
    assert (await stage.sees(client, 0)).end_offset == 1
    assert sum(requests[FETCH].counts) == 1
    assert (traffic.messages_in, traffic.produce_requests, traffic.fetch_requests) == (1, 1, fetches + 1)
    assert traffic.bytes_out == traffic.bytes_in == stage.broker.stats.bytes_out > 0


async def test_the_handler_is_busy_only_while_it_handles(stage: Stage) -> None:
    client, follower = await lead(stage)
    stats = stage.broker.stats
    before, began = stats.handler_seconds, time.perf_counter()
    answer = client.produce(b"a", acks=ALL)
    await stage.until(lambda: stage.broker.replicas.get("t", 0).log.log_end_offset == 1)
    await stage.has(follower, 1)
    await produced(answer)
    assert before < stats.handler_seconds < before + time.perf_counter() - began
