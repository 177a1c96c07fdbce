"""Brokers on the Kubernetes store when brokers, controllers and the API server die. Prints how long clients waited."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.apiserver.brokers import BrokerProcess, Brokers
from tests.apiserver.conftest import CLUSTER, brokers_of
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.producing import SteadyProducer
from tests.waiting import ANSWER_SECONDS_MAX, until_now

TOPIC = "steady"
SESSION_SECONDS = 120
"""Of the brokers whose death must be found by the end of their connections: whoever waited for a session would be seen."""

GAP_SECONDS_MAX = 30.0
"""Acknowledgements resume within this after a leader's process was killed; 0.04 to 0.3 s when nothing runs beside it.

A controller's death takes two steps, a new controller and then new leaders, and so twice as long. The first needs no session
either: its connections end, and whoever connects to the holder of the lease is refused and takes the lease. That is why both
bounds are far below a session, and a session is far longer than a busy machine stands still.
"""

ELECTED_SECONDS_MAX = 20.0
"""Until there is a leader, after the API server is back."""

UNDISTURBED_SECONDS_MAX = 8.0
"""Below every time-out that could be behind a pause (a session takes 9 s), above the hiccups of a busy machine.

What these tests show is that an absence longer than a session fences nobody. So the session is that of every cluster, or the
API server would have to be away for minutes.
"""

BROKER_RSS_MIB_MAX = 60.0
WARM_UP = 100
FULL_ISR_SECONDS_MAX = 180.0
AGAIN = (KafkaError.NOT_CONTROLLER, KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT)
"""Errors that say: nobody could do it just now."""


class Scene:
    """Three brokers, a topic of three partitions, and what the API server shows of them."""

    def __init__(self, plane: ControlPlane, namespace: str, brokers: Brokers) -> None:
        self.plane, self.brokers = plane, brokers
        self.admin = AdminClient({"bootstrap.servers": brokers.bootstrap, "log_level": 0})
        self._topics = f"/apis/minikafka.dev/v1alpha1/namespaces/{namespace}/minikafkatopics"
        self._lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{CLUSTER}-controller"

    def create_topic(self, name: str, seconds: float) -> float:
        """Ask until there is a controller to do it; how long that took, in seconds."""
        began, tried = time.monotonic(), False
        while True:
            future = self.admin.create_topics([NewTopic(name, 1, 3)], request_timeout=5)[name]
            error = future.exception(timeout=ANSWER_SECONDS_MAX)
            if error is None:
                return time.monotonic() - began
            assert isinstance(error, KafkaException), error
            code = error.args[0].code()
            if tried and code == KafkaError.TOPIC_ALREADY_EXISTS:  # made by the try whose answer came too late
                return time.monotonic() - began
            assert code in AGAIN, error
            tried = True
            assert time.monotonic() - began < seconds, error
            time.sleep(0.05)

    def rows(self) -> list[dict[str, Any]]:
        """The topic's partitions as its object shows them."""
        value = self.plane.find(f"{self._topics}/{TOPIC}") or {}
        return list((value.get("status") or {}).get("partitions") or ())

    def shown(self) -> set[str]:
        """Topics whose object shows a state."""
        listed = self.plane.request("GET", self._topics)["items"]
        return {v["spec"].get("topicName") or v["metadata"]["name"] for v in listed if "topicId" in v.get("status", {})}

    def controller(self) -> tuple[int, int]:
        """(node, epoch)"""
        value = self.plane.request("GET", self._lease)
        return int(value["metadata"]["annotations"]["minikafka.dev/node-id"]), value["spec"]["leaseTransitions"]

    def leader_that_only_leads(self) -> tuple[int, int]:
        """(partition, leader) of a partition that the controller does not lead."""
        node, _ = self.controller()
        return next((row["partition"], row["leader"]) for row in self.rows() if row["leader"] != node)

    def start_again(self, node: int) -> None:
        """Start a broker and wait until every replica is in sync."""
        self.brokers.all[node].start()
        self.brokers.all[node].wait_until_ready()
        until_now(self.healed, seconds=FULL_ISR_SECONDS_MAX)

    def healed(self) -> bool:
        rows = self.rows()
        return bool(rows) and all(len(row["isr"]) == 3 for row in rows)


