"""`minikafka broker`: one broker in the foreground. Imports the server and its configuration, no client."""

from __future__ import annotations

import argparse

from minikafka.cli import arguments
from minikafka.cli.exits import bad_input


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


def run(args: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT; the exit code of the server."""
    from minikafka.config import BrokerConfig, ConfigError

    try:
        config = BrokerConfig.from_file(args.config, arguments.settings(args.override))
    except ConfigError as error:
        raise bad_input(str(error)) from error
    from minikafka.server.main import run as serve

    return serve(config)
