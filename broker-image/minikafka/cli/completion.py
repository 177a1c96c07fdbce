"""`minikafka completion`: a script that completes commands, options and their values in a shell."""

from __future__ import annotations

import argparse

from minikafka.cli.main import OFFERED, module_of
from minikafka.command import exits
from minikafka.command.parser import Parser

SHELLS = ("bash", "zsh", "fish")
_FOLDERS = frozenset({"DIR", "RUN_DIR"})
_FILES = frozenset({"FILE", "FILE|DIR"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the shell."""
    parser.add_argument("shell", choices=SHELLS, help="for which shell")


def run(args: argparse.Namespace) -> int:
    """Print the script; it knows the commands whose extras are installed."""
    import shtab

    print(shtab.complete(command_line(), shell=args.shell))
    return exits.OK


def command_line() -> Parser:
    """Make one parser of all subcommands that people call, as far as what they need is installed."""
    top = Parser(prog="minikafka")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    for name, subcommand in OFFERED.items():
        try:
            module = module_of(subcommand)
        except ModuleNotFoundError:
            continue
        parser = commands.add_parser(name, help=subcommand.summary, description=subcommand.summary)
        module.add_arguments(parser)
        _complete_paths(parser)
    return top


def _complete_paths(parser: argparse.ArgumentParser) -> None:
    """Mark the arguments that are paths: their metavar says so."""
    import shtab

    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                _complete_paths(below)
        elif action.metavar in _FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
