"""The network agent's rules in a real kernel: two network namespaces with a cable between them, TCP over it, and `nft`.

Namespaces need root; the agent itself is the real one, only the API server is played.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from minikafka_chaos.network.agent import Ask, NetworkAgent
from minikafka_chaos.network.namespaces import Entered
from minikafka_chaos.network.nft import NFT, NSENTER, NftProgram
from minikafka_chaos.network.rules import LinkDirection, LinkVerb
from minikafka_chaos.network.service import check

from tests.unit.chaos.network.cluster import HOME, NODE, UIDS, ApiPaths, addresses
from tests.waiting import until_now

_MISSING = [name for name in (NFT, NSENTER, shutil.which("ip") or "ip") if not Path(name).exists()]
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces are made by root: run as root to have these"),
    pytest.mark.skipif(
        bool(_MISSING), reason=f"needs {', '.join(_MISSING)}: apt-get install nftables iproute2 util-linux"
    ),
]

ARRIVE_SECONDS_MAX = 30.0
"""What was dropped is sent again by TCP, after 0.2 s, 0.4 s, ..."""
SILENCE_SECONDS = 0.5
BROKER, CLIENTS = 9093, 9092
TARGET, PEER, OTHER = range(3)
CLONE_NEWNET = 0x40000000
TCP_ESTABLISHED, TCP_TOTAL_RETRANS, TCP_INFO_BYTES = 1, 100, 104
"""Of `struct tcp_info` in linux/tcp.h: a state, where `tcpi_total_retrans` begins, and where it ends."""


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


class Ends:
    """Namespace `a` is broker 0's pod; `b` has the addresses of broker 1 and broker 2."""

    def __init__(self) -> None:
        word = uuid.uuid4().hex[:6]
        self.names = {"a": f"mk{word}a", "b": f"mk{word}b"}
        for end, name in self.names.items():
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            if end == "b":
                ip(
                    "link",
                    "add",
                    f"v{word}",
                    "netns",
                    self.names["a"],
                    "type",
                    "veth",
                    "peer",
                    f"v{word}",
                    "netns",
                    name,
                )
        for end, brokers in (("a", (TARGET,)), ("b", (PEER, OTHER))):
            for broker in brokers:
                four, six = addresses(broker)
                ip("-n", self.names[end], "address", "add", f"{four}/24", "dev", f"v{word}")
                ip("-n", self.names[end], "address", "add", f"{six}/64", "dev", f"v{word}", "nodad")
            ip("-n", self.names[end], "link", "set", f"v{word}", "up")

    def close(self) -> None:
        for name in self.names.values():
            ip("netns", "delete", name)

    @contextmanager
    def entered(self, uid: str) -> Iterator[Entered]:
        assert uid == UIDS[TARGET]
        fd = os.open(f"/run/netns/{self.names['a']}", os.O_RDONLY)
        try:
            yield Entered(fd)
        finally:
            os.close(fd)

    def socket(self, end: str, family: int = socket.AF_INET) -> socket.socket:
        """A socket that lives in a namespace; only a thread of its own goes there."""

        def make() -> socket.socket:
            fd = os.open(f"/run/netns/{self.names[end]}", os.O_RDONLY)
            try:
                assert ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNET) == 0, ctypes.get_errno()
            finally:
                os.close(fd)
            return socket.socket(family, socket.SOCK_STREAM)

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(make).result()

    def connected(self, target_listens: bool, peer: int, port: int = BROKER, version: int = 4) -> tuple[Any, Any]:
        """A connection between the target and a peer: both of its ends, the target's first."""
        family = socket.AF_INET if version == 4 else socket.AF_INET6
        mine, others = addresses(TARGET)[version == 6], addresses(peer)[version == 6]
        (listens, where), (asks, source) = (
            (("a", mine), ("b", others)) if target_listens else (("b", others), ("a", mine))
        )
        with self.socket(listens, family) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((where, port))
            listener.listen()
            asking = self.socket(asks, family)
            asking.bind((source, 0))
            asking.settimeout(ARRIVE_SECONDS_MAX)
            asking.connect((where, port))
            listening, _ = listener.accept()
        return (listening, asking) if target_listens else (asking, listening)


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