@contextmanager
def scene_of(plane: ControlPlane, namespace: str, folder: Path, **settings: object) -> Iterator[Scene]:
    with brokers_of(plane, folder) as make:
        scene = Scene(plane, namespace, make(namespace, **settings))
        scene.admin.create_topics([NewTopic(TOPIC, 3, 3)])[TOPIC].result(timeout=ANSWER_SECONDS_MAX)
        until_now(scene.healed, seconds=FULL_ISR_SECONDS_MAX)
        yield scene


@pytest.fixture
def scene(stoppable_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Scene]:
    """With the session of every cluster."""
    with scene_of(stoppable_plane, namespace, tmp_path) as scene:
        yield scene


@pytest.fixture
def long_session(stoppable_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Scene]:
    """With sessions that outlast every bound of these tests."""
    with scene_of(stoppable_plane, namespace, tmp_path, broker_session_timeout_ms=1000 * SESSION_SECONDS) as scene:
        yield scene


def kill(broker: BrokerProcess) -> float:
    broker.kill()
    return time.monotonic()


def report(what: str, gap: float) -> None:
    print(f"\n{what}: {gap * 1000:.0f} ms without an acknowledgement", file=sys.stderr)


def test_a_leader_dies(long_session: Scene) -> None:
    """A killed leader that is not the controller: a new one leads, nothing acknowledged is lost, the old one heals."""
    scene = long_session
    partition, leader = scene.leader_that_only_leads()
    with SteadyProducer(scene.brokers.bootstrap, TOPIC) as producer:
        until_now(lambda: producer.count(0), lambda n: n > WARM_UP)
        killed = kill(scene.brokers.all[leader])
        until_now(lambda: scene.rows()[partition]["leader"], lambda now: now not in (leader, -1))
        scene.start_again(leader)
    report("leader killed", producer.gap(killed))
    assert producer.gap(killed) < GAP_SECONDS_MAX
    assert producer.failed == []
    assert producer.lost(scene.brokers.bootstrap) == set()


@pytest.mark.full
def test_the_controller_dies_with_a_leader(long_session: Scene) -> None:
    """The controller is killed, and leads a partition: the lease is taken, then leaders are found."""
    scene = long_session
    node, epoch = scene.controller()
    with SteadyProducer(scene.brokers.bootstrap, TOPIC) as producer:
        until_now(lambda: producer.count(0), lambda n: n > WARM_UP)
        killed = kill(scene.brokers.all[node])
        until_now(scene.controller, lambda now: now[0] != node)
        taken = time.monotonic() - killed
        until_now(lambda: all(row["leader"] not in (node, -1) for row in scene.rows()))
        scene.start_again(node)
    report(f"controller and leader killed (a new controller after {taken * 1000:.0f} ms)", producer.gap(killed))
    assert scene.controller()[1] == epoch + 1
    assert producer.gap(killed) < 2 * GAP_SECONDS_MAX
    assert producer.failed == []
    assert producer.lost(scene.brokers.bootstrap) == set()


@pytest.mark.full
def test_the_api_server_is_away(scene: Scene) -> None:
    """30 seconds without an API server: producing to settled leaders goes on, nobody is fenced, all works afterwards."""
    plane, brokers, seconds = scene.plane, scene.brokers, 30.0
    with SteadyProducer(brokers.bootstrap, TOPIC) as producer:
        until_now(lambda: producer.count(0), lambda n: n > WARM_UP)
        plane.stop_server()
        stopped = time.monotonic()
        fenced = sum(len(broker.events("broker_fenced")) for broker in brokers.all)
        while time.monotonic() - stopped < seconds:
            assert all(broker.process is not None and broker.process.poll() is None for broker in brokers.all)
            time.sleep(0.5)
        gap, sent = producer.gap(stopped), producer.count(stopped)
        plane.start_server()
        recovered = scene.create_topic("afterwards", 120)
        until_now(scene.healed, seconds=FULL_ISR_SECONDS_MAX)
        until_now(lambda: all(broker.ready for broker in brokers.all))
    report(f"API server away for {seconds:.0f} s ({sent} records acknowledged meanwhile)", gap)
    print(f"a topic could be made {recovered * 1000:.0f} ms after the API server was ready again", file=sys.stderr)
    assert gap < UNDISTURBED_SECONDS_MAX
    assert sent > 300
    assert sum(len(broker.events("broker_fenced")) for broker in brokers.all) == fenced
    assert producer.failed == []
    assert producer.lost(brokers.bootstrap) == set()


