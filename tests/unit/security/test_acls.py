"""ACLs decide as Kafka's StandardAuthorizer does (31 item 2); many of the cases are those of its own tests."""

from __future__ import annotations

import itertools
import random
import re

import pytest
from minikafka.security.acls import (
    ALLOWING,
    Acl,
    AclFilter,
    AclSet,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    _Prefixes,
    address,
    from_json,
    pattern_of,
    record_name,
    to_json,
)
from minikafka.security.authorizer import Authorizer

from tests.forms import for_each

ALICE, BOB, HOST = "User:alice", "User:bob", "127.0.0.1"
TOPIC = ResourceType.TOPIC


def acl(text: str) -> Acl:
    """``ALLOW READ alice * =orders``: permission, operation, user, host, a literal topic; ^ is prefixed, GROUP= a group."""
    permission, operation, who, host, resource = text.split(" ")
    found = re.fullmatch(r"([A-Z]*)([=^])(.+)", resource)
    assert found is not None
    how = PatternType.LITERAL if found[2] == "=" else PatternType.PREFIXED
    principal = who if ":" in who else f"User:{who}"
    return Acl(
        Pattern(ResourceType[found[1] or "TOPIC"], how, found[3]),
        Entry(principal, host, Operation[operation], Permission[permission]),
    )


def acls(*texts: str) -> AclSet:
    found = AclSet()
    for each in map(acl, texts):
        found.put(each.pattern, (*found.entries(each.pattern), each.entry))
    return found


DECISIONS = [
    # nobody says anything
    ((), Operation.READ, "orders", None),
    (("ALLOW READ alice * GROUP=orders",), Operation.READ, "orders", None),
    (("ALLOW READ alice * =orders2",), Operation.READ, "orders", None),
    # somebody says something about the resource, and nothing of this: then it is no resource without ACLs
    (("ALLOW READ bob * =orders",), Operation.READ, "orders", False),
    (("ALLOW WRITE alice * =orders",), Operation.READ, "orders", False),
    (("DENY WRITE bob * ^ord",), Operation.READ, "orders", False),
    # patterns
    (("ALLOW READ alice * =orders",), Operation.READ, "orders", True),
    (("ALLOW READ alice * =ord",), Operation.READ, "orders", None),
    (("ALLOW READ alice * ^ord",), Operation.READ, "orders", True),
    (("ALLOW READ alice * ^orders",), Operation.READ, "orders", True),
    (("ALLOW READ alice * ^orders-",), Operation.READ, "orders", None),
    (("ALLOW READ alice * =*",), Operation.READ, "orders", True),
    (("ALLOW READ alice * ^*",), Operation.READ, "orders", None),
    (("ALLOW READ alice * ^o", "ALLOW READ bob * ^orde"), Operation.READ, "orders", True),
    # principals
    (("ALLOW READ * * =orders",), Operation.READ, "orders", True),
    (("ALLOW READ alic * =orders",), Operation.READ, "orders", False),
    (("ALLOW READ Group:alice * =orders",), Operation.READ, "orders", False),
    # hosts
    (("ALLOW READ alice 127.0.0.1 =orders",), Operation.READ, "orders", True),
    (("ALLOW READ alice 127.0.0.2 =orders",), Operation.READ, "orders", False),
    (("ALLOW READ alice 127.0.0.0/8 =orders",), Operation.READ, "orders", False),
    # deny beats allow, from wherever
    (("ALLOW READ alice * =orders", "DENY READ alice * =*"), Operation.READ, "orders", False),
    (("ALLOW READ alice * =orders", "DENY READ * * ^o"), Operation.READ, "orders", False),
    (("ALLOW ALL alice * =*", "DENY READ alice 127.0.0.1 =orders"), Operation.READ, "orders", False),
    (("ALLOW ALL alice * =*", "DENY READ alice 10.0.0.1 =orders"), Operation.READ, "orders", True),
    (("ALLOW READ alice * =orders", "DENY ALL alice * =orders"), Operation.READ, "orders", False),
    # what is allowed along with it
    (("ALLOW READ alice * =orders",), Operation.DESCRIBE, "orders", True),
    (("ALLOW WRITE alice * =orders",), Operation.DESCRIBE, "orders", True),
    (("ALLOW DELETE alice * =orders",), Operation.DESCRIBE, "orders", True),
    (("ALLOW ALTER alice * =orders",), Operation.DESCRIBE, "orders", True),
    (("ALLOW CREATE alice * =orders",), Operation.DESCRIBE, "orders", False),
    (("ALLOW ALTER_CONFIGS alice * =orders",), Operation.DESCRIBE_CONFIGS, "orders", True),
    (("ALLOW ALTER_CONFIGS alice * =orders",), Operation.DESCRIBE, "orders", False),
    (("ALLOW DESCRIBE alice * =orders",), Operation.READ, "orders", False),
    (("ALLOW ALL alice * =orders",), Operation.ALTER_CONFIGS, "orders", True),
    # of what is denied nothing follows
    (("ALLOW ALL alice * =orders", "DENY READ alice * =orders"), Operation.DESCRIBE, "orders", True),
    (("DENY DESCRIBE alice * =orders", "ALLOW READ alice * =orders"), Operation.DESCRIBE, "orders", False),
    (("DENY DESCRIBE alice * =orders", "ALLOW READ alice * =orders"), Operation.READ, "orders", True),
]  # fmt: skip


