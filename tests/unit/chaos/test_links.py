"""The proxy between brokers: what it holds, delays and loses, by link and by direction, and that it ends with who started it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from minikafka.local import process
from minikafka.local.ports import free_base_port, is_free
from minikafka.protocol import wire
from minikafka.telemetry.fault_verbs import Verb
from minikafka_chaos.errors import ToolTrouble
from minikafka_chaos.links.control import LinkControl
from minikafka_chaos.links.registry import LinkFaults
from minikafka_chaos.links.rules import CLIENTS, LinkRule, Way, summed
from minikafka_chaos.scenario.faults import Direction, Fault, Parameters, Targets, link_rules

from tests.waiting import until_now

SECONDS_MAX = 30.0
QUIET_S = 0.3
"""How long nothing may arrive for it to be taken for held."""


class Echo:
    """A broker's listener that sends back what it gets."""

    def __init__(self, port: int) -> None:
        self.server = socket.create_server(("127.0.0.1", port))
        self.open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            self.open.append(connection)
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection: socket.socket) -> None:
        try:
            while chunk := connection.recv(65536):
                connection.sendall(chunk)
        except OSError:
            pass

    def close(self) -> None:
        """Also under threads that read: those keep a socket open that is only closed."""
        for connection in (self.server, *self.open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


class Lab:
    """Broker 2 behind the proxy, on both of its listeners."""

    def __init__(self, folder: Path) -> None:
        port = free_base_port(1)
        self.brokers, self.clients = port + 1, port + 2
        self.echo_port = port
        self.echo = Echo(port)
        ports = [(self.brokers, port, 2, False), (self.clients, port, 2, True)]
        self.control = LinkControl(folder, ports, seed=1)

    def rule(self, fault: str, *ways: tuple[Way, LinkRule]) -> None:
        self.control.change(lambda faults: faults.add(fault, ways))

    def close(self) -> None:
        self.control.close()
        self.echo.close()


class Peer:
    """A connection of a broker to broker 2, whose first request is on its way."""

    def __init__(self, port: int, name: str = "broker-0-fetcher") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.first = wire.request_frame(1, 12, 7, name, b"body", True)
        self.socket.sendall(self.first)

    def gets(self, wanted: bytes) -> bool:
        """Whether exactly this arrives; False for silence."""
        self.socket.settimeout(QUIET_S)
        found = b""
        try:
            while len(found) < len(wanted):
                self.socket.settimeout(SECONDS_MAX if found else QUIET_S)
                if not (chunk := self.socket.recv(len(wanted) - len(found))):
                    break
                found += chunk
        except (TimeoutError, ConnectionError):
            return False
        return found == wanted

    def waits_for(self, wanted: bytes) -> None:
        until_now(lambda: self.gets(wanted), seconds=SECONDS_MAX)

    def is_closed(self) -> bool:
        self.socket.settimeout(QUIET_S)
        try:
            return self.socket.recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    try:
        yield made
    finally:
        made.close()


CUT = LinkRule(cut=True)


def test_what_no_rule_is_about_passes(lab: Lab) -> None:
    peer = Peer(lab.brokers)
    peer.waits_for(peer.first)
    for size in (1, 100, 1_000_000):
        data = random.Random(size).randbytes(size)
        threading.Thread(target=peer.socket.sendall, args=(data,)).start()
        peer.waits_for(data)


@pytest.mark.slow
@pytest.mark.parametrize("way", [Way(0, 2), Way(2, 0)])
def test_a_cut_holds_one_way_of_one_link_and_loses_nothing(lab: Lab, way: Way) -> None:
    lab.rule("cut", (way, CUT))
    held, other = Peer(lab.brokers), Peer(lab.brokers, "broker-1-fetcher")
    other.waits_for(other.first)
    assert not held.gets(held.first)
    assert lab.control.change(lambda faults: faults.remove("cut"))
    held.waits_for(held.first)


@pytest.mark.slow
def test_a_cut_comes_under_a_connection_that_is_open(lab: Lab) -> None:
    peer = Peer(lab.brokers)
    peer.waits_for(peer.first)
    lab.rule("cut", (Way(2, 0), CUT))
    peer.socket.sendall(b"x")
    assert not peer.gets(b"x")
    lab.control.change(lambda faults: faults.join([(0, 2)]))
    peer.waits_for(b"x")


@pytest.mark.slow
def test_that_a_peer_has_hung_up_cannot_be_learnt_over_a_cut_link(lab: Lab) -> None:
    peer = Peer(lab.brokers)
    peer.waits_for(peer.first)
    lab.rule("cut", (Way(2, 0), CUT))
    lab.echo.close()
    assert not peer.is_closed()
    lab.control.change(lambda faults: faults.clear())
    until_now(peer.is_closed, seconds=SECONDS_MAX)


@pytest.mark.slow
def test_nobody_behind_it_is_a_connection_that_ends_at_once(lab: Lab) -> None:
    lab.echo.close()
    peer = socket.create_connection(("127.0.0.1", lab.brokers))
    peer.settimeout(SECONDS_MAX)
    with contextlib.suppress(ConnectionError):
        assert peer.recv(1) == b""


@pytest.mark.slow
def test_a_port_is_refused_while_nobody_is_behind_it_and_open_when_somebody_is(lab: Lab) -> None:
    lab.echo.close()
    Peer(lab.brokers).is_closed()

    def refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", lab.brokers)).close()
        except ConnectionRefusedError:
            return True
        return False

    until_now(refused, seconds=SECONDS_MAX)
    lab.echo = Echo(lab.echo_port)
    until_now(lambda: not refused(), seconds=SECONDS_MAX)
    peer = Peer(lab.brokers)
    peer.waits_for(peer.first)


@pytest.mark.slow
def test_clients_are_one_and_known_by_their_port(lab: Lab) -> None:
    lab.rule("cut", (Way(CLIENTS, 2), CUT))
    client, broker = Peer(lab.clients, "broker-0-that-is-none"), Peer(lab.brokers)
    broker.waits_for(broker.first)
    assert not client.gets(client.first)


@pytest.mark.slow
def test_who_says_nothing_sensible_is_no_broker(lab: Lab) -> None:
    lab.rule("cut", (Way(0, 2), CUT), (Way(1, 2), CUT))
    strange = Peer(lab.brokers, "kcat")
    strange.waits_for(strange.first)


@pytest.mark.slow
def test_a_delay_is_in_the_way_of_everything_and_keeps_the_order(lab: Lab) -> None:
    peer = Peer(lab.brokers)
    peer.waits_for(peer.first)
    lab.rule("far", (Way(0, 2), LinkRule(millis=400, jitter_millis=100)))
    began = time.monotonic()
    for n in range(5):
        peer.socket.sendall(bytes([n]))
        time.sleep(0.01)
    peer.waits_for(bytes(range(5)))
    assert time.monotonic() - began >= 0.4


@pytest.mark.slow
def test_loss_is_waiting_for_what_is_sent_again(lab: Lab) -> None:
    peer = Peer(lab.brokers)
    peer.waits_for(peer.first)
    lab.rule("bad", (Way(0, 2), LinkRule(percent=60)))
    data = random.Random(1).randbytes(200_000)
    threading.Thread(target=peer.socket.sendall, args=(data,)).start()
    began = time.monotonic()
    peer.waits_for(data)
    assert time.monotonic() - began >= 0.2  # of 139 segments some are lost


@pytest.mark.slow
def test_a_proxy_that_was_killed_is_trouble_and_says_so(lab: Lab) -> None:
    os.kill(lab.control.pid, signal.SIGKILL)
    process_is_gone(lab.control.pid)
    with pytest.raises(ToolTrouble, match="the proxy between the brokers"):
        lab.rule("cut", (Way(0, 2), CUT))


def process_is_gone(pid: int) -> None:
    until_now(lambda: process.state(pid), lambda state: state in (None, "Z"), SECONDS_MAX)


STARTER = """
import sys, time
from pathlib import Path
from minikafka_chaos.links.control import LinkControl
port = int(sys.argv[2])
print(LinkControl(Path(sys.argv[1]), [(port + 1, port, 0, False)], 1).pid, flush=True)
time.sleep(3600)
"""


@pytest.mark.slow
def test_it_does_not_outlive_who_started_it(tmp_path: Path) -> None:
    port = free_base_port(1)
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path), str(port)], stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    proxy = int(starter.stdout.readline())
    assert not is_free(port + 1)
    starter.kill()
    starter.wait()
    starter.stdout.close()
    process_is_gone(proxy)


