"""The option ``--command-config``: how a command's clients connect, and as whom, as Kafka's own tools are told."""

from __future__ import annotations

import argparse

from minikafka.client.security import PLAINTEXT, ClientSecurity


def add_command_config(parser: argparse._ActionsContainer, default: ClientSecurity | None = PLAINTEXT) -> None:
    """Declare it; what the file says is ``args.security``."""
    parser.add_argument(
        "--command-config",
        dest="security",
        type=client_security,
        default=default,
        metavar="FILE",
        help="a properties file with how to connect and as whom, as for Kafka's tools (security.protocol, ssl.*, sasl.*)",
    )


def client_security(path: str) -> ClientSecurity:
    """Return what a file says of how to connect."""
    from minikafka.config.client_properties import read_client_security  # slow to import
    from minikafka.config.keys import ConfigError

    try:
        return read_client_security(path)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
