"""`minikafka groups`, and `minikafka consume --group`, on three brokers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from typing import Any

import pytest
from minikafka.local.cluster import LocalCluster


class Group:
    """A group that reads one topic."""

    def __init__(self, cluster: LocalCluster, call_cli: Any) -> None:
        self.topic = f"g-{uuid.uuid4().hex[:8]}"
        self.name = f"readers-of-{self.topic}"
        self.bootstrap = ("--bootstrap", cluster.bootstrap)
        self._call_cli = call_cli
        assert self.cli("topic", "create", self.topic, "--partitions", 2).returncode == 0
        for partition in (0, 1):
            lines = "".join(f"{partition}:{number}\n" for number in range(5))
            assert self.cli("produce", self.topic, "--partition", partition, stdin=lines).returncode == 0

    def cli(self, *arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return self._call_cli(*arguments, *self.bootstrap, stdin=stdin)  # type: ignore[no-any-return]

    def consume(self, *arguments: object, stop: tuple[object, ...] = ("--until-end",)) -> list[str]:
        done = self.cli("consume", self.topic, "--group", self.name, *stop, *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return sorted(done.stdout.split())

    def groups(self, action: str, *arguments: object) -> Any:
        done = self.cli("groups", action, *arguments, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)


@pytest.fixture
def group(shared_cluster: LocalCluster, call_cli: Any) -> Group:
    """A topic with two partitions of five records, and a name for a group."""
    return Group(shared_cluster, call_cli)


ALL = sorted(f"{partition}:{number}" for partition in (0, 1) for number in range(5))


def test_a_group_goes_on_where_it_was(group: Group) -> None:
    assert group.consume("--from-beginning", stop=("--timeout", 10)) == ALL
    assert group.consume("--from-beginning") == []
    assert {"group": group.name, "state": "Empty"} in group.groups("list")
    described = group.groups("describe", group.name)
    assert described["state"] == "Empty"
    assert [(p["partition"], p["committed"], p["end"], p["lag"]) for p in described["partitions"]] == [
        (0, 5, 5, 0),
        (1, 5, 5, 0),
    ]
    group.cli("produce", group.topic, "--partition", 1, stdin="new\n")
    assert [p["lag"] for p in group.groups("describe", group.name)["partitions"]] == [0, 1]
    assert group.consume() == ["new"]


def test_max_messages_commits_only_what_was_printed(group: Group) -> None:
    first = group.consume("--from-beginning", "--max-messages", 3)
    assert len(first) == 3
    rest = group.consume("--from-beginning")
    assert sorted(first + rest) == ALL


def test_no_commit_leaves_no_trace(group: Group) -> None:
    assert group.consume("--from-beginning", "--no-commit") == ALL
    assert group.consume("--from-beginning") == ALL


def test_reset_offsets(group: Group) -> None:
    group.consume("--from-beginning")
    moves = group.groups("reset-offsets", group.name, "--topic", group.topic, "--to-earliest")
    assert moves["executed"] is False
    assert [(move["from"], move["to"]) for move in moves["partitions"]] == [(5, 0), (5, 0)]
    assert group.consume() == []  # a dry run
    group.groups("reset-offsets", group.name, "--all-topics", "--to-offset", 3, "--execute")
    assert group.consume() == ["0:3", "0:4", "1:3", "1:4"]
    group.groups("reset-offsets", group.name, "--topic", f"{group.topic}:1", "--to-datetime", "2020-01-01", "--execute")
    assert group.consume() == ["1:0", "1:1", "1:2", "1:3", "1:4"]
    late = group.groups("reset-offsets", group.name, "--all-topics", "--to-datetime", "2099-01-01", "--dry-run")
    assert [move["to"] for move in late["partitions"]] == [5, 5]
    recent = group.groups("reset-offsets", group.name, "--all-topics", "--by-duration", "P1D")
    assert [move["to"] for move in recent["partitions"]] == [0, 0]
    shifted = group.groups("reset-offsets", group.name, "--all-topics", "--shift-by", -2)
    assert [move["to"] for move in shifted["partitions"]] == [3, 3]
    far = group.groups("reset-offsets", group.name, "--topic", f"{group.topic}:0", "--shift-by", -99)
    assert [move["to"] for move in far["partitions"]] == [0]
    beyond = group.groups("reset-offsets", group.name, "--all-topics", "--to-offset", 99)
    assert [move["to"] for move in beyond["partitions"]] == [5, 5]
    ahead = group.groups("reset-offsets", f"{group.name}-new", "--topic", group.topic, "--to-latest", "--execute")
    assert [(move["from"], move["to"]) for move in ahead["partitions"]] == [(None, 5), (None, 5)]


def test_what_is_not_there(group: Group) -> None:
    for action in ("describe", "delete"):
        done = group.cli("groups", action, group.name)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"minikafka groups: no such group: {group.name}\n"
    absent = group.cli("groups", "reset-offsets", group.name, "--topic", f"{group.topic}-absent", "--to-latest")
    assert (absent.returncode, absent.stderr) == (1, f"minikafka groups: no such topic: {group.topic}-absent\n")
    assert f"{group.topic}-absent" not in group.cli("topic", "list").stdout.split()  # asking creates nothing
    outside = group.cli("groups", "reset-offsets", group.name, "--topic", f"{group.topic}:7", "--to-latest")
    assert outside.returncode == 2
    nowhere = group.cli("groups", "reset-offsets", group.name, "--topic", group.topic, "--shift-by", 1)
    assert (nowhere.returncode, nowhere.stderr.count("\n")) == (1, 1)
    assert f"--shift-by: the group has no offset in {group.topic}-0" in nowhere.stderr
    nothing = group.cli("groups", "reset-offsets", group.name, "--all-topics", "--to-latest")
    assert nothing.returncode == 1


def test_delete(group: Group) -> None:
    group.consume("--from-beginning")
    assert group.groups("delete", group.name) == {"deleted": group.name}
    assert group.name not in [listed["group"] for listed in group.groups("list")]
    assert group.consume("--from-beginning") == ALL


def test_a_group_with_members_is_described_and_left_alone(group: Group, until: Any) -> None:
    member = subprocess.Popen(
        [sys.executable, "-m", "minikafka.cli", "consume", group.topic, "--group", group.name, *group.bootstrap],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        described = until(
            lambda: group.cli("groups", "describe", group.name, "--json"),
            lambda done: done.returncode == 0 and json.loads(done.stdout)["state"] == "Stable",
        )
        value = json.loads(described.stdout)
        (shown,) = value["members"]
        assert [partition["partition"] for partition in shown["partitions"]] == [0, 1]
        assert {partition["member"] for partition in value["partitions"]} == {shown["member"]}
        text = group.cli("groups", "describe", group.name).stdout
        assert f"group {group.name}: Stable, 1 member(s)" in text
        reset = group.cli("groups", "reset-offsets", group.name, "--topic", group.topic, "--to-earliest", "--execute")
        assert reset.returncode == 1
        assert "has 1 member(s); it can be moved when they have left" in reset.stderr
        deleted = group.cli("groups", "delete", group.name)
        assert (deleted.returncode, deleted.stderr.count("\n")) == (1, 1)
        assert "has members" in deleted.stderr
    finally:
        member.send_signal(signal.SIGINT)
        out, err = member.communicate(timeout=120)
    assert (member.returncode, out, err) == (130, "", "")
    left = {"group": group.name, "state": "Empty"}
    until(lambda: group.groups("list"), lambda groups: left in groups)