@pytest.mark.full
def test_a_leader_dies_while_the_api_server_is_away(long_session: Scene) -> None:
    """No leader and no smaller ISR can be written down until the API server is back; then at once."""
    scene = long_session
    partition, leader = scene.leader_that_only_leads()
    with SteadyProducer(scene.brokers.bootstrap, TOPIC) as producer:
        until_now(lambda: producer.count(0), lambda n: n > WARM_UP)
        scene.plane.stop_server()
        kill(scene.brokers.all[leader])
        time.sleep(8)
        scene.plane.start_server()
        back = time.monotonic()
        until_now(lambda: scene.rows()[partition]["leader"], lambda now: now not in (leader, -1), seconds=60)
        elected = time.monotonic() - back
        scene.start_again(leader)
    print(f"\na leader was elected {elected * 1000:.0f} ms after the API server was ready again", file=sys.stderr)
    assert elected < ELECTED_SECONDS_MAX
    assert producer.failed == []
    assert producer.lost(scene.brokers.bootstrap) == set()


@pytest.mark.full
def test_the_api_server_says_nothing(scene: Scene) -> None:
    """Connections stay open and no answer comes: not a reason to fence anybody, nor to stop taking records."""
    brokers = scene.brokers
    with SteadyProducer(brokers.bootstrap, TOPIC) as producer:
        until_now(lambda: producer.count(0), lambda n: n > WARM_UP)
        fenced = sum(len(broker.events("broker_fenced")) for broker in brokers.all)
        scene.plane.pause_server()
        paused = time.monotonic()
        future = scene.admin.create_topics([NewTopic("impossible", 1, 3)], request_timeout=5)["impossible"]
        with pytest.raises(KafkaException):
            future.result(timeout=ANSWER_SECONDS_MAX)
        time.sleep(max(12 - (time.monotonic() - paused), 0))
        gap = producer.gap(paused)
        scene.plane.resume_server()
        recovered = scene.create_topic("afterwards", 120)
        until_now(scene.healed, seconds=FULL_ISR_SECONDS_MAX)
    report("API server silent for 12 s, with a topic to be made meanwhile", gap)
    print(f"a topic could be made {recovered * 1000:.0f} ms after the API server went on", file=sys.stderr)
    assert gap < UNDISTURBED_SECONDS_MAX
    assert sum(len(broker.events("broker_fenced")) for broker in brokers.all) == fenced
    assert producer.failed == []
    assert producer.lost(brokers.bootstrap) == set()


@pytest.mark.full
def test_all_brokers_at_once(scene: Scene) -> None:
    """Every broker is killed in the middle of changes: what the store holds is enough to go on."""
    brokers = scene.brokers
    with SteadyProducer(brokers.bootstrap, TOPIC) as producer:
        until_now(lambda: producer.count(0), lambda n: n > WARM_UP)
        scene.admin.create_topics([NewTopic(f"t{n}", 2, 3) for n in range(10)])  # some are in the journal only
        time.sleep(0.05)
        for broker in brokers.all:
            kill(broker)
        for broker in brokers.all:
            broker.start()
        for broker in brokers.all:
            broker.wait_until_ready()
        until_now(scene.healed, seconds=FULL_ISR_SECONDS_MAX)
        healed = time.monotonic()
        until_now(lambda: producer.count(healed), lambda n: n > WARM_UP // 2, seconds=120)
    assert producer.lost(brokers.bootstrap) == set()
    until_now(lambda: scene.shown() == set(scene.admin.list_topics(timeout=ANSWER_SECONDS_MAX).topics))


@pytest.mark.full
def test_memory(scene: Scene) -> None:
    """A broker with the store's client, a watch and TLS stays under its memory goal."""
    used = [broker.rss_mib() for broker in scene.brokers.all]
    print(f"\nresident memory of the brokers: {', '.join(f'{mib:.1f} MiB' for mib in used)}", file=sys.stderr)
    assert max(used) < BROKER_RSS_MIB_MAX
