"""`pip install .` into an empty environment: a demo runs, and every command works, or names the extra that it needs.

The wheel that people get, in environments that hold nothing but what it asks for: the packages come from wherever pip
finds them for the machine, at the versions of requirements.lock.
"""

from __future__ import annotations

import ast
import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest
from minikafka.cli.main import SUBCOMMANDS
from minikafka.local.ports import free_base_port

from tools.container.requirements import LOCK, asked_for, name_of, normal, read

pytestmark = pytest.mark.timeout(1800)

REPOSITORY = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
PACKAGES = {
    "broker-image/minikafka": ("broker",),
    "broker-image/minikafka/reliability": ("broker", "reliability"),
    "broker-image/minikafka/testing": ("testing",),
    "chaos/minikafka_chaos": ("kubernetes",),
    "chaos/minikafka_chaos/controller": ("kubernetes", "operator"),
    "chaos/minikafka_chaos/network": ("broker",),
    "chaos/minikafka_chaos/watch": ("watch",),
    "simulator/minikafka_simulator": (),
    "kube/minikafka_kube": ("broker", "operator"),
    "operator/minikafka_operator": ("broker", "operator"),
    "analytics/minikafka_analytics": ("broker", "analytics"),
}
"""The packages of the wheel, and the extras that each may import from beside the base, or beside the part of it that images
without chaos have. What is inside another has its own."""

EXTRAS = {
    "": ("minikafka", "minikafka_chaos", "minikafka_simulator"),
    "operator": ("minikafka_kube", "minikafka_operator"),
    "analytics": ("minikafka_analytics",),
}
"""What all of is imported with the base, and with an extra."""
APART = {
    "": [
        "minikafka_chaos.grounds.kubernetes",
        "minikafka_chaos.controller",
        "minikafka_chaos.experiment",
        "minikafka_chaos.watch.terminal",
    ]
}
"""What needs more extras, and names them: modules whose names begin so."""
OF_OTHERS = (
    "minikafka.testing.",
    "minikafka.reliability.aiokafka_",
    "minikafka.security.access_tokens",
    "minikafka.security.certificates",
    "minikafka.transport.key_set_address",
)
"""What the extras `testing`, `reliability` and `oauth` are for: in no package of the base, nor of `analytics`."""
TIMEOUT = 600
PIP = ("--quiet", "--disable-pip-version-check", "--no-input", "--root-user-action", "ignore")

Environment = Callable[..., Path]


def imported(source: Path) -> Iterator[str]:
    """The top-level modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


OPTIONAL = {"broker-image/minikafka": {"pyyaml", "joserfc", "cryptography"}}
"""Imported where somebody's kubeconfig is YAML (kubernetes/credentials.py), where OAUTHBEARER is enabled
(transport/token_keys.py), or where a local cluster is to have TLS (local/clients_listener.py), with a line that says how to
get it."""


@cache
def distributions_of_modules() -> Mapping[str, list[str]]:
    return packages_distributions()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_is_asked_for(package: str) -> None:
    """The development environment has everything, so no other test would notice."""
    distributions = distributions_of_modules()
    needed = {
        normal(distribution)
        for source in (REPOSITORY / package).rglob("*.py")
        if not any(source.is_relative_to(REPOSITORY / other) for other in PACKAGES if other.startswith(f"{package}/"))
        for module in imported(source)
        if module not in sys.stdlib_module_names and not module.startswith("minikafka")
        for distribution in distributions.get(module, [f"{module}, which is not installed"])
    }
    there = set(map(name_of, asked_for(PYPROJECT, PACKAGES[package])))
    assert needed - there - OPTIONAL.get(package, set()) == set()


@cache
def locked_versions() -> Path:
    """A file of the locked versions, without hashes: the project's own wheel, which is installed here too, can have none."""
    packages = read(REPOSITORY / LOCK).values()
    path = Path(tempfile.mkdtemp()) / "versions.txt"
    path.write_text("".join(f"{each.name}=={each.version}{each.marker}\n" for each in packages))
    atexit.register(shutil.rmtree, path.parent)
    return path


def pip(python: Path, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, *arguments],
        capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd=REPOSITORY,
        env=os.environ | {"PIP_CONSTRAINT": str(locked_versions())},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    pip(Path(sys.executable), "wheel", *PIP[:3], "--no-deps", "--wheel-dir", str(folder), str(REPOSITORY))
    (found,) = folder.glob("minikafka-*.whl")
    return found


def site_packages(python: Path) -> Path:
    where = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip())


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment with the wheel and what it asks for, and nothing else."""
    folder = tmp_path_factory.mktemp("base")
    venv.create(folder, with_pip=False, symlinks=True)
    pip(folder / "bin" / "python", "install", *PIP, str(wheel))
    return folder / "bin"


@pytest.fixture(scope="module")
def as_in_an_image(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment with the wheel and the group `broker`."""
    folder = tmp_path_factory.mktemp("broker")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    pip(python, "install", *PIP, "--no-deps", str(wheel))
    pip(python, "install", *PIP, "--no-compile", *PYPROJECT["dependency-groups"]["broker"])
    return folder / "bin"