@for_each(DECISIONS)
def test_what_acls_decide(there: tuple[str, ...], operation: Operation, name: str, decided: bool | None) -> None:
    for order in (there, there[::-1]):
        assert acls(*order).decide(ALICE, HOST, operation, TOPIC, name) is decided


def test_each_operation_is_allowed_by_itself_and_by_all() -> None:
    for operation in set(Operation) - {Operation.ANY, Operation.ALL}:
        for given in (operation, Operation.ALL):
            found = acls(f"ALLOW {given.name} {ALICE} * =t")
            assert found.decide(ALICE, HOST, operation, TOPIC, "t") is True
            found = acls(f"DENY {given.name} {ALICE} * =t", f"ALLOW ALL {ALICE} * =t")
            assert found.decide(ALICE, HOST, operation, TOPIC, "t") is False
        assert (len(ALLOWING[operation]) > 2) == (operation in (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS))


def test_super_users_and_what_holds_without_acls() -> None:
    denied = acls(f"DENY ALL {ALICE} * =*")
    for everyone in (False, True):
        authorizer = Authorizer({ALICE}, everyone)
        assert authorizer.allows(denied, ALICE, HOST, Operation.READ, TOPIC, "t")
        assert authorizer.allows_any(denied, ALICE, HOST, Operation.WRITE, TOPIC)
        assert not authorizer.allows(denied, BOB, HOST, Operation.READ, TOPIC, "t"), "there is an ACL about it"
        assert authorizer.allows(acls(), BOB, HOST, Operation.READ, TOPIC, "t") is everyone
        assert authorizer.allows_any(acls(), BOB, HOST, Operation.WRITE, TOPIC) is everyone


ANYWHERE = [
    ((), False),
    (("ALLOW WRITE alice * =t",), True),
    (("ALLOW WRITE * * ^t",), True),
    (("ALLOW ALL alice 127.0.0.1 =t",), True),
    (("ALLOW WRITE alice 10.0.0.1 =t",), False),
    (("ALLOW WRITE bob * =t",), False),
    (("ALLOW READ alice * =t",), False),
    (("ALLOW WRITE alice * GROUP=t",), False),
    # all of what is allowed is denied, or some of it
    (("ALLOW WRITE alice * =t", "DENY WRITE alice * =t"), False),
    (("ALLOW WRITE alice * =t", "DENY WRITE * * ^t"), False),
    (("ALLOW WRITE alice * ^tt", "DENY WRITE alice * ^t"), False),
    (("ALLOW WRITE alice * ^t", "DENY WRITE alice * ^t"), False),
    (("ALLOW WRITE alice * ^t", "DENY WRITE alice * ^tt"), True),
    (("ALLOW WRITE alice * ^t", "DENY WRITE alice * =t"), True),
    (("ALLOW WRITE alice * =*", "DENY WRITE alice * ^t"), True),
    (("ALLOW WRITE alice * =t", "DENY WRITE alice * =*"), False),
    (("ALLOW WRITE alice * =t", "DENY READ alice * =t"), True),
]


@pytest.mark.parametrize(("there", "allowed"), ANYWHERE)
def test_whether_any_topic_may_be_written(there: tuple[str, ...], allowed: bool) -> None:
    """KIP-679: who may write somewhere may do it idempotently."""
    assert acls(*there).allow_any(ALICE, HOST, Operation.WRITE, TOPIC) is allowed


