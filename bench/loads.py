"""The clients that load a cluster: Kafka's own performance tools, and the raw load generator beside them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.interop.kafka_jars import tool_command

MIB = 1_048_576
REPOSITORY = Path(__file__).parents[1]
CLIENT_HEAP_MB = 512
_PRODUCED = re.compile(
    r"(\d+) (?:steady state )?records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency, "
    r"([\d.]+) ms max latency, (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99.9th"
)


class Figures(NamedTuple):
    """What a client reports: named figures, the bytes it moved, and the CPU it needed for that."""

    values: dict[str, float]
    bytes: float
    client_cpu_s: float


def producer_performance(
    bootstrap: str,
    topic: str,
    *,
    records: int,
    record_bytes: int = 1024,
    batch_bytes: int = 262_144,
    records_per_second: int = -1,
    linger_ms: int = 5,
    compression: str = "none",
    warmup_records: int = 0,
) -> Figures:
    """Kafka's ProducerPerformance with acks=all; latencies are in whole ms, ``warmup_records`` are not counted."""
    warmup = ("--warmup-records", str(warmup_records)) if warmup_records else ()
    load = ("--num-records", str(records), "--record-size", str(record_bytes), "--throughput", str(records_per_second))
    settings = (
        *(f"bootstrap.servers={bootstrap}", "acks=all", f"batch.size={batch_bytes}", f"linger.ms={linger_ms}"),
        *("max.request.size=2097152", "buffer.memory=67108864", f"compression.type={compression}"),
    )
    tool = "org.apache.kafka.tools.ProducerPerformance"
    command = tool_command(
        tool, "--topic", topic, *load, *warmup, "--producer-props", *settings, heap_mb=CLIENT_HEAP_MB
    )
    printed, cpu = _run(command)
    found = _PRODUCED.findall(printed)
    if not found:
        raise RuntimeError(f"ProducerPerformance says no result:\n{printed[-2000:]}")
    sent, per_second, mib_s, average, most, p50, _p95, p99, p999 = (float(figure) for figure in found[-1])
    values = {
        "mb_s": round(mib_s * MIB / 1e6, 2),
        "rec_s": per_second,
        "avg_ms": average,
        "max_ms": most,
        "p50_ms": p50,
        "p99_ms": p99,
        "p999_ms": p999,
    }
    return Figures(values, (sent + warmup_records) * record_bytes, cpu)


def consumer_performance(bootstrap: str, topic: str, records: int) -> Figures:
    """Kafka's ConsumerPerformance: a consumer group of one reads ``records`` from the beginning."""
    tool = "org.apache.kafka.tools.ConsumerPerformance"
    arguments = ("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records))
    printed, cpu = _run(tool_command(tool, *arguments, heap_mb=CLIENT_HEAP_MB))
    row = [line for line in printed.splitlines() if re.match(r"\d{4}-", line)][-1].split(",")
    values = {
        "mb_s": round(float(row[3]) * MIB / 1e6, 1),
        "rec_s": float(row[5]),
        "fetch_mb_s": round(float(row[8]) * MIB / 1e6, 1),
    }
    return Figures(values, float(row[2]) * MIB, cpu)


def end_to_end_latency(bootstrap: str, topic: str, records: int = 4000) -> Figures:
    """Kafka's EndToEndLatency: one record at a time from producer to consumer, acks=all, 1 KiB."""
    tool = "org.apache.kafka.tools.EndToEndLatency"
    arguments = ("--topic", topic, "--num-records", str(records), "--producer-acks", "all", "--record-size", "1024")
    printed, cpu = _run(tool_command(tool, "--bootstrap-server", bootstrap, *arguments, heap_mb=CLIENT_HEAP_MB))
    found = re.search(r"50th = (\d+), 99th = (\d+), 99.9th = (\d+)", printed)
    if not found:
        raise RuntimeError(f"EndToEndLatency says no result:\n{printed[-2000:]}")
    values = {name: float(figure) for name, figure in zip(("p50_ms", "p99_ms", "p999_ms"), found.groups(), strict=True)}
    return Figures(values, records * 1024, cpu)


def raw_load(bootstrap: str, topic: str, mode: str, **options: float | str) -> Figures:
    """:mod:`bench.raw_load` in a process of its own; ``options`` as its command line names them."""
    arguments = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    command = [sys.executable, "-m", "bench.raw_load", mode, "--bootstrap", bootstrap, "--topic", topic, *arguments]
    printed, _ = _run(command)
    values = json.loads(printed.strip().splitlines()[-1])
    if values.pop("errors"):
        raise RuntimeError(f"the brokers refused some of the {mode} requests")
    values.pop("mode")
    return Figures(values, values.pop("bytes"), values.pop("client_cpu_s"))


def _run(command: list[str]) -> tuple[str, float]:
    """Run to the end: (what it printed, its CPU seconds); raises ``RuntimeError`` when it failed."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL, cwd=REPOSITORY
    )
    assert process.stdout is not None
    with process.stdout as stream:
        printed = stream.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command[-12:])} ended with {process.returncode}:\n{printed[-2000:]}")
    return printed, usage.ru_utime + usage.ru_stime
