"""What the Spark analysis costs as runs grow: `python -m bench.spark_scale --sizes 1,10,100`, or `--rows 1e6,1e7,1e8`.

A run of size 1 has as many records as a demo; `--rows` tells how many lines the files of a run have. Each run is written by a
generator, analysed on two cores by `minikafka analyze` in a process of its own, landing included, and removed before the next
is written. Printed are its core seconds and the peak memory of the driver, which in one process has the executor in it. The
last columns are per million rows over the size before, so that what starting Spark costs is not in them. `--faults` and
`--partitions` put many of both into a run: the shape of the curve must stay.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from bench import records

SENDS = 12_000  # of a demo run
PER_SECOND = 600
BROKERS = 3
BEGAN = 1_767_225_600.0
TOPIC = "bank"
SCRAPE_SECONDS = 0.5
BATCH = 20  # records
POLLED = 500  # records that come with one poll
POLL_SECONDS = 0.2
LINES_A_SEND = 3 + BROKERS / BATCH + BROKERS / (PER_SECOND * SCRAPE_SECONDS)
BYTES_A_ROW = 400
"""Of scratch files, at most: the line (150), its row as Parquet, steps, and the sorts of the largest question."""
AT_ONCE = 10_000  # lines in memory


class Cost(NamedTuple):
    """Of one analysis. `rows`: lines of the run's files."""

    rows: int
    wall_s: float
    core_s: float
    driver_mib: float
    code: int


def write_run(folder: Path, sends: int, partitions: int, faults: int) -> int:
    """Writes a run in which nothing is lost; returns how many lines its files have."""
    seconds = sends / PER_SECOND
    lines = _write(folder / "history.jsonl", _history(sends, partitions))
    lines += _write(folder / "journal.jsonl", _as_json(_journal(seconds, faults)))
    lines += _write(folder / "events" / "broker-1.jsonl", _as_json(_events(seconds, partitions, faults)))
    lines += _write(folder / "metrics" / "samples.jsonl", _samples(seconds, min(partitions, 50)))
    return lines + _write(folder / "replicas.jsonl", _replicas(sends, partitions))


def _write(path: Path, lines: Iterable[str]) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    some: list[str] = []
    with path.open("w", encoding="utf-8") as file:
        for line in lines:
            some.append(line)
            count += 1
            if len(some) == AT_ONCE:
                file.writelines(some)
                some.clear()
        file.writelines(some)
    return count


