"""What one scrape of /metrics takes of a broker's time, with many partitions.

python -m bench.scraping [--partitions 2000] [--scrapes 15]

The broker tells it itself: ``minikafka_event_loop_cpu_seconds_total`` is the processor time of the thread that serves
clients, and nothing but the scrapes happens meanwhile.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
import time
import urllib.request
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from minikafka.local.cluster import LocalCluster
from minikafka.local.ports import HOST, free_base_port

CPU = re.compile(r"^minikafka_event_loop_cpu_seconds_total (\S+)$", re.MULTILINE)
PARTITIONS_A_TOPIC = 100


def scrape(port: int) -> str:
    """One page."""
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=60) as answer:
        return str(answer.read().decode())


def main() -> None:
    """The command of the module's docstring."""
    parser = argparse.ArgumentParser(description="processor time of one scrape")
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--scrapes", type=int, default=15)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster(Path(folder) / "data")
        cluster.up(brokers=1, base_port=free_base_port(1))
        try:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
            for n in range(args.partitions // PARTITIONS_A_TOPIC):
                for done in admin.create_topics([NewTopic(f"topic-{n:03}", PARTITIONS_A_TOPIC, 1)]).values():
                    done.result(120)
            port = cluster.broker(1).metrics_port
            wanted = f"\nminikafka_leader_partitions {args.partitions}\n"
            while wanted not in (page := scrape(port)):
                time.sleep(0.5)
            before, costs = cpu(page), []
            for _ in range(args.scrapes):
                page = scrape(port)
                now = cpu(page)  # what the scrape before took, for a page tells what was before it was made
                costs.append(1000 * (now - before))
                before = now
        finally:
            cluster.down()
    found = costs[1:]
    print(
        f"{args.partitions} partitions: one scrape takes {statistics.median(found):.1f} ms of the broker's thread "
        f"(of {len(found)}: {min(found):.1f} to {max(found):.1f}); page of {len(page)} bytes, {page.count(chr(10))} lines"
    )


def cpu(page: str) -> float:
    """Seconds of the serving thread up to this page."""
    found = CPU.search(page)
    assert found is not None
    return float(found[1])


if __name__ == "__main__":
    main()
