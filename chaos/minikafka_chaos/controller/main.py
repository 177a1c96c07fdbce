"""The chaos controller as a process: ``python -m minikafka_chaos.controller``."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from minikafka_operator.api_server import ApiServer
from minikafka_operator.credentials import configuration
from minikafka_operator.leadership import Alone, Leadership
from minikafka_operator.loops import Reconcile
from minikafka_operator.process import Options as ProcessOptions
from minikafka_operator.process import Program, add_options, set_up_logging
from minikafka_operator.process import run as run_program
from minikafka_operator.reconciler import Outcome

from minikafka_chaos.controller.agents import PodAgents
from minikafka_chaos.controller.handlers import SCHEDULE_PREFIX, registry, settings
from minikafka_chaos.controller.jobs import Settings
from minikafka_chaos.controller.kinds import EXPERIMENT, MANAGER, SCHEDULE
from minikafka_chaos.controller.reconciler import Agents, Reconciler
from minikafka_chaos.controller.schedule_reconciler import ScheduleReconciler
from minikafka_chaos.controller.telemetry import Telemetry


@dataclass(frozen=True)
class Options(ProcessOptions):
    """What was asked for on the command line or in the environment."""

    jobs: Settings = field(default_factory=lambda: Settings(""))


def parse(arguments: Sequence[str] | None) -> Options:
    """Exits with 2 and one line on bad input."""
    environment = os.environ
    parser = argparse.ArgumentParser(
        prog="python -m minikafka_chaos.controller", description="Carries out ChaosExperiments and ChaosSchedules."
    )
    parser.add_argument(
        "--runner-image",
        default=environment.get("MINIKAFKA_CHAOS_IMAGE", ""),
        help="image of the Jobs that run experiments (MINIKAFKA_CHAOS_IMAGE)",
    )
    parser.add_argument(
        "--runner-pull-policy", default="", metavar="POLICY", help="when it is pulled (default: as Kubernetes does)"
    )
    parser.add_argument(
        "--runner-pull-secret", action="append", default=[], metavar="NAME", help="a secret to pull it with; repeatable"
    )
    parser.add_argument(
        "--runner-account",
        default=Settings("").account,
        metavar="NAME",
        help=f"service account of the Jobs, in each namespace (default: {Settings('').account})",
    )
    parser.add_argument(
        "--runs-claim",
        default="",
        metavar="NAME",
        help="claim for runs, in each namespace (default: kept with the pod)",
    )
    add_options(parser, MANAGER)
    given = parser.parse_args(arguments)
    if not given.runner_image:
        parser.error("--runner-image: required; allowed: an image's name (or set MINIKAFKA_CHAOS_IMAGE)")
    if given.runner_pull_policy not in ("", "Always", "IfNotPresent", "Never"):
        parser.error(f"--runner-pull-policy={given.runner_pull_policy}: allowed: Always, IfNotPresent, Never")
    jobs = Settings(
        given.runner_image,
        given.runner_pull_policy,
        tuple(given.runner_pull_secret),
        given.runner_account,
        given.runs_claim,
    )
    return Options(**vars(ProcessOptions.of(parser, given)), jobs=jobs)


def reconcile_both(
    server: ApiServer,
    agents: Agents,
    jobs: Settings,
    telemetry: Telemetry,
    identity: str,
    leadership: Leadership | Alone,
) -> Reconcile:
    """What looks at one experiment, or at one schedule."""

    def now() -> datetime:
        return datetime.now(UTC)

    experiments = Reconciler(server, agents, jobs, telemetry, now, identity, leadership)
    schedules = ScheduleReconciler(server, telemetry, now, identity, leadership)

    async def reconcile(namespace: str, name: str) -> Outcome:
        if name.startswith(SCHEDULE_PREFIX):
            return await schedules.reconcile(namespace, name.removeprefix(SCHEDULE_PREFIX))
        return await experiments.reconcile(namespace, name)

    return reconcile


async def run(
    options: Options, stop: asyncio.Event, *, started: asyncio.Event | None = None, agents: Agents | None = None
) -> int:
    """Run until ``stop`` is set, or a signal comes. ``started`` is set when it watches. The exit code: 0, 2 or 3."""
    telemetry = Telemetry()
    way = agents or PodAgents(configuration)
    program = Program(
        MANAGER,
        telemetry,
        frozenset({EXPERIMENT.plural, SCHEDULE.plural}),
        lambda server, identity, leadership: reconcile_both(server, way, options.jobs, telemetry, identity, leadership),
        registry,
        settings,
    )
    return await run_program(program, options, stop, started)


async def _run(options: Options) -> int:
    return await run(options, asyncio.Event())


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 stopped, 2 bad input, 3 something else failed."""
    options = parse(arguments)
    set_up_logging(options)
    return asyncio.run(_run(options))
