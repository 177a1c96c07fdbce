"""`minikafka verify`: put a load on any Kafka-compatible cluster, read it back, and say what was lost.

It needs nothing but the Kafka protocol. Break the cluster meanwhile, by whatever means: the verdict is found from what
the clients were told. With `--history FILE` it judges a history that was written before, with `--run RUN_DIR` a whole run
folder: the replicas' logs and the scenario's claims as well. A judgement of files changes no file. With `--data DIR` it mends a
cluster that `minikafka up` started, and judges what its brokers told as acknowledged, whoever has broken them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from minikafka.command_config import add_command_config
from rich.console import Console

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.record.history import FILE_NAME, HistoryError, HistoryWriter
from minikafka_chaos.record.journal import FILE_NAME as JOURNAL
from minikafka_chaos.run.interrupts import Interrupts
from minikafka_chaos.verdict.verdict import Outcome, Verdict, judge, judge_run

if TYPE_CHECKING:
    from minikafka_chaos.load.clients import TopicPlan

HELP = "load a Kafka-compatible cluster, read everything back, and judge what was lost"

TOPIC_TIMEOUT_S = 30.0
CLUSTER_S = 600.0
"""To mend a cluster and to read all that its leaders have."""
ACKS = {"all": "all", "-1": "all", "1": "1", "0": "0"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `minikafka verify`."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--bootstrap", metavar="H:P", help="the cluster to load and judge")
    source.add_argument("--history", metavar="FILE", type=Path, help="judge this history.jsonl instead")
    source.add_argument("--run", metavar="RUN_DIR", type=Path, help="judge this run folder again")
    source.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        help="heal the cluster that `minikafka up` started there, and judge its topics",
    )
    add_command_config(parser)
    parser.add_argument("--acks", choices=list(ACKS), default="all", help="what producers wait for (default all)")
    parser.add_argument("--seconds", type=_positive, default=10.0, metavar="N", help="how long to send (default 10)")
    parser.add_argument("--topic", help="an existing, unused topic; default: a new one, deleted at the end")
    parser.add_argument("--partitions", type=int, default=3, help="partitions of the new topic (default 3)")
    parser.add_argument("--replication-factor", type=int, default=3, help="of the new topic (default 3)")
    parser.add_argument(
        "--topic-config", action="append", default=[], metavar="KEY=VALUE", help="of the new topic, repeatable"
    )
    parser.add_argument("--rate", type=int, default=1000, metavar="R", help="records per second (default 1000)")
    parser.add_argument("--producers", type=int, default=2, help="producers (default 2)")
    parser.add_argument("--record-bytes", type=int, default=100, help="size of a record's value (default 100)")
    parser.add_argument("--idempotence", action="store_true", help="idempotent producers: then a duplicate is an error")
    parser.add_argument("--max-in-flight", type=int, default=1, help="requests in flight on a connection (default 1)")
    parser.add_argument(
        "--read-deadline", type=_positive, default=60.0, metavar="S", help="seconds for reading back (default 60)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep history.jsonl and verdict.json there")
    parser.add_argument("--keep-topic", action="store_true", help="do not delete the new topic")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")


def _positive(text: str) -> float:
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("must be above 0")
    return value


def run(args: argparse.Namespace) -> int:
    """Run `minikafka verify`; the exit code is the verdict's: 0 Passed, 1 Failed, 2 bad input, 3 could not tell."""
    console = Console(stderr=args.json)
    try:
        if args.history is not None:
            verdict = _judged(lambda: judge(args.history), args.history)
        elif args.run is not None:
            verdict = _judged(lambda: judge_run(args.run), args.run / JOURNAL, args.run / FILE_NAME)
        elif args.data is not None:
            verdict = _of_cluster(args.data.absolute())
        else:
            with tempfile.TemporaryDirectory(prefix="minikafka-verify-") as scratch:
                out = args.out or Path(scratch)
                path = out / FILE_NAME
                if path.exists():
                    raise _BadInput(f"{path} is there already: name another --out")
                verdict = _load_and_judge(args, path, console)
    except _BadInput as error:
        print(f"minikafka verify: {error}", file=sys.stderr)
        return 2
    if args.out is not None and args.bootstrap is not None:
        (args.out / "verdict.json").write_text(json.dumps(verdict.as_json(), indent=2) + "\n")
    if args.json:
        print(json.dumps(verdict.as_json(), indent=2))
    else:
        from minikafka_chaos.verdict.report_table import print_verdict

        print_verdict(console, verdict)
    return verdict.outcome.exit_code


def _judged(judgement: Callable[[], Verdict], *files: Path) -> Verdict:
    """The judgement; Error for evidence that contradicts itself or cannot be read. One of the files has to be there."""
    if not any(path.is_file() for path in files):
        raise _BadInput(f"{files[-1]}: No such file or directory")
    try:
        return judgement()
    except HistoryError as error:
        return Verdict.without_judgement(Outcome.ERROR, str(error))


def _of_cluster(data: Path) -> Verdict:
    """The verdict on a cluster that somebody has broken by hand; Error when it cannot be healed."""
    from minikafka_chaos.session.control import Control
    from minikafka_chaos.session.controlled import session_of

    control = Control.of(data)
    try:
        session = session_of(data)
    except ToolTrouble as error:
        raise _BadInput(f"--data: {error}") from error
    try:
        if control is not None:
            control.ask("heal", {})  # what it has broken of the network only it can mend
        return session.verdict(deadline_s=CLUSTER_S)
    except (ToolTrouble, ValueError) as error:
        return Verdict.without_judgement(Outcome.ERROR, str(error))
    finally:
        session.close()


