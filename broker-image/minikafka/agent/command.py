"""`minikafka agent`: what is run in the container `chaos-agent` of a broker's pod. One line of JSON answers each verb.

Exit codes: 0 done, 2 bad request, 3 cannot be done now; then the line is ``{"error": "..."}``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from minikafka.agent.agent import BrokerAgent
from minikafka.agent.errors import AgentError, BadRequest, NotNow
from minikafka.agent.faults import HOLDING, AgentVerb, UnreadableFaults
from minikafka.agent.power_loss import PowerLossMode
from minikafka.agent.target import TargetBroker
from minikafka.command.parser import AgentParser

CONFIG_VARIABLE = "MINIKAFKA_AGENT_CONFIG"
FOLDER_VARIABLE = "MINIKAFKA_AGENT_FOLDER"

FILE_BYTES_MAX = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=AgentParser)

    def verb(name: str, summary: str, options: str = "") -> argparse.ArgumentParser:
        description, example = summary[0].upper() + summary[1:] + ".", f"{parser.prog} {name} {options}".rstrip()
        made = verbs.add_parser(name, help=summary, description=description, example=example)
        made.add_argument(
            "--config",
            type=Path,
            metavar="FILE",
            help=f"the broker's properties, as on its command line (default: the variable {CONFIG_VARIABLE})",
        )
        made.add_argument(
            "--folder",
            type=Path,
            metavar="DIR",
            help=f"where faults and gate are kept (default: the variable {FOLDER_VARIABLE})",
        )
        return made

    verb("serve", "end what has expired, until SIGTERM")
    verb("state", "the broker and its faults as they are")
    for name, summary in (
        (AgentVerb.KILL, "SIGKILL, and hold what is started next at the gate"),
        (AgentVerb.TERMINATE, "SIGTERM, and hold what is started next at the gate"),
        (AgentVerb.PAUSE, "SIGSTOP"),
    ):
        made = verb(name, summary, "--id one --seconds 5")
        made.add_argument("--id", required=True, help="name of the fault; a repetition does nothing more")
        end = made.add_mutually_exclusive_group(required=True)
        end.add_argument("--until", type=float, metavar="T", help="when it ends by itself, Unix seconds")
        end.add_argument("--seconds", type=float, metavar="N", help="the same, from now on")
    for end_verb, summary in (
        ("resume", "end a pause"),
        ("release", "open the gate"),
        ("recover", "end all faults, or one"),
    ):
        verb(end_verb, summary).add_argument("--id", help="the fault; without it all that there are")
    wipe = verb(AgentVerb.WIPE_UNFLUSHED, "lose what a held broker had not flushed", "--id one")
    wipe.add_argument("--id", required=True, help="name of the fault; a repetition does nothing more")
    wipe.add_argument(
        "--mode", choices=list(PowerLossMode), default=PowerLossMode.ALL, help="how much is lost (default all)"
    )
    wipe.add_argument("--seed", type=int, default=0, metavar="N", help="chooses where torn logs end (default 0)")
    volume = verb(AgentVerb.WIPE_VOLUME, "lose a held broker's disk", "--id one")
    volume.add_argument("--id", required=True, help="name of the fault; a repetition does nothing more")
    checkpoint = verb("checkpoint", "a file beside the partitions' folders, as text", "replication-offset-checkpoint")
    checkpoint.add_argument("name", metavar="NAME", help="such as replication-offset-checkpoint")
    logs = verb("logs", "a held broker's partition folders, as a tar in base64")
    logs.add_argument("--topic", action="append", default=[], metavar="NAME", help="only of this topic (repeatable)")
    verb("events", "the broker's event logs, as a tar in base64")


def run(args: argparse.Namespace) -> int:
    """Do what one verb says; the exit code."""
    try:
        agent = _agent(args)
        if args.verb == "serve":
            from minikafka.agent.service import serve

            return serve(agent)
        if args.verb in ("logs", "events"):
            return _send_files(agent, args)
        _print(_do(agent, args))
    except AgentError as error:
        _print({"error": str(error)})
        return error.code
    except (UnreadableFaults, OSError) as error:
        _print({"error": str(error)})
        return NotNow.code
    return 0


def _agent(args: argparse.Namespace) -> BrokerAgent:
    found = []
    for given, option, variable in (
        (args.config, "--config", CONFIG_VARIABLE),
        (args.folder, "--folder", FOLDER_VARIABLE),
    ):
        path = given or os.environ.get(variable)
        if not path:
            raise BadRequest(f"{option}: needed where the variable {variable} is not set")
        found.append(Path(path))
    return BrokerAgent(TargetBroker(found[0]), found[1])


def _do(agent: BrokerAgent, args: argparse.Namespace) -> dict[str, Any]:
    match args.verb:
        case AgentVerb.KILL | AgentVerb.TERMINATE:
            return agent.hold(AgentVerb(args.verb), args.id, _until(agent, args))
        case AgentVerb.PAUSE:
            return agent.pause(args.id, _until(agent, args))
        case "resume":
            return agent.recover([AgentVerb.PAUSE], args.id)
        case "release":
            return agent.recover(HOLDING, args.id)
        case "recover":
            return agent.recover([*HOLDING, AgentVerb.PAUSE], args.id)
        case AgentVerb.WIPE_UNFLUSHED:
            return agent.wipe_unflushed(args.id, PowerLossMode(args.mode), args.seed)
        case AgentVerb.WIPE_VOLUME:
            return agent.wipe_volume(args.id)
        case "checkpoint":
            return _checkpoint(agent, args.name)
    return agent.state()


def _until(agent: BrokerAgent, args: argparse.Namespace) -> float:
    return float(args.until if args.until is not None else agent.clock() + args.seconds)


def _checkpoint(agent: BrokerAgent, name: str) -> dict[str, Any]:
    if not name or "/" in name or name.startswith("."):
        raise BadRequest(f"{name!r}: allowed: the name of a file beside the partitions' folders")
    for folder in agent.target.data:
        path = folder / name
        if path.is_file():
            with path.open("rb") as file:
                return {"name": name, "content": file.read(FILE_BYTES_MAX).decode(errors="replace")}
    return {"name": name, "content": None}


def _send_files(agent: BrokerAgent, args: argparse.Namespace) -> int:
    from minikafka.agent.archive import ArchiveEntry, log_members, write_archive

    if args.verb == "events":
        path = agent.target.events
        found = sorted(path.parent.glob("*.jsonl")) if path is not None else []
        error = write_archive([ArchiveEntry(each, each.name) for each in found], sys.stdout)
    else:
        with agent.at_rest():
            error = write_archive(log_members(agent.target.data, agent.target.unflushed, args.topic), sys.stdout)
    return NotNow.code if error is not None else 0


def _print(answer: dict[str, Any]) -> None:
    print(json.dumps(answer, separators=(",", ":")), flush=True)
