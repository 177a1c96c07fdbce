"""A group of consumers in the load: its members' processes, and what they tell, written into the history."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from minikafka.client.security import ClientSecurity
from minikafka.protocol.types import TopicPartition

from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.load import member_process
from minikafka_chaos.load.clients import GroupSettings
from minikafka_chaos.load.group_state import group_state
from minikafka_chaos.load.librdkafka import member_config, reader_config
from minikafka_chaos.load.load import MEMBER_PROCESS
from minikafka_chaos.record.history import HistoryWriter

COMMAND = (sys.executable, "-m", member_process.__name__)
ASK_S = 2.0
LEAVE_S = 10.0
"""How long members may take to leave; then they are killed."""


class _Running:
    """One process, and the thread that listens to it."""

    def __init__(self, number: int, process: subprocess.Popen[bytes], listener: threading.Thread) -> None:
        self.number = number
        self.process = process
        self.listener = listener
        self.may_end = False
        """It was asked to die, or to leave."""

    def ask(self, what: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(what.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it is gone: that is told by its end


class ConsumerGroup:
    """See `minikafka_chaos.load.clients.WorkloadGroup`. Members are numbered from 1."""

    def __init__(
        self,
        bootstrap: str,
        security: Callable[[], ClientSecurity],
        settings: GroupSettings,
        partitions: Sequence[TopicPartition],
        history: HistoryWriter,
    ) -> None:
        self._bootstrap = bootstrap
        self._security = security
        self._settings = settings
        self._partitions = list(partitions)
        self._history = history
        self._processes = MEMBER_PROCESS
        self._running: dict[int, _Running] = {}
        self._stands: dict[TopicPartition, int] = {}
        """Where the group is: the last place where a member was put, or that was committed."""
        self._failure: BaseException | None = None
        self._ends: Consumer | None = None

    @property
    def failure(self) -> BaseException | None:
        """Return what went wrong with the tool: a member that ended though nobody asked for it."""
        for member in self._running.values():
            if member.process.poll() is not None and not member.may_end:
                return ToolTrouble(f"member {member.number} ended with {member.process.returncode}")
        return self._failure

    def start(self) -> None:
        """All members of the beginning."""
        for number in range(1, self._settings.members + 1):
            self.start_member(number)

    def start_member(self, number: int) -> None:
        """Raises ToolTrouble when it runs."""
        known = self._running.get(number)
        if known is not None and known.process.poll() is None:
            raise ToolTrouble(f"member {number} runs")
        if known is not None:
            known.listener.join(LEAVE_S)
        settings = self._settings
        options = {
            "group": settings.group, "topic": settings.topic, "before": settings.commits_first, "reset": settings.reset,
            "poison_every": settings.poison_every, "dead_letters": settings.dead_letters,
        }  # fmt: skip
        process = subprocess.Popen([*COMMAND, json.dumps(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._processes += 1
        self._history.join(self._processes, settings.group)
        listener = threading.Thread(target=self._listen, args=(process, self._processes), daemon=True)
        running = self._running[number] = _Running(number, process, listener)
        config = member_config(self._bootstrap, self._security(), settings.group, settings.session_timeout_ms)
        running.ask(json.dumps(config))  # not among the arguments, which everybody on the machine can read
        listener.start()

    def crash_member(self, number: int, moment: str, deadline_s: float) -> bool:
        """See `minikafka_chaos.load.clients.WorkloadGroup`."""
        member = self._running.get(number)
        if member is None or member.process.poll() is not None:
            raise ToolTrouble(f"member {number} does not run")
        member.may_end = True
        member.ask(f"{member_process.CRASH} {moment}")
        try:
            member.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            return False
        member.listener.join(LEAVE_S)
        return True

    def lag(self) -> int | None:
        """Return how many offsets the group has before it, up to the ends that leaders tell now; None while nobody tells."""
        if self._ends is None:
            self._ends = Consumer(reader_config(self._bootstrap, self._security()))
        lag = 0
        for partition in self._partitions:
            try:
                bounds = self._ends.get_watermark_offsets(ClientPartition(*partition), timeout=ASK_S)
            except KafkaException:
                return None
            if bounds is None or bounds[1] < 0 or (partition not in self._stands and bounds[1] > 0):
                return None
            lag += abs(bounds[1] - self._stands.get(partition, 0))
        return lag

    def state(self) -> str | None:
        """The group's state as its coordinator tells it (`PreparingRebalance`, `Stable`, ...); None while it does not."""
        return group_state(self._bootstrap, self._security(), self._settings.group, ASK_S)

    def stop(self) -> None:
        """All leave; who does not in time is killed."""
        deadline = time.monotonic() + LEAVE_S
        for member in self._running.values():
            member.may_end = True
            member.ask(member_process.STOP)
        for member in self._running.values():
            try:
                member.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
            member.listener.join(LEAVE_S)
        if self._ends is not None:
            self._ends.close()

    def _listen(self, process: subprocess.Popen[bytes], number: int) -> None:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.endswith(b"\n"):
                    self._record_line(number, json.loads(line))
        except BaseException as error:
            self._failure = error

    def _record_line(self, number: int, line: dict[str, Any]) -> None:
        history, topic = self._history, self._settings.topic
        partition, offset = line["partition"], line["offset"]
        match line["op"]:
            case "assign":
                history.assign(number, topic, partition, offset)
                self._stands[TopicPartition(topic, partition)] = offset
            case "poll":
                history.poll(number, line["batch"], topic, partition, offset, line["value"], line["leader_epoch"])
            case "process":
                history.process(number, topic, partition, offset, line["value"])
            case "commit":
                history.commit(number, topic, partition, offset, line["error"])
                if line["error"] is None:
                    self._stands[TopicPartition(topic, partition)] = offset
