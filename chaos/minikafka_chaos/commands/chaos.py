"""`minikafka chaos`: run a scenario and say what became of the data; list and show scenarios; abort runs; break by hand."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from minikafka.client.security import PLAINTEXT
from minikafka.command.parser import offer
from minikafka.command_config import add_command_config

from minikafka_chaos.commands import by_hand
from minikafka_chaos.commands import matrix as cli_matrix
from minikafka_chaos.errors import BadScenario, NotSupported, ToolTrouble
from minikafka_chaos.record.journal import CLUSTER_FOLDER

if TYPE_CHECKING:
    from minikafka_chaos.grounds import Ground
    from minikafka_chaos.scenario.scenario import Scenario

HELP = "run, list, show and abort scenarios of faults; measure settings against each other"
SET_HELP = "change a field (workload.acks=Leader) or a setting of the brokers (min.insync.replicas=1), repeatable"

GROUNDS = ("processes", "simulation", "kubernetes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands of `minikafka chaos`."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="run | list | show | abort | matrix | VERB")
    run_parser = commands.add_parser(
        "run",
        help="run a scenario and judge it",
        example="minikafka chaos run kip-101-data-loss --ground simulation --set minikafka.truncation.mode=high_watermark",
    )
    scenario = run_parser.add_argument(
        "scenario", metavar="FILE", help="a scenario file, or the name of one of `chaos list`"
    )
    offer(scenario, _scenarios)
    run_parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings", help=SET_HELP)
    run_parser.add_argument("--seconds", type=int, metavar="N", help="least time that a steady load (and rounds) last")
    run_parser.add_argument("--ground", choices=GROUNDS, default="processes", help="where (default processes)")
    add_run_arguments(run_parser)
    _add_kubernetes_arguments(run_parser)
    run_parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    list_parser = commands.add_parser("list", help="the scenarios that come along", example="minikafka chaos list")
    list_parser.add_argument("--json", action="store_true", help="print them as JSON")
    show_parser = commands.add_parser(
        "show", help="one scenario, as the runner understands it", example="minikafka chaos show kip-279"
    )
    scenario = show_parser.add_argument("scenario", metavar="FILE", help="a scenario file, or a name of `chaos list`")
    offer(scenario, _scenarios)
    show_parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings", help=SET_HELP)
    show_parser.add_argument("--json", action="store_true", help="print it as JSON")
    abort_parser = commands.add_parser(
        "abort", help="end a run, and every broker of it", example="minikafka chaos abort runs/20260101-120000-demo"
    )
    abort_parser.add_argument(
        "run",
        metavar="RUN_DIR",
        nargs="?",
        type=Path,
        help="the run's directory; default: every run below --out that goes on",
    )
    abort_parser.add_argument("--out", type=Path, default=Path("runs"), metavar="DIR", help="where runs are (runs)")
    abort_parser.add_argument("--json", action="store_true", help="print what was ended as JSON")
    cli_matrix.add_arguments(
        commands.add_parser("matrix", help=cli_matrix.HELP, example="minikafka chaos matrix durability --seeds 5")
    )
    by_hand.add_arguments(commands)


def _scenarios() -> list[str]:
    from minikafka_chaos.scenario import library

    return library.names()


def _add_kubernetes_arguments(parser: argparse.ArgumentParser) -> None:
    options = parser.add_argument_group("with --ground kubernetes")
    options.add_argument("--kubeconfig", type=Path, metavar="FILE", help="default: as kubectl's")
    options.add_argument("--context", metavar="NAME", help="of the kubeconfig (default: its current one)")
    options.add_argument("--namespace", metavar="NAME", help="where the cluster is made (default: the context's)")
    options.add_argument(
        "--listener",
        choices=("NodePort", "LoadBalancer", "Internal"),
        help="how this program reaches the brokers; Internal works in a pod only, where it is the default (else NodePort)",
    )
    options.add_argument(
        "--network-namespace",
        metavar="NAME",
        help="where the network agents of Cut and Loss are (default: minikafka-chaos-network)",
    )
    add_command_config(options, None)


KUBERNETES_OPTIONS = {
    name: f"--{name.replace('_', '-')}"
    for name in ("kubeconfig", "context", "namespace", "listener", "network_namespace")
} | {"security": "--command-config"}


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that every command with a run has."""
    parser.add_argument("--seed", type=int, metavar="N", help="for every random choice (default: the scenario's)")
    parser.add_argument("--out", type=Path, default=Path("runs"), metavar="DIR", help="where run directories go (runs)")
    parser.add_argument("--keep-data", action="store_true", help="keep the brokers' data also when all is well")


def run(args: argparse.Namespace) -> int:
    """Run `minikafka chaos ...`: 0 ok or Passed, 1 Failed, 2 bad input, 3 could not tell."""
    try:
        if args.action == "list":
            return _list(args)
        if args.action == "show":
            return _show(args)
        if args.action == "abort":
            return _abort(args)
        if args.action == "matrix":
            return cli_matrix.run(args)
        if args.action in by_hand.ALL:
            return by_hand.run(args)
        return _run(args)
    except (BadScenario, ToolTrouble) as error:
        print(f"minikafka chaos: {error}", file=sys.stderr)
        return 2 if isinstance(error, BadScenario) else 3


