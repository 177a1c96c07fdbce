"""Java's properties format (``java.util.Properties.load``)."""

from pathlib import Path

import pytest
from minikafka.config import ConfigError
from minikafka.config.properties import parse_properties, read_properties


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
