"""A healthy simulated cluster in which a test makes one thing wrong, and what an invariant has to say of it."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NoReturn

import pytest
from minikafka.protocol.types import TopicPartition
from minikafka.replication.partition import Partition
from minikafka_simulator.checks.account import Violation
from minikafka_simulator.checks.mirror import Identity
from minikafka_simulator.clients.producer import Lane
from minikafka_simulator.cluster.broker import SimBroker
from minikafka_simulator.faults.plan import Plan
from minikafka_simulator.schedules.world import World

FOUND = "found"
PIPE_BYTES = 60_000
"""Less than a pipe takes at once."""

FAR = 1_000_000
"""An offset or an epoch that no run reaches."""
ALIEN = (FAR, 1, 0)
"""The identity of a record that nobody wrote."""


class Scene:
    """A cluster that has served clients without any fault and has come to rest."""

    def __init__(self) -> None:
        self.world = World(seed=3, plan=Plan(seconds=2.0, strikes_max=0))
        self.world.run()
        self.checker = self.world.checker
        self.tp: TopicPartition = min(tp for tp in self.checker.states if tp.topic == "t")
        self.state = self.checker.states[self.tp]
        self.leader: SimBroker = self.world.brokers[self.state.leader]
        self.follower: SimBroker = self.world.brokers[next(i for i in self.state.isr if i != self.leader.id)]
        self.partition: Partition = self.leader.partitions[self.tp]
        self.lane = self.sends(acks=-1)
        self.sent = self.lane.last

    def sends(self, acks: int) -> Lane:
        """What the first producer with these acks sends to the partition."""
        return next(p.lanes[self.tp] for p in self.world.producers if p.sending.acks == acks and self.tp in p.lanes)

    def view(self, broker: SimBroker) -> Any:
        """What the checker remembers of a broker's replica; whoever asks is about to change it, so it is looked at again."""
        view = self.checker.views[broker.id, self.tp]
        view.looked_at = None
        return view

    def decided(self, fence: int | None = None, **changes: Any) -> None:
        """The controller's next decision about the partition."""
        image = self.leader.image
        topic = image.topics[self.tp.topic]
        partitions = list(topic.partitions)
        partitions[self.tp.partition] = replace(self.state, partition_epoch=self.state.partition_epoch + 1, **changes)
        image.topics[self.tp.topic] = replace(topic, partitions=tuple(partitions))
        if fence is not None:
            image.brokers[fence] = replace(image.brokers[fence], fenced=True)
        self.checker.committed([], image)

    def reads(self, offset: int, value: str, position: int | None = None, identity: Identity | None = None) -> None:
        """A reader is given a record; the one that is committed there, unless ``identity`` says otherwise."""
        self.checker.clients.sent_values.setdefault(value, -1)
        given = identity or self.checker.commits.truth[self.tp][offset]
        self.checker.clients.consumed(self.tp, offset if position is None else position, offset, value, given)

    def committed_is(self, offset: int, identity: Identity) -> None:
        """Another record was committed at an offset than the brokers have."""
        truth = self.checker.commits.truth[self.tp]
        truth[offset : offset + 1] = [identity]
        for view in self.checker.views.values():
            view.disagree_from(offset)
            view.looked_at = None

    @property
    def end(self) -> int:
        return len(self.checker.commits.truth[self.tp])

    def look(self, broker: SimBroker) -> None:
        """Compare all that a broker remembers of its log with the log, as after a restart."""
        self.checker.started(broker)


MakeWrong = Callable[[Scene], None]


@cache
def _healthy() -> Scene:
    return Scene()


def fires(invariant: str, make_wrong: MakeWrong) -> None:
    """What was made wrong is found, as this invariant; after a comma it says which case of it.

    In a copy of this process: a scene takes some tenths of a second, so there is one for all.
    """
    scene = _healthy()
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        _report(theirs, scene, invariant.split(",", maxsplit=1)[0], make_wrong)
    os.close(theirs)
    with os.fdopen(ours) as report:
        problem = report.read()
    os.waitpid(child, 0)
    assert problem == FOUND, problem or "the copy of this process died"


def _report(pipe: int, scene: Scene, invariant: str, make_wrong: MakeWrong) -> NoReturn:
    try:
        with pytest.raises(Violation) as found:
            make_wrong(scene)
        problem = FOUND if found.value.invariant == invariant else f"{found.value} instead of {invariant}"
    except BaseException:  # whatever it was, the test is told, and nothing of pytest runs twice
        problem = traceback.format_exc()
    os.write(pipe, problem.encode()[-PIPE_BYTES:])
    os._exit(0)