@pytest.fixture(scope="module")
def environment(base: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """``environment("operator")``: the same with an extra; what the base has is taken from there, to spare a minute."""

    def make(extra: str) -> Path:
        if not extra:
            return base
        folder = tmp_path_factory.mktemp(extra)
        venv.create(folder, with_pip=False, symlinks=True)
        python = folder / "bin" / "python"
        (site_packages(python) / "base.pth").write_text(f"{site_packages(base / 'python')}\n")
        lines = PYPROJECT["project"]["optional-dependencies"][extra]
        pip(python, "install", *PIP, "--no-compile", *lines)
        return folder / "bin"

    return make


def run(command: Path, *arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command as a person would, away from the sources."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(
        [command, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=600, check=False,
        cwd=command.parent.parent, env=clean,
    )  # fmt: skip


TRIED = {"charts": [], "analyze": ["."]}
"""What is asked of a command, where it is more than its help: all but `analyze` and the screen of `watch` need no extra."""


@pytest.mark.full
@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_each_command_works_or_names_its_extra(base: Path, name: str) -> None:
    extra = SUBCOMMANDS[name].extra
    done = run(base / "minikafka", name, *TRIED.get(name, ["--help"]))
    if done.returncode == 0:
        assert done.stderr == ""
    else:
        assert done.returncode in (2, 3)
        assert done.stderr.startswith(f"minikafka {name}: ")
        assert f"pip install 'minikafka[{extra}]'" in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.full
def test_the_operator_names_its_extra(base: Path) -> None:
    done = run(base / "minikafka-operator")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("minikafka-operator: needs the extra 'operator': pip install 'minikafka[operator]'")
    assert done.stderr.count("\n") == 1


@pytest.mark.full
def test_what_is_installed_is_compiled(base: Path) -> None:
    """The first start is as fast as the second: no module is compiled when it is first imported, nor each time again
    where the files belong to root, or PYTHONDONTWRITEBYTECODE is set."""
    folder = site_packages(base / "python")
    sources = [path for package in ("minikafka", "kio", "rich") for path in (folder / package).rglob("*.py")]
    assert len(sources) > 300
    assert [path for path in sources if not Path(cache_from_source(str(path))).is_file()] == []


@pytest.mark.full
def test_an_image_of_brokers_has_a_whole_kafka(as_in_an_image: Path, tmp_path: Path, until: Callable[..., Any]) -> None:
    """Three brokers, a topic of each codec, records there and back, a search by time, a look at it all."""
    command, data = as_in_an_image / "minikafka", tmp_path / "data"
    try:
        started = run(command, "up", "--data", data, "--detach", "--timeout", 120, "--base-port", free_base_port(3))
        assert (started.returncode, started.stderr) == (0, "")
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            assert run(command, "topic", "create", codec, "--data", data).returncode == 0
            compression = ("--client-config", f"compression.codec={codec}")
            sent = run(command, "produce", codec, "--data", data, *compression, stdin="one\ntwo\n")
            assert sent.returncode == 0, sent.stderr
            read = run(command, "consume", codec, "--data", data, "--from-time", "2001-01-01T00:00:00", "--until-end")
            assert (read.returncode, read.stdout) == (0, "one\ntwo\n"), read.stderr
        until(lambda: run(command, "status", "--data", data, "--check"), lambda done: done.returncode == 0)
        assert run(command, "groups", "list", "--data", data).returncode == 0
        dumped = run(command, "dump-log", data / "broker-1" / "data" / "zstd-0", "--records")
        assert (dumped.returncode, dumped.stderr) == (0, "")
    finally:
        assert run(command, "down", "--data", data).returncode == 0


_IMPORT_ALL = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not found.name.endswith("__main__") and not found.name.startswith(tuple(sys.argv[2:]) or "-"):
        importlib.import_module(found.name)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("extra", "works"),
    [
        (
            "",
            ["chaos list", "chaos show demo", "simulate --seeds 1..3", "verify --help", "demo --seconds 1 --no-report"],
        ),
        ("operator", []),
        ("analytics", ["analyze --help"]),
    ],
)
def test_all_that_is_imported_is_installed(environment: Environment, extra: str, works: list[str]) -> None:
    commands = environment(extra)
    for package in EXTRAS[extra]:
        done = run(commands / "python", "-c", _IMPORT_ALL, package, *OF_OTHERS, *APART.get(extra, []))
        assert done.returncode == 0, done.stderr
    for arguments in works:
        done = run(commands / "python", "-m", "minikafka.cli", *arguments.split())
        assert (done.returncode, done.stderr) == (0, ""), arguments
    if not extra:
        done = run(commands / "python", "-m", "minikafka.cli", "chaos", "run", "demo", "--ground", "kubernetes")
        assert done.returncode == 2
        assert "--ground kubernetes needs the extra 'kubernetes': pip install 'minikafka[kubernetes]'" in done.stderr
        done = run(commands / "python", "-m", "minikafka_chaos.controller", "--help")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "pip install 'minikafka[kubernetes,operator]'" in done.stderr
    if extra == "operator":
        assert run(commands / "python", "-m", "minikafka_operator", "--help").returncode == 0
