"""What pages print for a reader to type: commands, what they answer, and files to write; and how to do as a reader does.

A block in which lines begin with ``$`` has commands, each followed by its output. In the output ``...`` stands for
whatever is there: lines, where it is alone in one. Times, ports, process ids and other numbers of four digits and more,
dates, ids of clusters, and who is the controller differ from one run to the next, and count as alike. A block that
follows "into `NAME`:" is the text of a file.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from minikafka.cli.arguments import DEFAULT_BOOTSTRAP

ROOT = Path(__file__).parents[1]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^    .*\n)+", re.MULTILINE)
FILE = re.compile(r"into\s+`([\w./-]+)`:\n\n\Z")
PROMPT = "$ "
SHELL = ("", "sh", "bash", "console")
OPERATORS = frozenset("|&;<>()")
DEADLINE_S = 900

VARYING = [
    (re.compile(r" +"), " "),
    (re.compile(r"─+"), "─"),
    (re.compile(r"^ ?(\d+) \d+ (?=127\.0\.0\.1:)", re.MULTILINE), r"\1 PID "),
    (re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+(?:\+00:00|Z)?"), "TIME"),
    (re.compile(r"\d{8}-\d{6}"), "RUN"),
    (re.compile(r"\b\d+\.\d+ s\b"), "SECONDS"),
    (re.compile(r"\b\d{4,6}\b|\b\d{1,3}(?:,\d{3})+\b"), "NUMBER"),
    (re.compile(r"(?<=cluster )[\w-]{22}"), "ID"),
    (re.compile(r",? controller\b(?: \d+)?"), ""),
]


@dataclass(frozen=True)
class Typed:
    """A command, and the output that is printed below it."""

    command: str
    output: str


@dataclass(frozen=True)
class Written:
    """A file that the reader writes."""

    name: str
    text: str


def steps(page: str) -> list[Typed | Written]:
    """What a page has its reader do, in order."""
    found: list[Typed | Written] = []
    for block in FENCED.finditer(page):
        if named := FILE.search(page[: block.start()]):
            found.append(Written(named[1], block[2]))
        elif block[1] in SHELL and block[2].startswith(PROMPT):
            found += _typed(block[2])
    return found


def _typed(block: str) -> Iterator[Typed]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.replace("\\\n", " ").partition("\n")
        yield Typed(command, output)


def commands(page: str) -> Iterator[str]:
    """Every line of a page's blocks that may be typed into a shell."""
    blocks = [text for language, text in FENCED.findall(page) if language in SHELL]
    blocks += INDENTED.findall(FENCED.sub("", page))
    for block in blocks:
        prompted = PROMPT in block and re.search(r"^ *\$ ", block, re.MULTILINE)
        for line in block.replace("\\\n", " ").splitlines():
            if not prompted:
                yield line.strip()
            elif line.strip().startswith(PROMPT):
                yield line.strip().removeprefix(PROMPT)


def words(line: str) -> list[list[str]]:
    """The simple commands of a line, each as its words; a line that is none has no commands."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    try:
        for word in lexer:
            if OPERATORS.issuperset(word):
                found.append([])
            else:
                found[-1].append(word)
    except ValueError:  # a quote that does not end: prose
        return []
    return [each for each in found if each]


def alike(text: str) -> str:
    """Replace what differs from one run to the next."""
    for varying, name in VARYING:
        text = varying.sub(name, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


def expected(output: str) -> re.Pattern[str]:
    """Return what an output has to look like as a whole."""
    lines = alike(output).split("\n")
    parts = [r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n" for line in lines]
    return re.compile("".join(parts) if any(lines) else "")


class Reader:
    """Somebody who does in a shell and a folder of their own what a page says, on ports that are free."""

    def __init__(self, folder: Path, base_port: int) -> None:
        self._folder = folder
        self._substitutes = {
            DEFAULT_BOOTSTRAP: f"127.0.0.1:{base_port}",
            "/tmp/kafka": str(folder / "kafka"),
        }
        program = folder / "bin" / "minikafka"
        program.parent.mkdir()
        program.write_text(PROGRAM.format(python=sys.executable, port=base_port))
        program.chmod(0o755)
        self._environment = os.environ | {
            "PATH": os.pathsep.join([str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "COLUMNS": "100",
            "HOME": str(folder),
        }
        self._home = folder / "home"
        self._home.mkdir()

    def does(self, page: str) -> list[str]:
        """Do all of it in one shell; what went otherwise than printed."""
        done = steps(page)
        script = ["mark() { local code=$?; printf '\\n\\001%s\\n' $code; return $code; }"]
        for step in done:
            if isinstance(step, Written):
                file = self._home / step.name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(self._here(step.text))
            else:
                script += [self._here(step.command), "mark"]
        (self._folder / "typed.sh").write_text("\n".join(script) + "\n")
        ran = subprocess.run(
            ["bash", str(self._folder / "typed.sh")], cwd=self._home, env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
        typed = [step for step in done if isinstance(step, Typed)]
        outcomes = re.findall(r"(.*?)\n\x01(\d+)\n", ran.stdout, re.DOTALL)
        assert len(outcomes) == len(typed), ran.stdout
        asked = [following.command == "echo $?" for following in [*typed[1:], Typed("", "")]]
        return [
            f"$ {step.command}\n(exit code {code}, printed:)\n{step.output}\n(there was:)\n{output}"
            for step, (output, code), asks in zip(typed, outcomes, asked, strict=True)
            if (code != "0" and not asks) or not expected(step.output).fullmatch(alike(output) + "\n" if output else "")
        ]

    def _here(self, text: str) -> str:
        for printed, here in self._substitutes.items():
            text = text.replace(printed, here)
        return text

    def leaves(self, page: str) -> None:
        """Stop the clusters that the page has started."""
        for step in steps(page):
            for command in words(step.command) if isinstance(step, Typed) else []:
                if command[:2] == ["minikafka", "up"]:
                    data = self._here(command[command.index("--data") + 1])
                    subprocess.run(["minikafka", "down", "--data", data], cwd=self._home, env=self._environment,
                                   capture_output=True, timeout=DEADLINE_S, check=False)  # fmt: skip


PROGRAM = """#!/bin/sh
case "$1 $*" in
  up\\ *) shift; set -- up --base-port {port} "$@" ;;
  *--data*|*--bootstrap*) ;;
  topic\\ *|produce\\ *|consume\\ *|status\\ *|groups\\ *|dlq\\ *) set -- "$@" --bootstrap 127.0.0.1:{port} ;;
esac
exec {python} -m minikafka.cli "$@"
"""
"""`minikafka` on other ports than its own, which somebody may use on this machine."""
