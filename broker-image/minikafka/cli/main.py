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
import sys
from collections.abc import Sequence
from typing import NamedTuple, Protocol, cast

from minikafka.cli.ctrl_c import CtrlC
from minikafka.command import exits
from minikafka.command.exits import CommandError
from minikafka.command.parser import Parser


class Subcommand(NamedTuple):
    """Where a subcommand lives, its line in the help, and an example of it."""

    module: str
    summary: str
    example: str
    extra: str | None = None
    """Of the distribution, where it needs one."""
    offered: bool = True
    """False: no person calls it, so the help of all commands leaves it out."""
    instead: str = ""
    """What it does without the extra."""


SUBCOMMANDS = {
    "demo": Subcommand(
        "minikafka_chaos.commands.demo",
        "a cluster, a workload, faults, a verdict: all in one go",
        "minikafka demo --seconds 60",
    ),
    "up": Subcommand(
        "minikafka.cli.up",
        "start a cluster of brokers on this machine",
        "minikafka up --data /tmp/kafka --brokers 3 --detach",
    ),
    "down": Subcommand(
        "minikafka.cli.down", "stop a cluster that up started; its data stays", "minikafka down --data /tmp/kafka"
    ),
    "status": Subcommand(
        "minikafka.cli.status",
        "brokers, controller, and every replica of every partition",
        "minikafka status --check",
    ),
    "topic": Subcommand(
        "minikafka.cli.topic",
        "create, list, describe, delete, alter topics",
        "minikafka topic create orders --partitions 3",
    ),
    "produce": Subcommand(
        "minikafka.cli.produce", "send the lines of standard input as records", "seq 5 | minikafka produce orders"
    ),
    "consume": Subcommand(
        "minikafka.cli.consume", "print records as lines", "minikafka consume orders --from-beginning --until-end"
    ),
    "groups": Subcommand(
        "minikafka.cli.groups",
        "consumer groups: list, describe, reset-offsets, delete",
        "minikafka groups describe billing",
    ),
    "dlq": Subcommand(
        "minikafka.cli.dlq",
        "dead letters: list, show, replay",
        "minikafka dlq replay orders --execute",
    ),
    "dump-log": Subcommand(
        "minikafka.cli.dump_log",
        "batches, epochs and CRC verdicts of log files",
        "minikafka dump-log /tmp/kafka/broker-0/data/orders-0 --summary",
    ),
    "charts": Subcommand(
        "minikafka_kube.charts",
        "print where the Helm charts are; the CRDs are beside them",
        "minikafka charts",
    ),
    "completion": Subcommand(
        "minikafka.cli.completion",
        "print a script that completes commands and options in bash, zsh or fish",
        "minikafka completion bash",
    ),
    "broker": Subcommand(
        "minikafka.cli.broker",
        "run one broker in the foreground",
        "minikafka broker --config server.properties --override node.id=1",
    ),
    "agent": Subcommand(
        "minikafka.agent.command",
        "break the broker of the same pod, and end what was broken",
        "minikafka agent state",
        offered=False,  # the container chaos-agent of a pod runs it
    ),
    "chaos": Subcommand(
        "minikafka_chaos.commands.chaos", "run, list and show scenarios of faults", "minikafka chaos list"
    ),
    "simulate": Subcommand(
        "minikafka_simulator.commands.simulate",
        "random schedules in simulation, all invariants",
        "minikafka simulate --seeds 1..50",
    ),
    "verify": Subcommand(
        "minikafka_chaos.commands.verify",
        "workload and verdict on any Kafka-compatible cluster",
        "minikafka verify --bootstrap 127.0.0.1:19092 --acks all --seconds 20",
    ),
    "watch": Subcommand(
        "minikafka_chaos.commands.watch",
        "replication as it happens, or as it was in a run: in the terminal or as a page",
        "minikafka watch --data /tmp/kafka",
        "watch",
        instead="; --web 0 shows the same as a page, without it",
    ),
    "analyze": Subcommand(
        "minikafka_analytics.commands.analyze",
        "Spark analysis and report of runs",
        "minikafka analyze runs/20260101-120000-demo",
        "analytics",
    ),
}

OFFERED = {name: subcommand for name, subcommand in SUBCOMMANDS.items() if subcommand.offered}
_WIDTH = max(map(len, OFFERED)) + 2


class SubcommandModule(Protocol):
    """What each subcommand's module offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare options and positional arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; the exit code, or a :class:`CommandError`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code. Never raises, except ``SystemExit`` for ``--help``."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = f"minikafka {arguments[0]}" if arguments and arguments[0] in SUBCOMMANDS else "minikafka"
    with CtrlC() as ctrl_c:
        return _ended(name, arguments, ctrl_c)


def _ended(name: str, arguments: list[str], ctrl_c: CtrlC) -> int:
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
        if ctrl_c.came:
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
        close = difflib.get_close_matches(first, OFFERED, n=1)
        hint = f"did you mean {close[0]}?" if close else "see minikafka --help"
        raise exits.bad_input(f"there is no command {first!r}: {hint}")
    subcommand = SUBCOMMANDS[first]
    try:
        args = parser_of(first).parse_args(arguments[1:])
        return module_of(subcommand).run(args)
    except ModuleNotFoundError as error:  # at the top of the module, or where it imports what it needs only now
        package, _, module_of_ours = (error.name or "").partition(".")
        ours, extra = package.startswith("minikafka"), subcommand.extra
        if (ours and module_of_ours) or not (ours or extra):
            raise
        if extra:
            need = f"the extra {extra!r}: pip install 'minikafka[{extra}]'{subcommand.instead}"
        else:
            need = "more than this image has: pip install minikafka"
        raise exits.bad_input(f"needs {need} ({error})") from error


def module_of(subcommand: Subcommand) -> SubcommandModule:
    """Import the module of a subcommand. Raises ModuleNotFoundError where what it needs is not installed."""
    return cast("SubcommandModule", importlib.import_module(subcommand.module))


def parser_of(name: str) -> Parser:
    """Make the parser of a subcommand, whose module is imported."""
    subcommand = SUBCOMMANDS[name]
    parser = Parser(
        prog=f"minikafka {name}",
        description=subcommand.summary[0].upper() + subcommand.summary[1:] + ".",
        example=subcommand.example,
    )
    module_of(subcommand).add_arguments(parser)
    return parser


def _help() -> str:
    lines = [
        "usage: minikafka COMMAND [options]",
        "",
        "A Kafka-compatible replicated log that is made to be broken.",
        "",
    ]
    lines += [f"  {name:<{_WIDTH}}{subcommand.summary}" for name, subcommand in OFFERED.items()]
    lines += [
        "",
        "minikafka COMMAND --help tells more. --json prints data for programs.",
        "Exit codes: 0 ok, 1 the answer is no, 2 bad input, 3 could not tell.",
        "",
        "example:",
        "  minikafka demo",
    ]
    return "\n".join(lines)
