"""What goes wrong: a random sequence of faults, each of which is undone in the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from minikafka.controller.change import Election
from minikafka.controller.controller import Controller
from minikafka.controller.topics import NewTopic
from minikafka.groups.placement import OFFSETS_TOPIC
from minikafka.metadata.image import NO_LEADER
from minikafka.protocol.types import TopicPartition

from minikafka_simulator.clients.admin import Admin
from minikafka_simulator.clients.clients import VISITED

if TYPE_CHECKING:
    from minikafka_simulator.cluster.broker import SimBroker
    from minikafka_simulator.faults.faulty_cluster import FaultyCluster


MORE_THAN_ALL, MORE_THAN_ALL_SHARE = "6", 0.3
"""A min.insync.replicas above every replication factor, and the share of runs that end with it."""


class Healing(Protocol):
    """Somebody else who makes faults."""

    def heal(self) -> None:
        """End them."""


class Nemesis:
    """Injects a fault every now and then until :meth:`heal`."""

    def __init__(self, world: FaultyCluster) -> None:
        self.world = world
        self.active = True
        self.count = 0
        self._ambushed: set[int] = set()
        self._flips = Random(f"flips {world.scheduler.seed}")
        self._admin = Admin(world, world.scheduler.seed)
        self.profile = world.random.choice(world.plan.profiles)
        self.minority = self.profile.name == "minority"
        """One broker down at a time, and nothing else ever wrong: clients must hardly notice."""
        self.gentle = world.random.random() < world.plan.gentle or self.minority
        world.note(f"profile {self.profile.name}{' gentle' if self.gentle else ''}")
        self.faults: dict[str, Callable[[], None]] = {
            "kill": self.kill,
            "kill_leader": self.kill_leader,
            "kill_controller": self.kill_controller,
            "kill_all": self.kill_all,
            "power_loss": self.power_loss,
            "power_loss_on_return": self.power_loss_on_return,
            "power_loss_in_recovery": self.power_loss_in_recovery,
            "pause": self.pause,
            "cut": self.cut,
            "isolate": self.isolate,
            "slow_network": self.slow_network,
            "bounce": self.bounce,
            "shut_down": self.shut_down,
            "store_outage": self.store_outage,
            "elect": self.elect,
            "flip": self.flip,
            "stale_metadata": self.stale_metadata,
            "delete_records": self.delete_records,
            "alter_min_isr": self.alter_min_isr,
            "roll_min_isr": self.roll_min_isr,
            "raise_min_isr_unheard": self.raise_min_isr_unheard,
            "reassign": self.reassign,
            "remake_topic": self.remake_topic,
            "bounce_unheard": self.bounce_unheard,
            "unregister": self.unregister,
            "forget_controller": self.forget_controller,
        }
        world.scheduler.at(world.random.uniform(0.5, 1.2), self.strike)

    def strike(self) -> None:
        """One fault, and the next in a while."""
        random = self.world.random
        if not self.may_strike():
            return
        fault = random.choice(self.profile.faults)
        if self.counts():
            self.faults[fault]()
        self.world.scheduler.at(random.expovariate(1 / self.profile.pause_between), self.strike)

    def may_strike(self) -> bool:
        """Whether faults go on."""
        most = self.world.plan.strikes_max
        return self.active and (most is None or self.count < most)

    def counts(self) -> bool:
        """Count one more fault; whether it is to happen."""
        self.count += 1
        return self.count not in self.world.plan.skip

    def heal(self, *others: Healing) -> None:
        """End all faults, those of others, too.

        In some runs more replicas are asked for from here on than there are: that is, all (KIP-966).
        """
        if self.may_strike() and Random(f"heal {self.world.scheduler.seed}").random() < MORE_THAN_ALL_SHARE:
            self._set_min_isr(MORE_THAN_ALL)
        self.active = False
        self.world.note("-- heal --")
        self.world.network.heal()
        self.world.store.heal()
        for other in others:
            other.heal()
        for broker in self.world.brokers.values():
            broker.resume()
            if not broker.up:
                broker.start()
            elif broker.stopping:
                broker.crash(False, False)
                broker.start()

    # -- picking --------------------------------------------------------------------------------------------------------

    def _any(self) -> SimBroker | None:
        up = [b for b in self.world.brokers.values() if b.up]
        return self.world.random.choice(up) if up else None

    def _leader(self) -> SimBroker | None:
        if not self.world.checker.states:
            return None
        states = self.world.checker.states
        tp = self.world.random.choice(sorted(states))
        broker = self.world.brokers.get(states[tp].leader)
        return broker if broker is not None and broker.up else None

    def _controller(self) -> SimBroker | None:
        held = self.world.store.held
        broker = None if held is None else self.world.brokers[held.holder]
        return broker if broker is not None and broker.up else None

    def spares(self, broker: SimBroker) -> bool:
        """In a gentle run nobody dies whose death could end in an unclean election, which would excuse every loss after it."""
        if not self.gentle:
            return True
        if any(not b.up for b in self.world.brokers.values()):
            return False
        for state in self.world.checker.states.values():
            if not any(m != broker.id and self.world.brokers[m].up for m in state.isr):
                return False
        return True

    def _back_later(self, broker: SimBroker, soonest: float = 0.05, latest: float = 2.0) -> None:
        self.back_in(broker, self.world.random.uniform(soonest, latest))

    def back_in(self, broker: SimBroker, seconds: float) -> None:
        """Start a broker that is down, unless all is healed before."""

        def back() -> None:
            if not broker.up and self.active:
                broker.start()

        self.world.scheduler.at(seconds, back)

    def _kill(self, broker: SimBroker | None) -> None:
        if broker is not None and self.spares(broker):
            broker.crash(False, False)
            self._back_later(broker)

    # -- faults ---------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        self._kill(self._any())

    def kill_leader(self) -> None:
        self._kill(self._leader())

    def kill_controller(self) -> None:
        self._kill(self._controller())

    def kill_all(self) -> None:
        if self.gentle:
            return
        for broker in self.world.brokers.values():
            if broker.up:
                self._kill(broker)

    def power_loss(self) -> None:
        """Unflushed records of one broker go, where another member still holds all that is committed (f = min ISR - 1)."""
        broker = self._any() if self.world.random.random() < 0.5 else self._leader()
        if broker is not None and self.lose_power(broker):
            self._back_later(broker)

    def lose_power(self, broker: SimBroker, torn: bool | None = None) -> bool:
        """Unless that could take what is committed from all that have it. ``torn``: chance decides by default."""
        if not broker.up or not self.may_lose(broker):
            return False
        broker.crash(True, self.world.random.random() < 0.5 if torn is None else torn)
        return True

    def power_loss_on_return(self) -> None:
        """A follower that was cut off long enough to be dropped loses power, and is back at once, while it is let in again."""
        random = self.world.random
        broker = self._any()
        if broker is None:
            return
        links = [link for o in self.world.brokers if o != broker.id for link in ((o, broker.id), (broker.id, o))]
        away = self.world.lag * random.uniform(1.0, 2.0)
        self.cut_links(links, f"b{broker.id} off", away)
        self._ambushed.add(broker.id)

    def proposed(self, members: Iterable[int], isr: Collection[int]) -> None:
        """A leader asks for these members; called by the world, so that a fault can strike while the answer is on its way."""
        for member in members:
            if member not in isr and member in self._ambushed:
                self._ambushed.discard(member)
                self.world.scheduler.at(self.world.random.uniform(0.0, 0.02), lambda m=member: self._ambush(m))  # type: ignore[misc]

    def _ambush(self, member: int) -> None:
        broker = self.world.brokers[member]
        if self.active and self.lose_power(broker):
            self._back_later(broker, 0.0, 0.03)

    def power_loss_in_recovery(self) -> None:
        """A broker that stopped cleanly comes back, and loses power soon: nothing may still count as stopped cleanly."""
        broker, random = self._any(), self.world.random
        if broker is None or not self.spares(broker):
            return
        broker.shut_down()
        back = random.uniform(0.4, 1.0)
        self._back_later(broker, back, back)

        def lose() -> None:
            if self.active and self.lose_power(broker):
                self._back_later(broker)

        self.world.scheduler.at(back + random.uniform(0.05, 1.0), lose)

    def may_lose(self, broker: SimBroker) -> bool:
        """Whether others hold what is committed."""
        if not self.spares(broker):
            return False
        checker = self.world.checker
        for tp, state in checker.states.items():
            if broker.id not in state.replicas:
                continue
            others = [m for m in (*state.isr, *state.elr) if m != broker.id and self.world.brokers[m].up]
            if not any(checker.commits.holds_all(m, tp) for m in others):
                return False
        return True

    def pause(self) -> None:
        broker = self._any()
        if broker is not None and not broker.paused:
            broker.pause()
            self.world.scheduler.at(self.world.random.uniform(0.1, 4.0), broker.resume)

    def cut_links(self, links: list[tuple[int, int]], text: str, seconds: float | None = None) -> None:
        cut = self.world.network.cut
        cut.update(links)
        self.world.note(f"cut {text}")

        def mend() -> None:
            cut.difference_update(links)
            self.world.note(f"mend {text}")

        self.world.scheduler.at(self.world.random.uniform(0.2, 3.0) if seconds is None else seconds, mend)

    def cut(self) -> None:
        """One link, in one direction or both."""
        random = self.world.random
        a, b = random.sample(sorted(self.world.brokers), 2)
        if random.random() < 0.5:
            self.cut_links([(a, b)], f"{a}->{b}")
        else:
            self.cut_links([(a, b), (b, a)], f"{a}<->{b}")

    def isolate(self) -> None:
        """One broker from all others, not from clients: a zombie leader is born."""
        broker = self._leader() or self._any()
        if broker is not None:
            others = [i for i in self.world.brokers if i != broker.id]
            self.cut_links([link for o in others for link in ((o, broker.id), (broker.id, o))], f"b{broker.id} off")

    def slow_network(self) -> None:
        network, random = self.world.network, self.world.random
        network.loss = random.choice((0.0, 0.1, 0.3))
        network.delay_max = random.choice((0.01, 0.05, 0.3))
        self.world.note(f"network loss {network.loss} delay {network.delay_max}")

        def mend() -> None:
            network.loss = 0.0
            network.delay_max = 0.01

        self.world.scheduler.at(random.uniform(0.2, 2.0), mend)

    def bounce(self) -> None:
        """Down and up again at once, often before anybody has noticed."""
        broker = self._any()
        if broker is not None and self.spares(broker):
            broker.crash(False, False)
            self._back_later(broker, 0.0, 0.03)

    def bounce_unheard(self) -> None:
        """Down and up again twice, and it hears of its own registration late."""
        broker, random, store = self._any(), self.world.random, self.world.store
        if broker is None or not self.spares(broker):
            return
        self.world.note(f"b{broker.id} hears from the store late")

        def bounce() -> None:
            if self.active and broker.up:
                store.slow[broker.id] = random.uniform(0.3, 2.0)
                broker.crash(False, False)
                self._back_later(broker, 0.0, 0.03)

        at, first = self.world.scheduler.at, 2 * self.world.heartbeat
        at(first, bounce)
        at(first + random.uniform(0.05, 0.4), bounce)
        at(random.uniform(2.0, 4.0), lambda: store.on_time(broker.id))

    def unregister(self) -> None:
        """An admin takes a broker for dead that lives: it loses its registration, and registers again."""
        broker = self._any()
        if broker is not None and self.spares(broker):
            self.world.note(f"b{broker.id} is unregistered")
            self._admin.unregister(broker.id)

    def forget_controller(self) -> None:
        """The controller stands still, and nobody's connection to it ends; others take its place before it goes on."""
        broker, random = self._controller(), self.world.random
        if broker is None or broker.paused:
            return
        away = self.world.session * random.uniform(1.2, 2.5)
        others = [i for i in self.world.brokers if i != broker.id]
        self.cut_links(
            [link for o in others for link in ((o, broker.id), (broker.id, o))], f"b{broker.id} off", away + 1.5
        )
        broker.pause()
        self.world.scheduler.at(away, broker.resume)

    def shut_down(self) -> None:
        broker = self._any()
        if broker is not None and self.spares(broker):
            broker.shut_down()
            self._back_later(broker, 0.5, 3.0)

    def store_outage(self) -> None:
        store, random = self.world.store, self.world.random
        if random.random() < 0.5:
            store.down = True
            self.world.note("store is down")
            self.world.scheduler.at(random.uniform(0.1, 2.0), self._store_back)
        else:
            broker = self._controller() or self._any()
            if broker is not None:
                store.unreachable.add(broker.id)
                self.world.note(f"store is out of reach of b{broker.id}")
                self.world.scheduler.at(random.uniform(0.1, 2.0), lambda: store.unreachable.discard(broker.id))

    def _store_back(self) -> None:
        self.world.store.down = False
        self.world.note("store is back")

    def elect(self) -> None:
        """Preferred leaders, at once: elections without any death."""
        self._admin.elect()

    def flip(self) -> None:
        """An admin moves a leader to a follower that lags and soon back, while the old leader hears of it late or never; and
        often a third replica, too, which goes on fetching from the leader that it knows in a term that is long over."""
        random, states = self.world.random, self.world.checker.states
        if not states:
            return
        tp = random.choice(sorted(states))
        old = states[tp].leader
        others = [m for m in states[tp].isr if m != old]
        if old == NO_LEADER or not others:
            return
        new = random.choice(others)
        lag, away = random.uniform(0.05, 0.3), random.uniform(0.05, 0.6)
        self.cut_links([(new, old), (old, new)], f"{new}<->{old}", lag)
        self.world.store.slow[old] = lag + away * random.uniform(0.5, 2.0)
        third = [m for m in states[tp].replicas if m not in (old, new)]
        if third and self._flips.random() < self.world.plan.unheard:
            broker, late = self._flips.choice(third), lag + away + self._flips.uniform(0.9, 1.3)
            self._hears_late(broker, late, late)
        self.world.note(f"{tp} moves from b{old} to b{new} and back")
        self.world.scheduler.at(lag, lambda: self.prefer(tp, new))
        self.world.scheduler.at(lag + away, lambda: self.prefer(tp, old))
        self.world.scheduler.at(lag + away + random.uniform(0.1, 1.0), lambda: self.world.store.on_time(old))

    def _hears_late(self, broker: int, late: float, ends: float) -> None:
        """What was decided ``late`` seconds ago, until ``ends`` seconds from now."""
        self.world.store.slow[broker] = late
        self.world.note(f"b{broker} hears from the store {late:.2f} s late")
        self.world.scheduler.at(ends, lambda: self.world.store.on_time(broker))

    def prefer(self, tp: TopicPartition, leader: int, *, reorder: bool = True, elect: bool = True) -> None:
        """Reorder the replicas and elect the preferred one, as two requests of an admin, or one of them."""

        def decide(controller: Controller) -> None:
            state = controller.workspace.image.partition(tp.topic, tp.partition)  # people may have deleted its topic
            replicas = () if state is None else state.replicas
            if leader in replicas:
                if reorder:
                    order = (leader, *(r for r in replicas if r != leader))
                    controller.partitions.reassign(tp.topic, tp.partition, order)
                if elect:
                    controller.partitions.elect(tp.topic, tp.partition, Election.PREFERRED)

        self._ask(decide)

    def alter_min_isr(self) -> None:
        """An admin sets or removes the topic's own min.insync.replicas."""
        self._set_min_isr(self.world.random.choice(("1", "1", "2", "3", None)))

    def _set_min_isr(self, value: str | None) -> None:
        self.world.note(f"min.insync.replicas of the topic: {value}")
        self._admin.set_min_isr("t", value)

    def raise_min_isr_unheard(self) -> None:
        """An admin raises the minimum; a leader hears of it late, and meanwhile loses its followers."""
        random, leader = self.world.random, self._leader()
        if leader is None:
            return
        self._set_min_isr("1")
        lag, store = self.world.lag, self.world.store
        others = [i for i in self.world.brokers if i != leader.id]
        held = store.held
        links = [link for o in others if held is None or o != held.holder for link in ((o, leader.id), (leader.id, o))]
        late = lag * random.uniform(2.0, 4.0)

        def raise_it() -> None:
            store.slow[leader.id] = late
            self._set_min_isr("2")
            self.cut_links(links, f"followers of b{leader.id} off", late)

        at = self.world.scheduler.at
        at(0.2, raise_it)
        at(0.2 + late * random.uniform(0.6, 0.95), lambda: self._kill(leader) if self.active and leader.up else None)
        at(0.2 + late, lambda: store.on_time(leader.id))

    def roll_min_isr(self) -> None:
        """A rolling change of the brokers' files: they are restarted one after the other, and any of them may be controller."""
        random, value = self.world.random, self.world.random.choice((1, 2, 2, 3))
        self.world.note(f"min.insync.replicas in the brokers' files: {value}")
        after = 0.0
        for broker in random.sample(list(self.world.brokers.values()), len(self.world.brokers)):
            self.world.scheduler.at(after, lambda b=broker: self._reconfigure(b, value))  # type: ignore[misc]
            after += random.uniform(0.2, 1.5)

    def _reconfigure(self, broker: SimBroker, min_isr: int) -> None:
        if self.active:
            self.world.min_isr_of[broker.id] = min_isr
            if broker.up and self.spares(broker):
                broker.shut_down()
                self._back_later(broker, 0.3, 1.0)

    def reassign(self) -> None:
        """An admin moves a partition to other brokers, with two or three replicas."""
        random, states = self.world.random, self.world.checker.states
        if not states:
            return
        tp = random.choice(sorted(states))
        target = tuple(random.sample(sorted(self.world.brokers), random.choice((2, 3, 3))))
        self.world.note(f"{tp} is to move to {list(target)}")
        self._admin.reassign(tp, target)

    def remake_topic(self) -> None:
        """An admin makes a topic, deletes it, or deletes it and makes it anew at once under the same name."""
        desired = NewTopic(VISITED, self.world.random.choice((1, 2)), self.world.random.choice((2, 3)))
        make_anew = self.world.random.random() < 0.5
        self.world.note(f"topic {VISITED} is made or deleted{' and made anew' if make_anew else ''}")
        self._admin.remake(desired, make_anew)

    def _ask(self, decide: Callable[[Controller], Any]) -> None:
        """An admin's request to whoever is the controller now."""
        broker = self._controller()
        if broker is not None and broker.role is not None and self.active:
            role = broker.role
            broker.later(0.0, lambda: role.submit(decide, lambda _: None))

    def stale_metadata(self) -> None:
        """One broker learns late what the controller decided, as with a slow watch."""
        broker = self._leader() if self.world.random.random() < 0.7 else self._any()
        if broker is not None:
            late, ends = self.world.random.uniform(0.2, 1.5), self.world.random.uniform(0.5, 3.0)
            self._hears_late(broker.id, late, ends)

    def delete_records(self) -> None:
        """An admin deletes the older half of what is committed (DeleteRecords)."""
        broker = self._leader()
        if broker is None or broker.paused:
            return
        for tp, partition in broker.partitions.items():
            if tp.topic == OFFSETS_TOPIC:
                continue  # nobody may: it is compacted
            if not self.world.checker.exists(tp, partition):
                continue  # of a topic that was deleted
            if partition.leader is not None and self.world.random.random() < 0.7:
                start = partition.log.log_start_offset
                to = start + (partition.high_watermark - start) // 2
                self.world.checker.records_deleted(tp, to)
                self._admin.delete_records(broker, tp, to)
        self.world.checker.after(broker)
