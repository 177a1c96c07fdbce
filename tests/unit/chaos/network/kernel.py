"""What `nft` does with this agent's commands, in memory: transactions, names that are taken, elements that end by the clock."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from minikafka_chaos.network.errors import NoProcess, NotNow
from minikafka_chaos.network.namespaces import Entered
from minikafka_chaos.network.rules import Command

from tests.copies import copied

Tables = dict[str, dict[str, dict[str, Any]]]


class Kernel:
    """The network namespaces of pods, by uid; a descriptor is a number that was given out."""

    def __init__(self, uids: Sequence[str]) -> None:
        self.now = 1000.0
        self.uids = list(uids)
        self.pods: dict[str, Tables] = {uid: {} for uid in uids}
        self.applied: list[Command] = []
        self.refuses = ""
        """What a kernel without support says of any command."""
        self.before_apply: list[Any] = []
        """Called once each, before a transaction: what happens in between."""

    @contextmanager
    def entered(self, uid: str) -> Iterator[Entered]:
        if uid not in self.pods:
            raise NoProcess(f"no process of the pod with uid {uid} runs on this node")
        yield Entered(self.uids.index(uid))

    def _tables(self, where: Entered) -> Tables:
        return self.pods[self.uids[where.fd]]

    def apply(self, where: Entered, commands: Sequence[Command]) -> None:
        if self.before_apply:
            self.before_apply.pop(0)()
        tables = copied(self._tables(where))
        for command in commands:
            ((verb, what),) = command.items()
            ((kind, told),) = what.items()
            self._do(tables, verb, kind, told)
        self.applied += commands
        self.pods[self.uids[where.fd]] = tables

    def check(self, where: Entered, commands: Sequence[Command]) -> None:
        if self.refuses:
            raise NotNow(f"nft: {self.refuses}")
        assert commands

    def _do(self, tables: Tables, verb: str, kind: str, told: Any) -> None:
        if kind == "table":
            if verb == "delete":
                del tables[told["name"]]
            else:
                tables.setdefault(told["name"], {"set": {}, "chain": {}})
            return
        table = tables[told["table"]]
        if kind == "rule":
            table["chain"][told["chain"]]["rules"].append(told)
        elif kind == "element":
            for element in told["elem"]:
                self._element(table["set"][told["name"]], verb, element)
        elif verb == "create":
            if told["name"] in table[kind]:
                raise NotNow("nft: Could not process rule: File exists")
            table[kind][told["name"]] = {"told": told, "elements": [], "rules": []}
        elif verb == "delete":
            del table[kind][told["name"]]

    def _element(self, where: dict[str, Any], verb: str, element: Any) -> None:
        if verb == "add":
            made = element["elem"]
            where["elements"].append((made["val"], self.now + made["timeout"], made["comment"]))
            return
        left = [each for each in self._living(where) if each[0] != element]
        if len(left) == len(self._living(where)):
            raise NotNow("nft: Could not process rule: No such file or directory")
        where["elements"] = left

    def _living(self, where: dict[str, Any]) -> list[tuple[Any, float, str]]:
        return [each for each in where["elements"] if each[1] > self.now]

    def listing(self, where: Entered) -> Mapping[str, Any]:
        found: list[Any] = []
        for name, table in self._tables(where).items():
            found.append({"table": {"family": "inet", "name": name}})
            for each in table["set"].values():
                elements = [
                    {"elem": {"val": value, "expires": math.floor(until - self.now), "comment": peer}}
                    for value, until, peer in self._living(each)
                ]
                found.append({"set": {**each["told"], **({"elem": elements} if elements else {})}})
            for each in table["chain"].values():
                found += [{"chain": each["told"]}, *({"rule": rule} for rule in each["rules"])]
        return {"nftables": [{"metainfo": {}}, *found]} if found else {}
