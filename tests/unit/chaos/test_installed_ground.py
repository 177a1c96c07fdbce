"""Grounds that other packages bring are found by their entry points, and where there is none a line says what to install."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, distributions, entry_points
from pathlib import Path

import pytest
from minikafka.cli.main import main
from minikafka_chaos.errors import NotSupported
from minikafka_chaos.grounds import installed
from minikafka_chaos.grounds.installed import GROUP, installed_ground
from minikafka_chaos.matrix.results import code_digest

from tools.container.entry_points import write


@pytest.fixture(autouse=True)
def looked_up_anew() -> Iterator[None]:
    installed_ground.cache_clear()
    yield
    installed_ground.cache_clear()


def name_ground(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    point = EntryPoint("elsewhere", target, GROUP)
    monkeypatch.setattr(installed, "entry_points", lambda *, group, name: (point,) if name == point.name else ())


def test_the_simulator_brings_the_simulation_ground(tmp_path: Path) -> None:
    ground = installed_ground("simulation")(tmp_path)
    assert (type(ground).__module__.partition(".")[0], ground.name) == ("minikafka_simulator", "simulation")


@pytest.mark.parametrize("target", [None, "minikafka_nowhere.ground:Ground"])
def test_without_its_package_one_line_says_what_to_install(
    target: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if target is None:
        monkeypatch.setattr(installed, "entry_points", lambda *, group, name: ())
    else:
        point = EntryPoint("simulation", target, GROUP)
        monkeypatch.setattr(installed, "entry_points", lambda *, group, name: (point,))
    assert main(["chaos", "run", "demo", "--ground", "simulation", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "--ground simulation" in said
    assert "pip install minikafka" in said


def test_a_module_that_the_package_lacks_is_no_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    name_ground(monkeypatch, "minikafka_chaos.nowhere:Ground")
    with pytest.raises(ModuleNotFoundError, match=r"minikafka_chaos\.nowhere"):
        installed_ground("elsewhere")
    with pytest.raises(NotSupported, match="--ground unheard needs a package"):
        installed_ground("unheard")


@pytest.mark.slow
def test_a_matrix_counts_anew_when_the_code_of_its_ground_has_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = code_digest("simulation"), code_digest("processes")
    (tmp_path / "__init__.py").write_text("changed = True\n")
    monkeypatch.setattr(sys.modules["minikafka_simulator"], "__file__", str(tmp_path / "__init__.py"))
    after = code_digest("simulation"), code_digest("processes")
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_images_have_the_same_grounds_as_the_wheel(tmp_path: Path) -> None:
    """Their code is a folder, beside which the entry points are written down."""
    write(Path(__file__).parents[3] / "pyproject.toml", tmp_path)
    (image,) = distributions(path=[str(tmp_path)])
    assert set(image.entry_points.select(group=GROUP)) == set(entry_points(group=GROUP)) != set()
