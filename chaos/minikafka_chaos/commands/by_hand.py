"""`minikafka chaos kill|power-loss|pause|resume|restart|cut|heal|status --data DIR`: one verb on a cluster that `up` started.

Where `minikafka up --control` keeps a control port the verb is carried out by it, for it holds the proxy between the brokers.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from minikafka.command.parser import offer

from minikafka_chaos.errors import BadScenario

ONE_BROKER = {
    "kill": ("kill a broker (kill -9); what it had written stays", "minikafka chaos kill 2 --data /tmp/kafka"),
    "power-loss": ("kill a broker, and lose what it had not flushed", "minikafka chaos power-loss 2 --data /tmp/kafka"),
    "pause": ("let a broker hang, its connections open (SIGSTOP)", "minikafka chaos pause 2 --data /tmp/kafka"),
    "resume": ("let a paused broker go on", "minikafka chaos resume 2 --data /tmp/kafka"),
    "restart": ("start a dead broker, or restart one cleanly", "minikafka chaos restart 2 --data /tmp/kafka"),
}
ALL = (*ONE_BROKER, "cut", "heal", "status")


def add_arguments(commands: Any) -> None:
    """Declare a subcommand for each verb."""
    for name, (words, example) in ONE_BROKER.items():
        parser = commands.add_parser(name, help=words, example=example)
        parser.add_argument("broker", type=int, metavar="BROKER", help="its id")
        if name == "power-loss":
            mode = parser.add_argument(
                "--mode", default="all", help="how much is lost: all, torn, or garbage (default all)"
            )
            offer(mode, _modes)
        _add_common(parser)
    cut = commands.add_parser(
        "cut",
        help="let nothing pass between a broker and others; needs `up --control`",
        example="minikafka chaos cut 1 2 --data /tmp/kafka",
    )
    cut.add_argument("broker", type=int, metavar="BROKER", help="its id")
    cut.add_argument("peers", type=int, metavar="PEER", nargs="*", help="the others (default: all)")
    direction = cut.add_argument("--direction", default="both", help="both, outbound or inbound (default both)")
    offer(direction, _directions)
    _add_common(cut)
    heal = commands.add_parser(
        "heal", help="mend all that is broken, and wait until it is", example="minikafka chaos heal --data /tmp/kafka"
    )
    _add_common(heal)
    status = commands.add_parser(
        "status", help="which brokers run, hang or are dead", example="minikafka chaos status --data /tmp/kafka"
    )
    _add_common(status)


def _modes() -> list[str]:
    from minikafka_chaos.session.session import WIPE_MODES

    return list(WIPE_MODES)


def _directions() -> list[str]:
    from minikafka_chaos.session.session import DIRECTIONS

    return list(DIRECTIONS)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="as given to `minikafka up`")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Carry out one verb. Raises BadScenario for one that cannot be, and ToolTrouble for one that failed."""
    from minikafka_chaos.session.by_hand import carry_out
    from minikafka_chaos.session.errors import VerbRefused

    given = {name: getattr(args, name) for name in ("broker", "peers", "mode", "direction") if hasattr(args, name)}
    try:
        result = carry_out(args.data.absolute(), args.action.replace("-", "_"), given)
    except VerbRefused as error:
        raise BadScenario(str(error)) from error
    if args.json:
        print(json.dumps(result, indent=2))
        return 0
    match args.action:
        case "status":
            for broker in result:
                print(f"broker {broker['id']}  {broker['address']}  {broker['condition']}")
        case "heal":
            print("\n".join(result) or "nothing was broken")
        case _:
            print(f"{args.action}: broker {args.broker}")
    return 0
