"""The operator as a process: ``minikafka-operator``, or ``python -m minikafka_operator``."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from minikafka_kube.kinds import CLUSTER, TOPIC, USER
from minikafka_kube.names import MANAGER
from minikafka_kube.process import ProcessOptions, Program, add_options, set_up_logging
from minikafka_kube.process import run as run_program

from minikafka_operator.handlers import operator_settings, registry
from minikafka_operator.planning.planner import OperatorSettings
from minikafka_operator.reconciler import ClusterReconciler
from minikafka_operator.telemetry import OperatorTelemetry


@dataclass(frozen=True)
class OperatorOptions(ProcessOptions):
    """What was asked for on the command line or in the environment."""

    broker_image: str = ""


def parse(arguments: Sequence[str] | None) -> OperatorOptions:
    """Exits with 2 and one line on bad input."""
    parser = argparse.ArgumentParser(
        prog=MANAGER,
        description="Makes MiniKafka clusters on Kubernetes.",
        epilog="example: minikafka-operator --broker-image minikafka/broker --namespace lab",
    )
    parser.add_argument(
        "--broker-image",
        default=os.environ.get("MINIKAFKA_BROKER_IMAGE", ""),
        help="image of brokers whose cluster names none (MINIKAFKA_BROKER_IMAGE)",
    )
    add_options(parser, MANAGER)
    given = parser.parse_args(arguments)
    if not given.broker_image:
        parser.error("--broker-image: required; allowed: an image's name (or set MINIKAFKA_BROKER_IMAGE)")
    return OperatorOptions(**vars(ProcessOptions.of(parser, given)), broker_image=given.broker_image)


async def run(options: OperatorOptions, stop: asyncio.Event, *, started: asyncio.Event | None = None) -> int:
    """Run until ``stop`` is set, or a signal comes. ``started`` is set when it watches. The exit code: 0, 2 or 3."""
    telemetry = OperatorTelemetry()
    program = Program(
        MANAGER,
        telemetry,
        frozenset({CLUSTER.plural, TOPIC.plural, USER.plural}),
        lambda server, identity, leadership: (
            ClusterReconciler(
                server,
                OperatorSettings(options.broker_image),
                telemetry,
                lambda: datetime.now(UTC),
                identity,
                leadership,
            ).reconcile
        ),
        registry,
        lambda everywhere: operator_settings(scan=everywhere),
    )
    return await run_program(program, options, stop, started)


async def _run(options: OperatorOptions) -> int:
    return await run(options, asyncio.Event())


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 stopped, 2 bad input, 3 something else failed."""
    options = parse(arguments)
    set_up_logging(options)
    return asyncio.run(_run(options))
