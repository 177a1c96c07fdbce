"""Writes the folder of a run that never happened, to the microsecond, and says what an analysis of it must find.

Three brokers, topic `bank` with two partitions, one producer a partition, 10 records a second each, 30 seconds. Two faults:

- F1 at 8 s, kill -9 of broker 1, leader of bank-0. Broker 2 is elected 0.30 s later, records are acknowledged again 0.62 s after
  the kill, broker 1 is started at 11 s, cuts two records that only it had, and is in sync again at 12.5 s.
- F2 at 18 s, power loss of broker 3, follower of both partitions: killed, its unflushed volume wiped, started at 20 s. It finds
  less than it had, and is in sync again at 21.75 s.

Variants lose one acknowledged record (it was in the range that broker 1 cut), or store one record twice.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from minikafka_chaos.verdict.verdict import judge_run

BEGAN = 1_767_225_600.0  # 2026-01-01T00:00:00Z
SECONDS = 30.0
PER_SECOND = 10
SCRAPE_INTERVAL = 0.5
LATENCY = 0.004  # of every send but those that wait for a leader
TOPIC = "bank"

KILL_AT, ELECTED_AT, ACKED_AGAIN_AT, STARTED_AT, FULL_AT = 8.0, 8.30, 8.62, 11.0, 12.5
POWER_LOSS_AT, SHRUNK_AT, BACK_AT, FULL_AGAIN_AT = 18.0, 18.2, 20.0, 21.75
UNFLUSHED = {1: 12, 2: 9, 3: 15}  # records a broker has written and not flushed, at any moment
NOTICED_AFTER = 0.26
FOREIGN = (
    b"null",
    b"[]",
    b'"text"',
    b"Traceback (most recent call last):",
    b"\xff\xfe\x00\x00\x01",
    b'{"time": "soon", "broker": 1}',
    b'{"time": 1767225612250, "broker": 1}',
    b"{}",
)
CUT = 2  # records that only broker 1 had when it was killed


@dataclass
class Expected:
    """What the generator knows about the run it wrote."""

    acked: int = 0
    failed: int = 0
    unknown: int = 0
    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    longest_gap: dict[int, float] = field(default_factory=dict)
    cut_from: int = 0
    cut_to: int = 0


def write_run(
    folder: Path,
    *,
    lose: bool = False,
    duplicate: bool = False,
    verdict: str | None = None,
    torn: bool = False,
    foreign: bool = False,
    final_read: bool = True,
) -> Expected:
    """Writes the files of a run into `folder` and returns what is true of it.

    `verdict` is what the verifier's line in the journal says (default: what is true); "" leaves the line out, as in a run that
    was cut short. `torn` ends every file in the middle of a line, as a writer that was killed does. `foreign` puts lines
    into every file that no writer of a run makes.
    """
    run = _Run(folder)
    run.history()
    if lose:
        run.lose()
    if duplicate:
        run.duplicate()
    if final_read:
        run.read_back()
    run.events()
    run.samples()
    run.journal(("Failed" if lose else "Passed") if verdict is None else verdict)
    run.write(torn, foreign)
    return run.expected


class _Run:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.expected = Expected()
        self.lines: dict[str, list[dict[str, Any]]] = {"history": [], "journal": [], "samples": []}
        self.logs: dict[int, list[str]] = {0: [], 1: []}
        self.event_lines: dict[int, list[dict[str, Any]]] = {1: [], 2: [], 3: []}
        self.ends: dict[int, list[tuple[float, int]]] = {0: [], 1: []}  # when each leader's log reached which end
        self.dropped: set[str] = set()

    # what the clients saw

    def history(self) -> None:
        settings = {"acks": "all", "idempotence": False, "max_in_flight": 1, "topic": TOPIC}
        self._client(0.0, -1, "workload", "info", settings=settings)
        for partition in (0, 1):
            for n in range(int(SECONDS * PER_SECOND)):
                self._send(partition, n)
        for partition in (0, 1):
            acks = [
                line["time"]
                for line in self.lines["history"]
                if line["type"] == "ok" and line["partition"] == partition and line["op"] == "send"
            ]
            self.expected.longest_gap[partition] = max(b - a for a, b in pairwise(acks))

    def _send(self, partition: int, n: int) -> None:
        value = f"p{partition}-{n:05d}"
        at = n / PER_SECOND + partition * 0.0101
        process = partition
        stalled = partition == 0 and KILL_AT <= at < ACKED_AGAIN_AT
        self._client(at, process, "send", "invoke", partition, value=value)
        if stalled and at < KILL_AT + CUT / PER_SECOND:  # the old leader had them; nobody will ever be told
            self._client(KILL_AT + 2.0 + at / 1000, process, "send", "info", partition, value=value, error="_TIMED_OUT")
            self.expected.unknown += 1
        elif stalled and at < ELECTED_AT:
            self._client(at + 0.2, process, "send", "fail", partition, value=value, error="NOT_LEADER_OR_FOLLOWER")
            self.expected.failed += 1
        else:
            done = max(at, ACKED_AGAIN_AT) + LATENCY + n * 1e-9 if stalled else at + LATENCY
            offset = len(self.logs[partition])
            self.logs[partition].append(value)
            self.ends[partition].append((done, offset + 1))
            epoch = 1 if partition == 0 and at >= KILL_AT else 0
            self._client(done, process, "send", "ok", partition, offset, value, leader_epoch=epoch)
            self.expected.acked += 1

    def lose(self) -> None:
        """The last record that broker 1 acknowledged was on no other broker, and is in the range it cuts when it is back."""
        last = max(end for at, end in self.ends[0] if at <= KILL_AT) - 1
        value = self.logs[0][last]
        self.dropped.add(value)
        self.expected.lost.append(value)

    def duplicate(self) -> None:
        value = self.logs[1][100]
        self.logs[1].append(value)
        self.expected.duplicated.append(value)

    def read_back(self) -> None:
        at = SECONDS + 1.0
        for partition in (0, 1):
            for offset, value in enumerate(self.logs[partition]):
                at += 0.0001
                if value not in self.dropped:
                    self._client(at, 9, "poll", "ok", partition, offset, value, leader_epoch=0, batch=offset // 500)
            end = len(self.logs[partition])
            self._client(at, 9, "read", "ok", partition, end)
            self._client(at, 9, "start_offset", "ok", partition, 0)
            self._client(at, 9, "end_offset", "ok", partition, end)

    def _client(
        self,
        at: float,
        process: int,
        op: str,
        kind: str,
        partition: int | None = None,
        offset: int | None = None,
        value: str | None = None,
        error: str | None = None,
        **more: Any,
    ) -> None:
        topic = None if partition is None else TOPIC
        self.lines["history"].append(
            {"time": BEGAN + at, "process": process, "op": op, "type": kind, "topic": topic, "partition": partition}
            | {"offset": offset, "value": value, "error": error}
            | more
        )

    # what the brokers said

    def events(self) -> None:
        for partition, leader in ((0, 1), (1, 2)):
            first = {"leader": leader, "leader_epoch": 0, "isr": [1, 2, 3], "clean": True, "reason": "topic created"}
            self._event(-1.0, 1, "leader_elected", partition, **first)
            self._event(
                -0.99,
                leader,
                "became_leader",
                partition,
                leader_epoch=0,
                start_offset=0,
                isr=[1, 2, 3],
                high_watermark=0,
            )
        self._event(-1.5, 1, "controller_elected", controller_epoch=1)
        self._event(KILL_AT + 0.25, 2, "controller_elected", controller_epoch=2)
        self._event(KILL_AT + NOTICED_AFTER, 2, "broker_fenced", target=1, reason="connection closed")
        end = self._end(0, KILL_AT)
        elected = {"leader": 2, "leader_epoch": 1, "isr": [2, 3], "clean": True, "reason": "broker 1 is gone"}
        self._event(ELECTED_AT, 2, "leader_elected", 0, **elected)
        self._event(
            ELECTED_AT + 0.002, 2, "became_leader", 0, leader_epoch=1, start_offset=end, isr=[2, 3], high_watermark=end
        )
        self._event(KILL_AT + 0.28, 2, "isr_shrunk", 1, removed=[1], isr=[2, 3], leader_epoch=0)
        for partition in (0, 1):
            held = end + CUT if partition == 0 else self._end(1, KILL_AT)
            recovered = {"clean": False, "recovery_point": 0, "log_end_offset": held, "truncated_bytes": 0}
            self._event(STARTED_AT - 0.1, 1, "log_recovered", partition, **recovered)
        cut = {"from_offset": end + CUT, "to_offset": end, "records": CUT, "reason": "leader_epoch", "leader_epoch": 1}
        if self.dropped:
            cut |= {"to_offset": end - 1, "records": CUT + 1}
        self._event(STARTED_AT + 0.4, 1, "log_truncated", 0, **cut)
        self.expected.cut_from, self.expected.cut_to = cut["from_offset"], cut["to_offset"]
        for partition, epoch in ((0, 1), (1, 0)):
            self._event(FULL_AT, 2, "isr_expanded", partition, added=[1], isr=[2, 3, 1], leader_epoch=epoch)
            self._event(SHRUNK_AT, 2, "isr_shrunk", partition, removed=[3], isr=[2, 1], leader_epoch=epoch)
            left = self._end(partition, POWER_LOSS_AT) - UNFLUSHED[3]
            recovered = {"clean": False, "recovery_point": left, "log_end_offset": left, "truncated_bytes": 0}
            self._event(BACK_AT - 0.1, 3, "log_recovered", partition, **recovered)
            self._event(FULL_AGAIN_AT, 2, "isr_expanded", partition, added=[3], isr=[2, 1, 3], leader_epoch=epoch)

    def _event(self, at: float, broker: int, name: str, partition: int | None = None, **fields: Any) -> None:
        topic = None if partition is None else TOPIC
        line = {
            "time": BEGAN + at,
            "broker": broker,
            "event": name,
            "topic": topic,
            "partition": partition,
            "fields": fields,
        }
        self.event_lines[broker].append(line)

    def _end(self, partition: int, at: float) -> int:
        return max((end for done, end in self.ends[partition] if done <= at), default=0)

    # what was scraped

    def samples(self) -> None:
        down = {1: (KILL_AT, STARTED_AT), 3: (POWER_LOSS_AT, BACK_AT)}
        for tick in range(int((SECONDS + 2) / SCRAPE_INTERVAL)):
            for broker in (1, 2, 3):
                at = tick * SCRAPE_INTERVAL + broker * 0.003
                began, ended = down.get(broker, (SECONDS * 9, 0.0))
                if began <= at < ended:
                    self.lines["samples"].append({"time": BEGAN + at, "broker": broker, "error": "connection refused"})
                else:
                    self.lines["samples"].append(
                        {"time": BEGAN + at, "broker": broker, "samples": self._scrape(broker, at)}
                    )

    def _scrape(self, broker: int, at: float) -> list[Any]:
        found: list[Any] = [["minikafka_active_controller", {}, float(broker == (1 if at < KILL_AT else 2))]]
        for partition in (0, 1):
            leader = (1 if at < ELECTED_AT else 2) if partition == 0 else 2
            end = self._held(broker, partition, at)
            labels = {"topic": TOPIC, "partition": str(partition)}
            isr = 3 - (KILL_AT + 0.3 <= at < FULL_AT) - (SHRUNK_AT <= at < FULL_AGAIN_AT)
            for name, value in (
                ("log_end_offset", end),
                ("high_watermark", max(end - (broker != leader), 0)),
                ("log_flushed_offset", max(end - UNFLUSHED[broker], 0)),
                ("log_start_offset", 0),
                ("leader_epoch", int(partition == 0 and at >= ELECTED_AT)),
                ("replica_role", 2 if broker == leader else 1),
                ("isr_size", isr if broker == leader else 0),
            ):
                found.append([f"minikafka_{name}", labels, float(value)])
            for follower in {1, 2, 3} - {leader} if broker == leader else ():
                lag = end - self._held(follower, partition, at)
                found.append(["minikafka_follower_lag", {**labels, "follower": str(follower)}, float(lag)])
        return found

    def _held(self, broker: int, partition: int, at: float) -> int:
        """End of a replica's log; of a broker that is down or catching up somewhere between what it had and the leader's."""
        end = self._end(partition, at)
        down, back, full = {1: (KILL_AT, STARTED_AT, FULL_AT), 3: (POWER_LOSS_AT, BACK_AT, FULL_AGAIN_AT)}.get(
            broker, (SECONDS * 9,) * 3
        )
        if not down <= at < full:
            return end
        had = self._end(partition, down if broker == 1 else down - 0.3)
        return int(had + max(at - back, 0) / (full - back) * (end - had))

    # what was done to them

    def journal(self, verdict: str) -> None:
        config = [
            {"name": "min.insync.replicas", "value": "2"},
            {"name": "minikafka.truncation.mode", "value": "leader_epoch"},
        ]
        workload = {"topic": TOPIC, "acks": "All", "ratePerSecond": PER_SECOND * 2, "delivery": "AtLeastOnce"}
        topics = [{"name": TOPIC, "partitions": 2, "replicationFactor": 3, "config": []}]
        claims = [{"name": "nothing-lost", "type": "NoAcknowledgedRecordLost"}]
        spec = {
            "description": "a run that never happened",
            "cluster": {"brokers": 3, "config": config},
            "topics": topics,
        }
        spec |= {"workload": workload, "claims": claims}
        scenario = {"kind": "ChaosExperiment", "metadata": {"name": "synthetic"}, "spec": spec}
        self._line(-2.0, "scenario", scenario=scenario, ground="processes", seed=7)
        self._action("kill-the-leader", "Kill", "broker-1", KILL_AT, KILL_AT + 0.02, "leader of bank-0")
        self._action("it-comes-back", "Start", "broker-1", STARTED_AT - 0.5, STARTED_AT)
        self._action("power-loss", "Kill", "broker-3", POWER_LOSS_AT, POWER_LOSS_AT + 0.02, "follower of bank-0")
        self._action("power-loss", "WipeUnflushed", "broker-3", POWER_LOSS_AT + 0.03, POWER_LOSS_AT + 0.05)
        self._action("power-returns", "Start", "broker-3", BACK_AT - 0.5, BACK_AT)
        self._action("final-heal", "heal", "all", SECONDS + 0.5, SECONDS + 0.51)
        if verdict:
            self._line(SECONDS + 2.9, "claims", claims=claims, problems=[])
            self._verdict(verdict)

    def _verdict(self, verdict: str) -> None:
        """The verifier's own judgement, or, where it would be another verdict, what it would have counted had it lost nothing."""
        self.write(torn=False, foreign=False)
        told = judge_run(self.folder).as_json()
        if told["verdict"] != verdict:
            told |= {"verdict": verdict, "summary": "no acknowledged record lost", "anomalies": [], "problems": []}
            told["counts"] |= {"lost": 0, "anomalies": {}, "errors": {}}
            told["claims"] = [{**claim, "held": claim["held"] and True, "detail": ""} for claim in told["claims"]]
        self._line(SECONDS + 3, "verdict", **told)

    def _action(self, step: str, fault: str, target: str, began: float, ended: float, role: str | None = None) -> None:
        about = {"step": step, "fault": fault, "target": target, "role": role}
        self._line(began, "action", phase="begin", **about)
        self._line(ended, "action", phase="end", **about, ok=True, detail=None)

    def _line(self, at: float, kind: str, **fields: Any) -> None:
        self.lines["journal"].append({"time": BEGAN + at, "kind": kind, **fields})

    # the files

    def write(self, torn: bool, foreign: bool) -> None:
        history = sorted(self.lines["history"], key=lambda line: line["time"])
        self._file("journal.jsonl", self.lines["journal"], torn, foreign)
        self._file("history.jsonl", history, torn, foreign)
        self._file("metrics/samples.jsonl", self.lines["samples"], torn, foreign)
        for broker, lines in self.event_lines.items():
            self._file(f"events/broker-{broker}.jsonl", sorted(lines, key=lambda line: line["time"]), torn, foreign)

    def _file(self, name: str, lines: list[dict[str, Any]], torn: bool, foreign: bool) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = [json.dumps(line).encode() for line in lines]
        if foreign:
            texts[2:2] = FOREIGN
        last = b'{"time": 1767225612.25, "bro' if torn else b""
        path.write_bytes(b"".join(text + b"\n" for text in texts) + last)
