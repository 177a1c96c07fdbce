"""Login modules and principals: Kafka's own syntax (31 item 1)."""

from __future__ import annotations

import time

import pytest
from minikafka.security.jaas import PLAIN_MODULE, parse, parse_for
from minikafka.security.principal import distinguished_name, mapped, parse_rules


def test_a_login_module() -> None:
    text = f"""{PLAIN_MODULE} required
        username="admin" password='it''s' user_admin="a \\"b\\" ;=" user_x=bare user_y=";";"""
    module = parse(text.replace("it''s", "its"))
    assert (module.module, module.username, module.password) == (PLAIN_MODULE, "admin", "its")
    assert module.users == {"admin": 'a "b" ;=', "x": "bare", "y": ";"}
    assert "its" not in repr(module)


def test_a_login_module_of_many_options() -> None:
    text = "".join(f' user_{number}="p"' for number in range(20_000))
    began = time.process_time()
    assert len(parse(f"{PLAIN_MODULE} required{text};").users) == 20_000
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "does not end with ;"),
        ("x required", "does not end with ;"),
        ("x needed a=b;", "after the module comes one of"),
        ('x required a="b;', "quotation mark"),
        ("x required a b;", "options are"),
        ("x required; y required;", "more than one module"),
    ],
)
def test_a_bad_login_module(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse(text)


def test_a_module_of_another_mechanism() -> None:
    with pytest.raises(ValueError, match="the module of SCRAM-SHA-256 is"):
        parse_for("SCRAM-SHA-256", f"{PLAIN_MODULE} required;")


SUBJECT = {
    "subject": (
        (("countryName", "DE"),),
        (("organizationName", "A, B"),),
        (("organizationalUnitName", "x"), ("commonName", "alice")),
        (("emailAddress", "a@b"),),
    )
}


def test_a_subject_is_named_as_java_names_it() -> None:
    """``X500Principal.getName()``: RFC 2253, and a number where that has no name."""
    assert distinguished_name(SUBJECT) == r"1.2.840.113549.1.9.1=#1603614062,OU=x+CN=alice,O=A\, B,C=DE"


@pytest.mark.parametrize(
    ("rules", "name", "found"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "CN=kafka,OU=ServiceUsers,O=x", "kafka"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "CN=kafka,O=x", "CN=kafka,O=x"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L", "CN=Alice,OU=Ops,O=x", "alice@ops"),
        (r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U , DEFAULT", "CN=a.b,O=x", "A.B"),
        ("RULE:^CN=(.*)$/$1/", "O=x", None),
        ("", "CN=a", "CN=a"),
    ],
)
def test_mapping_rules(rules: str, name: str, found: str | None) -> None:
    """KIP-371."""
    assert mapped(parse_rules(rules), name) == found


@pytest.mark.parametrize("rules", ["RULE:a", "RULE:(/x/", "RULE:(a)/$2/", "default", "DEFAULT DEFAULT", "RULE:a/b/X"])
def test_bad_mapping_rules(rules: str) -> None:
    with pytest.raises(ValueError):
        parse_rules(rules)