@pytest.mark.parametrize(
    ("one", "other"),
    [("::1", "0:0:0:0:0:0:0:1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("FE80::1", "fe80:0::1"), ("a.example", "a.example")],
)
def test_a_host_has_one_form(one: str, other: str) -> None:
    assert address(one) == address(other)
    there = acls(f"ALLOW READ {ALICE} {one} =t")
    assert there.decide(ALICE, address(other), Operation.READ, TOPIC, "t") is True
    assert [each.entry.host for each in there] == [one], "it is told as it was given"


def test_removed_acls_decide_nothing() -> None:
    there = acls(
        f"ALLOW WRITE {ALICE} * ^a", f"ALLOW READ {ALICE} * ^a",
        f"ALLOW READ {ALICE} * =b",
    )  # fmt: skip
    assert len(there) == 3
    there.put(Pattern(TOPIC, PatternType.PREFIXED, "a"), [Entry(ALICE, "*", Operation.READ, Permission.ALLOW)])
    assert there.decide(ALICE, HOST, Operation.READ, TOPIC, "ab") is True
    assert there.decide(ALICE, HOST, Operation.WRITE, TOPIC, "ab") is False
    assert not there.allow_any(ALICE, HOST, Operation.WRITE, TOPIC)
    there.put(Pattern(TOPIC, PatternType.PREFIXED, "a"), ())
    assert there.decide(ALICE, HOST, Operation.READ, TOPIC, "ab") is None
    assert there.allow_any(ALICE, HOST, Operation.READ, TOPIC)
    there.put(Pattern(TOPIC, PatternType.LITERAL, "b"), ())
    assert not there.allow_any(ALICE, HOST, Operation.READ, TOPIC)
    assert (len(there), list(there)) == (0, [])


def test_a_record_holds_the_acls_of_a_pattern() -> None:
    pattern = Pattern(ResourceType.GROUP, PatternType.PREFIXED, "a/b/c")
    entries = (
        Entry("User:a b", "*", Operation.READ, Permission.DENY),
        Entry(BOB, HOST, Operation.ALL, Permission.ALLOW),
    )
    assert pattern_of(record_name(pattern)) == pattern
    assert from_json(to_json(entries)) == entries


ANY: AclFilter = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)
LITERAL, PREFIXED, EVERY = (
    acl(f"ALLOW READ {ALICE} * =orders"),
    acl(f"DENY WRITE {BOB} {HOST} ^ord"),
    acl(f"ALLOW ALL {ALICE} * =*"),
)


@pytest.mark.parametrize(
    ("wish", "chosen"),
    [
        (ANY, (LITERAL, PREFIXED, EVERY)),
        (ANY._replace(resource_type=ResourceType.GROUP), ()),
        (ANY._replace(name="orders"), (LITERAL,)),
        (ANY._replace(name="orders", pattern_type=PatternType.MATCH), (LITERAL, PREFIXED, EVERY)),
        (ANY._replace(name="order", pattern_type=PatternType.MATCH), (PREFIXED, EVERY)),
        (ANY._replace(name="orders", pattern_type=PatternType.PREFIXED), ()),
        (ANY._replace(name="ord", pattern_type=PatternType.PREFIXED), (PREFIXED,)),
        (ANY._replace(pattern_type=PatternType.LITERAL), (LITERAL, EVERY)),
        (ANY._replace(name="*", pattern_type=PatternType.LITERAL), (EVERY,)),
        (ANY._replace(principal=BOB), (PREFIXED,)),
        (ANY._replace(host="*"), (LITERAL, EVERY)),
        (ANY._replace(operation=Operation.READ), (LITERAL,)),
        (ANY._replace(operation=Operation.ALL), (EVERY,)),
        (ANY._replace(permission=Permission.DENY), (PREFIXED,)),
    ],
)
def test_what_a_filter_chooses(wish: AclFilter, chosen: tuple[Acl, ...]) -> None:
    there = (LITERAL, PREFIXED, EVERY)
    assert tuple(a for a in there if wish.matches_pattern(a.pattern) and wish.matches_entry(a.entry)) == chosen


def test_many_acls_are_not_looked_at_one_by_one() -> None:
    """What is about other names, and other users, is not met: so 10,000 of them cost a Produce nothing."""
    there = acls(f"ALLOW WRITE {ALICE} * ^orders-")
    for number in range(300):
        there.put(
            Pattern(TOPIC, PatternType.LITERAL, f"t{number}"), [Entry(BOB, "*", Operation.READ, Permission.ALLOW)]
        )
        there.put(
            Pattern(TOPIC, PatternType.PREFIXED, f"p{number:03}"), [Entry(BOB, "*", Operation.READ, Permission.ALLOW)]
        )
    assert len(list(there._by_type[TOPIC].of(ALICE, "orders-1"))) == 1


def test_whether_any_topic_may_be_written_is_remembered_until_acls_change() -> None:
    """Each InitProducerId looked at 20,000 patterns, for 50 ms."""
    there = acls(f"ALLOW WRITE {ALICE} * =t")
    patterns = there._patterns
    for principal, allowed in ((ALICE, True), (BOB, False)) * 2:
        assert there.allow_any(principal, HOST, Operation.WRITE, TOPIC) is allowed
        there._patterns = {}
        assert there.allow_any(principal, HOST, Operation.WRITE, TOPIC) is allowed
        there._patterns = patterns
    there.put(Pattern(TOPIC, PatternType.LITERAL, "b"), [Entry(BOB, "*", Operation.WRITE, Permission.ALLOW)])
    assert there.allow_any(BOB, HOST, Operation.WRITE, TOPIC)
    there.put(Pattern(TOPIC, PatternType.LITERAL, "t"), ())
    assert not there.allow_any(ALICE, HOST, Operation.WRITE, TOPIC)


def test_whether_a_name_has_a_prefix_is_found_at_once() -> None:
    """Of 985 lengths each was tried, so that a Metadata of 24,000 names took 19 s. Added and removed in any order."""
    choice = random.Random(7)
    every = [p for n in range(1, 6) for p in map("".join, itertools.product("ab", repeat=n))]
    prefixes, there = _Prefixes(), set[str]()
    for _ in range(1_000):
        prefix = choice.choice(every)
        if prefix in there:
            prefixes.remove(prefix)
        else:
            prefixes.add(prefix)
        there ^= {prefix}
        name = choice.choice(every) + choice.choice(("", "a", "c"))
        assert prefixes.has_one_of(name) == any(name.startswith(each) for each in there), (name, there)
