"""The evidence of replicas from real brokers: what was deleted by request is told so, what was taken away is found."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from minikafka.protocol.types import TopicPartition
from minikafka_chaos.grounds.processes import ProcessesGround
from minikafka_chaos.load.clients import TopicPlan
from minikafka_chaos.load.load import ProducerSettings, Tally
from minikafka_chaos.record.history import OK, HistoryWriter
from minikafka_chaos.record.journal import Journal
from minikafka_chaos.run.replica_evidence import TopicEvidence, write_replicas
from minikafka_chaos.scenario.scenario import ScenarioSpec, TopicSpec, WorkloadSpec
from minikafka_chaos.verdict.claims import LINE_KIND, Terms
from minikafka_chaos.verdict.verdict import Outcome, Verdict, judge_run

pytestmark = pytest.mark.full

TP = TopicPartition("kept", 0)
RECORDS, DELETED = 12, 5
SECONDS_MAX = 60
SPEC = ScenarioSpec(topics=[TopicSpec(name=TP.topic)], workload=WorkloadSpec(topic=TP.topic))


class Finished:
    """A run on three brokers that are down again: some records acknowledged, the first few deleted, the rest read back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ground = ProcessesGround(folder / "cluster")
        self.ground.up(SPEC, seed=1)
        clients = self.ground.clients
        clients.create_topic(TopicPlan(TP.topic, 1, 3), SECONDS_MAX)
        with HistoryWriter(folder / "history.jsonl") as history:
            script = clients.script(ProducerSettings(), history, Tally())
            values = [f"r{number}" for number in range(RECORDS)]
            assert script.send(TP.topic, 0, values, SECONDS_MAX)[OK] == RECORDS
            admin = AdminClient({"bootstrap.servers": self.ground.address})
            deletion = ClientPartition(TP.topic, TP.partition, DELETED)
            admin.delete_records([deletion])[deletion].result(SECONDS_MAX)
            assert clients.read_back([TP], history, SECONDS_MAX).complete
        self.placement = clients.view().partitions(TP.topic)
        self.ground.down()
        self.ground.collect_events(folder / "events")

    def judge(self, events: bool = True) -> Verdict:
        assert self.placement is not None
        topic = TopicEvidence(TP.topic, 3, self.placement)
        told = self.folder / "events" if events else None
        assert write_replicas(self.folder, [topic], self.ground.replica_log, told) == []
        with contextlib.closing(Journal(self.folder / "journal.jsonl")) as journal:
            journal.write(LINE_KIND, Terms().as_json())
        return judge_run(self.folder)

    def replica(self, broker: int) -> Path:
        return Path(self.ground.cluster.broker(broker).data_dir) / str(TP)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    folder = tmp_path_factory.mktemp("run")
    run: Finished | None = None
    try:
        run = Finished(folder)
        yield run
    finally:
        (run.ground if run is not None else ProcessesGround(folder / "cluster")).down()


def test_what_was_deleted_by_request_is_told_so(finished: Finished) -> None:
    verdict = finished.judge()
    assert verdict.outcome is Outcome.PASSED, verdict.summary
    assert verdict.summary.endswith("12 acknowledged, 7 read back, 5 deleted by request")
    assert verdict.counts["replicas_compared"] == 3


def test_without_the_word_of_who_deleted_it_is_a_loss(finished: Finished) -> None:
    verdict = finished.judge(events=False)
    assert verdict.outcome is Outcome.FAILED
    assert verdict.kinds["lost-below-start"] == DELETED


@pytest.mark.parametrize("whole", [True, False], ids=["the directory", "the segments"])
def test_an_in_sync_replica_that_was_emptied_is_found(finished: Finished, whole: bool, tmp_path: Path) -> None:
    """What the brokers hold after the last fault is what counts, not only what their leader gives to readers."""
    folder, kept = finished.replica(2), tmp_path / "kept"
    shutil.copytree(folder, kept)
    try:
        if whole:
            shutil.rmtree(folder)
        else:
            for segment in [*folder.glob("*.log"), *folder.parents[1].glob(f"unflushed/{TP}/*.log.*")]:
                segment.unlink()
        verdict = finished.judge()
        assert verdict.outcome is Outcome.FAILED
        assert verdict.kinds["short-replica"] == 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(kept, folder)
