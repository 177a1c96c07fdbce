"""`minikafka down`: shut a local cluster down cleanly; its data stays."""

from __future__ import annotations

import argparse
import sys

from minikafka.cli import arguments
from minikafka.cli.output import print_json
from minikafka.command import exits
from minikafka.command.exits import CommandError
from minikafka.local.cluster import DOWN_TIMEOUT, LocalCluster
from minikafka.local.errors import BadRequest, ClusterError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--data", required=True, metavar="DIR", help="as given to `minikafka up`")
    parser.add_argument(
        "--timeout",
        type=arguments.seconds,
        default=DOWN_TIMEOUT,
        metavar="SECONDS",
        help="for a clean shutdown, before the broker is killed (default 15)",
    )
    arguments.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """SIGTERM, wait, SIGKILL with a warning; exit code 0 when nothing runs any more."""
    cluster = LocalCluster(args.data)
    try:
        running = [broker.id for broker in cluster.info().brokers if broker.pid is not None]
        killed = cluster.down(args.timeout)
    except BadRequest as error:
        raise exits.bad_input(str(error)) from error
    except ClusterError as error:
        raise CommandError(exits.NO, str(error)) from error
    for broker in killed:
        print(f"minikafka down: broker {broker} did not shut down in time and was killed", file=sys.stderr)
    if args.json:
        print_json({"stopped": running, "killed": killed})
    else:
        print(f"stopped {len(running)} broker(s)" if running else "no broker was running")
    return exits.OK