class _BadInput(ValueError):
    """An option that cannot be: one line."""


def _load_and_judge(args: argparse.Namespace, path: Path, console: Console) -> Verdict:
    from minikafka_chaos.load.clients import TopicPlan

    config = {}
    for pair in args.topic_config:
        key, equals, value = pair.partition("=")
        if not equals:
            raise _BadInput(f"--topic-config {pair}: must be KEY=VALUE")
        config[key] = value
    for name in ("partitions", "replication_factor", "rate", "producers", "max_in_flight"):
        if getattr(args, name) < 1:
            raise _BadInput(f"--{name.replace('_', '-')} {getattr(args, name)}: must be at least 1")
    interrupts = Interrupts()
    plan = TopicPlan(args.topic or "", args.partitions, args.replication_factor, None, config)
    try:
        with interrupts.watched():
            return _on_topic(args, path, console, plan)
    except ToolTrouble as error:
        return Verdict.without_judgement(Outcome.ERROR, str(error))
    except (KeyboardInterrupt, Exception):
        if interrupts.raised:  # from a callback of the client it may come out as any error
            return Verdict.without_judgement(Outcome.ABORTED, "interrupted")
        raise


def _on_topic(args: argparse.Namespace, path: Path, console: Console, plan: TopicPlan) -> Verdict:
    """On the topic that was given, or on one that is made for this and goes again."""
    from minikafka_chaos.load.topics import create_topic, delete_topic

    if plan.name:
        partitions = _partitions(args, plan.name)
        args.bootstrap = _all_brokers(args)
        return _drive(args, path, console, plan.name, partitions)
    plan = replace(plan, name=f"minikafka-verify-{uuid.uuid4().hex[:8]}")
    create_topic(args.bootstrap, args.security, plan, TOPIC_TIMEOUT_S)
    args.bootstrap = _all_brokers(args)
    try:
        return _drive(args, path, console, plan.name, args.partitions)
    finally:
        if not args.keep_topic:
            try:
                delete_topic(args.bootstrap, args.security, plan.name)
            except ToolTrouble as error:
                console.print(f"[yellow]{error}[/]")


def _all_brokers(args: argparse.Namespace) -> str:
    """Add the brokers that the cluster has now: who reads back at the end may find those dead that were given."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    from minikafka_chaos.load.librdkafka import admin_config

    admin = AdminClient(admin_config(args.bootstrap, args.security))
    try:
        known = admin.list_topics(timeout=TOPIC_TIMEOUT_S).brokers.values()
    except KafkaException:
        return str(args.bootstrap)
    hosts = [(f"[{broker.host}]" if ":" in str(broker.host) else broker.host, broker.port) for broker in known]
    return ",".join(dict.fromkeys([*args.bootstrap.split(","), *(f"{host}:{port}" for host, port in hosts)]))


def _partitions(args: argparse.Namespace, topic: str) -> int:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    from minikafka_chaos.load.cluster_view import described_topic
    from minikafka_chaos.load.librdkafka import admin_config

    try:
        found = described_topic(AdminClient(admin_config(args.bootstrap, args.security)), topic, TOPIC_TIMEOUT_S)
    except KafkaException as error:
        raise ToolTrouble(f"no answer from {args.bootstrap}: {error.args[0].name()}") from error
    if found is None:
        raise _BadInput(f"--topic {topic}: there is no such topic")
    if found.error is not None:
        raise _BadInput(f"--topic {topic}: {found.error.name()}")
    return len(found.partitions)


def _drive(args: argparse.Namespace, path: Path, console: Console, topic: str, partitions: int) -> Verdict:
    from minikafka.protocol.types import TopicPartition

    from minikafka_chaos.load.load import LoadSettings, ProducerSettings, Tally
    from minikafka_chaos.load.reader import TailReader, read_back
    from minikafka_chaos.load.workload import Load
    from minikafka_chaos.record.history import FAIL, INFO, OK

    client = ProducerSettings(ACKS[args.acks], args.idempotence, args.max_in_flight)
    settings = LoadSettings(topic, partitions, args.producers, args.rate, record_bytes=args.record_bytes, client=client)
    everywhere = [TopicPartition(topic, partition) for partition in range(partitions)]
    tally = Tally()
    with HistoryWriter(path) as history:
        load = Load(args.bootstrap, args.security, settings, history, tally)
        tail = TailReader(args.bootstrap, args.security, everywhere, history)
        try:
            tail.note_ends()
            tail.start()
            load.start()
            with console.status("sending") as status:
                end = time.monotonic() + args.seconds
                while (left := end - time.monotonic()) > 0 and load.running:
                    time.sleep(min(left, 0.2))
                    totals = {outcome: tally.total(outcome) for outcome in (OK, FAIL, INFO)}
                    status.update(
                        f"{left:.0f} s left: {totals[OK]:,} acknowledged, {totals[FAIL]:,} failed, {totals[INFO]:,} unknown"
                    )
        finally:
            load.stop(client.delivery_timeout_ms / 1000)
            tail.stop()
        for part in (load, tail):
            if part.failure is not None:
                raise ToolTrouble(f"{type(part).__name__}: {part.failure!r}")
        with console.status("reading back"):
            read_back(args.bootstrap, args.security, everywhere, history, args.read_deadline)
    return _judged(lambda: judge(path), path)
