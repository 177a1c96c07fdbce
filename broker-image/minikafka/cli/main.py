"""Entry point of the `minikafka` command: finds the subcommand's module and imports only that.

`minikafka broker` is what every container runs, so nothing here, nor on its way, imports a client library.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import errno
import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import NamedTuple, NoReturn, Protocol, cast

from minikafka.cli import exits
from minikafka.cli.exits import CommandError


class Subcommand(NamedTuple):
    """Where a subcommand lives, its line in the help, and the extra of the distribution that it needs."""

    module: str
    summary: str
    extra: str | None = None


SUBCOMMANDS = {
    "demo": Subcommand(
        "minikafka_chaos.commands.demo", "a cluster, a workload, faults, a verdict: all in one go", "chaos"
    ),
    "up": Subcommand("minikafka.cli.up", "start a cluster of brokers on this machine"),
    "down": Subcommand("minikafka.cli.down", "stop a cluster that up started; its data stays"),
    "status": Subcommand("minikafka.cli.status", "brokers, controller, and every replica of every partition"),
    "topic": Subcommand("minikafka.cli.topic", "create, list, describe, delete, alter topics"),
    "produce": Subcommand("minikafka.cli.produce", "send the lines of standard input as records"),
    "consume": Subcommand("minikafka.cli.consume", "print records as lines"),
    "groups": Subcommand("minikafka.cli.groups", "consumer groups: list, describe, reset-offsets, delete"),
    "dump-log": Subcommand("minikafka.cli.dump_log", "batches, epochs and CRC verdicts of log files"),
    "broker": Subcommand("minikafka.cli.broker", "run one broker in the foreground"),
    "agent": Subcommand("minikafka.agent.command", "break the broker of the same pod, and end what was broken"),
    "chaos": Subcommand("minikafka_chaos.commands.chaos", "run, list and show scenarios of faults", "chaos"),
    "simulate": Subcommand(
        "minikafka_chaos.commands.simulate", "random schedules in simulation, all invariants", "chaos"
    ),
    "verify": Subcommand(
        "minikafka_chaos.commands.verify", "workload and verdict on any Kafka-compatible cluster", "chaos"
    ),
    "analyze": Subcommand("minikafka_analytics.commands.analyze", "Spark analysis and report of runs", "analytics"),
}

_WIDTH = max(map(len, SUBCOMMANDS)) + 2


class SubcommandModule(Protocol):
    """What each subcommand's module offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare options and positional arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; the exit code, or a :class:`CommandError`."""


class Parser(argparse.ArgumentParser):
    """An argument parser that answers bad input with one line, and takes no abbreviated options."""

    def __init__(self, **options: object) -> None:
        options.setdefault("allow_abbrev", False)
        super().__init__(**options)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Bad input: exit code 2."""
        raise CommandError(exits.BAD_INPUT, f"{message.removeprefix('argument ')} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code. Never raises, except ``SystemExit`` for ``--help``."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = f"minikafka {arguments[0]}" if arguments and arguments[0] in SUBCOMMANDS else "minikafka"
    interrupts = _count_interrupts()
    try:
        try:
            code = _dispatch(arguments)
        except SystemExit:  # of --help
            _flush()
            raise
        _flush()
        return code
    except CommandError as error:
        return _fail(f"{name}: {error}", error.code)
    except KeyboardInterrupt:
        _let_go()
        return exits.INTERRUPTED
    except BrokenPipeError:
        _let_go()
        return exits.BROKEN_PIPE
    except Exception as error:
        if interrupts:
            # Raised inside C code (an extension that is being imported, a client's callback), it may come out as anything.
            _let_go()
            return exits.INTERRUPTED
        if os.environ.get("MINIKAFKA_TRACEBACK"):
            raise
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return _fail(f"{name}: no space left on the device that it writes to", exits.UNKNOWN)
        what = " ".join(str(error).split())
        hint = "MINIKAFKA_TRACEBACK=1 shows where"
        return _fail(f"{name}: internal error: {type(error).__name__}: {what} ({hint})", exits.UNKNOWN)


def _count_interrupts() -> list[int]:
    """A list that gets a member with each Ctrl-C, which goes on to be a ``KeyboardInterrupt`` as always."""
    seen: list[int] = []

    def interrupted(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        signal.default_int_handler(number, frame)

    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupted)
    return seen


def _fail(line: str, code: int) -> int:
    _let_go()
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr)
    return code


def _flush() -> None:
    if sys.stdout is not None:  # as it is where the shell closed it: `>&-`
        sys.stdout.flush()


def _let_go() -> None:
    """What was printed goes out if somebody takes it; the interpreter's own flush at exit must not complain, and end with 120."""
    try:
        _flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        print(_help())
        return exits.BAD_INPUT
    first = arguments[0]
    if first in ("-h", "--help", "help"):
        print(_help())
        return exits.OK
    if first in ("-V", "--version"):
        from minikafka import __version__

        print(f"minikafka {__version__}")
        return exits.OK
    if first not in SUBCOMMANDS:
        close = difflib.get_close_matches(first, SUBCOMMANDS, n=1)
        hint = f"did you mean {close[0]}?" if close else "see minikafka --help"
        raise exits.bad_input(f"there is no command {first!r}: {hint}")
    subcommand = SUBCOMMANDS[first]
    try:
        module = cast("SubcommandModule", importlib.import_module(subcommand.module))
        parser = Parser(
            prog=f"minikafka {first}", description=subcommand.summary[0].upper() + subcommand.summary[1:] + "."
        )
        module.add_arguments(parser)
        return module.run(parser.parse_args(arguments[1:]))
    except ModuleNotFoundError as error:  # at the top of the module, or where it imports what it needs only now
        package, _, module_of_ours = (error.name or "").partition(".")
        if subcommand.extra is None or (module_of_ours and package.startswith("minikafka")):
            raise
        extra = subcommand.extra
        raise exits.bad_input(f"needs the extra {extra!r}: pip install 'minikafka[{extra}]' ({error})") from error


def _help() -> str:
    lines = [
        "usage: minikafka COMMAND [options]",
        "",
        "A Kafka-compatible replicated log that is made to be broken.",
        "",
    ]
    lines += [f"  {name:<{_WIDTH}}{subcommand.summary}" for name, subcommand in SUBCOMMANDS.items()]
    lines += [
        "",
        "minikafka COMMAND --help tells more. --json prints data for programs.",
        "Exit codes: 0 ok, 1 the answer is no, 2 bad input, 3 could not tell.",
    ]
    return "\n".join(lines)
