"""Metrics and events of a run from a Prometheus and from volumes; and which runs have no report."""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
from minikafka_analytics import analyze, cli_analyze, sources
from minikafka_analytics.pending import without_report
from minikafka_analytics.run_folder import NoRun

BEGAN = 1_767_225_600.0


class Prometheus(ThreadingHTTPServer):
    """Answers instant queries with whatever the test says."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.answer: Callable[[dict[str, str]], tuple[int, Any]] = lambda _query: (200, success([]))
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Prometheus)
        query = {name: values[0] for name, values in parse_qs(urlparse(self.path).query).items()}
        server.asked.append(query)
        code, body = server.answer(query)
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def prometheus() -> Iterator[Prometheus]:
    with Prometheus() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def success(result: list[Any], **more: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": "matrix", "result": result}, **more}


def series(name: str, pod: str, values: list[tuple[float, str]], **labels: str) -> dict[str, Any]:
    metric = {"__name__": name, "pod": pod, "job": "brokers", "instance": "10.0.0.1:9404", **labels}
    return {"metric": metric, "values": [list(value) for value in values]}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of 400 s."""
    folder = tmp_path / "run"
    folder.mkdir()
    lines = [{"time": BEGAN, "kind": "note"}, {"time": BEGAN + 400, "kind": "verdict"}]
    (folder / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"time": torn')
    return folder


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class TestMetrics:
    def test_each_scrape_is_a_line(self, run: Path, prometheus: Prometheus) -> None:
        t = BEGAN + 1

        def answer(query: dict[str, str]) -> tuple[int, Any]:
            if float(query["time"]) > BEGAN + 300:
                return 200, success([])
            return 200, success(
                [
                    series(
                        "minikafka_high_watermark", "shop-broker-1", [(t, "7"), (t + 2, "9")], topic="a", partition="0"
                    ),
                    series("minikafka_high_watermark", "shop-broker-0", [(t, "7")], topic="a", partition="0"),
                    series("minikafka_high_watermark", "shop-broker-0", [(t, "7")], topic="a", partition="0"),
                    series("up", "shop-broker-1", [(t, "1"), (t + 4, "0")]),
                    series("up", "someone-else", [(t, "0")]),
                ]
            )

        prometheus.answer = answer
        assert sources.main([str(run), "--prometheus", prometheus.url]) == 0
        found = lines_of(run / sources.METRICS)
        assert [(line["time"] - t, line["broker"], "error" in line) for line in found] == [
            (0, 0, False),
            (0, 1, False),
            (2, 1, False),
            (4, 1, True),
        ]
        assert found[0]["samples"] == [["minikafka_high_watermark", {"topic": "a", "partition": "0"}, 7.0]]

    def test_the_runs_time_is_asked_for_in_parts(self, run: Path, prometheus: Prometheus) -> None:
        """Raw samples, and no moment of it twice or never."""
        prometheus.answer = lambda _query: (200, success([series("minikafka_x", "b-0", [(BEGAN, "1")])]))
        assert sources.main([str(run), "--prometheus", prometheus.url, "--selector", 'namespace="lab"']) == 0
        assert [float(query["time"]) - BEGAN for query in prometheus.asked] == [240.0, 410.0]
        assert [query["query"].rpartition("[")[2] for query in prometheus.asked] == ["300s]", "170s]"]
        assert all(query["query"].startswith('{namespace="lab",') for query in prometheus.asked)
        assert len(lines_of(run / sources.METRICS)) == 1, "a sample that two parts have is kept once"

    @pytest.mark.parametrize(
        ("code", "body", "says"),
        [
            (200, success([]), "no metric of a broker in the time of the run"),
            (200, success([], warnings=["store 2: timeout"]), "only a part of it answered: store 2: timeout"),
            (503, b"starting", "answers 503: starting"),
            (200, b"<html>", "Expecting value"),
            (200, {"status": "success"}, "data"),
        ],
    )
    def test_one_that_does_not_tell_all(
        self, run: Path, prometheus: Prometheus, code: int, body: Any, says: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        prometheus.answer = lambda _query: (code, body)
        assert sources.main([str(run), "--prometheus", prometheus.url]) == 3
        assert says in capsys.readouterr().err
        assert not (run / "metrics").exists(), "nothing is half written"

    def test_nobody_answers(self, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert sources.main([str(run), "--prometheus", "http://127.0.0.1:9"]) == 3
        assert "refused" in capsys.readouterr().err

    def test_a_runs_own_are_not_replaced(
        self, run: Path, prometheus: Prometheus, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (run / "metrics").mkdir()
        (run / "metrics" / "samples.jsonl").write_text("{}\n")
        assert sources.main([str(run), "--prometheus", prometheus.url]) == 0
        assert "the run has its own (samples.jsonl)" in capsys.readouterr().out
        assert prometheus.asked == []

    def test_twice_is_as_good_as_once(self, run: Path, prometheus: Prometheus) -> None:
        prometheus.answer = lambda _query: (200, success([series("minikafka_x", "b-0", [(BEGAN, "1")])]))
        for _ in range(2):
            assert sources.main([str(run), "--prometheus", prometheus.url]) == 0
        assert len(lines_of(run / sources.METRICS)) == 1


class TestEvents:
    def test_those_of_the_runs_time(self, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for broker in range(2):
            folder = tmp_path / "events" / str(broker)
            folder.mkdir(parents=True)
            times = (BEGAN - 3600, BEGAN + 1, BEGAN + 9999)
            text = "".join(json.dumps({"time": time, "broker": broker}) + "\n" for time in times)
            (folder / f"broker-{broker}.jsonl").write_text(text + ("torn {\n" if broker else ""))
        assert sources.main([str(run), "--events", str(tmp_path / "events")]) == 0
        assert lines_of(run / "events" / "volume-broker-1.jsonl") == [{"time": BEGAN + 1, "broker": 1}]
        said = capsys.readouterr().out
        assert said == "events: 2 from 2 logs; 1 lines were left out, for they are no events\n"

    def test_no_volume_has_any(self, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert sources.main([str(run), "--events", str(tmp_path / "nowhere")]) == 3
        assert "no event log" in capsys.readouterr().err

    def test_a_runs_own_are_not_replaced(self, run: Path, tmp_path: Path) -> None:
        (run / "events").mkdir()
        (run / "events" / "broker-0.jsonl").write_text("{}\n")
        assert sources.main([str(run), "--events", str(tmp_path)]) == 0
        assert [path.name for path in (run / "events").iterdir()] == ["broker-0.jsonl"]


@pytest.mark.parametrize(
    ("journal", "says"), [(None, "No such file"), ("", "no line of it has a time"), ("[1]\n", "no line of it")]
)
def test_a_run_without_a_time(
    tmp_path: Path, journal: str | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if journal is not None:
        (tmp_path / "journal.jsonl").write_text(journal)
    assert sources.main([str(tmp_path), "--prometheus", "http://127.0.0.1:9"]) == 2
    assert says in capsys.readouterr().err


class TestMissingReports:
    def runs(self, parent: Path) -> None:
        for name, ended, report in (("b", True, False), ("a", True, False), ("c", True, True), ("d", False, False)):
            folder = parent / name
            folder.mkdir(parents=True)
            lines = ['{"time": 1, "kind": "note", "text": "no verdict yet"}', "torn"]
            lines += ['{"time": 2, "kind": "verdict", "verdict": "Passed"}'] if ended else []
            (folder / "journal.jsonl").write_text("\n".join(lines) + "\n")
            if report:
                (folder / "report.json").write_text("{}")
        (parent / "lost+found").mkdir()

    def test_of_those_that_have_ended(self, tmp_path: Path) -> None:
        self.runs(tmp_path / "runs")
        assert [path.name for path in without_report(tmp_path / "runs")] == ["a", "b"]
        with pytest.raises(NoRun, match="no such folder"):
            without_report(tmp_path / "nowhere")

    def command(self, *arguments: object) -> int:
        parser = argparse.ArgumentParser()
        cli_analyze.add_arguments(parser)
        return cli_analyze.run(parser.parse_args([str(argument) for argument in arguments]))

    def test_one_that_fails_does_not_stop_the_others(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs(tmp_path)
        made: list[str] = []

        def report(run_dirs: list[Path], out: Path, *_: object) -> analyze.ReportPaths:
            made.append(out.name)
            if out.name == "a":
                raise NoRun("a: no run after all")
            return analyze.ReportPaths(out, out, out)

        monkeypatch.setattr(analyze, "analyze", report)
        monkeypatch.setattr(analyze, "told", lambda _paths: [analyze.Told("b", "Passed", "", True)])
        assert self.command(tmp_path, "--missing") == 2
        assert made == ["a", "b"]

    def test_bad_input(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.command(tmp_path / "nowhere", "--missing") == 2
        assert self.command(tmp_path, "--missing", "--out", tmp_path) == 2
        assert self.command(tmp_path, "--missing") == 0
        assert "every run that has ended has its report" in capsys.readouterr().out
