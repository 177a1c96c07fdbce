"""The command line as a whole: help, exit codes, one line for bad input, and nothing imported that is not needed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import types
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

import pytest
from minikafka import __version__
from minikafka.cli import main as entry
from minikafka.command import exits
from minikafka.command.exits import UNKNOWN, CommandError
from minikafka_chaos.network.command import parser as network_parser

BAD_INPUT = [
    ["frobnicate"],
    ["--frobnicate"],
    ["topic"],
    ["topic", "frobnicate"],
    ["topic", "create"],
    ["topic", "create", "a", "--partitions", "0"],
    ["topic", "create", "a", "--partitions", "x"],
    ["topic", "create", "a b"],
    ["topic", "create", "a", "--replica-assignment", "0:0"],
    ["topic", "create", "a", "--replica-assignment", "0:1", "--partitions", "1"],
    ["topic", "create", "a", "--config", "x"],
    ["topic", "create", "a", "--part", "1"],
    ["topic", "delete"],
    ["topic", "alter", "a"],
    ["topic", "alter", "a", "--config", "k=v", "--delete-config", "k"],
    ["topic", "alter", "a", "--replica-assignment", "0:1"],
    ["topic", "list", "--bootstrap", "nowhere"],
    ["produce"],
    ["produce", "a", "--acks", "2"],
    ["produce", "a", "--acks", "1", "--idempotence"],
    ["produce", "a", "--header", "x"],
    ["produce", "a", "--compression", "rar"],
    ["produce", "a", "--key-separator", ""],
    ["consume"],
    ["consume", "a", "--offset", "x"],
    ["consume", "a", "--offset", "1", "--from-beginning"],
    ["consume", "a", "--from-time", "yesterday"],
    ["consume", "a", "--group", "g", "--offset", "1"],
    ["consume", "a", "--group", "g", "--from-time", "2026-01-01"],
    ["consume", "a", "--group", ""],
    ["consume", "a", "--no-commit"],
    ["consume", "a", "--max-messages", "0"],
    ["consume", "a", "--timeout", "-1"],
    ["groups"],
    ["groups", "describe"],
    ["groups", "describe", "a", "--group", "b"],
    ["groups", "reset-offsets", "g", "--topic", "a"],
    ["groups", "reset-offsets", "g", "--to-earliest"],
    ["groups", "reset-offsets", "g", "--to-earliest", "--topic", "a", "--all-topics"],
    ["groups", "reset-offsets", "g", "--to-earliest", "--to-latest", "--topic", "a"],
    ["groups", "reset-offsets", "g", "--to-earliest", "--topic", "a:x"],
    ["groups", "reset-offsets", "g", "--to-earliest", "--topic", "a", "--dry-run", "--execute"],
    ["up"],
    ["up", "--data", "/nonexistent/x", "--brokers", "0"],
    ["up", "--data", "/nonexistent/x", "--brokers", "101"],
    ["up", "--data", "/nonexistent/x", "--base-port", "70000"],
    ["up", "--data", "/nonexistent/x", "--base-port", "65000"],
    ["up", "--data", "/nonexistent/x", "--racks", "a,,b"],
    ["up", "--data", "/nonexistent/x", "--config", "no.such.key=1"],
    ["up", "--data", "/nonexistent/x", "--config", "min.insync.replicas=many"],
    ["up", "--data", "/nonexistent/x", "--config", "node.id=1"],
    ["up", "--data", "/dev/null"],
    ["down"],
    ["down", "--data", "/nonexistent/x"],
    ["broker"],
    ["broker", "--config", "/nonexistent/broker.properties"],
    ["status", "a b"],
]


@pytest.mark.parametrize("arguments", BAD_INPUT, ids=" ".join)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("minikafka")


@pytest.mark.parametrize(
    "arguments", [["topic", "list"], ["status"], ["produce", "a"], ["groups", "list"]], ids=" ".join
)
def test_nobody_there_is_exit_code_3(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main([*arguments, "--bootstrap", "127.0.0.1:1"]) == 3
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "no broker answers at 127.0.0.1:1 (Connection refused)" in err


def test_a_close_name_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["topics"]) == 2
    assert "did you mean topic?" in capsys.readouterr().err


def test_help_names_every_subcommand_that_people_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all((f"\n  {name} " in text) == (name != "agent") for name in entry.SUBCOMMANDS)
    assert entry.main([]) == 2


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["--version"]) == 0
    assert capsys.readouterr().out == f"minikafka {__version__}\n"


def parsers(parser: ArgumentParser) -> Iterator[entry.Parser]:
    """A command's parser, and those of all that is below it."""
    assert isinstance(parser, entry.Parser)
    yield parser
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for below in action.choices.values():
                yield from parsers(below)


