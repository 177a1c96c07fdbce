"""Login modules and principals: Kafka's own syntax (31 item 1)."""

from __future__ import annotations

import time

import pytest
from minikafka.security.distinguished_name import distinguished_name
from minikafka.security.jaas import PLAIN_MODULE, parse, parse_for
from minikafka.security.principal import mapped, parse_rules

from tests.certificates import SEQUENCE, SET, certificate_of, der


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


CN, OU, ORG, C, ST, L, STREET = "550403", "55040b", "55040a", "550406", "550408", "550407", "550409"
UID, DC, EMAIL = "0992268993f22c640101", "0992268993f22c640119", "2a864886f70d010901"
UTF8, PRINTABLE, T61, IA5, GENERAL, BMP, UNIVERSAL = 0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E, 0x1C
Attribute = tuple[str, int, bytes]


def subject(*relatives: list[Attribute]) -> bytes:
    def attribute(number: str, tag: int, value: bytes) -> bytes:
        return der(SEQUENCE, der(0x06, bytes.fromhex(number)), der(tag, value))

    return der(SEQUENCE, *(der(SET, *(attribute(*each) for each in relative)) for relative in relatives))


NAMES: list[tuple[Attribute, str]] = [
    ((CN, UTF8, b"alice"), "CN=alice"),
    ((OU, UTF8, b"CN=admin"), r"OU=CN\=admin"),
    ((ORG, PRINTABLE, b'a,=+<>#;"\\b'), r"O=a\,\=\+\<\>\#\;\"\\b"),
    ((C, PRINTABLE, b"DE"), "C=DE"),
    ((ST, UTF8, b"#a#"), r"ST=\#a\#"),
    ((L, UTF8, b"  a b  "), r"L=\ \ a b\ \ "),
    ((L, UTF8, b"   "), r"L=\ \ \ "),
    ((L, UTF8, b"a\\ "), r"L=a\\\ "),
    ((L, UTF8, b" \r\ta\n\r"), "L=\\ \\\r\ta\n\\\r"),
    ((STREET, UTF8, b""), "STREET="),
    ((CN, UTF8, b"admin\0 "), r"CN=admin\00\ "),
    ((CN, UTF8, "é€😀\u00a0".encode()), "CN=é€😀\u00a0"),
    ((UID, PRINTABLE, b"\xe9"), "UID=é"),
    ((CN, T61, b"adm\xe9\xc3\xa9"), "CN=adméÃ©"),
    ((DC, IA5, b"a\xc3\xa9"), "DC=aÃ©"),
    ((CN, GENERAL, b"\xe9"), "CN=é"),
    ((CN, BMP, b"admi"), "CN=慤浩"),
    ((CN, BMP, b"\0a\0=\0\0\x20\xac\0 "), r"CN=a\=\00€\ "),
    ((CN, BMP, b""), "CN="),
    ((CN, UNIVERSAL, b"\0\0\0a"), "CN=#1c0400000061"),
    ((CN, 0x12, b"1"), "CN=#120131"),
    ((CN, 0x30, b""), "CN=#3000"),
    ((CN, 0x2C, b"\x0c\1a"), "CN=#2c030c0161"),
    ((EMAIL, IA5, b"a@b"), "1.2.840.113549.1.9.1=#1603614062"),
    ((EMAIL, IA5, b"CN=admin@" + b"a" * 118), "1.2.840.113549.1.9.1=#167f434e3d61646d696e40" + "61" * 118),
    ((EMAIL, IA5, b"CN=admin@" + b"a" * 119), "1.2.840.113549.1.9.1=#168180434e3d61646d696e40" + "61" * 119),
    ((EMAIL, IA5, b"CN=admin," + b"a" * 300), "1.2.840.113549.1.9.1=#16820135434e3d61646d696e2c" + "61" * 300),
    (("55040c", PRINTABLE, b"Dr"), "2.5.4.12=#13024472"),
    (("55040c", UTF8, b"Dr"), "2.5.4.12=#0c024472"),
    (("55042e", PRINTABLE, b"q"), "2.5.4.46=#130171"),
    (("2a0304", UTF8, b"CN=admin"), "1.2.3.4=#0c08434e3d61646d696e"),
    (("00", UTF8, b""), "0.0=#0c00"),
    (("27", UTF8, b""), "0.39=#0c00"),
    (("28", UTF8, b""), "1.0=#0c00"),
    (("4f", UTF8, b""), "1.39=#0c00"),
    (("50", UTF8, b""), "2.0=#0c00"),
    (("8837", UTF8, b""), "2.999=#0c00"),
    (("55ffffffff7f", UTF8, b""), "2.5.34359738367=#0c00"),
    (("ffffffffffffffffffff7f", UTF8, b""), "2.151115727451828646838191=#0c00"),
]


