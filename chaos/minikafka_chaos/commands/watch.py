"""`minikafka watch`: replication as it happens, or as it was: in the terminal, as a page, or as one HTML file."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minikafka.command import exits
from minikafka.command.exits import CommandError

from minikafka_chaos.errors import BadScenario, ToolTrouble

if TYPE_CHECKING:
    from minikafka_chaos.watch.evidence import Evidence
    from minikafka_chaos.watch.recording import Recording
    from minikafka_chaos.watch.server import SharedRecording
    from minikafka_chaos.watch.verbs import CarryOut

LOOPBACK = "127.0.0.1"
TOKEN = "MINIKAFKA_CONTROL_TOKEN"
PORT_MAX = 65535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "recorded",
        metavar="RUN_DIR",
        nargs="?",
        type=Path,
        help="the folder of a run, or a file with the output of `minikafka simulate --seed N --trace`",
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="watch this cluster live: as given to `minikafka up`")
    parser.add_argument(
        "--web",
        type=_web_port,
        metavar="[HOST:]PORT",
        help=f"serve a page (0: a free port); needs a token where not on loopback, from {TOKEN} or a new one",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the replay of RUN_DIR as one HTML file")


def _web_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; allowed: 0 to {PORT_MAX}, with HOST: before it or not")
    return host.strip("[]") or LOOPBACK, int(port)


def run(args: argparse.Namespace) -> int:
    """Watch until it is enough."""
    if (args.recorded is None) == (args.data is None):
        raise exits.bad_input("give one of RUN_DIR and --data DIR")
    if args.html is not None and (args.data is not None or args.web is not None):
        raise exits.bad_input("--html: is written of a RUN_DIR, and is no server: not with --data or --web")
    if args.html is not None and not args.html.name:
        raise exits.bad_input(f"--html: {str(args.html)!r} is no name of a file")
    if args.html is not None and _is_evidence(args.html.resolve(), args.recorded.resolve()):
        raise exits.bad_input(f"--html: {args.html} is what the page would be made of: name another file")
    try:
        if args.data is not None:
            return _watch_live(args)
        return _replay(args)
    except BadScenario as error:
        raise exits.bad_input(str(error)) from error
    except ToolTrouble as error:
        raise CommandError(exits.UNKNOWN, str(error)) from error


def _is_evidence(page: Path, recorded: Path) -> bool:
    """Whether the page would be written over what was recorded."""
    return page == recorded or (recorded in page.parents and page.exists() and page.suffix != ".html")


def _replay(args: argparse.Namespace) -> int:
    from minikafka_chaos.watch.recording import Recording

    evidence = _evidence(args.recorded)
    recording = Recording()
    recording.take_all(evidence)
    title = args.recorded.resolve().name
    if args.html is not None:
        return _write_page(args.html, title, recording)
    if args.web is not None:
        from minikafka_chaos.watch.server import SharedRecording

        return _serve(args, SharedRecording(title, recording, live=False), None)
    from minikafka_chaos.watch.terminal import WatchScreen

    _need_terminal()
    WatchScreen(title, recording).run()
    return exits.OK


def _need_terminal() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise exits.bad_input(
            "standard input and output are no terminal; there are --web PORT, and for a run --html FILE"
        )


def _evidence(path: Path) -> list[Evidence]:
    from minikafka_chaos.watch.evidence import Note
    from minikafka_chaos.watch.run_folder import read_run
    from minikafka_chaos.watch.trace import is_trace, read_trace

    if not path.is_file():
        found = read_run(path)
        for each in found:
            if isinstance(each, Note):  # of what is torn
                print(f"minikafka watch: {path}: {each.text}", file=sys.stderr)
        return found
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise BadScenario(f"{path}: {error.strerror or error}") from error
    if not is_trace(text):
        raise BadScenario(f"{path}: is neither a run's folder nor what `minikafka simulate --seed N --trace` prints")
    try:
        trace = read_trace(text)
    except BadScenario as error:
        raise BadScenario(f"{path}: {error}") from error
    if trace.torn is not None:
        print(f"minikafka watch: {path}: {trace.torn}", file=sys.stderr)
    return trace.evidence


def _write_page(path: Path, title: str, recording: Recording) -> int:
    from minikafka.local.layout import write_atomic

    from minikafka_chaos.watch.page import recorded_page

    try:
        write_atomic(path, recorded_page(title, recording))
    except OSError as error:
        raise exits.bad_input(f"--html: {path}: {error.strerror or error}") from error
    print(f"{path}: {len(recording.steps)} steps")
    return exits.OK


def _watch_live(args: argparse.Namespace) -> int:
    from minikafka_chaos.session.by_hand import carry_out
    from minikafka_chaos.watch.live import ClusterWatcher, LiveCluster
    from minikafka_chaos.watch.recording import STEPS_KEPT_MAX, Recording

    cluster = LiveCluster(args.data)
    recording = Recording(STEPS_KEPT_MAX)
    title = f"{args.data.resolve().name} at {cluster.bootstrap}"

    def by_hand(verb: str, given: Mapping[str, Any]) -> Any:
        return carry_out(cluster.data, verb, given)

    if args.web is None:
        from minikafka_chaos.watch.terminal import WatchScreen

        _need_terminal()
        WatchScreen(title, recording, cluster, by_hand).run()
        return exits.OK
    from minikafka_chaos.watch.server import SharedRecording

    shared = SharedRecording(title, recording, live=True)
    watcher = ClusterWatcher(cluster, shared.take_all, shared.fail)
    watcher.start()
    try:
        return _serve(args, shared, by_hand)
    finally:
        watcher.stop()


def _serve(args: argparse.Namespace, shared: SharedRecording, carry_out: CarryOut | None) -> int:
    from minikafka_chaos.session.errors import VerbRefused
    from minikafka_chaos.watch.server import WatchServer

    host, port = args.web
    try:
        server = WatchServer(shared, host, port, os.environ.get(TOKEN) or None, carry_out)
    except VerbRefused as error:
        raise CommandError(exits.NO, str(error)) from error
    server.start()
    print(f"{server.url}\nCtrl-C ends it", flush=True)
    ended = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: ended.set())
    try:
        while not ended.wait(1.0):
            pass
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
        server.close()
    return exits.OK
