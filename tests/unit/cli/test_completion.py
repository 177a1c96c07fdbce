"""`minikafka completion`: what a shell is told of the command line."""

from __future__ import annotations

import importlib
import subprocess

import pytest
from minikafka.cli import completion
from minikafka.cli import main as entry


@pytest.fixture(scope="module")
def bash() -> str:
    import shtab

    return str(shtab.complete(completion.command_line(), shell="bash"))


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["minikafka", "to"], "topic"),
        (["minikafka", "chaos", "pow"], "power-loss"),
        (["minikafka", "chaos", "kill", "--d"], "--data"),
        (["minikafka", "produce", "--acks", ""], "0 1 all -1"),
        (["minikafka", "up", "--data", "/us"], "/usr"),
        (["minikafka", "chaos", "run", "kip-2"], "kip-279"),
        (["minikafka", "chaos", "run", "/us"], "/usr"),
        (["minikafka", "chaos", "matrix", "dur"], "durability"),
        (["minikafka", "chaos", "cut", "1", "--direction", "o"], "outbound"),
        (["minikafka", "simulate", "--bug", "truncate-to-h"], "truncate-to-hw"),
    ],
    ids=" ".join,
)
def test_bash_completes(bash: str, words: list[str], offered: str) -> None:
    asked = f'{bash}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_minikafka; echo "${{COMPREPLY[*]}}"'
    done = subprocess.run(["bash", "-s", *words], input=asked, capture_output=True, text=True, check=True)
    assert done.stdout == f"{offered}\n"


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_each_shell_has_a_script_with_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert [name for name in entry.OFFERED if name not in script] == []
    assert "reset-offsets" in script


def test_a_command_whose_extra_is_missing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_spark(module: str) -> object:
        if module.startswith("minikafka_analytics"):
            raise ModuleNotFoundError(name="pyspark")
        return imported(module)

    imported = importlib.import_module
    monkeypatch.setattr(entry.importlib, "import_module", without_spark)
    with pytest.raises(entry.CommandError, match="invalid choice: 'analyze'"):
        completion.command_line().parse_args(["analyze", "--help"])
    assert completion.command_line().parse_args(["status"]).command == "status"
