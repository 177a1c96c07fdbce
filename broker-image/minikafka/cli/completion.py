"""`minikafka completion`: a script that completes commands, options and their values in a shell."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence

from minikafka.cli.main import OFFERED, module_of
from minikafka.command import exits
from minikafka.command.parser import Parser

SHELLS = ("bash", "zsh", "fish")
_BASH = "{function}() {{ compgen -W {names} -- $1; compgen -f -- $1; }}"
_ZSH = "{function}() {{ _alternative {names} 'files:file:_files' }}"
_FISH = "function {function}; printf '%s\\n' {names}; __fish_complete_path (commandline -ct); end"
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
        _complete(parser)
    return top


def _complete(parser: argparse.ArgumentParser) -> None:
    """Mark the arguments that are paths, as their metavar says, and those of which names are known."""
    import shtab

    for action in parser._actions:
        names = list(action.names()) if hasattr(action, "names") else []
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                _complete(below)
        elif names and action.metavar in _FILES:
            action.complete = _names_or_files(action.dest, names)  # type: ignore[attr-defined]
        elif names:
            action.choices = names
        elif action.metavar in _FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]


def _names_or_files(kind: str, names: Sequence[str]) -> dict[str, object]:
    """What shtab puts into its scripts for an argument that is one of these names, or a file."""
    function = f"_minikafka_{kind}_or_file"  # for bash `_file` means: not a space after a folder
    listed = shlex.join(names)
    preamble = {
        "bash": _BASH.format(function=function, names=shlex.quote(listed)),
        "zsh": _ZSH.format(function=function, names=shlex.quote(f"names:{kind}:({listed})")),
        "fish": _FISH.format(function=function, names=listed),
    }
    return {"bash": function, "zsh": function, "fish": f"({function})", "preamble": preamble}
