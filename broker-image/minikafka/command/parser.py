"""Parsers of command lines: bad input is one line, or one JSON object for a program that asks."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from typing import NoReturn

from minikafka.command import exits
from minikafka.command.exits import CommandError


class Parser(argparse.ArgumentParser):
    """An argument parser that answers bad input with one line, and takes no abbreviated options.

    Its help ends with an example, a whole line for a shell.
    """

    def __init__(self, *, example: str = "", **options: object) -> None:
        options.setdefault("allow_abbrev", False)
        super().__init__(**options)  # type: ignore[arg-type]
        self.example = example

    def format_help(self) -> str:
        """Make the help; the example is not wrapped, so that it can be copied."""
        return super().format_help() + (f"\nexample:\n  {self.example}\n" if self.example else "")

    def error(self, message: str) -> NoReturn:
        """Bad input: exit code 2."""
        raise CommandError(exits.BAD_INPUT, f"{message.removeprefix('argument ')} (see {self.prog} --help)")


def offer(action: argparse.Action, names: Callable[[], Sequence[str]]) -> None:
    """Have a shell complete an argument by these names, beside files where its metavar says so (`minikafka completion`)."""
    action.names = names  # type: ignore[attr-defined]


class AgentParser(Parser):
    """The parser of an agent, which answers bad arguments as every other bad request: by JSON on standard output."""

    def error(self, message: str) -> NoReturn:
        """Bad input: exit code 2."""
        answer = {"error": f"{message.removeprefix('argument ')} (see {self.prog} --help)"}
        print(json.dumps(answer, separators=(",", ":")), flush=True)
        raise SystemExit(exits.BAD_INPUT)
