"""How long the verifier takes, and how much memory: `python -m bench.judging --sends 10000000` (`make bench-judging`).

Writes a history of so many sends, each with its acknowledgement, a read by the following reader and one by the final reader
(four lines a send), with the replicas' logs beside it, then judges it in a process of its own. A few records are lost on
purpose: their number must come out again. CPU seconds and the highest resident memory of that
process are what counts; wall time says how busy the machine is.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PARTITIONS = 12
PRODUCERS = 4
BATCH = 20
"""Records in a batch of the replicas' logs, and in a poll."""
BEHIND = 64
"""Lines that the following reader is behind the acknowledgements."""
LOST_EVERY = 100_003
"""Of so many sends one is lost: its offset is a hole for the final reader."""
TOPIC = "bench"


def write_run(folder: Path, sends: int) -> dict[str, int]:
    """Write `history.jsonl`, `replicas.jsonl` and `journal.jsonl` of so many sends; returns what a judge has to find."""
    folder.mkdir(parents=True, exist_ok=True)
    found: Counter[str] = Counter()
    ends = [0] * PARTITIONS
    waiting: list[tuple[int, int, str]] = []
    with (folder / "history.jsonl").open("w", buffering=1 << 20) as file:
        write = _numbered(file.write)
        settings = '"settings":{"acks":"all","idempotence":false,"max_in_flight":1}'
        write(f'"time":0,"process":-1,"op":"workload","type":"info",{settings}')
        for partition in range(PARTITIONS):
            write(_line(0, 1000, "assign", "ok", partition, 0))
        for number in range(sends):
            partition, process, time_s = number % PARTITIONS, number % PRODUCERS + 1, 1 + number * 1e-4
            offset, value = ends[partition], f"p{process}-{number}"
            ends[partition] += 1
            write(_line(time_s, process, "send", "invoke", partition, None, value))
            write(_line(time_s + 0.002, process, "send", "ok", partition, offset, value))
            waiting.append((partition, offset, value))
            if len(waiting) > BEHIND:
                _read(write, time_s + 0.004, *waiting.pop(0))
        for partition, offset, value in waiting:
            _read(write, 1 + sends * 1e-4, partition, offset, value)
        end_s = 2 + sends * 1e-4
        for partition in range(PARTITIONS):
            write(_line(end_s, 2000, "assign", "ok", partition, 0))
            for offset in range(ends[partition]):
                number = offset * PARTITIONS + partition
                if number % LOST_EVERY == LOST_EVERY - 1:
                    same_poll = (offset - 1) // BATCH == (offset + 1) // BATCH
                    found.update(("lost-write", "vanished-read", "int-poll-skip" if same_poll else "poll-skip"))
                    continue
                value = f"p{number % PRODUCERS + 1}-{number}"
                write(f'{_line(end_s, 2000, "poll", "ok", partition, offset, value)},"batch":{offset // BATCH}')
            write(_line(end_s, 2000, "read", "ok", partition, ends[partition]))
    _write_replicas(folder / "replicas.jsonl", ends)
    claims = {"time": end_s, "kind": "claims", "claims": [], "problems": []}
    (folder / "journal.jsonl").write_text(json.dumps(claims) + "\n")
    return dict(found)


def _numbered(write: Callable[[str], object]) -> Callable[[str], None]:
    seq = 0

    def write_line(fields: str) -> None:
        nonlocal seq
        write(f'{{{fields},"seq":{seq}}}\n')
        seq += 1

    return write_line


def _line(time_s: float, process: int, op: str, kind: str, partition: int, offset: int | None, value: str = "") -> str:
    text = f'"{value}"' if value else "null"
    where = f'"topic":"{TOPIC}","partition":{partition},"offset":{"null" if offset is None else offset}'
    return f'"time":{time_s:.6f},"process":{process},"op":"{op}","type":"{kind}",{where},"value":{text},"error":null'


def _read(write: Callable[[str], None], time_s: float, partition: int, offset: int, value: str) -> None:
    write(f'{_line(time_s, 1000, "poll", "ok", partition, offset, value)},"leader_epoch":0,"batch":{offset // BATCH}')


def _write_replicas(path: Path, ends: Sequence[int]) -> None:
    with path.open("w", buffering=1 << 20) as file:

        def write(kind: str, **fields: Any) -> None:
            file.write(json.dumps({"kind": kind, "topic": TOPIC, **fields}, separators=(",", ":")) + "\n")

        write("topic", partitions=PARTITIONS, replication_factor=3, config={})
        for partition, end in enumerate(ends):
            for broker in (1, 2, 3):
                where = {"partition": partition, "broker": broker}
                firsts = range(0, end, BATCH)
                write(
                    "replica",
                    **where,
                    leader=broker == 1,
                    in_sync=True,
                    start=0,
                    end=end,
                    batches=len(firsts),
                    damage=None,
                )
                for index, base in enumerate(firsts):
                    last = min(base + BATCH, end) - 1
                    ids = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
                    offsets = {"base_offset": base, "last_offset": last, "leader_epoch": 0}
                    crc = {"crc": (base * 2654435761 + partition) % 2**32, "crc_right": True}
                    file_place = {"segment": "00000000000000000000.log", "position": index * 2000, "size": 2000}
                    write("batch", **where, index=index, **offsets, **ids, **crc, control=False, **file_place)


def judge_here(folder: Path) -> dict[str, Any]:
    """Judge, and say what it took of this process."""
    from minikafka_chaos.verdict.verdict import judge_run

    began = time.monotonic()
    verdict = judge_run(folder)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "verdict": verdict.outcome.value,
        "anomalies": verdict.kinds,
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "wall_s": round(time.monotonic() - began, 1),
        "peak_mib": used.ru_maxrss // 1024,
    }


def measure(sends: int, folder: Path) -> dict[str, Any]:
    """Write a run of so many sends into `folder`, judge it in a new process, and check what was found."""
    expected = write_run(folder, sends)
    words = (sys.executable, "-m", "bench.judging", "--judge", str(folder))
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    if found["anomalies"] != expected:
        raise SystemExit(f"bench.judging: expected {expected}, found {found['anomalies']}")
    size = os.path.getsize(folder / "history.jsonl") + os.path.getsize(folder / "replicas.jsonl")
    per_line = found["cpu_s"] / (4 * sends) * 1e6
    return {"sends": sends, "lines": 4 * sends, "mb": size // 10**6, "us_per_line": round(per_line, 2), **found}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.judging", description=__doc__)
    parser.add_argument(
        "--sends", type=int, nargs="+", default=[100_000, 1_000_000], help="how many (several: a curve)"
    )
    parser.add_argument("--scratch", type=Path, help="where the runs are written (default: the temporary folder)")
    parser.add_argument("--judge", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.judge is not None:
        print(json.dumps(judge_here(options.judge)))
        return 0
    for sends in options.sends:
        with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
            print(json.dumps(measure(sends, Path(folder))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
