"""What the controller writes of ACLs: one record for each pattern, and nothing for what changes nothing (31 item 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from minikafka.controller.acls import AclRegistry, chosen
from minikafka.controller.controller import Controller
from minikafka.controller.workspace import ControllerConfig
from minikafka.metadata.image import ClusterImage
from minikafka.security.acls import (
    Acl,
    AclFilter,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

ORDERS = Pattern(ResourceType.TOPIC, PatternType.LITERAL, "orders/a")
ANY = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)


def acl(user: str, operation: Operation = Operation.READ, pattern: Pattern = ORDERS) -> Acl:
    return Acl(pattern, Entry(f"User:{user}", "*", operation, Permission.ALLOW))


def controller() -> Controller:
    made = Controller(ClusterImage("c"), 1, ControllerConfig(), 0.0, lambda: UUID(int=1))
    made.take_changes()
    return made


def delete(of: Controller, *filters: AclFilter) -> list[list[Acl]]:
    there = of.image.acls.patterns()
    found = [chosen(wish, there) for wish in filters]
    of.acls.delete(each for acls in found for each in acls)
    return found


def written(of: Controller) -> tuple[dict[str, Any], list[str]]:
    """Records, and the names of events."""
    records, events = of.take_changes()
    return records, [event.name for event in events]


def test_acls_of_a_pattern_are_one_record() -> None:
    of = controller()
    group = Pattern(ResourceType.GROUP, PatternType.PREFIXED, "g")
    assert of.acls.create([acl("a"), acl("b"), acl("a"), acl("a", pattern=group)]) == [None] * 4
    assert written(of) == (
        {
            "acl/TOPIC/LITERAL/orders/a": [["User:a", "*", "READ", "ALLOW"], ["User:b", "*", "READ", "ALLOW"]],
            "acl/GROUP/PREFIXED/g": [["User:a", "*", "READ", "ALLOW"]],
        },
        ["acl_created"] * 3,
    )
    assert of.acls.create([acl("b")]) == [None]
    assert written(of) == ({}, [])


def test_a_filter_removes_what_it_chooses() -> None:
    of = controller()
    of.acls.create([acl("a"), acl("b"), acl("b", Operation.WRITE)])
    of.take_changes()
    found = delete(of, ANY._replace(principal="User:b"), ANY._replace(operation=Operation.WRITE))
    assert found == [[acl("b"), acl("b", Operation.WRITE)], [acl("b", Operation.WRITE)]]
    assert written(of) == (
        {"acl/TOPIC/LITERAL/orders/a": [["User:a", "*", "READ", "ALLOW"]]},
        ["acl_deleted", "acl_deleted"],
    )
    assert delete(of, ANY) == [[acl("a")]]
    assert written(of) == ({"acl/TOPIC/LITERAL/orders/a": None}, ["acl_deleted"])
    of.acls.delete([acl("a")])
    assert delete(of, ANY) == [[]]
    assert written(of) == ({}, [])


def test_what_is_written_is_what_is_read() -> None:
    of, image = controller(), ClusterImage("c")
    of.acls.create([acl("a"), acl("b", Operation.ALTER_CONFIGS)])
    for key, value in of.take_changes()[0].items():
        image.apply(key, value)
    assert list(image.acls) == list(of.image.acls) == [acl("a"), acl("b", Operation.ALTER_CONFIGS)]


def test_many_acls_of_one_pattern_are_put_once() -> None:
    """Each put makes the pattern's index anew: one for each ACL would stop the controller for a minute."""
    of = controller()
    puts: list[str] = []
    workspace = of.workspace
    put_record = workspace.put_record

    def counted(key: str, value: Any) -> None:
        puts.append(key)
        put_record(key, value)

    workspace.put_record = counted  # type: ignore[method-assign]
    assert AclRegistry(workspace).create([acl(f"u{number}") for number in range(1000)]) == [None] * 1000
    assert delete(of, ANY)[0][0] == acl("u0")
    assert puts == ["acl/TOPIC/LITERAL/orders/a"] * 2
    assert len(of.image.acls) == 0


def test_a_filter_of_one_pattern_does_not_go_over_the_others() -> None:
    """8,000 filters of 2,000 ACLs stopped the controller for 14 s."""

    class There(dict[Pattern, tuple[Entry, ...]]):
        def __iter__(self) -> Iterator[Pattern]:
            raise AssertionError("all are gone over")

    there = There({ORDERS: (acl("a").entry, acl("b").entry)})
    exact = AclFilter(*ORDERS[:1], ORDERS.name, ORDERS.pattern_type, "User:b", None, Operation.ANY, Permission.ANY)
    assert chosen(exact, there) == [acl("b")]
    assert chosen(exact._replace(name="orders/b"), there) == []
    with pytest.raises(AssertionError):
        chosen(exact._replace(pattern_type=PatternType.MATCH), there)
