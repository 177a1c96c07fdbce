"""The chaos controller as a process: ``python -m minikafka_chaos.controller``."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from minikafka_kube.api_server import ApiServer
from minikafka_kube.credentials import configuration
from minikafka_kube.leadership import Alone, Leadership
from minikafka_kube.loops import Reconcile, ReconcileResult
from minikafka_kube.process import ProcessOptions, Program, add_options, set_up_logging
from minikafka_kube.process import run as run_program

from minikafka_chaos.controller.agents import PodAgents
from minikafka_chaos.controller.handlers import SCHEDULE_PREFIX, registry, settings
from minikafka_chaos.controller.jobs import SPREADS, JobSettings, ReportSettings
from minikafka_chaos.controller.prometheus_urls import IN_CLUSTER, BadEntry, checked
from minikafka_chaos.controller.reconciler import Agents, ExperimentReconciler
from minikafka_chaos.controller.schedules.reconciler import ScheduleReconciler
from minikafka_chaos.controller.telemetry import ControllerTelemetry
from minikafka_chaos.experiment.kinds import EXPERIMENT, MANAGER, SCHEDULE


@dataclass(frozen=True)
class ControllerOptions(ProcessOptions):
    """What was asked for on the command line or in the environment."""

    jobs: JobSettings = field(default_factory=lambda: JobSettings(""))


def parse(arguments: Sequence[str] | None) -> ControllerOptions:
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
        default=JobSettings("").account,
        metavar="NAME",
        help=f"service account of the Jobs, in each namespace (default: {JobSettings('').account})",
    )
    parser.add_argument(
        "--runs-claim",
        default="",
        metavar="NAME",
        help="claim for runs, in each namespace (default: kept with the pod)",
    )
    parser.add_argument(
        "--prometheus-url",
        action="append",
        metavar="URL",
        help="a Prometheus that probes may ask, by the beginning of its address; *.DOMAIN for all names below; repeatable "
        f"(default: {' '.join(IN_CLUSTER)}); an empty one: none",
    )
    parser.add_argument(
        "--network-namespace",
        default="",
        metavar="NAME",
        help="where the network agents are (default: there are none, and faults of the network are refused)",
    )
    report = ReportSettings("")
    parser.add_argument(
        "--report-image", default="", metavar="IMAGE", help="with Spark, for reports of runs (default: none are made)"
    )
    parser.add_argument(
        "--report-pull-policy", default="", metavar="POLICY", help="when it is pulled (default: as Kubernetes does)"
    )
    parser.add_argument(
        "--report-account",
        default=report.account,
        metavar="NAME",
        help=f"service account of Spark's driver, in each namespace (default: {report.account})",
    )
    parser.add_argument(
        "--report-executors",
        type=int,
        default=report.executors,
        metavar="N",
        help=f"executor pods; 0: Spark works in the driver's pod (default: {report.executors})",
    )
    parser.add_argument(
        "--report-spread",
        choices=SPREADS,
        default=report.spread,
        help=f"whether executors are to be on different nodes (default: {report.spread})",
    )
    parser.add_argument(
        "--report-deadline-seconds",
        type=int,
        default=report.deadline_seconds,
        metavar="S",
        help=f"how long a report may take (default: {report.deadline_seconds})",
    )
    parser.add_argument(
        "--report-resources", default="", metavar="JSON", help="what the driver's container asks for, as in any pod"
    )
    parser.add_argument(
        "--report-desk", default="", metavar="NAME", help="a Deployment that mounts the claim, to copy reports out with"
    )
    add_options(parser, MANAGER)
    given = parser.parse_args(arguments)
    if not given.runner_image:
        parser.error("--runner-image: required; allowed: an image's name (or set MINIKAFKA_CHAOS_IMAGE)")
    for option in ("runner_pull_policy", "report_pull_policy"):
        if (policy := getattr(given, option)) not in ("", "Always", "IfNotPresent", "Never"):
            parser.error(f"--{option.replace('_', '-')}={policy}: allowed: Always, IfNotPresent, Never")
    jobs = JobSettings(
        given.runner_image,
        given.runner_pull_policy,
        tuple(given.runner_pull_secret),
        given.runner_account,
        given.runs_claim,
        _prometheus_urls(parser, given.prometheus_url),
        _report(parser, given) if given.report_image else None,
        given.network_namespace,
    )
    return ControllerOptions(**vars(ProcessOptions.of(parser, given)), jobs=jobs)


def _prometheus_urls(parser: argparse.ArgumentParser, given: list[str] | None) -> tuple[str, ...]:
    try:
        return IN_CLUSTER if given is None else checked(each for each in given if each)
    except BadEntry as error:
        parser.error(f"--prometheus-url={error}")


def _report(parser: argparse.ArgumentParser, given: argparse.Namespace) -> ReportSettings:
    if given.report_executors < 0:
        parser.error(f"--report-executors={given.report_executors}: allowed: 0 or more")
    if given.report_deadline_seconds < 1:
        parser.error(f"--report-deadline-seconds={given.report_deadline_seconds}: allowed: 1 or more")
    made = ReportSettings(
        given.report_image,
        given.report_pull_policy,
        given.report_account,
        given.report_executors,
        given.report_deadline_seconds,
        given.report_desk,
        spread=given.report_spread,
    )
    if not given.report_resources:
        return made
    try:
        resources = json.loads(given.report_resources)
    except ValueError:
        resources = None
    if not isinstance(resources, dict):
        parser.error("--report-resources: allowed: a JSON object with requests and limits")
    return replace(made, resources=resources)


def reconcile_both(
    server: ApiServer,
    agents: Agents,
    jobs: JobSettings,
    telemetry: ControllerTelemetry,
    identity: str,
    leadership: Leadership | Alone,
) -> Reconcile:
    """Return what looks at one experiment, or at one schedule."""

    def now() -> datetime:
        return datetime.now(UTC)

    experiments = ExperimentReconciler(server, agents, jobs, telemetry, now, identity, leadership)
    schedules = ScheduleReconciler(server, telemetry, now, identity, leadership)

    async def reconcile(namespace: str, name: str) -> ReconcileResult:
        if name.startswith(SCHEDULE_PREFIX):
            return await schedules.reconcile(namespace, name.removeprefix(SCHEDULE_PREFIX))
        return await experiments.reconcile(namespace, name)

    return reconcile


async def run(
    options: ControllerOptions,
    stop: asyncio.Event,
    *,
    started: asyncio.Event | None = None,
    agents: Agents | None = None,
) -> int:
    """Run until ``stop`` is set, or a signal comes. ``started`` is set when it watches. The exit code: 0, 2 or 3."""
    telemetry = ControllerTelemetry()
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


async def _run(options: ControllerOptions) -> int:
    return await run(options, asyncio.Event())


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 stopped, 2 bad input, 3 something else failed."""
    options = parse(arguments)
    set_up_logging(options)
    return asyncio.run(_run(options))