@pytest.mark.slow
def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ToolTrouble, match="address already in use"):
            LinkControl(tmp_path, [(port, 1, 0, False)], 1)


# -- rules ---------------------------------------------------------------------------------------------------------------


def test_faults_of_one_way_add_up() -> None:
    there = Way(0, 1)
    faults = LinkFaults()
    faults.add("a", [(there, LinkRule(millis=10, percent=50))])
    faults.add("b", [(there, LinkRule(millis=5, jitter_millis=1, percent=50)), (Way(1, 0), CUT)])
    assert faults.rules == {there: LinkRule(False, 15, 1, 75), Way(1, 0): CUT}
    assert faults.remove("a")
    assert not faults.remove("a")
    assert faults.join([(1, 0)])
    assert faults.rules == {}
    assert not faults.clear()


def test_a_fault_names_its_ways() -> None:
    cut = Fault("a", Verb.CUT, Parameters(direction=Direction.OUTBOUND))
    assert [way for way, _ in link_rules(cut, Targets((0,), (1, CLIENTS)))] == [Way(0, 1), Way(0, CLIENTS)]
    cut = Fault("a", Verb.CUT, Parameters(direction=Direction.INBOUND))
    assert [way for way, _ in link_rules(cut, Targets((0, 1), (1,)))] == [Way(1, 0)]
    both = Fault("a", Verb.LOSS, Parameters(percent=7))
    assert dict(link_rules(both, Targets((0,), (1,)))) == dict.fromkeys((Way(0, 1), Way(1, 0)), LinkRule(percent=7))


def test_losing_everything_is_a_cut_and_losing_some_takes_a_while() -> None:
    assert LinkRule(percent=100).blocks
    assert summed([(Way(0, 1), LinkRule(percent=100)), (Way(0, 1), LinkRule(percent=1))])[Way(0, 1)].blocks
    rng = random.Random(1)
    assert LinkRule().seconds(1_000_000, rng) == 0
    few, many = (sum(LinkRule(percent=10).seconds(size, rng) for _ in range(1000)) for size in (100, 10_000))
    assert 0 < few < many