@pytest.fixture
def agent(ends: Ends, tmp_path: Path) -> NetworkAgent:
    return NetworkAgent(NODE, tmp_path, NftProgram(), ends.entered, ApiPaths())  # type: ignore[arg-type]


ASK = Ask(HOME, "shop-broker-0", UIDS[TARGET])


def cut(agent: NetworkAgent, fault_id: str = "f", seconds: float = 600, **more: Any) -> dict[str, Any]:
    options = {"peers": ["shop-broker-1"], "clients": False, "direction": LinkDirection.BOTH, **more}
    verb = LinkVerb.LOSS if "percent" in more else LinkVerb.CUT
    return agent.make(ASK, fault_id, verb, seconds, **options)


def arrives(sender: socket.socket, receiver: socket.socket, seconds: float = ARRIVE_SECONDS_MAX) -> bool:
    """Whether a byte that is sent now arrives in time; all that arrives is taken."""
    sender.sendall(b"x")
    receiver.settimeout(seconds)
    try:
        return bool(receiver.recv(100))
    except TimeoutError:
        return False


def lost(sender: socket.socket, receiver: socket.socket) -> bool:
    return not arrives(sender, receiver, SILENCE_SECONDS)


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("target_listens", [True, False])
def test_connections_that_are_there_are_cut_and_go_on(
    ends: Ends, agent: NetworkAgent, target_listens: bool, version: int
) -> None:
    target, peer = ends.connected(target_listens, PEER, version=version)
    assert arrives(target, peer)
    assert arrives(peer, target)
    assert cut(agent)["repeated"] is False
    assert lost(target, peer)
    assert lost(peer, target)
    assert agent.recover(ASK, "f") == {"recovered": ["f"], "gone": False}
    assert arrives(target, peer)
    assert arrives(peer, target)


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("target_listens", [True, False])
def test_one_way(ends: Ends, agent: NetworkAgent, target_listens: bool, version: int) -> None:
    target, peer = ends.connected(target_listens, PEER, version=version)
    cut(agent, "in", direction=LinkDirection.INBOUND)
    assert lost(peer, target)
    assert arrives(target, peer), "what it sends goes through"
    agent.recover(ASK)
    target, peer = ends.connected(target_listens, PEER, BROKER, version)
    cut(agent, "out", direction=LinkDirection.OUTBOUND)
    assert lost(target, peer)
    assert arrives(peer, target)


def test_no_new_connection_either(ends: Ends, agent: NetworkAgent) -> None:
    cut(agent)
    listener, asking = ends.socket("b"), ends.socket("a")
    listener.bind((addresses(PEER)[0], BROKER))
    listener.listen()
    asking.settimeout(SILENCE_SECONDS)
    with pytest.raises(TimeoutError):
        asking.connect((addresses(PEER)[0], BROKER))


def test_others_are_left_alone(ends: Ends, agent: NetworkAgent) -> None:
    """Another broker, the peer's connection to the port for clients, and other ports of the peer."""
    other = ends.connected(True, OTHER)
    as_client = ends.connected(True, PEER, CLIENTS)
    metrics = ends.connected(True, PEER, 9404)
    cut(agent)
    for target, peer in (other, as_client, metrics):
        assert arrives(target, peer)
        assert arrives(peer, target)


def test_clients_are_cut_off_and_brokers_are_not(ends: Ends, agent: NetworkAgent) -> None:
    client = ends.connected(True, PEER, CLIENTS)
    client_6 = ends.connected(True, PEER, CLIENTS, 6)
    broker = ends.connected(True, PEER)
    cut(agent, peers=[], clients=True)
    for target, peer in (client, client_6):
        assert lost(target, peer)
        assert lost(peer, target)
    assert arrives(*broker)
    agent.heal(ASK, [], clients=True)
    assert arrives(*client)
    assert arrives(*client_6)


def test_the_kernel_alone_ends_it(ends: Ends, agent: NetworkAgent) -> None:
    """Nobody does anything after the cut was made."""
    target, peer = ends.connected(True, PEER)
    began = time.monotonic()
    assert 0 < cut(agent, seconds=8)["expires_s"] <= 8
    assert lost(target, peer)
    assert arrives(target, peer, 60)
    assert time.monotonic() - began >= 7.9, "not before its time"


