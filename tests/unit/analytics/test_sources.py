"""Metrics and events of a run from a Prometheus and from volumes; and which runs have no report."""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
from minikafka_analytics import analyze
from minikafka_analytics.commands import analyze as analyze_command
from minikafka_analytics.landing.pending import without_report
from minikafka_analytics.landing.run_folder import NoRun, unanswered
from minikafka_analytics.sources import collect
from minikafka_analytics.sources import prometheus as prometheus_module

BEGAN = 1_767_225_600.0


class Prometheus(ThreadingHTTPServer):
    """Answers instant queries with whatever the test says."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.metrics = ["minikafka_high_watermark"]
        self.names: Callable[[], tuple[int, Any]] = lambda: (200, {"status": "success", "data": self.metrics})
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
        code, body = server.names() if "match[]" in query else server.answer(query)
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        with suppress(BrokenPipeError, ConnectionResetError):  # who asked does not wait any more
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


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited before something was asked for again; nobody waits."""
    waited: list[float] = []
    monkeypatch.setattr(prometheus_module.Prometheus, "wait", lambda _self, seconds: waited.append(seconds))
    return waited


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
        assert collect.main([str(run), "--prometheus", prometheus.url]) == 0
        found = lines_of(run / collect.METRICS)
        assert [(line["time"] - t, line["broker"], "error" in line) for line in found] == [
            (0, 0, False),
            (0, 1, False),
            (2, 1, False),
            (4, 1, True),
        ]
        assert found[0]["samples"] == [["minikafka_high_watermark", {"topic": "a", "partition": "0"}, 7.0]]

    def test_each_metric_of_each_part_of_the_time_is_asked_for(self, run: Path, prometheus: Prometheus) -> None:
        """Raw samples, and no moment of it twice or never."""
        prometheus.metrics = ["minikafka_x", "up"]
        prometheus.answer = lambda _query: (200, success([series("minikafka_x", "b-0", [(BEGAN, "1")])]))
        assert collect.main([str(run), "--prometheus", prometheus.url, "--selector", 'namespace="lab"']) == 0
        (names,) = [query for query in prometheus.asked if "match[]" in query]
        assert names["match[]"] == '{namespace="lab",__name__=~"minikafka_.*|process_.*|up"}'
        assert (float(names["start"]) - BEGAN, float(names["end"]) - BEGAN) == (-60.0, 410.0)
        asked = {(query["query"], float(query["time"]) - BEGAN) for query in prometheus.asked if "query" in query}
        assert asked == {
            (f'{{namespace="lab",__name__="{name}"}}[{seconds}s]', until)
            for name in ("minikafka_x", "up")
            for seconds, until in ((300, 240.0), (170, 410.0))
        }
        assert len(lines_of(run / collect.METRICS)) == 1, "a sample that two parts have is kept once"

    def test_metrics_are_asked_for_several_at_once(self, run: Path, prometheus: Prometheus) -> None:
        prometheus.metrics = ["minikafka_x", "minikafka_y"]
        both = threading.Barrier(2)

        def answer(query: dict[str, str]) -> tuple[int, Any]:
            both.wait(60)
            name = query["query"].split('"')[-2]
            return 200, success([series(name, "b-0", [(BEGAN, "1")])])

        prometheus.answer = answer
        assert collect.main([str(run), "--prometheus", prometheus.url]) == 0
        (line,) = lines_of(run / collect.METRICS)
        assert sorted(sample[0] for sample in line["samples"]) == ["minikafka_x", "minikafka_y"]

    @pytest.mark.parametrize(
        ("code", "body", "says"),
        [
            (200, success([]), "no metric of a broker in the time of the run"),
            (503, b"starting", "answers 503: starting"),
            (200, b"<html>", "its answer is none of a Prometheus: Expecting value"),
            (200, {"status": "success"}, "its answer is none of a Prometheus: 'data'"),
            (200, b'{"data":' + b"[" * 100_000, "its answer is none of a Prometheus: maximum recursion depth"),
            (
                200,
                {"status": "error", "error": "no", "data": []},
                "its answer is none of a Prometheus: status error: no",
            ),
            (200, {"status": "success", "data": [], "warnings": 5}, "its answer is none of a Prometheus: "),
        ],
    )
    @pytest.mark.parametrize("of", ["names", "samples"])
    def test_one_that_tells_nothing(
        self, run: Path, prometheus: Prometheus, waits: list[float], code: int, body: Any, says: str, of: str,
        capsys: pytest.CaptureFixture[str],
    ) -> None:  # fmt: skip
        prometheus.answer = lambda _query: (code, body)
        if of == "names" and says != "no metric of a broker in the time of the run":
            prometheus.names = lambda: (code, body)
        assert collect.main([str(run), "--prometheus", prometheus.url]) == 3
        assert says in capsys.readouterr().err
        assert not (run / "metrics").exists(), "nothing is half written"

    def test_what_fails_once_is_asked_for_again(
        self, run: Path, prometheus: Prometheus, waits: list[float], capsys: pytest.CaptureFixture[str]
    ) -> None:
        answers = iter([(503, b"busy"), (200, success([], warnings=["store 2: timeout"]))])
        whole = success([series("minikafka_x", "b-0", [(BEGAN, "1")])])
        prometheus.answer = lambda _query: next(answers, (200, whole))
        assert collect.main([str(run), "--prometheus", prometheus.url]) == 0
        assert waits == [0.5, 2.0]
        assert "missing" not in capsys.readouterr().out
        assert unanswered(run) == []

    def test_what_only_a_part_of_it_answers_is_kept_and_told(
        self, run: Path, prometheus: Prometheus, waits: list[float], capsys: pytest.CaptureFixture[str]
    ) -> None:
        prometheus.metrics = ["minikafka_x", "minikafka_y"]

        def answer(query: dict[str, str]) -> tuple[int, Any]:
            half = "minikafka_y" in query["query"] and float(query["time"]) == BEGAN + 240
            name = "minikafka_y" if "minikafka_y" in query["query"] else "minikafka_x"
            more = {"warnings": ["store 2: timeout"]} if half else {}
            return 200, success([series(name, "b-0", [(BEGAN, "1")])], **more)

        prometheus.answer = answer
        assert collect.main([str(run), "--prometheus", prometheus.url]) == 0
        assert "; 1 parts are missing, the first minikafka_y (only a part of it answered: store 2: timeout)" in (
            capsys.readouterr().out
        )
        (line,) = lines_of(run / collect.METRICS)
        assert len(line["samples"]) == 2
        reason = "only a part of it answered: store 2: timeout"
        missing = {"metric": "minikafka_y", "began": BEGAN - 60, "ended": BEGAN + 240, "reason": reason}
        assert unanswered(run) == [missing]
        assert waits == list(prometheus_module.PAUSES_SECONDS)
        # Asked again when it is whole, nothing is missing any more; when even less is answered, what is there stays.
        prometheus.answer = lambda _query: (200, success([series("minikafka_x", "b-0", [(BEGAN, "1")])]))
        assert collect.main([str(run), "--prometheus", prometheus.url]) == 0
        assert unanswered(run) == []
        before = (run / collect.METRICS).read_bytes()
        prometheus.answer = answer
        assert collect.main([str(run), "--prometheus", prometheus.url]) == 0
        assert "what is there already lacks less, and stays" in capsys.readouterr().out
        assert ((run / collect.METRICS).read_bytes(), unanswered(run)) == (before, [])

    def test_what_is_too_much_at_once_is_asked_for_in_halves(self, run: Path, prometheus: Prometheus) -> None:
        def answer(query: dict[str, str]) -> tuple[int, Any]:
            if int(query["query"].rpartition("[")[2][:-2]) > 100:
                return 422, {"status": "error", "error": "query processing would load too many samples into memory"}
            at = float(query["time"])
            return 200, success([series("minikafka_x", "b-0", [(at - 1, "1"), (at, "1")])])

        prometheus.answer = answer
        assert collect.main([str(run), "--prometheus", prometheus.url]) == 0
        times = [line["time"] - BEGAN for line in lines_of(run / collect.METRICS)]
        assert [time for time in times if time == int(time)] == times
        assert [int(time) for time in times if time + 1 in times] == [14, 89, 164, 239, 324, 409]
        assert unanswered(run) == []

    def test_what_is_not_answered_in_time_is_told(
        self, run: Path, prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(prometheus_module, "REQUEST_SECONDS_MAX", 0.5)
        monkeypatch.setattr(prometheus_module, "LEAST_SECONDS", 200)
        prometheus.metrics = ["minikafka_x", "minikafka_y"]
        told = threading.Event()

        def answer(query: dict[str, str]) -> tuple[int, Any]:
            if "minikafka_y" in query["query"]:
                told.wait(60)
            return 200, success([series("minikafka_x", "b-0", [(BEGAN, "1")])])

        prometheus.answer = answer
        assert collect.main([str(run), "--prometheus", prometheus.url]) == 0
        told.set()
        assert "3 parts are missing, the first minikafka_y (no answer within 0.5 s)" in capsys.readouterr().out
        spans = {(each["metric"], each["began"] - BEGAN, each["ended"] - BEGAN) for each in unanswered(run)}
        assert spans == {("minikafka_y", began, ended) for began, ended in ((-60, 90), (90, 240), (240, 410))}

    @pytest.mark.slow
    def test_one_that_is_gone_is_not_asked_for_ever(
        self, run: Path, prometheus: Prometheus, waits: list[float]
    ) -> None:
        prometheus.metrics = [f"minikafka_{n:02d}" for n in range(40)]
        prometheus.answer = lambda query: (
            (200, success([series("minikafka_00", "b-0", [(BEGAN, "1")])]))
            if "minikafka_00" in query["query"] and float(query["time"]) < BEGAN + 300
            else (500, b"gone")
        )
        assert collect.main([str(run), "--prometheus", prometheus.url]) == 0
        missing = unanswered(run)
        assert len(missing) == 2 * 40 - 1
        reasons = [each["reason"] for each in missing]
        asked = reasons.count("answers 500: gone")
        assert prometheus_module.FAILURES_IN_A_ROW_MAX <= asked < 2 * prometheus_module.FAILURES_IN_A_ROW_MAX
        assert reasons.count("not asked for, because nothing before was answered") == len(missing) - asked
        assert len(waits) == 2 * asked

    @pytest.mark.parametrize(
        ("series", "says"),
        [
            ({"metric": {"__name__": "minikafka_x", "pod": 5}, "values": [[BEGAN, "1"]]}, "a label is no text"),
            ({"metric": {"__name__": ["up"], "pod": "b-0"}, "values": [[BEGAN, "1"]]}, "a label is no text"),
            ({"metric": ["__name__"], "values": [[BEGAN, "1"]]}, "none of a Prometheus"),
            ({"metric": {"__name__": "up", "pod": "b-0"}, "values": [[BEGAN, 10**400]]}, "too large"),
            (
                {"metric": {"__name__": "up", "pod": f"b-{'9' * 5000}"}, "values": [[BEGAN, "1"]]},
                "no metric of a broker",
            ),
        ],
    )
    def test_series_that_are_none(
        self, run: Path, prometheus: Prometheus, waits: list[float], series: Any, says: str,
        capsys: pytest.CaptureFixture[str],
    ) -> None:  # fmt: skip
        prometheus.answer = lambda _query: (200, success([series]))
        assert collect.main([str(run), "--prometheus", prometheus.url]) == 3
        assert says in capsys.readouterr().err

    def test_samples_that_are_no_numbers_or_of_another_time_are_left_out_and_told(
        self, run: Path, prometheus: Prometheus, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """JSON has no word for NaN: a line with one would be none, and the whole scrape would be lost."""
        values = [(BEGAN, "NaN"), (BEGAN + 1, "+Inf"), (BEGAN + 2, "7"), (5.0, "7"), (BEGAN + 9999, "7"), ("nan", "7")]
        prometheus.answer = lambda query: (
            200,
            success([series("minikafka_x", "b-0", values)] if float(query["time"]) < BEGAN + 300 else []),
        )
        assert collect.main([str(run), "--prometheus", prometheus.url]) == 0
        assert "5 samples were left out" in capsys.readouterr().out
        (line,) = lines_of(run / collect.METRICS)
        assert (line["time"] - BEGAN, line["samples"]) == (2, [["minikafka_x", {}, 7.0]])

    @pytest.mark.parametrize(
        "other", [{"pod": "bank-broker-0"}, {"pod": "shop-broker-1", "namespace": "prod"}], ids=["name", "namespace"]
    )
    def test_brokers_of_several_clusters_are_not_taken_for_one(
        self, run: Path, prometheus: Prometheus, other: dict[str, str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        labels = {"namespace": "lab", **other}
        prometheus.answer = lambda _query: (
            200,
            success(
                [
                    series("minikafka_x", "shop-broker-0", [(BEGAN, "1")], namespace="lab"),
                    series("minikafka_x", labels.pop("pod", "x"), [(BEGAN, "2")], **labels),
                ]
            ),
        )
        assert collect.main([str(run), "--prometheus", prometheus.url]) == 3
        said = capsys.readouterr().err
        assert "the brokers of several clusters (lab/" in said
        assert "say with the selector" in said
        assert not (run / "metrics").exists()

    @pytest.mark.slow
    def test_one_that_sends_a_byte_now_and_then_is_not_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Answer:
            length = None

            def read1(self, _size: int) -> bytes:
                return b" "

        monkeypatch.setattr(prometheus_module, "REQUEST_SECONDS_MAX", 0.1)
        with pytest.raises(TimeoutError):
            prometheus_module._whole(Answer())  # type: ignore[arg-type]

    def test_an_answer_that_is_too_large_is_asked_for_in_halves(
        self, run: Path, prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(prometheus_module, "ANSWER_BYTES_MAX", 2000)

        def answer(query: dict[str, str]) -> tuple[int, Any]:
            seconds = int(query["query"].rpartition("[")[2][:-2])
            at = float(query["time"])
            return 200, success([series("minikafka_x", "b-0", [(at - n, "1") for n in range(seconds)])])

        prometheus.answer = answer
        assert collect.main([str(run), "--prometheus", prometheus.url]) == 0
        assert len(lines_of(run / collect.METRICS)) >= 470
        assert unanswered(run) == []

    def test_nobody_answers(self, run: Path, waits: list[float], capsys: pytest.CaptureFixture[str]) -> None:
        assert collect.main([str(run), "--prometheus", "http://127.0.0.1:9"]) == 3
        assert "refused" in capsys.readouterr().err

    def test_a_runs_own_are_not_replaced(
        self, run: Path, prometheus: Prometheus, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (run / "metrics").mkdir()
        (run / "metrics" / "samples.jsonl").write_text("{}\n")
        assert collect.main([str(run), "--prometheus", prometheus.url]) == 0
        assert "the run has its own (samples.jsonl)" in capsys.readouterr().out
        assert prometheus.asked == []

    def test_twice_is_as_good_as_once(self, run: Path, prometheus: Prometheus) -> None:
        prometheus.answer = lambda _query: (200, success([series("minikafka_x", "b-0", [(BEGAN, "1")])]))
        for _ in range(2):
            assert collect.main([str(run), "--prometheus", prometheus.url]) == 0
        assert len(lines_of(run / collect.METRICS)) == 1


class TestEvents:
    def test_those_of_the_runs_time(self, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for broker in range(2):
            folder = tmp_path / "events" / str(broker)
            folder.mkdir(parents=True)
            times = (BEGAN - 3600, BEGAN + 1, BEGAN + 9999)
            text = "".join(json.dumps({"time": time, "broker": broker}) + "\n" for time in times)
            (folder / f"broker-{broker}.jsonl").write_text(text + ("torn {\n" if broker else ""))
        assert collect.main([str(run), "--events", str(tmp_path / "events")]) == 0
        assert lines_of(run / "events" / "volume-broker-1.jsonl") == [{"time": BEGAN + 1, "broker": 1}]
        said = capsys.readouterr().out
        assert said == "events: 2 from 2 logs; 1 lines were left out, for they are no events\n"

    def test_a_broker_that_has_two_volumes(self, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The second does not take the place of the first; what both have is there once. Nothing of an earlier call stays."""
        for volume, seconds in (("a", (1, 2)), ("b", (2, 3))):
            (tmp_path / "events" / volume).mkdir(parents=True)
            text = "".join(json.dumps({"time": BEGAN + second, "broker": 0}) + "\n" for second in seconds)
            (tmp_path / "events" / volume / "broker-0.jsonl").write_text(text)
        (run / "events").mkdir()
        (run / "events" / "volume-broker-7.jsonl").write_text("{}\n")
        assert collect.main([str(run), "--events", str(tmp_path / "events")]) == 0
        assert [line["time"] - BEGAN for line in lines_of(run / "events" / "volume-broker-0.jsonl")] == [1, 2, 3]
        assert [path.name for path in (run / "events").iterdir()] == ["volume-broker-0.jsonl"]
        assert capsys.readouterr().out == "events: 3 from 2 logs\n"

    def test_what_is_no_text_comes_as_it_is(self, run: Path, tmp_path: Path) -> None:
        """So that the landing puts it into quarantine."""
        (tmp_path / "events" / "a").mkdir(parents=True)
        line = json.dumps({"time": BEGAN, "broker": 0, "event": "x"}).encode().replace(b"x", b"\xff") + b"\n"
        (tmp_path / "events" / "a" / "broker-0.jsonl").write_bytes(line)
        assert collect.main([str(run), "--events", str(tmp_path / "events")]) == 0
        assert (run / "events" / "volume-broker-0.jsonl").read_bytes() == line

    def test_no_volume_has_any(self, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert collect.main([str(run), "--events", str(tmp_path / "nowhere")]) == 3
        assert "no event log" in capsys.readouterr().err

    def test_a_runs_own_are_not_replaced(self, run: Path, tmp_path: Path) -> None:
        (run / "events").mkdir()
        (run / "events" / "broker-0.jsonl").write_text("{}\n")
        assert collect.main([str(run), "--events", str(tmp_path)]) == 0
        assert [path.name for path in (run / "events").iterdir()] == ["broker-0.jsonl"]


@pytest.mark.parametrize(
    ("journal", "says"), [(None, "No such file"), ("", "no line of it has a time"), ("[1]\n", "no line of it")]
)
def test_a_run_without_a_time(
    tmp_path: Path, journal: str | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if journal is not None:
        (tmp_path / "journal.jsonl").write_text(journal)
    assert collect.main([str(tmp_path), "--prometheus", "http://127.0.0.1:9"]) == 2
    assert says in capsys.readouterr().err


NO_TIMES = ["true", '"12"', "NaN", "Infinity", "1e300", "-1", "1767225600000", "1" + "0" * 400, "[" * 100_000]


@pytest.mark.parametrize("time", NO_TIMES, ids=lambda time: time[:15])
def test_a_line_whose_time_is_none_is_no_line_of_the_journal(run: Path, time: str) -> None:
    """Else a Prometheus is asked for thousands of years, five minutes at a time."""
    with (run / "journal.jsonl").open("a") as journal:
        journal.write(f'\n{{"kind": "note", "time": {time}}}\n')
    assert collect.window_of(run) == collect.Window(BEGAN - 60, BEGAN + 410)


def test_a_journal_of_many_years_is_none(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (run / "journal.jsonl").open("a") as journal:
        journal.write('\n{"time": 5, "kind": "note"}\n')
    assert collect.main([str(run), "--prometheus", "http://127.0.0.1:9"]) == 2
    said = capsys.readouterr().err
    assert "its lines are of 20,454 days, from 1970-01-01 to 2026-01-01" in said


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '[{"metric": "m", "began": "x", "ended": 1, "reason": "r"}]', "5", '[{"began": NaN}]', "[1]"],
)
def test_a_list_of_what_is_missing_that_is_none(run: Path, text: str) -> None:
    (run / "metrics").mkdir()
    (run / "metrics" / "unanswered.json").write_text(text)
    (found,) = unanswered(run)
    assert "unanswered.json cannot be read: " in found["reason"]


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

    def test_a_line_that_is_too_deep_is_no_verdict(self, tmp_path: Path) -> None:
        self.runs(tmp_path)
        for name in "ad":
            with (tmp_path / name / "journal.jsonl").open("a") as journal:
                journal.write('{"verdict": ' + "[" * 100_000 + "\n")
        assert [path.name for path in without_report(tmp_path)] == ["a", "b"]

    def command(self, *arguments: object) -> int:
        parser = argparse.ArgumentParser()
        analyze_command.add_arguments(parser)
        return analyze_command.run(parser.parse_args([str(argument) for argument in arguments]))

    def test_one_that_fails_does_not_stop_the_others(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs(tmp_path)
        made: list[str] = []

        def report(run_dirs: list[Path], out: Path, *_: object) -> analyze.ReportPaths:
            made.append(out.name)
            if out.name == "a":
                raise NoRun("a: no run after all")
            return analyze.ReportPaths(out, out, out)

        monkeypatch.setattr(analyze, "analyze", report)
        monkeypatch.setattr(analyze, "reported_runs", lambda _paths: [analyze.ReportedRun("b", "Passed", "", True)])
        assert self.command(tmp_path, "--missing") == 2
        assert made == ["a", "b"]

    def test_bad_input(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.command(tmp_path / "nowhere", "--missing") == 2
        assert self.command(tmp_path, "--missing", "--out", tmp_path) == 2
        assert self.command(tmp_path, "--missing") == 0
        assert "every run that has ended has its report" in capsys.readouterr().out
