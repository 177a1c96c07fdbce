"""When is a cluster there? The same question, asked the same way, of every contender."""

from __future__ import annotations

import time

from tests.interop.raw_client import (
    ClusterInfo,
    RawConnection,
    metadata,
    produce_request,
    random_batch,
    read_produce_answer,
)

POLL_SECONDS = 0.01


def wait_for_metadata(bootstrap: str, brokers: int, timeout_s: float) -> None:
    """Wait until each address answers Metadata with all ``brokers``; raises ``TimeoutError``."""
    pending = bootstrap.split(",")
    deadline = time.monotonic() + timeout_s
    while pending:
        pending = [address for address in pending if _brokers_seen(address) < brokers]
        if pending:
            if time.monotonic() > deadline:
                raise TimeoutError(f"not ready after {timeout_s:g} s: {', '.join(pending)}")
            time.sleep(POLL_SECONDS)


def _brokers_seen(address: str) -> int:
    try:
        with RawConnection(address, timeout_s=2.0) as connection:
            return len(metadata(connection).brokers)
    except OSError:
        return 0


def wait_for_replicas(bootstrap: str, topic: str, replicas: int, timeout_s: float = 60.0) -> ClusterInfo:
    """Wait until every partition of ``topic`` has a leader and ``replicas`` in sync; raises ``TimeoutError``.

    ``bootstrap`` may name brokers that are down.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        for address in bootstrap.split(","):
            try:
                with RawConnection(address, timeout_s=5.0) as connection:
                    seen = metadata(connection, [topic])
            except OSError:
                continue
            partitions = seen.topics.get(topic, {}).values()
            if partitions and all(info.leader >= 0 and len(info.in_sync) >= replicas for info in partitions):
                return seen
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic} has not {replicas} replicas in sync after {timeout_s:g} s")
        time.sleep(0.05)


def wait_for_first_ack(bootstrap: str, topic: str, timeout_s: float = 60.0) -> None:
    """Produce one record with acks=all, again and again, until it is acknowledged; raises ``TimeoutError``."""
    deadline = time.monotonic() + timeout_s
    batch = random_batch(1, 100)
    while time.monotonic() < deadline:
        try:
            with RawConnection(bootstrap) as connection:
                leader = metadata(connection, [topic]).leader_address(topic, 0)
            with RawConnection(leader) as connection:
                if read_produce_answer(connection.call(produce_request(topic, 0, batch))).error_code == 0:
                    return
        except (OSError, KeyError):
            pass
        time.sleep(POLL_SECONDS)
    raise TimeoutError(f"no record acknowledged in {timeout_s:g} s")