def test_one_of_two_that_overlap_is_undone(ends: Ends, agent: NetworkAgent) -> None:
    target, peer = ends.connected(True, PEER)
    cut(agent, "one")
    cut(agent, "two")
    assert agent.recover(ASK, "one")["recovered"] == ["one"]
    assert lost(target, peer), "the other goes on"
    assert agent.recover(ASK, "two")["recovered"] == ["two"]
    assert arrives(target, peer)


def test_a_repetition_changes_nothing(ends: Ends, agent: NetworkAgent) -> None:
    target, peer = ends.connected(True, PEER)
    cut(agent, seconds=8)
    assert cut(agent, seconds=600)["repeated"] is True
    assert agent.state(ASK)["faults"][0]["expires_s"] <= 8, "it does not last longer for that"
    assert arrives(target, peer, 60)


def test_the_links_to_one_peer_are_healed(ends: Ends, agent: NetworkAgent) -> None:
    one, other = ends.connected(True, PEER), ends.connected(True, OTHER)
    cut(agent, peers=["shop-broker-1", "shop-broker-2"])
    assert agent.heal(ASK, ["shop-broker-1"], clients=False)["recovered"] == ["f"]
    assert arrives(*one)
    assert lost(*other)
    assert agent.state(ASK)["faults"][0]["peers"] == ["shop-broker-2"]


def test_loss(ends: Ends, agent: NetworkAgent) -> None:
    """Of 300 connections, so many get through with one SYN as are not lost."""
    listener = ends.socket("b")
    listener.bind((addresses(PEER)[0], BROKER))
    listener.listen(512)
    cut(agent, direction=LinkDirection.OUTBOUND, percent=40)
    asking = []
    for _ in range(300):
        each = ends.socket("a")
        each.setblocking(False)
        each.connect_ex((addresses(PEER)[0], BROKER))
        asking.append(each)
    through = sum(map(_connected_by_one_syn, asking))
    assert 0.48 < through / len(asking) < 0.72, f"{through} of {len(asking)} with 40 % loss"
    for each in asking:
        each.close()


def _connected_by_one_syn(asking: socket.socket) -> bool:
    """Whether the first SYN was answered: a cable of the kernel does that at once. Counted by the kernel (tcp(7), TCP_INFO), not
    by a clock: a lost one is sent again a second later, and a slow machine has not asked for the last one by then.
    """
    info = asking.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    state, sent_again = info[0], int.from_bytes(info[TCP_TOTAL_RETRANS : TCP_TOTAL_RETRANS + 4], sys.byteorder)
    return state == TCP_ESTABLISHED and sent_again == 0


def test_what_is_over_leaves_nothing_behind(ends: Ends, agent: NetworkAgent) -> None:
    cut(agent, "one")
    cut(agent, "two", seconds=1)
    over = until_now(lambda: {key for key, is_over in agent.left_over(UIDS[TARGET]).items() if is_over})
    agent.tidy(UIDS[TARGET], over)
    assert list(agent.left_over(UIDS[TARGET]).values()) == [False], "the other is left alone"
    assert agent.touched() == {UIDS[TARGET]}
    agent.recover(ASK)
    agent.tidy(UIDS[TARGET], set())
    assert agent.touched() == set()
    with ends.entered(UIDS[TARGET]) as where:
        assert NftProgram().listing(where) == {}


def test_what_is_refused_by_nft_is_told(ends: Ends) -> None:
    with ends.entered(UIDS[TARGET]) as where, pytest.raises(Exception, match="nft: "):
        NftProgram().apply(where, [{"delete": {"table": {"family": "inet", "name": "nothing-there"}}}])


def test_this_kernel_is_looked_at_without_changing_it(ends: Ends, agent: NetworkAgent) -> None:
    check(agent, ends.entered(UIDS[TARGET]))
    with ends.entered(UIDS[TARGET]) as where:
        assert NftProgram().listing(where) == {}
