"""`minikafka-network`: what is run in the container `network-agent`. One line of JSON answers each verb.

The first word is the verb, the second the namespace that it is about: the admission policy of the chart reads these two by their
places, so no option may say them again. Exit codes: 0 done, 2 bad request, 3 cannot be done now; then the line is
``{"error": "..."}``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minikafka.command.parser import AgentParser

from minikafka_chaos.network.agent import Ask, NetworkAgent
from minikafka_chaos.network.errors import AgentError, BadRequest, NotNow
from minikafka_chaos.network.namespaces import NodeNamespaces
from minikafka_chaos.network.nft import NftProgram
from minikafka_chaos.network.pods import ApiReader
from minikafka_chaos.network.rules import LinkDirection, LinkVerb
from minikafka_chaos.network.service import serve

NODE_VARIABLE = "MINIKAFKA_NETWORK_NODE"
FOLDER_VARIABLE = "MINIKAFKA_NETWORK_FOLDER"
FOLDER = Path("/run/minikafka-network")

SERVE = "serve"


class _Once(argparse.Action):
    """An option that is given twice is refused: which of the two was meant?"""

    def __call__(self, _parser: Any, namespace: Any, values: Any, _option: str | None = None) -> None:
        if getattr(namespace, f"{self.dest}_given", False):
            raise argparse.ArgumentError(self, "given twice; allowed: once")
        setattr(namespace, f"{self.dest}_given", True)
        setattr(namespace, self.dest, values)


_EXAMPLE_POD = "lab --pod demo-0 --uid 6d9f6f3e-6a0c-4e0e-8e0b-0f6f6f6f6f6f"


def parser() -> argparse.ArgumentParser:
    """Make the parser of all verbs."""
    made = AgentParser(
        prog="minikafka-network",
        description="Break the network of a broker's pod on this node.",
        example=f"minikafka-network state {_EXAMPLE_POD}",
    )
    verbs = made.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=AgentParser)

    def verb(name: str, summary: str, options: str = "") -> argparse.ArgumentParser:
        example = f"{made.prog} {name} {'' if name == SERVE else _EXAMPLE_POD} {options}"
        added = verbs.add_parser(
            name, help=summary, description=summary[0].upper() + summary[1:] + ".", example=" ".join(example.split())
        )
        if name != SERVE:
            added.add_argument("namespace", metavar="NAMESPACE", help="the pod's")
            added.add_argument("--pod", required=True, action=_Once, metavar="NAME", help="a broker's pod")
            added.add_argument("--uid", required=True, action=_Once, metavar="UID", help="the uid of that very pod")
        return added

    def links(added: argparse.ArgumentParser) -> None:
        added.add_argument(
            "--peer", action="append", default=[], metavar="NAME", help="another broker's pod (repeatable)"
        )
        added.add_argument("--clients", action="store_true", help="all clients")

    verb(SERVE, "take away what is left of faults that are over, until SIGTERM")
    verb("state", "the faults that are in force")
    for name, summary in ((LinkVerb.CUT, "let nothing pass"), (LinkVerb.LOSS, "lose a part of the packets")):
        share = " --percent 30" if name is LinkVerb.LOSS else ""
        added = verb(name, summary, f"--peer demo-1 --id one --seconds 5{share}")
        links(added)
        added.add_argument(
            "--id", required=True, action=_Once, help="name of the fault; a repetition does nothing more"
        )
        added.add_argument(
            "--seconds", required=True, type=float, action=_Once, metavar="N", help="after so long the kernel ends it"
        )
        added.add_argument(
            "--direction",
            choices=[each.value for each in LinkDirection],
            default=LinkDirection.BOTH.value,
            help="as the pod sees it (default both)",
        )
        if name is LinkVerb.LOSS:
            added.add_argument(
                "--percent", required=True, type=int, action=_Once, metavar="N", help="of the packets (1 to 100)"
            )
    links(verb("heal", "end every fault of the links to these peers", "--peer demo-1"))
    verb("recover", "end all faults, or one").add_argument("--id", action=_Once, help="the fault (default: all)")
    return made


def run(arguments: Sequence[str], agent: NetworkAgent | None = None) -> int:
    """Do what one verb says; the exit code."""
    args = parser().parse_args(arguments)
    try:
        agent = agent or _agent()
        if args.verb == SERVE:
            return serve(agent, NodeNamespaces())
        _print(_do(agent, args))
    except AgentError as error:
        _print({"error": str(error)})
        return error.code
    except OSError as error:
        _print({"error": str(error)})
        return NotNow.code
    return 0


def _agent() -> NetworkAgent:
    node = os.environ.get(NODE_VARIABLE)
    if not node:
        raise BadRequest(f"the variable {NODE_VARIABLE} is not set: the chart sets it to the name of the node")
    folder = Path(os.environ.get(FOLDER_VARIABLE) or FOLDER)
    return NetworkAgent(node, folder, NftProgram(), NodeNamespaces().of_pod, ApiReader())


def _do(agent: NetworkAgent, args: argparse.Namespace) -> dict[str, Any]:
    ask = Ask(args.namespace, args.pod, args.uid)
    match args.verb:
        case LinkVerb.CUT | LinkVerb.LOSS:
            return agent.make(
                ask,
                args.id,
                LinkVerb(args.verb),
                args.seconds,
                peers=args.peer,
                clients=args.clients,
                direction=LinkDirection(args.direction),
                percent=getattr(args, "percent", 100),
            )
        case "heal":
            return agent.heal(ask, args.peer, args.clients)
        case "recover":
            return agent.recover(ask, args.id)
    return agent.state(ask)


def _print(answer: dict[str, Any]) -> None:
    print(json.dumps(answer, separators=(",", ":")), flush=True)


def main() -> int:
    """The program."""
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
