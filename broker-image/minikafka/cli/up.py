"""`minikafka up`: a cluster of broker processes on this machine, in the foreground or detached."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, cast

from minikafka.cli import arguments
from minikafka.cli.output import print_json, print_table
from minikafka.client.security import PLAINTEXT
from minikafka.command import exits
from minikafka.command.exits import CommandError
from minikafka.local.clients_listener import listener_settings, with_listener
from minikafka.local.cluster import READY_TIMEOUT, TIED_BROKER_COMMAND, LocalCluster
from minikafka.local.errors import BadRequest, ClusterError, PortInUse
from minikafka.local.layout import UP_SETTINGS, ClusterInfo
from minikafka.local.ports import HOST, INTER_BROKER_PORT_OFFSET, METRICS_PORT_OFFSET, free_base_port, require_free
from minikafka.local.scratch import ScratchFolder

CONTROL = "minikafka.control"
"""The group of entry points in which chaos names the class of a cluster with a control port: no import of it from here."""
TOKEN = "MINIKAFKA_CONTROL_TOKEN"
_WATCH_SECONDS = 1.0
_WATCH_DOWN_SECONDS = 0.1
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BROKERS = 3
_SCRATCH = "minikafka-up-"


class Controlled(Protocol):
    """A cluster whose port is open between ``up`` and ``down``."""

    @property
    def url(self) -> str: ...

    @property
    def token(self) -> str | None: ...

    @property
    def exists(self) -> bool: ...

    def up(self, **asked: Any) -> ClusterInfo: ...

    def down(self) -> list[int]: ...


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="where everything of the cluster lives; only with --while-stdin it may be left out",
    )
    parser.add_argument("--brokers", type=arguments.whole_number(1), metavar="N", help=f"default {_BROKERS}")
    parser.add_argument(
        "--base-port",
        type=arguments.whole_number(0, 65535),
        metavar="PORT",
        help="of the first broker; default 19092; 0: ports that are free",
    )
    for what, of, above in (
        ("replication", "where brokers reach each other", INTER_BROKER_PORT_OFFSET),
        ("metrics", "of /metrics, /healthz and /readyz", METRICS_PORT_OFFSET),
    ):
        parser.add_argument(
            f"--{what}-base-port",
            type=arguments.whole_number(1, 65535),
            metavar="PORT",
            help=f"{of}, for the first broker; default {above} above --base-port",
        )
    parser.add_argument(
        "--advertised-host",
        metavar="HOST",
        help="where clients elsewhere reach this machine (or container): brokers tell it to all clients, and listen for them on "
        "every interface. It has to lead here from here, too",
    )
    parser.add_argument(
        "--config",
        action="append",
        type=arguments.key_value,
        default=[],
        metavar="KEY=VALUE",
        help="a broker setting for all of them (repeatable)",
    )
    parser.add_argument(
        "--tls",
        action="store_true",
        help="clients need TLS: they trust DIR/ca.pem, the certificate of an authority of this cluster's own",
    )
    parser.add_argument(
        "--user",
        action="append",
        type=arguments.key_value,
        default=[],
        metavar="NAME=PASSWORD",
        help="clients log in, by SASL PLAIN, and so may this one (repeatable); commands with --data DIR need no password",
    )
    parser.add_argument("--racks", type=_racks, metavar="A,B,C", help="a rack for each broker, dealt round")
    parser.add_argument(
        "--no-unflushed-dir",
        action="store_true",
        help="plain logs on one volume: then a power loss cannot be acted out, only a crash",
    )
    parser.add_argument(
        "--control",
        type=_control_port,
        metavar="[HOST:]PORT",
        help="keep a proxy between the brokers, which `minikafka chaos cut` needs, and serve the verbs that break them over HTTP "
        f"(0: a free port; OpenAPI at /v1/openapi.json); needs a token where not on loopback, from {TOKEN} or a new one",
    )
    parser.add_argument(
        "--while-stdin",
        action="store_true",
        help="end when standard input does, with the program that holds its other end; brokers die then, as by kill -9. "
        "Without --data all is in a temporary folder, which is removed, or, where this is killed, by the next that is started so",
    )
    parser.add_argument("--detach", action="store_true", help="return when all are ready; `minikafka down` stops them")
    parser.add_argument(
        "--timeout", type=arguments.seconds, default=READY_TIMEOUT, metavar="SECONDS", help="to get ready (default 30)"
    )
    arguments.add_json(parser)


def _control_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]") or HOST, arguments.whole_number(0, 65535)(port)


def _racks(text: str) -> list[str]:
    racks = text.split(",")
    if not all(rack and rack == rack.strip() for rack in racks):
        raise argparse.ArgumentTypeError(f"{text!r} is not names with commas between")
    return racks


def run(args: argparse.Namespace) -> int:
    """Start what does not run, show it, and, without --detach, stay until Ctrl-C and bring it down."""
    if not args.while_stdin:
        if args.data is None:
            raise exits.bad_input("--data: is needed; only with --while-stdin it may be left out")
        return _run(args, LocalCluster(args.data))
    if args.detach:
        raise exits.bad_input("--while-stdin: lasts as long as this program; not with --detach")
    if args.data is not None:
        return _run_tied(args)
    try:
        scratch = ScratchFolder(Path(tempfile.gettempdir()), _SCRATCH)  # of one that is killed the next removes it
    except OSError as error:
        raise CommandError(exits.NO, f"--data: no temporary folder can be made ({error}): name one") from error
    try:
        args.data = str(scratch.path)
        return _run_tied(args)
    finally:
        scratch.remove()


def _run_tied(args: argparse.Namespace) -> int:
    """Run with brokers that do not outlive this program, not even where it is killed."""
    cluster = LocalCluster(args.data)
    if running := _running(cluster):
        raise exits.bad_input(
            f"--while-stdin: {len(running)} brokers run already in {args.data}: bring them down first, by "
            f"minikafka down --data {args.data}"
        )
    theirs, ours = os.pipe()
    try:
        return _run(args, LocalCluster(args.data, TIED_BROKER_COMMAND, theirs), lifeline=ours)
    finally:
        os.close(theirs)


def _end_with_stdin(lifeline: int) -> None:
    """Wait for the end of standard input; then let the brokers die, and this program bring down what is left."""
    while os.read(0, 4096):
        pass
    os.close(lifeline)
    os.kill(os.getpid(), signal.SIGTERM)


def _run(args: argparse.Namespace, cluster: LocalCluster, lifeline: int | None = None) -> int:
    control = _controlled(cluster, args)
    before = _running(cluster)
    # Closing the terminal, or a supervisor's stop, must not leave brokers behind either.
    came: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        """End, once: a second Ctrl-C while the brokers shut down must not leave some of them running."""
        for ending in _ENDING:
            signal.signal(ending, signal.SIG_IGN)
        came.append(number)
        raise KeyboardInterrupt

    handlers = {number: signal.signal(number, interrupt) for number in _ENDING}
    if lifeline is not None:
        threading.Thread(target=_end_with_stdin, args=(lifeline,), name="lifeline", daemon=True).start()
    ready = False
    try:
        info = _up(cluster if control is None else control, args)
        ready = True
        _show(info, control, as_json=args.json)
        if args.detach:
            return exits.OK
        if not _watch(cluster, came, quiet=args.json):
            return _bring_down(control or cluster, quiet=args.json)
        return exits.OK if control is None else _bring_down(control, quiet=True)
    except (KeyboardInterrupt, BrokenPipeError):
        if args.detach or not (ready or _running(cluster) - before):
            raise  # interrupted while starting: what was started is stopped again
        return _bring_down(control or cluster, quiet=args.json)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _controlled(cluster: LocalCluster, args: argparse.Namespace) -> Controlled | None:
    proxied = _has_proxies(cluster)
    if args.control is None:
        if proxied:
            raise exits.bad_input(
                f"--control: {args.data} was made with it, and its brokers reach each other through a proxy that only it starts: "
                "add --control 0"
            )
        return None
    if args.detach:
        raise exits.bad_input(
            "--control: keeps a proxy between the brokers, and lasts as long as this program: not with --detach; "
            "leave that out, and type the rest in another terminal"
        )
    if proxied is False:
        raise exits.bad_input(f"--control: {args.data} was made without it, and cannot get it later: use a new --data")
    if running := _running(cluster):
        raise exits.bad_input(
            f"--control: {len(running)} brokers run already in {args.data}: bring them down first, by "
            f"minikafka down --data {args.data}"
        )
    found = tuple(entry_points(group=CONTROL))
    if not found:
        raise CommandError(
            exits.NO, f"--control: no package brings it (entry point of {CONTROL!r}): pip install minikafka"
        )
    host, port = args.control
    if port:
        try:
            require_free((port,))
        except PortInUse as error:
            raise CommandError(exits.NO, f"--control: {error}") from error
    return cast(Controlled, found[0].load()(cluster, host, port, os.environ.get(TOKEN) or None))


def _has_proxies(cluster: LocalCluster) -> bool | None:
    try:
        return bool(cluster.record.proxied)
    except ClusterError:  # nothing there yet, or nothing that can be read: `up` says so
        return None


def _running(cluster: LocalCluster) -> set[int]:
    """Pids of the brokers that run."""
    try:
        return {broker.pid for broker in cluster.info().brokers if broker.pid is not None}
    except ClusterError:  # nothing there yet, or nothing that can be read: `up` says so
        return set()


def _up(cluster: LocalCluster | Controlled, args: argparse.Namespace) -> ClusterInfo:
    try:
        return cluster.up(
            brokers=args.brokers,
            base_port=_base_port(cluster, args) if args.base_port == 0 else args.base_port,
            config=_config(cluster, args),
            replication_base_port=args.replication_base_port,
            metrics_base_port=args.metrics_base_port,
            racks=args.racks,
            advertised_host=_known_here(args.advertised_host),
            unflushed=False if args.no_unflushed_dir else None,
            timeout=args.timeout,
        )
    except BadRequest as error:
        raise exits.bad_input(str(error)) from error
    except ClusterError as error:
        raise CommandError(exits.NO, str(error)) from error


def _config(cluster: LocalCluster | Controlled, args: argparse.Namespace) -> dict[str, str]:
    """What is asked; a new cluster, which is there to be broken and judged, has hooks unless somebody says otherwise."""
    asked = arguments.settings(args.config)
    if cluster.exists:
        for option, given in (("--tls", args.tls), ("--user", args.user)):
            if given:
                raise exits.bad_input(f"{option}: {args.data} has a cluster already: use a new --data")
        return asked
    if not (args.tls or args.user):
        return {**UP_SETTINGS, **asked}
    users: dict[str, str] = {}
    for name, password in args.user:
        if users.setdefault(name, password) != password:
            raise exits.bad_input(f"--user: {name} is given twice, with two passwords")
    hosts = () if args.advertised_host is None else (args.advertised_host,)
    try:
        return with_listener({**UP_SETTINGS, **asked}, listener_settings(args.tls, users, hosts))
    except BadRequest as error:
        raise exits.bad_input(f"--{error}".replace("--users: ", "--user: ", 1)) from error


def _known_here(host: str | None) -> str | None:
    """Refuse a host whose address cannot be found: what acts on the cluster here is one of its clients."""
    if host is not None:
        try:
            socket.getaddrinfo(host, None, socket.AF_INET)
        except (OSError, UnicodeError) as error:
            raise exits.bad_input(
                f"--advertised-host: {host} has no IPv4 address that is known here ({error})"
            ) from error
    return host


def _base_port(cluster: LocalCluster | Controlled, args: argparse.Namespace) -> int | None:
    """A port with free ones after it; None where the cluster has its ports already."""
    return None if cluster.exists else free_base_port(args.brokers or _BROKERS)


def _show(info: ClusterInfo, control: Controlled | None, *, as_json: bool) -> None:
    if control is None:
        show(info, as_json=as_json)
    elif as_json:
        print_json(info.as_json() | {"control": {"url": control.url, "token": control.token}})
    else:
        show(info, as_json=False)
        print(f"control {control.url}" + ("" if control.token is None else f", token {control.token}"))


def show(info: ClusterInfo, *, as_json: bool) -> None:
    """Where the brokers are."""
    if as_json:
        print_json(info.as_json())
        return
    rows = [
        (
            broker.id,
            broker.pid,
            address,
            f"{HOST}:{broker.replication_port}",
            broker.metrics_url,
            broker.rack,
        )
        for broker, address in zip(info.brokers, info.bootstrap.split(","), strict=True)
    ]
    print_table(("#broker", "#pid", "address", "replication", "metrics", "rack"), rows)
    print(f"bootstrap {info.bootstrap}")
    if info.security_protocol != PLAINTEXT.protocol:
        print(f"clients {info.security_protocol}" + ("" if info.ca_path is None else f", trusting {info.ca_path}"))


def _watch(cluster: LocalCluster, came: Sequence[int], *, quiet: bool) -> bool:
    """Say what becomes of the brokers, until interrupted, or until `minikafka down` has stopped them: True then.

    ``came`` has the signal also where its exception was swallowed, in a callback of a weak reference; no other comes then.
    """
    if not quiet:
        print("Ctrl-C brings them down", flush=True)

    def say(what: str) -> None:
        if not quiet:
            print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)

    states = {broker.id: "up" for broker in cluster.info().brokers}
    look_at = time.monotonic() + _WATCH_SECONDS
    while not came:
        time.sleep(min(_WATCH_DOWN_SECONDS, _WATCH_SECONDS))
        if cluster.was_brought_down:
            say("`minikafka down` has stopped all brokers: this ends, too")
            return True
        if time.monotonic() < look_at:
            continue
        look_at = time.monotonic() + _WATCH_SECONDS
        for broker, before in states.items():
            states[broker] = cluster.state(broker)
            if states[broker] != before:
                say(f"broker {broker} is {states[broker]}")
    return False


def _bring_down(cluster: LocalCluster | Controlled, *, quiet: bool) -> int:
    if not quiet and sys.stdout.isatty():
        print("\nbringing the brokers down", flush=True)
    for broker in cluster.down():
        print(f"minikafka up: broker {broker} did not shut down in time and was killed", file=sys.stderr)
    return exits.OK