def _list(args: argparse.Namespace) -> int:
    from minikafka_chaos.scenario import listing

    if args.json:
        print(json.dumps([each.as_json() for each in listing.scenarios()], indent=2))
    else:
        print(listing.table(listing.scenarios()))
        print("\nminikafka chaos show NAME tells the story; docs/reference/scenarios.md where it is from.")
    return 0


def _show(args: argparse.Namespace) -> int:
    from minikafka_chaos.scenario import library

    document = library.find(args.scenario, args.settings).as_json()
    if args.json:
        print(json.dumps(document, indent=2))
    else:
        import yaml

        print(yaml.safe_dump(document, sort_keys=False, width=120), end="")
    return 0


def _run(args: argparse.Namespace) -> int:
    from minikafka_chaos.run.progress import ConsoleReporter, new_console
    from minikafka_chaos.run.runner import new_run_directory, run_scenario
    from minikafka_chaos.scenario import library
    from minikafka_chaos.verdict.expectation import AS_EXPECTED, difference, exit_code
    from minikafka_chaos.verdict.report_table import print_verdict

    scenario = library.find(args.scenario, args.settings)
    if args.seconds is not None:
        scenario = scenario.lasting(args.seconds)
    make = _ground_maker(args, scenario)
    directory = new_run_directory(args.out, scenario.name)
    console = new_console(stderr=args.json)
    ground = make(directory / CLUSTER_FOLDER)
    with ConsoleReporter(console, ground.clock.monotonic) as reporter:
        result = run_scenario(scenario, ground, directory, seed=args.seed, reporter=reporter)
    expected = scenario.spec.expected
    code = exit_code(expected, result.verdict)
    kept = keep_or_drop_data(directory, args.keep_data, result.verdict.outcome.exit_code)
    rows = [("run directory", str(directory)), *kept]
    extra: dict[str, object] = {"run": str(directory)}
    if expected is not None:
        unlike = difference(expected, result.verdict)
        extra |= {"expected": unlike is None, "expectation": unlike or AS_EXPECTED}
        rows.insert(0, ("expectation", unlike or f"{AS_EXPECTED}: {expected.verdict.value}"))
    if args.json:
        print(json.dumps({**result.verdict.as_json(), **extra}, indent=2))
    else:
        print_verdict(console, result.verdict, rows)
    return code


def _abort(args: argparse.Namespace) -> int:
    from minikafka_chaos.run.abort import abort, runs_going_on

    if args.run is not None and not args.run.is_dir():
        raise BadScenario(f"{args.run}: no such run directory")
    directories = [args.run] if args.run is not None else runs_going_on(args.out)
    ended = [abort(directory) for directory in directories]
    if args.json:
        print(json.dumps([each._asdict() | {"directory": str(each.directory)} for each in ended], indent=2))
    else:
        for each in ended:
            print(each)
        if not ended:
            print(f"no run goes on below {args.out}")
    return 0 if all(each.left == 0 for each in ended) else 3


def _ground_maker(args: argparse.Namespace, scenario: Scenario) -> Callable[[Path], Ground]:
    """Return what makes the ground that was asked for, given the folder of its brokers' data."""
    given = [name for name in KUBERNETES_OPTIONS if getattr(args, name) is not None]
    if given and args.ground != "kubernetes":
        raise NotSupported(f"{KUBERNETES_OPTIONS[given[0]]}: only with --ground kubernetes")
    match args.ground:
        case "processes":
            from minikafka_chaos.grounds.processes import ProcessesGround

            return ProcessesGround
        case "simulation":
            from minikafka_chaos.grounds.installed import installed_ground

            return installed_ground(args.ground)
    return _kubernetes_ground_maker(args, scenario)


def _kubernetes_ground_maker(args: argparse.Namespace, scenario: Scenario) -> Callable[[Path], Ground]:
    try:
        from minikafka_chaos.grounds.kubernetes import ClientListener, KubernetesGround, cluster_name
        from minikafka_chaos.grounds.kubernetes_api import Namespace, connect
        from minikafka_chaos.grounds.kubernetes_network import NAMESPACE
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("kubernetes", "urllib3", "websocket"):
            raise
        raise NotSupported(
            f"--ground kubernetes needs the extra 'kubernetes': pip install 'minikafka[kubernetes]' ({error})"
        ) from error
    access = connect(args.kubeconfig, args.context)
    namespace = Namespace(access.client, args.namespace or access.namespace)
    listener = ClientListener(args.listener or (ClientListener.INTERNAL if access.in_pod else ClientListener.NODE_PORT))
    there = scenario.spec.cluster_ref
    name = there.name if there is not None else cluster_name(scenario)
    network = args.network_namespace or NAMESPACE
    return lambda folder: KubernetesGround(
        namespace,
        name,
        folder,
        existing=there is not None,
        listener=listener,
        network=network,
        security=lambda: args.security or PLAINTEXT,
    )


def keep_or_drop_data(directory: Path, keep: bool, code: int) -> list[tuple[str, str]]:
    """Drop the brokers' data of a run that passed, unless it is wanted; a row for the verdict when it is kept."""
    data = directory / CLUSTER_FOLDER
    if not data.exists():
        return []
    if code == 0 and not keep:
        shutil.rmtree(data, ignore_errors=True)
        return []
    return [("brokers' data", str(data))]
