"""Java's properties format (``java.util.Properties.load``)."""

from pathlib import Path

import pytest
from minikafka.config import BrokerConfig, ConfigError
from minikafka.config.properties import expand_environment, parse_properties, read_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb = 2\r\nc: 3\rd 4\n", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# no\n ! no\n\n  a=1", {"a": "1"}),
        ("listeners=PLAINTEXT://:9092,X://h:1", {"listeners": "PLAINTEXT://:9092,X://h:1"}),
        ("a=1,\\\n   2,\\\n   3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a=\\u00e9\\t.", {"a": "é\t."}),
        ("a=\\ud83d\\ude00 \\ud83d", {"a": "\N{GRINNING FACE} \N{REPLACEMENT CHARACTER}"}),
        ("a=1\na=2", {"a": "2"}),
        ("a\nb=", {"a": "", "b": ""}),
        ("a=b#c", {"a": "b#c"}),
        ("a=1\\\n# goes on", {"a": "1# goes on"}),
        ("", {}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_parsing(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(b"a=\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_properties(file)


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        read_properties(tmp_path)


def test_what_has_no_end_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^/dev/zero: more than 1048576 bytes; allowed: a file in Java's properties"):
        read_properties("/dev/zero")


class TestEnvironment:
    """KIP-887: ``${env:NAME}`` in values."""

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("${env:IP}", "10.0.0.7"),
            ("A://${env:IP}:1,B://${env:NAME}:2", "A://10.0.0.7:1,B://c-broker-0:2"),
            ("${env:EMPTY}", ""),
            ("$env:IP ${IP} {env:IP} ${file:IP}", "$env:IP ${IP} {env:IP} ${file:IP}"),
            ("${env:NESTED}", "${env:IP}"),
        ],
    )
    def test_what_is_replaced(self, value: str, expected: str) -> None:
        environment = {"IP": "10.0.0.7", "NAME": "c-broker-0", "EMPTY": "", "NESTED": "${env:IP}"}
        assert expand_environment({"key": value}, environment) == {"key": expected}

    def test_an_unset_variable_is_an_error_that_names_key_and_variable(self) -> None:
        with pytest.raises(ConfigError) as refused:
            expand_environment({"a": "${env:ONE}", "b": "2", "c": "x${env:TWO}${env:}"}, {})
        assert [line.split("; ")[0] for line in refused.value.problems] == [
            "a: the environment variable 'ONE' is not set",
            "c: the environment variable 'TWO' is not set",
            "c: the environment variable without a name is not set",
        ]

    def test_a_brokers_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = tmp_path / "broker.properties"
        file.write_text(
            "node.id=${env:ORDINAL}\nminikafka.metadata.store=memory\n"
            "listeners=CLIENT://:9092,REPLICATION://:9091\n"
            "advertised.listeners=CLIENT://c-broker-3.c-brokers.ns.svc:9092,REPLICATION://[${env:POD_IP}]:9091\n"
            "listener.security.protocol.map=CLIENT:PLAINTEXT,REPLICATION:PLAINTEXT\n"
            "inter.broker.listener.name=REPLICATION\n"
        )
        monkeypatch.setenv("ORDINAL", "3")
        monkeypatch.setenv("POD_IP", "fd00::7")
        config = BrokerConfig.from_file(file)
        assert config.node_id == 3
        assert config.inter_broker_listener == "REPLICATION"
        assert [str(e) for e in config.advertised_listeners] == [
            "CLIENT://c-broker-3.c-brokers.ns.svc:9092",
            "REPLICATION://[fd00::7]:9091",
        ]
        monkeypatch.delenv("POD_IP")
        with pytest.raises(ConfigError, match=r"^advertised\.listeners: .*'POD_IP' is not set"):
            BrokerConfig.from_file(file)
