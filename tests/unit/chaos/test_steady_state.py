"""The steady state: before any fault or no fault is made, after all of them, and looked at in between."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from minikafka_chaos.errors import BadScenario
from minikafka_chaos.grounds import BrokerCondition
from minikafka_chaos.load.load import Tally
from minikafka_chaos.record.journal import Journal, read_journal
from minikafka_chaos.record.observe import Sample
from minikafka_chaos.run import steady_state
from minikafka_chaos.run.conditions import RunState
from minikafka_chaos.run.steady_state import SteadyState, SteadyStateWatcher
from minikafka_chaos.scenario.probes import ask_prometheus

from .fake_ground import FakeGround
from .test_scenario import parse
from .test_story import FakeView

QUIET = {"name": "quiet", "query": "sum(minikafka_offline_logs) == 0"}


class Bench:
    def __init__(self, folder: Path, **spec: Any) -> None:
        self.ground = FakeGround()
        self.ground.conditions = dict.fromkeys((0, 1), BrokerCondition.RUNNING)
        self.ground.samples = [Sample("minikafka_offline_logs", {}, 0.0)]
        self.view = FakeView()
        self.path = folder / "journal.jsonl"
        self.journal = Journal(self.path)
        parsed = parse(steadyState=spec).spec.steady_state
        assert parsed is not None
        self.spec = parsed
        world = RunState(self.ground, self.view, Tally(), random.Random(1))
        self.steady = SteadyState(parsed, world, self.journal, lambda holds, _: holds())

    def watcher(self) -> SteadyStateWatcher:
        watcher = self.steady.watcher()
        assert watcher is not None
        return watcher

    @property
    def lines(self) -> list[dict[str, Any]]:
        return read_journal(self.path)


def test_conditions_and_probes_hold_together(tmp_path: Path) -> None:
    bench = Bench(tmp_path, conditions=[{"type": "Leader", "topic": "t", "broker": 2}], probes=[QUIET])
    assert bench.steady.wait("before any fault") is None
    (line,) = bench.lines
    assert (line["kind"], line["ok"], line["seen"]) == ("check", True, "Leader leader 2; quiet 0 == 0")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    bench = Bench(tmp_path, conditions=[{"type": "NoLeader", "topic": "t"}], probes=[QUIET], deadlineSeconds=7)
    bench.ground.samples = [Sample("minikafka_offline_logs", {}, 2.0)]
    problem = bench.steady.wait("before any fault")
    assert problem == "steady state not reached before any fault in 7 s (NoLeader leader 2; quiet 4 == 0)"


def test_a_probe_that_fails_in_between_is_told_when_it_changes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, probes=[QUIET, {**QUIET, "name": "needed", "during": "Required"}])
    watcher = bench.watcher()
    for value in (0.0, 1.0, 1.0, 0.0):
        bench.ground.samples = [Sample("minikafka_offline_logs", {}, value)]
        watcher._look(bench.steady._samples())
    assert watcher.stop() == ["probe needed did not hold in 2 of 4 looks during the story"]
    checks = [(line["probe"], line["ok"]) for line in bench.lines if line["kind"] == "check"]
    assert checks == [("quiet", False), ("needed", False), ("quiet", True), ("needed", True)]
    assert bench.lines[-1]["missed"] == {"quiet": 2, "needed": 2}


def test_the_watcher_looks_until_it_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_state, "LOOK_S", 0.001)
    bench = Bench(tmp_path, probes=[QUIET])
    looked = threading.Event()
    telling = bench.ground.metrics

    def metrics(broker: int) -> Any:
        looked.set()
        return telling(broker)

    bench.ground.metrics = metrics  # type: ignore[method-assign]
    watcher = bench.watcher()
    watcher.start()
    assert looked.wait(30)
    assert watcher.stop() == []


def test_without_probes_nobody_looks(tmp_path: Path) -> None:
    assert Bench(tmp_path, conditions=[{"type": "FullIsr", "topic": "t"}]).steady.watcher() is None


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ({}, "needs conditions or probes"),
        ({"probes": [{"name": "a", "query": "up"}]}, "needs a comparison"),
        ({"probes": [QUIET, QUIET]}, "the name quiet is used twice"),
        ({"probes": [{**QUIET, "prometheusUrl": "prometheus:9090"}]}, "prometheusUrl"),
        ({"conditions": [{"type": "FullIsr", "topic": "v"}]}, "no topic v"),
        ({"conditions": [{"type": "Acked", "atLeast": 1, "since": "a"}]}, "a is no earlier step"),
        ({"probes": [{**QUIET, "during": "Sometimes"}]}, "Required"),
    ],
)
def test_what_is_wrong_is_refused(spec: dict[str, Any], names: str) -> None:
    with pytest.raises(BadScenario) as refused:
        parse(steadyState=spec)
    assert names in str(refused.value)


# -- Prometheus ------------------------------------------------------------------------------------------------------------


class Prometheus(BaseHTTPRequestHandler):
    """Answers by the query."""

    def do_GET(self) -> None:
        where = urlsplit(self.path)
        assert where.path == "/base/api/v1/query"
        (query,) = parse_qs(where.query)["query"]
        answers: dict[str, tuple[int, Any]] = {
            "rate(up[1m]) > 0": (200, {"resultType": "vector", "result": [{"metric": {}, "value": [1.5, "0.25"]}]}),
            "up > 9": (200, {"resultType": "vector", "result": []}),
            "scalar(up)": (200, {"resultType": "scalar", "result": [1.5, "0"]}),
        }
        code, data = answers.get(query, (400, None))
        body = {"status": "success", "data": data} if data else {"status": "error", "error": "parse error"}
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def prometheus() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Prometheus) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/base/"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("rate(up[1m]) > 0", (True, "0.25")),
        ("up > 9", (False, "nothing")),
        ("scalar(up)", (False, "0")),
        ("up >", (False, "Prometheus: 400 parse error")),
    ],
)
def test_a_prometheus_answers_any_query(prometheus: str, query: str, answer: tuple[bool, str]) -> None:
    assert ask_prometheus(prometheus, query) == answer


def test_a_prometheus_that_is_away_is_no_steady_state(tmp_path: Path) -> None:
    bench = Bench(tmp_path, probes=[{"name": "p", "query": "any[5m]", "prometheusUrl": "http://127.0.0.1:1"}])
    problem = bench.steady.wait("before any fault")
    assert problem is not None
    assert "Connection refused" in problem
