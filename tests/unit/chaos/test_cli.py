"""The commands' exit codes and one-line errors, without a cluster."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pytest
from minikafka.cli.main import main
from minikafka_chaos.scenario import library
from minikafka_chaos.scenario.page import TITLE_CHARACTERS_MAX
from minikafka_chaos.scenario.variants import STORY_OF
from minikafka_chaos.verdict import verdict as verdict_module
from minikafka_chaos.verdict.verdict import Outcome, Verdict

from tests.unit.verdict_cases.builder import Run


def history(path: Path, run: Run) -> str:
    return str(run.write(path) / "history.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "code", "verdict"),
    [
        (Run().acked("a", 0).final(["a"]), 0, "Passed"),
        (Run().acked("a", 0).final([]), 1, "Failed"),
        (Run().invoke("a").unknown("a").final([]), 3, "Inconclusive"),
        (Run().acked("a", 0).acked("a", 1).final(["a", "a"]), 3, "Error"),
    ],
)
def test_verify_judges_a_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], run: Run, code: int, verdict: str
) -> None:
    file = history(tmp_path, run)
    assert main(["verify", "--history", file, "--json"]) == code
    assert json.loads(capsys.readouterr().out)["verdict"] == verdict
    assert main(["verify", "--run", str(tmp_path)]) == code
    assert verdict in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["verify"], "--bootstrap --history"),
        (["verify", "--history", "nowhere.jsonl"], "No such file"),
        (["verify", "--run", "nowhere"], "No such file"),
        (["verify", "--bootstrap", "h:1", "--rate", "0"], "--rate 0"),
        (["verify", "--bootstrap", "h:1", "--seconds", "0"], "--seconds"),
        (["verify", "--bootstrap", "h:1", "--acks", "2"], "--acks"),
        (["verify", "--bootstrap", "h:1", "--topic-config", "a"], "KEY=VALUE"),
        (["verify", "--bootstrap", "h:1", "--command-config", "/nowhere"], "--command-config: /nowhere"),
        (["chaos", "run", "demo", "--command-config", "/dev/null"], "--command-config: only with --ground kubernetes"),
        (["chaos", "run", "nowhere"], "no such file"),
        (["chaos", "run", "demo", "--ground", "moon"], "--ground"),
        (["chaos", "run", "demo", "--namespace", "n"], "--namespace: only with --ground kubernetes"),
        (["chaos", "run", "demo", "--ground", "kubernetes", "--listener", "Carrier"], "--listener"),
        (["chaos", "run", "demo", "--seconds", "0"], "--seconds 0"),
        (["chaos"], "required"),
    ],
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], names: str) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert names in error
    assert len(error.splitlines()) == 1


@pytest.mark.slow
def test_scenarios_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chaos", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == library.names()
    assert rows["rack-loss"]["grounds"] == ["processes", "simulation"]
    assert rows["acks-compared"]["expected"] == ["Passed", "Failed", "Inconclusive"]
    assert rows["demo"]["expected"] == ["Passed"] and rows["demo"]["variantOf"] is None
    variant = rows["kip-101-data-loss.high-watermark"]
    assert (variant["variantOf"], variant["expected"]) == ("kip-101-data-loss", ["Failed"])
    assert variant["title"] == "with minikafka.truncation.mode=high_watermark"
    assert main(["chaos", "list"]) == 0
    header, *lines = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in lines] == library.names(), "a line each"
    assert [line.split()[0] for line in lines if line.startswith("  ")] == sorted(STORY_OF)
    wide = header.index("GROUNDS") - header.index("WHAT IT SHOWS")
    assert wide <= TITLE_CHARACTERS_MAX + 2
    assert main(["chaos", "show", "demo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metadata"]["name"] == "demo"
    assert main(["chaos", "show", "demo"]) == 0
    assert "kind: ChaosExperiment" in capsys.readouterr().out


@pytest.mark.slow
def test_a_judge_that_runs_out_of_disk_does_not_say_that_data_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A traceback ends with 1, and 1 means Failed."""

    def full(*_: object) -> None:
        raise duckdb.IOException("No space left on device")

    monkeypatch.setattr(verdict_module, "join_fates", full)
    assert main(["verify", "--history", history(tmp_path, Run().acked("a", 0).final(["a"])), "--json"]) == 3
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "Error"
    assert "No space left on device" in told["summary"]


def test_verify_reads_back_from_brokers_that_nobody_has_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was named is the one that is killed."""

    class Admin:
        def __init__(self, config: dict[str, str]) -> None:
            assert config["bootstrap.servers"] == "a:1"

        def list_topics(self, timeout: float) -> SimpleNamespace:
            hosts = {1: ("a", 1), 2: ("b", 1), 3: ("::1", 2)}
            brokers = {each: SimpleNamespace(host=host, port=port) for each, (host, port) in hosts.items()}
            return SimpleNamespace(brokers=brokers)

    asked: list[str] = []

    def drive(args: Namespace, *_: object) -> Verdict:
        asked.append(args.bootstrap)
        return Verdict.without_judgement(Outcome.ERROR, "")

    monkeypatch.setattr("confluent_kafka.admin.AdminClient", Admin)
    monkeypatch.setattr("minikafka_chaos.load.topics.create_topic", lambda *_: None)
    monkeypatch.setattr("minikafka_chaos.load.topics.delete_topic", lambda bootstrap, *_: asked.append(bootstrap))
    monkeypatch.setattr("minikafka_chaos.commands.verify._drive", drive)
    assert main(["verify", "--bootstrap", "a:1"]) == 3
    monkeypatch.setattr("minikafka_chaos.commands.verify._partitions", lambda *_: 1)
    assert main(["verify", "--bootstrap", "a:1", "--topic", "t"]) == 3
    assert asked == ["a:1,b:1,[::1]:2"] * 3
