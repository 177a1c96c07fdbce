"""`minikafka broker`: one broker in the foreground. Imports the server and its configuration, no client."""

from __future__ import annotations

import argparse
import gc
from pathlib import Path

from minikafka.cli import arguments
from minikafka.command import exits
from minikafka.command.exits import bad_input


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--config", required=True, metavar="FILE", help="Kafka's server.properties format")
    parser.add_argument(
        "--override",
        action="append",
        type=arguments.key_value,
        default=[],
        metavar="KEY=VALUE",
        help="instead of what the file says (repeatable)",
    )
    parser.add_argument(
        "--gate",
        metavar="FILE",
        help="wait, with nothing opened, while this file holds an `until` (Unix seconds) that has not come",
    )
    parser.add_argument(
        "--while-stdin",
        action="store_true",
        help="die, as by kill -9, when standard input ends: with the program that holds its other end",
    )


def run(args: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT; the exit code of the server."""
    gc.disable()  # looking for garbage among modules takes a fifteenth of a start, and finds none
    from minikafka.config import BrokerConfig, ConfigError
    from minikafka.server.main import run as serve

    gc.enable()
    if args.gate is not None and not _passes(Path(args.gate)):
        return exits.OK
    try:
        config = BrokerConfig.from_file(args.config, arguments.settings(args.override))
    except ConfigError as error:
        raise bad_input(str(error)) from error
    return serve(config, while_stdin=args.while_stdin)


def _passes(path: Path) -> bool:
    """Wait at the gate, with all modules loaded; False when the process was told to end meanwhile."""
    from minikafka.agent.gate import wait_at_gate
    from minikafka.telemetry.console import tell

    return wait_at_gate(path, tell)