@pytest.mark.parametrize(("attribute", "name"), NAMES, ids=[ascii(name[:30]) for _, name in NAMES])
def test_an_attribute_is_named_as_java_names_it(attribute: Attribute, name: str) -> None:
    """``X500Principal.getName()`` of JDK 25.0.3 has said all of them; JDK 17.0.15 takes strings of every type for UTF-8."""
    assert distinguished_name(certificate_of(subject([attribute]))) == name


A, B, C_DE, E = (CN, UTF8, b"a"), (OU, UTF8, b"b"), (C, PRINTABLE, b"DE"), (EMAIL, IA5, b"e")


@pytest.mark.parametrize(
    ("relatives", "name"),
    [
        ([], ""),
        ([[C_DE], [B, A], [E]], "1.2.840.113549.1.9.1=#160165,OU=b+CN=a,C=DE"),
        ([[A, B, E], [A]], "CN=a,CN=a+OU=b+1.2.840.113549.1.9.1=#160165"),
        ([[], [A]], "CN=a,"),
    ],
)
def test_a_subject_is_named_as_java_names_it(relatives: list[list[Attribute]], name: str) -> None:
    assert distinguished_name(certificate_of(subject(*relatives))) == name
    assert distinguished_name(certificate_of(subject(*relatives), version=b"")) == name


@pytest.mark.parametrize(
    "name",
    [
        der(SET),
        der(SEQUENCE, der(SEQUENCE)),
        der(SEQUENCE, der(SET, der(SET))),
        der(SEQUENCE, der(SET, der(SEQUENCE))),
        der(SEQUENCE, der(SET, der(SEQUENCE, der(0x06, b"\x55\4\3")))),
        der(SEQUENCE, der(SET, der(SEQUENCE, der(0x06, b"\x55\4\3"), der(UTF8), der(UTF8)))),
        der(SEQUENCE, der(SET, der(SEQUENCE, der(0x0D, b"\x55\4\3"), der(UTF8)))),
        *(subject([(number, UTF8, b"")]) for number in ("", "80", "5580", "558003", "55" * 4097)),
        subject([(CN, BMP, b"\0ab")]),
        subject([(CN, BMP, b"\xd8\x3d\xde\x00")]),
        subject([("55040c", BMP, b"\xd8\x3d\xde\x00")]),
        subject([(CN, 0x1F, b"")]),
        b"\x30\x80\0\0",
        b"\x30\x81\0",
        b"\x30\x82\0\0",
    ],
    ids=bytes.hex,
)
def test_a_subject_that_is_refused(name: bytes) -> None:
    """Java reads none of them, either, but lengths in another form than DER has, and half of a last character."""
    with pytest.raises(ValueError):
        distinguished_name(certificate_of(name))


def test_half_a_certificate_is_refused() -> None:
    whole = certificate_of(subject([A]))
    for end in range(len(whole)):
        with pytest.raises(ValueError):
            distinguished_name(whole[:end])
    with pytest.raises(ValueError):
        distinguished_name(whole + b"\0")


def test_a_long_subject_is_named_at_once() -> None:
    began = time.process_time()
    distinguished_name(certificate_of(subject([(CN, UTF8, b"a" + b" " * 60_000 + b"a")])))
    distinguished_name(certificate_of(subject(*[[A]] * 4_000)))
    assert time.process_time() - began < 1


def test_no_value_looks_like_an_attribute() -> None:
    rules = parse_rules("RULE:^.*CN=([a-zA-Z0-9]+).*$/$1/")
    for tried in (
        (OU, UTF8, b"CN=admin"),
        (EMAIL, IA5, b"CN=admin@" + b"a" * 130),
        (OU, BMP, "CN=admin".encode("utf-16-be")),
    ):
        assert mapped(rules, distinguished_name(certificate_of(subject([A], [tried])))) == "a"


@pytest.mark.parametrize(
    ("rules", "name", "found"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "CN=kafka,OU=ServiceUsers,O=x", "kafka"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "CN=kafka,O=x", "CN=kafka,O=x"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L", "CN=Alice,OU=Ops,O=x", "alice@ops"),
        (r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U , DEFAULT", "CN=a.b,O=x", "A.B"),
        ("RULE:^CN=(.*)$/$1/", "O=x", None),
        (r"RULE:^CN=(\w+)$/$1/L", "CN=\N{KELVIN SIGN}arl", None),
        ("RULE:(?i)^CN=([a-z]+)$/$1/L", "CN=\N{KELVIN SIGN}arl", None),
        ("RULE:^CN=(.*?)(,.*)?$/$1/", "CN=x\N{LINE SEPARATOR},O=x", None),
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
