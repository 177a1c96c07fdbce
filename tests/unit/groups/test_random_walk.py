"""Many clients, a slow log, a moving clock: whatever happens, invariants hold and nobody waits for ever."""

from __future__ import annotations

import random
from collections.abc import Callable

from minikafka.groups.group import Group
from minikafka.groups.requests import GroupProtocol, JoinResult, MemberIdentity
from minikafka.groups.states import GroupState
from minikafka.protocol.errors import ErrorCode

from tests.forms import for_each

from .dialogue import GROUP, Lab, Waiting, subscription

CLIENTS = 4
STEPS = 80
SEEDS = 150
PROTOCOLS = (GroupProtocol("range", subscription("ledger")), GroupProtocol("sticky", subscription("ledger")))
ERRORS = (ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT)


class Client:
    """A member with a will of its own: it also lies, forgets and repeats itself."""

    def __init__(self, lab: Lab, rng: random.Random, number: int) -> None:
        self.lab = lab
        self.rng = rng
        self.instance = f"i{number}" if number == 0 else None
        self.joined: JoinResult | None = None
        self.member_id = ""
        self.requests: list[Waiting] = []
        self._open: Waiting | None = None

    def step(self) -> None:
        self._hear()
        actions: list[Callable[[], None]] = [self._join, self._join, self._join]
        if self.joined is not None:
            actions += [self._sync, self._sync, self._sync, self._beat, self._commit, self._leave]
        self.rng.choice(actions)()
        self._hear()

    def _hear(self) -> None:
        """Take in the answer to the last join."""
        if self._open is None or self._open.waits:
            return
        answer: JoinResult = self._open.answer
        self._open = None
        if answer.error is ErrorCode.NONE:
            self.joined, self.member_id = answer, answer.member_id
        elif answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif answer.error is not ErrorCode.REBALANCE_IN_PROGRESS:
            self.joined, self.member_id = None, ""

    def _ask(self, waiting: Waiting) -> Waiting:
        self.requests.append(waiting)
        return waiting

    def _join(self) -> None:
        protocols = self.rng.choice((PROTOCOLS, PROTOCOLS[:1]))
        member_id = "" if self.rng.random() < 0.1 else self.member_id
        version = self.rng.choice((3, 8, 9))
        joining = self.lab.join(
            member_id, instance=self.instance, protocols=protocols, rebalance=15_000, version=version
        )
        self._open = self._ask(joining)

    def _sync(self) -> None:
        assert self.joined is not None
        rows = {m.member_id: m.member_id.encode() for m in self.joined.members}
        self._ask(self.lab.sync(self.joined, rows, instance=self.instance))

    def _beat(self) -> None:
        assert self.joined is not None
        self.lab.beat(self.joined, instance=self.instance)

    def _commit(self) -> None:
        assert self.joined is not None
        self._ask(self.lab.commit(self.rng.randrange(100), self.joined, instance=self.instance))

    def _leave(self) -> None:
        assert self.joined is not None
        if self.rng.random() < 0.3:
            self.lab.leave(MemberIdentity(self.joined.member_id, self.instance))


def check(group: Group) -> None:
    """What must be true between any two events."""
    members = set(group.members)
    assert set(group.joins) <= members, "somebody waits who is no member"
    assert set(group.syncs) <= members, "somebody waits for an assignment who is no member"
    assert group.pending_sync <= members
    assert not members & set(group.pending), "a member is still pending"
    assert all(group.members[m].group_instance_id == i for i, m in group.static_members.items())
    assert {m.member_id for m in group.members.values() if m.is_static} == set(group.static_members.values())
    assert all(member.member_id == key for key, member in group.members.items())
    assert group.leader_id is None or group.leader_id in members
    if group.state is GroupState.EMPTY:
        assert not members
        assert not group.joins
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        assert members
        assert group.leader_id in members
        assert group.protocol_name in {"range", "sticky"}
        assert all(group.protocol_name in {p.name for p in m.protocols} for m in group.members.values())
    if group.state is GroupState.PREPARING_REBALANCE:
        assert group.join_timer is not None
        assert group.join_timer.deadline is not None, "a rebalance without an end"
    for member in group.members.values():
        waits = member.member_id in group.joins or member.member_id in group.syncs
        assert member.session is not None
        assert waits or member.session.deadline is not None, "a member that can never be found dead"


@for_each(range(SEEDS))
def test_random_walk(seed: int) -> None:
    """After the walk the log answers, everybody goes silent, and no request is left without its one answer."""
    rng = random.Random(seed)
    lab = Lab(
        confirming=False, group_initial_rebalance_delay_ms=rng.choice((0, 3000)), group_max_size=rng.choice((3, 99))
    )
    clients = [Client(lab, rng, number) for number in range(CLIENTS)]
    generation = 0

    def group() -> Group | None:
        return lab.coordinator._groups.get(GROUP)

    for _ in range(STEPS):
        what = rng.random()
        if what < 0.6:
            rng.choice(clients).step()
        elif what < 0.8 and lab.under_way:
            lab.confirm(rng.choice(ERRORS))
        else:
            lab.wait(rng.choice((0.0, 0.5, 2.0, 7.0)), every=100)
        now = group()
        if now is not None:
            check(now)
            assert now.generation >= generation, "generations never go back"
            generation = now.generation
    while lab.under_way:
        lab.confirm()
    lab.wait(400, every=1000)
    while lab.under_way:
        lab.confirm()
    lab.wait(10, every=1000)
    assert lab.state() in ("Empty", "Dead")
    unanswered = [request for client in clients for request in client.requests if request.waits]
    assert unanswered == []
