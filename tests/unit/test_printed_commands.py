"""Commands that pages print: each is one that there is, with options, scenarios and files that there are."""

from __future__ import annotations

import re
from argparse import Namespace

import pytest
from minikafka.cli import main as entry
from minikafka.client.security import PLAINTEXT
from minikafka.command.exits import CommandError
from minikafka.config import client_properties
from minikafka.local.cluster import LocalCluster
from minikafka.local.layout import ClusterRecord
from minikafka_chaos.errors import BadScenario
from minikafka_chaos.scenario import library

from tests.forms import for_each
from tests.printed import ROOT, Typed, Written, alike, commands, expected, steps, words
from tests.unit.test_documents import ALL_PAGES, TOP

PAGES = [page for page in ALL_PAGES if page != "CHANGELOG.md" and not page.startswith("docs/decisions/")]
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
PLACEHOLDER = re.compile(r"\.\.\.|[A-Z]|\*|\$|[{}]")
"""What stands for a name of the reader's own."""


@pytest.fixture(autouse=True)
def _a_cluster_in_every_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """``--data DIR`` asks the folder for its brokers, and ``--command-config`` reads its file, when they are parsed."""
    monkeypatch.setattr(LocalCluster, "record", ClusterRecord("a" * 22, 3, 19092))
    monkeypatch.setattr(client_properties, "read_client_security", lambda path: PLAINTEXT)


def wrong_with(command: list[str], written: set[str]) -> str | None:
    """Say what is wrong with a command, if anything is."""
    if command[:1] == ["minikafka"] and len(command) > 1 and not command[1].startswith("-"):
        if command[1] not in entry.SUBCOMMANDS:
            return f"no command {command[1]}"
        try:
            parsed = entry.parser_of(command[1]).parse_args(command[2:])
            _find_documents(command[1], parsed, written)
        except (CommandError, BadScenario) as error:
            return str(error)
        except SystemExit:  # of --help
            pass
    if command[0] == "make" and not set(command[1:2]) <= TARGETS:
        return f"no target {command[1]}"
    gone = [
        word for word in command
        if "/" in word and word.partition("/")[0] in TOP and not PLACEHOLDER.search(word) and word not in written
        and not (ROOT / word.partition("::")[0]).exists() and not (command[0] == "kubectl" and word.startswith("deploy/"))
    ]  # fmt: skip
    return f"not there: {', '.join(gone)}" if gone else None


def _find_documents(name: str, parsed: Namespace, written: set[str]) -> None:
    if name == "chaos" and parsed.action in ("run", "show") and parsed.scenario not in written:
        if not PLACEHOLDER.search(parsed.scenario):
            library.find(parsed.scenario, parsed.settings)
    elif name == "chaos" and parsed.action == "matrix" and not PLACEHOLDER.search(parsed.matrix):
        library.matrix_path(parsed.matrix)


@for_each(PAGES)
def test_what_a_page_has_its_reader_type_can_be_typed(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    written = {step.name for step in steps(text) if isinstance(step, Written)}
    found = [
        (line, wrong) for line in commands(text) for command in words(line) if (wrong := wrong_with(command, written))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("minikafka topc list", "no command topc"),
        ("seq 5 | minikafka produce orders --ack all", "--ack"),
        ("minikafka chaos run kip-102", "kip-102"),
        ("minikafka chaos run kip-279 --set workload.ack=All", "workload.ack"),
        ("minikafka chaos run mine.yaml", "mine.yaml"),
        ("minikafka chaos matrix six-ways", "six-ways"),
        ("make tset && ls", "no target tset"),
        ("kubectl apply -f chaos/scenarios/demmo.yaml", "not there: chaos/scenarios/demmo.yaml"),
    ],
)
def test_a_mistake_in_a_page_is_noticed(line: str, wrong: str) -> None:
    first, *_ = filter(None, (wrong_with(command, set()) for command in words(line)))
    assert wrong in first
    assert list(commands(f"Some prose.\n\n    {line}\n\n```console\n$ {line}\nan answer\n```\n")) == [line, line]


PAGE = """Put this into `bill.py`:

```python
print(1)
```

```console
$ minikafka status \\
    --check
...
healthy: 2 partition(s), all in sync
$ echo 2 | minikafka produce a
a: 1 acknowledged
```
"""


def test_a_page_is_what_its_reader_does() -> None:
    assert steps(PAGE) == [
        Written("bill.py", "print(1)\n"),
        Typed("minikafka status      --check", "...\nhealthy: 2 partition(s), all in sync\n"),
        Typed("echo 2 | minikafka produce a", "a: 1 acknowledged\n"),
    ]


@pytest.mark.parametrize(
    ("printed", "there", "same"),
    [
        ("a: 1 acknowledged", "a: 1 acknowledged", True),
        ("a: 1 acknowledged", "a: 2 acknowledged", False),
        ("   2.1 s  leader 1 (after 4.0 s)", "  12.3 s  leader 1 (after 0.1 s)", True),
        ("   2.1 s  leader 1 (after 4.0 s)", "   2.1 s  leader 2 (after 4.0 s)", False),
        ("1  27001  127.0.0.1:19092", "    1   612  127.0.0.1:24570", True),
        ("1  27001  127.0.0.1:19092", "    2   612  127.0.0.1:24570", False),
        ("...\nb", "a\na\nb", True),
        ("...\nb", "a\nb\nc", False),
        ("Failed: ...\n...", "Failed: 1 lost\nmore", True),
        ("Failed: ...", "Passed: none lost", False),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_what_is_printed_is_what_there_was(printed: str, there: str, same: bool) -> None:
    assert bool(expected(printed).fullmatch(alike(there) + "\n" if there else "")) == same
