"""Simulated runs with random faults, with simulator bugs switched on and off, judged: `python -m bench.judged_runs --runs 1000`.

Each run is a scenario made from its seed (settings that keep data and settings that do not, two faults at a time), on the
simulation ground, every second one with a simulator bug. It leaves the evidence that any run leaves, and the
verifier judges that. Beside it a plain look at the disks says what is true: for each acknowledged record, whether every
in-sync replica has it at its offset. Nothing of the verifier is used for that.

A run is judged wrongly when it is Passed and the disks lack an acknowledged record or contradict each other, or when it is
Failed for loss or divergence and they do not. `--keep DIR` keeps the run folders, for another judge.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minikafka.protocol.records import iterate_batches
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.load.load import unique_part
from minikafka_chaos.record.history import OK, SEND, read_history
from minikafka_chaos.run.runner import run_scenario
from minikafka_chaos.scenario.scenario import Scenario, parse_scenario
from minikafka_chaos.verdict.anomalies import LOSS, AnomalyKind
from minikafka_chaos.verdict.verdict import Verdict
from minikafka_simulator.bugs.catalogue import BUG_SEEDS, with_bug_seed
from minikafka_simulator.ground.ground import SimulationGround

TOPIC = "judged"
PARTITIONS = 2
REPLICAS = LOSS | {AnomalyKind.SHORT_REPLICA, AnomalyKind.DIVERGENT_REPLICAS, AnomalyKind.UNEXPLAINED_START}


@dataclass(frozen=True)
class JudgedRun:
    """One run: what the verifier said of it, and what is true."""

    seed: int
    bug: str | None
    folder: Path
    verdict: Verdict
    lost: int
    """Acknowledged records that an in-sync replica does not have at their offset."""
    contradictions: int
    """Offsets at which two in-sync replicas hold different records."""

    @property
    def wrong(self) -> str | None:
        """Return why the verdict is wrong; None when it is right."""
        harmed = self.lost + self.contradictions
        reported = sum(number for kind, number in self.verdict.errors.items() if AnomalyKind(kind) in REPLICAS)
        word = self.verdict.outcome.value
        if word == "Passed" and harmed:
            return f"false Passed: {self.lost} lost, {self.contradictions} contradictions"
        if reported and not harmed:
            return f"false Failed: {self.verdict.errors}"
        if harmed and not reported:
            return f"{word} without loss or divergence: {self.lost} lost, {self.contradictions} contradictions"
        if word == "Error":
            return f"Error: {self.verdict.summary}"
        return None

    def __str__(self) -> str:
        seen = ", ".join(f"{kind} {number}" for kind, number in self.verdict.kinds.items())
        return f"seed {self.seed} bug {self.bug or '-'}: {self.verdict.outcome.value} {seen or '-'} ({self.lost} lost)"


def scenario_of(seed: int) -> Scenario:
    """A scenario that follows from the seed alone."""
    rng = random.Random(seed)
    config = {
        "min.insync.replicas": rng.choice(("1", "2")),
        "unclean.leader.election.enable": rng.choice(("false", "true")),
        "minikafka.truncation.mode": rng.choice(("leader_epoch", "leader_epoch", "high_watermark")),
        "minikafka.unclean.shutdown.policy": rng.choice(("fence", "trust_isr")),
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "replica.lag.time.max.ms": rng.choice(("1000", "10000")),
    }
    workload = {
        "topic": TOPIC,
        "ratePerSecond": 60,
        "producers": 2,
        "acks": rng.choice(("All", "All", "Leader")),
        "delivery": rng.choice(("AtLeastOnce", "Idempotent")),
        "maxInFlight": rng.choice((1, 5)),
        "deliveryTimeoutMillis": 10_000,
    }
    spec: dict[str, Any] = {
        "seed": seed,
        "rounds": 2,
        "cluster": {"brokers": 3, "config": [{"name": name, "value": value} for name, value in config.items()]},
        "topics": [{"name": TOPIC, "partitions": PARTITIONS, "replicationFactor": 3}],
        "workload": workload,
        "steps": list(_steps(rng)),
        "recovery": {"fullIsrDeadlineSeconds": 60, "readDeadlineSeconds": 60},
    }
    document = {
        "apiVersion": "minikafka.dev/v1alpha1",
        "kind": "ChaosExperiment",
        "metadata": {"name": f"judged-{seed}"},
        "spec": spec,
    }
    return parse_scenario(json.dumps(document), f"seed {seed}")


def _steps(rng: random.Random) -> Iterator[dict[str, Any]]:
    verbs = rng.choice((["Kill", "PowerLoss", "Pause", "Terminate"], ["PowerLoss"], ["PowerLoss", "Terminate"]))

    def breath(name: str, most: int) -> dict[str, Any]:
        seconds = rng.randint(1, most)
        return {"name": name, "wait": {"conditions": [{"type": "Elapsed", "seconds": seconds}], "deadlineSeconds": 30}}

    first = {"type": "Leader", "topic": TOPIC, "partition": 0} if rng.random() < 0.5 else {"type": "Any"}
    yield breath("calm", 2)
    if rng.random() < 0.35:
        yield {"name": "blackout", "fault": {"verb": "PowerLoss", "target": {"type": "All"}}}
        for number in rng.sample((0, 1, 2), 3):
            target = {"type": "Brokers", "brokers": [number]}
            yield {"name": f"back-{number}", "fault": {"verb": "Start", "target": target, "waitFor": "Nothing"}}
            yield breath(f"after-{number}", 5)
        return
    yield {"name": "first", "fault": {"oneOf": verbs, "target": first}}
    yield breath("between", 4)
    yield {"name": "second", "fault": {"oneOf": verbs, "target": {"type": "Any", "otherThan": ["first"]}}}
    yield breath("both-away", 4)
    order = ["first", "second"] if rng.random() < 0.5 else ["second", "first"]
    for number, step in enumerate(order):
        fault = {"verb": "Recover", "target": {"type": "SameAs", "step": step}, "waitFor": "Nothing"}
        yield {"name": f"back-{number}", "fault": fault}
        yield breath(f"after-{number}", 4)


def bug_of(seed: int) -> str | None:
    """Every second run is production's own code; the others go through the simulator bugs in turn."""
    names = sorted(BUG_SEEDS)
    return names[seed // 2 % len(names)] if seed % 2 else None


def run_one(seed: int, folder: Path) -> JudgedRun:
    """Run and judge the scenario of a seed in `folder`."""
    bug = bug_of(seed)
    with with_bug_seed(bug):
        verdict = run_scenario(scenario_of(seed), SimulationGround(folder / "cluster"), folder).verdict
    lost, contradictions = truth(folder)
    shutil.rmtree(folder / "cluster", ignore_errors=True)
    return JudgedRun(seed, bug, folder, verdict, lost, contradictions)


def truth(folder: Path) -> tuple[int, int]:
    """Return what the disks of the in-sync replicas say: acknowledged records that one of them lacks, and contradictions."""
    replicas: dict[TopicPartition, list[dict[int, str]]] = {}
    path = folder / "replicas.jsonl"
    for line in path.read_text().splitlines() if path.exists() else ():
        entry = json.loads(line)
        if entry["kind"] == "replica" and entry["in_sync"]:
            tp = TopicPartition(entry["topic"], entry["partition"])
            replicas.setdefault(tp, []).append(_records(folder / "cluster" / f"broker-{entry['broker']}", tp))
    acked = [op for op in read_history(folder / "history.jsonl") if op.op == SEND and op.type == OK]
    lost = 0
    for op in acked:
        tp = op.topic_partition
        if tp in replicas and op.offset is not None:
            lost += any(records.get(op.offset) != op.value for records in replicas[tp])
    contradictions = 0
    for logs in replicas.values():
        common = min(max(records, default=-1) for records in logs)
        contradictions += sum(1 for offset in range(common + 1) if len({records.get(offset) for records in logs}) > 1)
    return lost, contradictions


def _records(broker: Path, tp: TopicPartition) -> dict[int, str]:
    """Offset -> value of a replica, read from its segment files and unflushed tails without the verifier's reader."""
    found: dict[int, str] = {}
    folder, tails = broker / "data" / str(tp), broker / "unflushed" / str(tp)
    names = {path.name for path in folder.glob("*.log")} | {
        path.name.rpartition(".")[0] for path in tails.glob("*.log.*")
    }
    for name in sorted(names):
        content = bytearray((folder / name).read_bytes()) if (folder / name).exists() else bytearray()
        for tail in sorted(tails.glob(f"{name}.*"), key=lambda path: int(path.suffix[1:])):
            content[int(tail.suffix[1:]) :] = tail.read_bytes()
        for batch in iterate_batches(content):
            found |= {record.offset: unique_part(record.value) for record in batch.records()}
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 every verdict is right, 1 some are not."""
    parser = argparse.ArgumentParser(prog="python -m bench.judged_runs", description=__doc__)
    parser.add_argument("--runs", type=int, default=40, help="how many (default 40)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the run folders there")
    parser.add_argument("--verbose", action="store_true", help="a line for every run")
    options = parser.parse_args(arguments)
    words: Counter[str] = Counter()
    wrong = harmed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(options.first, options.first + options.runs):
            folder = (options.keep or Path(scratch)) / f"seed-{seed}"
            folder.mkdir(parents=True)
            run = run_one(seed, folder)
            words[f"{run.verdict.outcome.value} {'with a simulator bug' if run.bug else 'production'}"] += 1
            harmed += bool(run.lost or run.contradictions)
            if run.wrong is not None:
                wrong += 1
                print(f"WRONG {run}: {run.wrong}", flush=True)
            elif options.verbose:
                print(run, flush=True)
            if options.keep is None:
                shutil.rmtree(folder)
    print(json.dumps({"runs": options.runs, "harmed": harmed, "judged_wrongly": wrong, **dict(sorted(words.items()))}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
