"""Writes the folder of a soak that never happened: half an hour of kills, pauses, power losses and stops, one after the other.

Its shape is that of `minikafka chaos run soak --seconds 1800`: three brokers, six partitions, 311 faults. Some records are lost,
and replicas cut their logs, so that everything a page can show of a run is there many times. What happens is by a seed, the same
on every machine.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

BEGAN = 1_767_225_600.0
SECONDS = 1_800.0
FAULTS = 311
BROKERS = (0, 1, 2)
PARTITIONS = range(6)
TOPIC = "bank"
PER_SECOND = 12  # sends, over all partitions: a soak has two hundred, which no plot shows any other way
SCRAPE_SECONDS = 2.0
LOST = 30  # records
VERBS = ("Kill", "PowerLoss", "Pause", "Terminate")
NOTICED = {"Kill": 0.02, "PowerLoss": 0.02, "Pause": 2.0, "Terminate": 0.005}

Line = dict[str, Any]


class Struck(NamedTuple):
    """A fault of one broker."""

    verb: str
    broker: int
    began: float
    ended: float


def faults(count: int = FAULTS, seconds: float = SECONDS) -> list[Struck]:
    """So many faults, at all times of the run, each over before the next begins."""
    chance = random.Random(311)
    apart = seconds / (count + 1)
    found = []
    for n in range(count):
        began = (n + 0.5 + 0.3 * chance.random()) * apart
        found.append(
            Struck(chance.choice(VERBS), chance.choice(BROKERS), began, began + apart * chance.uniform(0.3, 0.65))
        )
    return found


def write_soak(folder: Path, struck: list[Struck] | None = None, seconds: float = SECONDS) -> None:
    """Writes the files of the run into `folder`."""
    struck = faults() if struck is None else struck
    sends = list(_sends(struck, seconds))
    _write(folder / "history.jsonl", _history(sends, seconds))
    _write(folder / "journal.jsonl", _journal(struck, seconds))
    events = list(_events(struck, sends))
    for broker in BROKERS:
        own = [event for event in events if event["broker"] == broker]
        _write(folder / "events" / f"broker-{broker}.jsonl", iter(sorted(own, key=lambda line: line["time"])))
    _write(folder / "metrics" / "samples.jsonl", _samples(struck, sends, seconds))


def _write(path: Path, lines: Iterator[Line]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


class Send(NamedTuple):
    """An acknowledged send. `lost`: no reader will find it."""

    at: float
    done: float
    partition: int
    offset: int
    value: str
    lost: bool


def _sends(struck: list[Struck], seconds: float) -> Iterator[Send]:
    """While its leader is struck a partition acknowledges nothing for as long as that takes to be noticed, and a bit more."""
    chance = random.Random(12)
    total = int(seconds * PER_SECOND)
    lost = set(chance.sample(range(total // 10, total), LOST))
    ends = dict.fromkeys(PARTITIONS, 0)
    nth = 0
    for n in range(total):
        at, partition = n / PER_SECOND, n % len(PARTITIONS)
        while nth + 1 < len(struck) and struck[nth + 1].began <= at:
            nth += 1
        fault = struck[nth] if struck else None
        done = at + 0.004 + 0.01 * chance.random()
        if fault and fault.broker == partition % len(BROKERS):
            again = fault.began + NOTICED[fault.verb] + 0.4
            if fault.began <= at < again:
                done = again + 0.001 * chance.random()
        yield Send(at, done, partition, ends[partition], f"v{n}", n in lost)
        ends[partition] += 1


def _history(sends: list[Send], seconds: float) -> Iterator[Line]:
    lines = []
    for send in sends:
        about = {"process": send.partition, "op": "send", "topic": TOPIC, "partition": send.partition}
        about |= {"value": send.value, "error": None}
        lines.append({"time": BEGAN + send.at, "type": "invoke", "offset": None, **about})
        lines.append({"time": BEGAN + send.done, "type": "ok", "offset": send.offset, **about})
    lines.sort(key=lambda line: line["time"])
    at = BEGAN + seconds + 1
    for partition in PARTITIONS:
        own = [send for send in sends if send.partition == partition]
        about = {"time": at, "process": 9, "type": "ok", "topic": TOPIC, "partition": partition, "error": None}
        lines.append({**about, "op": "assign", "offset": 0, "value": None})
        lines += [
            {**about, "op": "poll", "offset": send.offset, "value": send.value, "batch": send.offset // 500}
            for send in own
            if not send.lost
        ]
        lines.append({**about, "op": "read", "offset": len(own), "value": None})
        lines.append({**about, "op": "end_offset", "offset": len(own), "value": None})
    for seq, line in enumerate(lines):
        yield {**line, "seq": seq}


def _journal(struck: list[Struck], seconds: float) -> Iterator[Line]:
    document = {"kind": "ChaosExperiment", "spec": {"description": "A soak that never happened."}}
    yield {"time": BEGAN - 1, "kind": "scenario", "scenario": document, "ground": "processes", "seed": 311}
    for n, fault in enumerate(struck):
        role = f"leader of bank-{fault.broker}, bank-{fault.broker + 3}"
        for at, verb, step in ((fault.began, fault.verb, "strike"), (fault.ended, "Recover", "recover")):
            about = {"kind": "action", "step": step, "fault": verb, "target": f"broker-{fault.broker}", "role": role}
            yield {"time": BEGAN + at, "phase": "begin", **about, "id": f"{step}-{n}"}
            yield {"time": BEGAN + at + 0.001, "phase": "end", **about, "ok": True, "detail": None}
    yield {"time": BEGAN + seconds + 2, "kind": "claims", "claims": [], "problems": []}


def _events(struck: list[Struck], sends: list[Send]) -> Iterator[Line]:
    def event(at: float, broker: int, name: str, partition: int | None = None, **fields: Any) -> Line:
        topic = None if partition is None else TOPIC
        about = {"broker": broker, "event": name, "topic": topic, "partition": partition}
        return {"time": BEGAN + at, **about, "fields": fields}

    everyone = list(BROKERS)
    epochs = dict.fromkeys(PARTITIONS, 0)
    for partition in PARTITIONS:
        leader = partition % len(BROKERS)
        yield event(-1, leader, "became_leader", partition, leader_epoch=0, isr=everyone)
    ends: dict[int, list[float]] = {partition: [] for partition in PARTITIONS}
    for send in sends:
        ends[send.partition].append(send.done)
    lost = [send for send in sends if send.lost]
    for n, fault in enumerate(struck):
        noticed, back = fault.began + NOTICED[fault.verb], fault.ended + 0.3
        others = [broker for broker in BROKERS if broker != fault.broker]
        yield event(noticed, others[0], "broker_fenced", target=fault.broker, reason="connection closed")
        for partition in PARTITIONS:
            own = partition % len(BROKERS) == fault.broker
            if own:
                epochs[partition] += 1
                about = {"leader": others[0], "leader_epoch": epochs[partition], "isr": others, "clean": True}
                yield event(noticed + 0.01, others[0], "leader_elected", partition, **about, reason="broker is gone")
                yield event(
                    noticed + 0.012, others[0], "became_leader", partition, leader_epoch=epochs[partition], isr=others
                )
            else:
                about = {"removed": [fault.broker], "isr": others, "leader_epoch": epochs[partition]}
                yield event(noticed + 0.02, others[0], "isr_shrunk", partition, **about)
            end = sum(1 for done in ends[partition] if done <= fault.began)
            if own and fault.verb != "Terminate" and n % 3 == 0:
                cut = {"from_offset": end + 1 + n % 40, "to_offset": end, "records": 1 + n % 40}
                yield event(
                    fault.ended + 0.1,
                    fault.broker,
                    "log_truncated",
                    partition,
                    **cut,
                    reason="log diverges",
                    leader_epoch=1,
                )
            if fault.verb == "PowerLoss":
                recovered = {
                    "clean": False,
                    "recovery_point": 0,
                    "log_end_offset": max(end - 9, 0),
                    "truncated_bytes": 0,
                }
                yield event(fault.ended, fault.broker, "log_recovered", partition, **recovered)
            added = {"added": [fault.broker], "isr": everyone, "leader_epoch": epochs[partition]}
            yield event(back, others[0], "isr_expanded", partition, **added)
            if own:
                epochs[partition] += 1
                about = {"leader": fault.broker, "leader_epoch": epochs[partition], "isr": everyone, "clean": True}
                yield event(back + 0.05, others[0], "leader_elected", partition, **about, reason="preferred leader")
    for send in lost:  # a replica that cut each of them off, soon after it was acknowledged
        cut = {"from_offset": send.offset + 1, "to_offset": send.offset, "records": 1, "reason": "log diverges"}
        yield event(
            send.done + 1.5, send.partition % len(BROKERS), "log_truncated", send.partition, **cut, leader_epoch=1
        )


def _samples(struck: list[Struck], sends: list[Send], seconds: float) -> Iterator[Line]:
    ends, read, nth = dict.fromkeys(PARTITIONS, 0), 0, 0
    for tick in range(int(seconds / SCRAPE_SECONDS)):
        at = tick * SCRAPE_SECONDS
        while read < len(sends) and sends[read].at <= at:
            ends[sends[read].partition] += 1
            read += 1
        while nth + 1 < len(struck) and struck[nth + 1].began <= at:
            nth += 1
        down = struck[nth].broker if struck and struck[nth].began <= at < struck[nth].ended else None
        for broker in BROKERS:
            if broker == down:
                yield {"time": BEGAN + at, "broker": broker, "error": "connection refused"}
                continue
            samples: list[Any] = []
            for partition in PARTITIONS:
                labels = {"topic": TOPIC, "partition": str(partition)}
                leads = partition % len(BROKERS) == broker
                end = ends[partition]
                samples += [[f"minikafka_{name}", labels, float(value)] for name, value in (
                    ("log_end_offset", end), ("high_watermark", max(end - (not leads), 0)),
                    ("log_flushed_offset", max(end - 20 - (tick * 7 + broker) % 30, 0)), ("leader_epoch", 0),
                    ("replica_role", 2 if leads else 1), ("partition_replicas", 3),
                )]  # fmt: skip
                if leads:
                    for follower in set(BROKERS) - {broker}:
                        lag = float((tick * 3 + follower) % 11 if follower != down else 12)
                        samples.append(["minikafka_follower_lag", {**labels, "follower": str(follower)}, lag])
            yield {"time": BEGAN + at, "broker": broker, "samples": samples}