def _as_json(lines: Iterable[dict[str, Any]]) -> Iterator[str]:
    return (json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def _history(sends: int, partitions: int) -> Iterator[str]:
    """Text is put together by hand here and where else there are many lines: a hundred million of them take minutes so."""
    send = ',"process":0,"op":"send","type":"'
    for n in range(sends):
        at, partition, offset = BEGAN + n / PER_SECOND, n % partitions, n // partitions
        about = f'","topic":"{TOPIC}","partition":{partition},"offset":'
        yield f'{{"time":{at}{send}invoke{about}null,"value":"v{n}","error":null,"seq":{2 * n}}}\n'
        yield f'{{"time":{at + 0.004}{send}ok{about}{offset},"value":"v{n}","error":null,"seq":{2 * n + 1}}}\n'
    seq, at = 2 * sends, BEGAN + sends / PER_SECOND + 1
    for partition in range(partitions):
        end = len(range(partition, sends, partitions))
        reader = f'{{"time":{at},"process":9,"op":"'
        where = f'","type":"ok","topic":"{TOPIC}","partition":{partition},"offset":'
        yield f'{reader}assign{where}0,"value":null,"error":null,"seq":{seq}}}\n'
        for offset in range(end):
            value = offset * partitions + partition
            rest = f'"value":"v{value}","error":null,"seq":{seq + 1 + offset},"batch":{offset // POLLED}'
            yield f"{reader}poll{where}{offset},{rest}}}\n"
        yield f'{reader}read{where}{end},"value":null,"error":null,"seq":{seq + 1 + end}}}\n'
        seq += end + 2


def _moments(seconds: float, faults: int) -> Iterator[tuple[int, float, float, int]]:
    """(number, when it strikes, when it is healed, broker)."""
    apart = seconds / (faults + 1)
    for number in range(faults):
        yield number, (number + 1) * apart, (number + 1.5) * apart, number % BROKERS + 1


def _journal(seconds: float, faults: int) -> Iterator[dict[str, Any]]:
    for _, struck, healed, broker in _moments(seconds, faults):
        for at, verb in ((struck, "Kill"), (healed, "Start")):
            about = {"kind": "action", "step": None, "fault": verb, "target": f"broker-{broker}"}
            yield {"time": BEGAN + at, "phase": "begin", **about}
            yield {"time": BEGAN + at + 0.001, "phase": "end", "ok": True, **about}
    yield {"time": BEGAN + seconds, "kind": "claims", "claims": [], "problems": []}


def _events(seconds: float, partitions: int, faults: int) -> Iterator[dict[str, Any]]:
    def event(at: float, name: str, partition: int, **fields: Any) -> dict[str, Any]:
        return {
            "time": BEGAN + at,
            "broker": 1,
            "event": name,
            "topic": TOPIC,
            "partition": partition,
            "fields": fields,
        }

    everyone = list(range(1, BROKERS + 1))
    leaders = {partition: partition % BROKERS + 1 for partition in range(partitions)}
    epochs = dict.fromkeys(leaders, 0)
    for partition, leader in leaders.items():
        yield event(-1, "leader_elected", partition, leader=leader, leader_epoch=0, isr=everyone, clean=True)
    for _, struck, healed, broker in _moments(seconds, faults):
        left = [partition for partition, leader in leaders.items() if leader == broker]
        others = [each for each in everyone if each != broker]
        for n, partition in enumerate(left):
            leaders[partition] = others[n % len(others)]
            epochs[partition] += 1
            about = {"leader": leaders[partition], "leader_epoch": epochs[partition]}
            yield event(struck + 0.0001, "leader_elected", partition, isr=others, clean=True, **about)
            yield event(healed + 0.0001, "isr_expanded", partition, isr=everyone, added=[broker], **about)


def _samples(seconds: float, partitions: int) -> Iterator[str]:
    for tick in range(int(seconds / SCRAPE_SECONDS)):
        end = int(tick * SCRAPE_SECONDS * PER_SECOND / partitions)
        for broker in range(1, BROKERS + 1):
            samples: list[str] = []
            for partition in range(partitions):
                labels = f'{{"topic":"{TOPIC}","partition":"{partition}"}}'
                role = 2 if partition % BROKERS + 1 == broker else 1
                values = {"log_end_offset": end, "high_watermark": end, "log_flushed_offset": max(end - BATCH, 0)}
                values |= {"leader_epoch": 0, "replica_role": role}
                samples += [f'["minikafka_{name}",{labels},{value}]' for name, value in values.items()]
            yield f'{{"time":{BEGAN + tick * SCRAPE_SECONDS},"broker":{broker},"samples":[{",".join(samples)}]}}\n'


def _replicas(sends: int, partitions: int) -> Iterator[str]:
    topic = {"kind": "topic", "topic": TOPIC, "partitions": partitions, "replication_factor": BROKERS, "config": {}}
    yield from _as_json([topic])
    producer = '"producer_id":-1,"producer_epoch":-1,"base_sequence":-1,"crc_right":true,"control":false}\n'
    for partition in range(partitions):
        end = len(range(partition, sends, partitions))
        bases = range(0, end, BATCH)
        for broker in range(1, BROKERS + 1):
            where = {"topic": TOPIC, "partition": partition, "broker": broker}
            bounds = {"start": 0, "end": end, "batches": len(bases), "damage": None, "in_sync": True}
            yield from _as_json([{"kind": "replica", **where, **bounds, "leader": broker == 1}])
            batch = f'{{"kind":"batch","topic":"{TOPIC}","partition":{partition},"broker":{broker},"index":'
            for index, base in enumerate(bases):
                last = min(base + BATCH, end) - 1
                yield f'{batch}{index},"base_offset":{base},"last_offset":{last},"leader_epoch":0,"crc":{base},{producer}'


def analyse(folder: Path, rows: int, arguments: Sequence[str]) -> Cost:
    """Run `minikafka analyze` in a process of its own and see what it takes, its JVM included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    command = [str(Path(sys.executable).with_name("minikafka")), "analyze", str(folder), *arguments]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = [0.0]
    watch = threading.Thread(target=_watch, args=(child, peak))
    watch.start()
    code = child.wait()
    watch.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    core = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(rows, time.monotonic() - began, core, peak[0], code)


def _watch(child: subprocess.Popen[bytes], peak: list[float]) -> None:
    while child.poll() is None:
        peak[0] = max(peak[0], *(_peak_mib(pid) for pid in _family(child.pid)), 0.0)
        time.sleep(POLL_SECONDS)


def _family(pid: int) -> list[int]:
    found, level = [pid], [pid]
    while level:
        below: list[int] = []
        for each in level:
            with suppress(OSError):  # a process that has ended meanwhile
                for task in Path(f"/proc/{each}/task").iterdir():
                    below += map(int, (task / "children").read_text().split())
        found += below
        level = below
    return found


def _peak_mib(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0.0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0, or 3 when an analysis could not tell."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_scale", description=__doc__)
    parser.add_argument("--sizes", default="1,10", help="in demo runs (default 1,10)")
    parser.add_argument("--rows", help="in place of --sizes, lines of a run's files, such as 1e6,1e7,1e8")
    parser.add_argument("--partitions", type=int, default=3, help="of the topic (default 3)")
    parser.add_argument("--faults", type=int, default=2, help="in the run (default 2)")
    parser.add_argument("--write", action="store_true", help="write the figures to bench/results/")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="for Spark, repeatable")
    options = parser.parse_args(arguments)
    conf = [word for each in options.conf for word in ("--conf", each)]
    print(f"{options.partitions} partitions, {options.faults} faults, load average {os.getloadavg()[0]:.1f}")
    print(
        f"{'size':>5} {'rows':>10} {'wall s':>8} {'core s':>8} {'JVM MiB':>8} {'core s / 1M rows':>17} {'beyond the last':>16}"
    )
    last: Cost | None = None
    rows: list[dict[str, Any]] = []
    sizes = [int(each) for each in options.sizes.split(",")]
    sends = [SENDS * size for size in sizes]
    if options.rows:
        sends = [round(float(each) / LINES_A_SEND) for each in options.rows.split(",")]
    for number in sends:
        size = round(number / SENDS)
        with tempfile.TemporaryDirectory() as scratch:
            needed, free = int(number * LINES_A_SEND * BYTES_A_ROW), shutil.disk_usage(scratch).free
            if free < needed:
                print(f"{scratch}: {free >> 30} GiB free, and up to {needed >> 30} are needed")
                return 3
            folder, began = Path(scratch) / "run", time.monotonic()
            lines = write_run(folder, number, options.partitions, options.faults)
            print(f"{lines:,} rows written in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
            cost = analyse(folder, lines, conf)
        each = cost.core_s / cost.rows * 1e6
        beyond = "" if last is None else f"{(cost.core_s - last.core_s) / (cost.rows - last.rows) * 1e6:16.1f}"
        figures = f"{size:5} {cost.rows:10,} {cost.wall_s:8.1f} {cost.core_s:8.1f} {cost.driver_mib:8.0f}"
        print(f"{figures} {each:17.1f} {beyond:>16}", flush=True)
        if cost.code:
            print(f"analyze ended with {cost.code}")
            return 3
        rows.append(
            {"size": size}
            | {name: round(value, 1) for name, value in cost._asdict().items() if name != "code"}
            | {"core_s_per_million_rows": round(each, 1), "beyond_the_last": float(beyond) if beyond else None}
        )
        last = cost
    if options.write:
        about = {"partitions": options.partitions, "faults": options.faults, "conf": options.conf}
        print(records.write("spark", about | {"rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
