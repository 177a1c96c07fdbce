"""SCRAM credentials: what is refused of one, for every broker keeps them all and strangers are answered with their shapes."""

from __future__ import annotations

from minikafka.controller.users import Upsertion
from minikafka.protocol.errors import ErrorCode

from tests.unit.controller.desk import Desk


def altered(name: str = "alice", salt: bytes = b"salt", password: bytes = b"p" * 64) -> str:
    desk = Desk()
    desk.controller.take_changes()
    (refused,) = desk.controller.users.alter([Upsertion(name, 2, 4096, salt, password)], b"secret").values()
    assert desk.controller.workspace.has_changes == (refused is None)
    assert refused is None or refused.code is ErrorCode.UNACCEPTABLE_CREDENTIAL
    return str(refused or "")


def test_sizes_are_bounded() -> None:
    """A name counts in bytes; the salts of Kafka's tool and of librdkafka, of 26 and 64 bytes, are taken."""
    for salt in (b"1" * 26, b"\0" * 64, b"s" * 256):
        assert altered(salt=salt) == ""
    assert altered("ö" * 512) == ""
    assert altered("ö" * 513) == "The user name is 1026 bytes long; allowed: at most 1024"
    assert altered(salt=b"s" * 257) == "The salt is 257 bytes long; allowed: at most 256"
    assert altered(password=b"p" * 257) == "The password is 257 bytes long; allowed: at most 256"
