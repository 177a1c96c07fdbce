"""--set, and what bad scenarios are told: file, line, field, and what was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from minikafka.cli.main import main
from minikafka_chaos.errors import BadScenario
from minikafka_chaos.scenario import library
from minikafka_chaos.scenario.scenario import Scenario, load_scenario
from minikafka_chaos.scenario.variants import VARIANTS, variant

ROOT = Path(__file__).parents[3]
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def demo(*settings: str) -> Scenario:
    return library.find("demo", settings)


def test_fields_elements_by_name_and_settings_can_be_set() -> None:
    scenario = demo(
        "workload.acks=Leader",
        "rounds=3",
        "topics.bank.config.retention.ms=60000",
        "min.insync.replicas=1",
        "cluster.config.broker.session.timeout.ms=4000",
    ).spec
    assert (scenario.workload.acks.value, scenario.rounds) == ("Leader", 3)
    assert {"retention.ms": "60000"}.items() <= {e.name: e.value for e in scenario.topic("bank").config}.items()
    config = {entry.name: entry.value for entry in scenario.cluster.config}
    assert (config["min.insync.replicas"], config["broker.session.timeout.ms"]) == ("1", "4000")


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("workload", "must be KEY=VALUE"),
        ("workload.aks=All", "unknown field; did you mean acks?"),
        ("workload.acks=Leeder", "did you mean Leader?"),
        ("workload.ratePerSecond=fast", "valid integer"),
        ("minikafka.truncation.mod=high_watermark", "did you mean minikafka.truncation.mode?"),
        ("minikafka.truncation.mode=low", "minikafka.truncation.mode=low: allowed: "),
        ("topics.bunk.partitions=3", "did you mean bank?"),
        ("topics.bank=3", "names a whole element"),
        ("cluster.config.min.insync.replicas=x", "min.insync.replicas=x: not a whole number"),
        ("topics.bank.config.min.insync.replicas=0", "min.insync.replicas=0: too small"),
        ("topics.bank.config.retention.mss=3", "did you mean retention.ms?"),
        ("workload.acks.x=3", "acks has no fields"),
        ("workload.acks=[", "not YAML"),
    ],
)
def test_what_cannot_be_set_is_one_line_and_exit_code_2(
    setting: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chaos", "run", "demo", "--set", setting, "--out", str(tmp_path / "runs")]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("  workload:", "  worklod:", "spec.worklod: unknown field; did you mean workload?"),
        ("acks: All", "acks: Al", "spec.workload.acks: 'Al' is not allowed; did you mean All?"),
        ("verb: Kill", "verb: Kil", "did you mean Kill?"),
    ],
)
def test_a_bad_line_is_named_with_its_file(old: str, new: str, told: str, tmp_path: Path) -> None:
    text = (library.folder() / "demo.yaml").read_text()
    assert old in text
    line = text[: text.index(old)].count("\n") + 1
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(BadScenario) as error:
        load_scenario(path)
    assert told in str(error.value)
    assert f"{path}:{line}: " in str(error.value)


def test_a_folder_named_like_a_scenario_does_not_shadow_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    assert library.find("demo").name == "demo"
    (tmp_path / "mine").mkdir()
    with pytest.raises(BadScenario, match="a folder"):
        library.find("mine")


@pytest.mark.slow
def test_each_variant_is_its_story_with_a_setting() -> None:
    for story, (setting, variants) in VARIANTS.items():
        for suffix, value in variants.items():
            alone, changed = library.find(f"{story}.{suffix}").spec, library.find(story, [f"{setting}={value}"]).spec
            assert alone == changed
            assert alone.expected is not None


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("", "needs the lines 'name: kip-279'"),
        ("  name: kip-279\nexpect: []\n{name: s, value: a}", "comes before expect"),
    ],
)
def test_a_story_that_lacks_the_place_of_its_setting(text: str, lacks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VARIANTS, "kip-279", ("s", {"b": "b"}))
    with pytest.raises(ValueError, match=lacks):
        variant("kip-279", text, "b")


@pytest.mark.slow
def test_every_scenario_follows_the_schema_as_far_as_names_go() -> None:
    import json

    schema = json.loads((ROOT / "docs/reference/scenario.schema.json").read_text())
    for name in library.names():
        document = yaml.load((library.folder() / f"{name}.yaml").read_text(), LOADER)
        assert set(document) <= set(schema["properties"])
        assert set(document["spec"]) <= set(schema["$defs"]["ScenarioSpec"]["properties"])
