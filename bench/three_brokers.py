"""How long a test waits for three brokers: MiniKafka in the test's process and as processes, beside franz-go's kfake, in turns.

python -m bench.three_brokers [--rounds 5]

Seconds until a record with acks=all is acknowledged, by the same client. kfake answers as three brokers do and replicates
nothing. What Testcontainers starts was not measured, for it needs docker; of the server in its image, alone and without
a container, KIP-974 says 1.15 to 1.2 s (JVM) and 0.13 s (native).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from minikafka.testing.cluster import MiniKafkaCluster

from bench.readiness import wait_for_first_ack

PUBLISHED = (
    "Testcontainers, as published, not measured here: 9 s for its own test of one container (testcontainers-java, pull request "
    "2078, 2019), 22.7 to 24.5 s until each of three containers had started (issue 4479, 2021)"
)
FAKE = Path(__file__).parent / "kfake"
TOPIC = "t"


def built(folder: Path) -> Path:
    """Compile the program of kfake; its path."""
    binary = folder / "kfake"
    subprocess.run(
        ["go", "build", "-o", str(binary), "."], cwd=FAKE, env=os.environ | {"GOFLAGS": "-mod=mod"}, check=True
    )
    return binary


def of_kfake(binary: Path) -> dict[str, float]:
    """A process with kfake, from its exec."""
    began = time.monotonic()
    with subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        made, bootstrap = process.stdout.readline().split()
        wait_for_first_ack(bootstrap.partition(",")[0], TOPIC)
        seconds = time.monotonic() - began
    return {"kfake, its own call": float(made), "kfake, a process": seconds}


def of_minikafka(*, in_process: bool) -> dict[str, float]:
    """A cluster by `minikafka.testing`, and one more topic in it."""
    began = time.monotonic()
    with MiniKafkaCluster(in_process=in_process) as cluster:
        ready = time.monotonic() - began
        cluster.create_topic(TOPIC)
        wait_for_first_ack(cluster.bootstrap.partition(",")[0], TOPIC)
        first = time.monotonic() - began
        began = time.monotonic()
        cluster.create_topic("u")
        wait_for_first_ack(cluster.bootstrap.partition(",")[0], "u")
        more = time.monotonic() - began
    name = f"MiniKafka, {'in process' if in_process else 'processes'}"
    return {f"{name}, ready": ready, name: first, f"{name}, one more topic": more}


def main() -> None:
    """The command of the module's docstring."""
    parser = argparse.ArgumentParser(description="how long a test waits for three brokers")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        binary = built(Path(folder))
        subjects: list[Callable[[], dict[str, float]]] = [
            lambda: of_kfake(binary),
            lambda: of_minikafka(in_process=True),
            lambda: of_minikafka(in_process=False),
        ]
        for _ in range(args.rounds):
            for subject in subjects:
                for name, seconds in subject().items():
                    found.setdefault(name, []).append(seconds)
    for name, seconds_of in found.items():
        spread = " / ".join(f"{each:.3f}" for each in (min(seconds_of), statistics.median(seconds_of), max(seconds_of)))
        print(f"{name}: {spread} s (least / median / most)")
    print(PUBLISHED)


if __name__ == "__main__":
    main()