@pytest.mark.parametrize("name", entry.SUBCOMMANDS)
def test_help_ends_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        entry.main([name, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: minikafka {name}")
    assert text.endswith(f"\nexample:\n  {entry.SUBCOMMANDS[name].example}\n")


@pytest.mark.parametrize("command", [*(f"minikafka {name}" for name in entry.SUBCOMMANDS), "minikafka-network"])
def test_each_example_can_be_copied(command: str) -> None:
    name = command.partition(" ")[2]
    top = entry.parser_of(name) if name else network_parser()
    for parser in parsers(top):
        assert parser.prog in parser.example and parser.format_help().endswith(f"  {parser.example}\n")
        typed = parser.example.rpartition("| ")[2].removeprefix(command)
        top.parse_args(shlex.split(typed))  # raises where something is not allowed, or is missing


def fake(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make `minikafka status` raise."""

    def run(args: Namespace) -> int:
        raise error

    def add_arguments(parser: ArgumentParser) -> None:
        pass

    module = types.SimpleNamespace(add_arguments=add_arguments, run=run)
    monkeypatch.setitem(sys.modules, "minikafka.cli.status", module)  # type: ignore[arg-type]


def test_what_a_command_raises_becomes_a_line_and_a_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(monkeypatch, CommandError(UNKNOWN, "who knows"))
    assert entry.main(["status"]) == 3
    assert capsys.readouterr().err == "minikafka status: who knows\n"
    fake(monkeypatch, KeyboardInterrupt())
    assert entry.main(["status"]) == 130
    assert capsys.readouterr().err == ""


def test_a_bug_is_one_line_unless_asked_for_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(monkeypatch, ValueError("two\nlines"))
    assert entry.main(["status"]) == 3
    assert capsys.readouterr().err.startswith("minikafka status: internal error: ValueError: two lines (")
    monkeypatch.setenv("MINIKAFKA_TRACEBACK", "1")
    with pytest.raises(ValueError, match="two"):
        entry.main(["status"])


@pytest.mark.parametrize(
    ("name", "lacks", "need"),
    [
        ("analyze", "pyspark", "the extra 'analytics': pip install 'minikafka[analytics]'"),
        (
            "watch",
            "textual",
            "the extra 'watch': pip install 'minikafka[watch]'; --web 0 shows the same as a page, without it",
        ),
        ("demo", "minikafka_chaos", "more than this image has: pip install minikafka"),
    ],
)
def test_what_is_missing_is_named(
    name: str, lacks: str, need: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An extra that is not installed, or a package of ours that an image leaves out."""

    def missing(module: str) -> None:
        raise ModuleNotFoundError(f"No module named {lacks!r}", name=lacks)

    monkeypatch.setattr(entry.importlib, "import_module", missing)
    assert entry.main([name]) == 2
    assert capsys.readouterr().err == f"minikafka {name}: needs {need} (No module named {lacks!r})\n"


def test_what_is_missing_is_named_also_where_it_is_imported_late(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(args: Namespace) -> int:
        raise ModuleNotFoundError(f"No module named {missing[0]!r}", name=missing[0])

    module = types.SimpleNamespace(add_arguments=lambda parser: None, run=run)
    monkeypatch.setitem(sys.modules, "minikafka_chaos.commands.watch", module)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "minikafka_chaos.commands.chaos", module)  # type: ignore[arg-type]
    for name, lacks, said in [
        ("watch", "textual", "needs the extra 'watch'"),
        ("chaos", "minikafka_simulator", "needs more than this image has"),
    ]:
        missing = [lacks]
        assert entry.main([name]) == 2
        assert said in capsys.readouterr().err
    for name, lacks in [("chaos", "yaml"), ("watch", "minikafka_chaos.forgotten")]:  # a mistake of ours
        missing = [lacks]
        assert entry.main([name]) == 3
        assert "internal error" in capsys.readouterr().err


def modules_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint('\\n' + ' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


CLIENTS = {"confluent_kafka", "rich", "kio", "prometheus_client", "asyncio", "http.client"}


@pytest.mark.slow
def test_help_imports_no_library() -> None:
    loaded = modules_after("from minikafka.cli.main import main\nmain(['--help'])")
    assert not loaded & CLIENTS


@pytest.mark.slow
def test_the_broker_command_imports_no_client() -> None:
    loaded = modules_after("import minikafka.cli.main, minikafka.cli.broker, minikafka.config")
    assert not loaded & CLIENTS


@pytest.mark.slow
def test_the_reader_of_our_output_may_go_away() -> None:
    script = "from minikafka.cli.main import main; import sys; sys.exit(main(['--help']))"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        command.stdout.close()
        assert command.stderr.read() == ""
        assert command.wait() in (0, 141)


class TestOutputThatNobodyTakes:
    """`minikafka ... | head`, a full disk, a shell's `>&-`: one line at most, and an exit code of ours, not Python's 120."""

    PRINTS = "print('a line', flush=False)"

    def ended(self, tmp_path: Path, what: str, stdout: int | None, *, by: str = "status") -> tuple[int, str]:
        """Exit code and standard error of a subcommand that is this text, with its standard output there; None: closed."""
        (tmp_path / "fake.py").write_text(
            f"def add_arguments(parser): pass\n\ndef run(args):\n    {what}\n    return 0\n"
        )
        script = (
            "import sys\nfrom minikafka.cli import main\n"
            "main.SUBCOMMANDS['status'] = main.Subcommand('fake', 'a test', 'minikafka status')\n"
            f"sys.exit(main.main({by.split()!r}))"
        )
        command = [sys.executable, "-c", script]
        if stdout is None:
            command = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        environment.pop("PYTHONUNBUFFERED", None)
        done = subprocess.run(
            command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment, timeout=120, check=False
        )
        return done.returncode, done.stderr

    @pytest.fixture
    def no_reader(self) -> Iterator[int]:
        reading, writing = os.pipe()
        os.close(reading)
        yield writing
        os.close(writing)

    @pytest.fixture
    def full(self) -> Iterator[int]:
        with open("/dev/full", "w") as file:
            yield file.fileno()

    @pytest.mark.slow
    def test_interrupted(self, tmp_path: Path, no_reader: int, full: int) -> None:
        what = f"{self.PRINTS}; raise KeyboardInterrupt"
        assert self.ended(tmp_path, what, no_reader) == (130, "")
        assert self.ended(tmp_path, what, full) == (130, "")

    @pytest.mark.slow
    @pytest.mark.parametrize("times", [1, 2])
    def test_interrupted_where_an_exception_is_swallowed(self, tmp_path: Path, full: int, times: int) -> None:
        """In the callback of a weak reference, as each import has one: Python prints what that raises, and goes on."""
        (tmp_path / "callback.py").write_text(
            "import signal, threading, weakref\n\nclass Lock:\n    pass\n\n"
            f"for _ in range({times}):\n    lock = Lock()\n"
            "    seen = weakref.ref(lock, lambda _: signal.raise_signal(signal.SIGINT))\n    del lock\n"
            "threading.Event().wait(600)\n"
        )
        assert self.ended(tmp_path, "import callback", full) == (130, "")

    @pytest.mark.slow
    def test_what_else_is_swallowed_is_printed(self, tmp_path: Path, full: int) -> None:
        what = "import weakref; made = type('X', (), {})(); seen = weakref.ref(made, lambda _: 1 / 0); del made"
        code, told = self.ended(tmp_path, what, full)
        assert code == 0 and "ZeroDivisionError" in told

    @pytest.mark.slow
    def test_it_ends_well(self, tmp_path: Path, no_reader: int, full: int) -> None:
        assert self.ended(tmp_path, self.PRINTS, no_reader) == (exits.BROKEN_PIPE, "")
        told = "minikafka status: no space left on the device that it writes to\n"
        assert self.ended(tmp_path, self.PRINTS, full) == (exits.UNKNOWN, told)

    @pytest.mark.slow
    def test_it_fails(self, tmp_path: Path, no_reader: int, full: int) -> None:
        what = f"{self.PRINTS}; from minikafka.command.exits import CommandError; raise CommandError(2, 'bad')"
        for stdout in (no_reader, full, None):
            assert self.ended(tmp_path, what, stdout) == (2, "minikafka status: bad\n")

    @pytest.mark.slow
    def test_help(self, tmp_path: Path, no_reader: int, full: int) -> None:
        assert self.ended(tmp_path, "pass", no_reader, by="status --help") == (exits.BROKEN_PIPE, "")
        assert self.ended(tmp_path, "pass", full, by="status --help")[0] == exits.UNKNOWN

    @pytest.mark.slow
    def test_closed(self, tmp_path: Path) -> None:
        assert self.ended(tmp_path, self.PRINTS, None) == (0, "")
        assert self.ended(tmp_path, self.PRINTS, None, by="--version") == (0, "")


@pytest.mark.slow
def test_a_ctrl_c_before_the_command_line_is_read(tmp_path: Path) -> None:
    """While Python is still importing what is needed for that."""
    (tmp_path / "difflib.py").write_text("exec('raise KeyboardInterrupt')")
    command = [sys.executable, "-m", "minikafka.cli", "--version"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
