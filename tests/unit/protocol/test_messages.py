"""The bridge to kio: what a dictionary may hold."""

from __future__ import annotations

import subprocess
import sys

import pytest
from minikafka.protocol import messages
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.wire import MalformedRequest


def test_a_field_of_another_version_is_dropped() -> None:
    """One handler serves all versions: ``topic_names`` ended with DeleteTopics v5, ``topics`` began with v6."""
    values = {"topic_names": ["t"], "topics": [{"name": "t", "topic_id": None}], "timeout": 1}
    for version in (5, 6):
        body = messages.encode_request(ApiKey.DELETE_TOPICS, version, values)
        read = messages.decode_request(ApiKey.DELETE_TOPICS, version, body)
        assert (read.topic_names if version == 5 else [t.name for t in read.topics]) in (["t"], ("t",))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"topics": [], "throttle_time_ms": 0}, "MetadataResponse has no field 'throttle_time_ms'"),
        ({"topics": [{"name": "t", "topic_id": None, "isr": []}]}, "MetadataResponseTopic has no field 'isr'"),
    ],
    ids=["at the top", "in a struct"],
)
def test_a_field_that_no_version_has_is_refused(values: dict[str, object], named: str) -> None:
    """It would be dropped in every version: the client is told the schema's default instead of what the handler meant."""
    with pytest.raises(TypeError, match=named):
        messages.encode_response(ApiKey.METADATA, 1, values)


@pytest.mark.slow
def test_a_broker_does_not_import_hypothesis_and_metadata_of_packages() -> None:
    """kio and crc32c would. A process that has hypothesis loaded keeps it."""
    code = """
import importlib, sys, minikafka.protocol.messages, minikafka.protocol.records
print("hypothesis" in sys.modules, "email" in sys.modules)
import hypothesis
importlib.reload(minikafka.protocol.kio_types)
print(sys.modules.get("hypothesis") is hypothesis)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False", "True"]


def test_the_header_of_an_answer() -> None:
    """Tagged fields from the flexible versions on, also some that nobody knows; none in ApiVersions."""
    correlation, tagged = b"\0\0\0\7", b"\1\5\2ab"
    assert messages.answer_body(ApiKey.METADATA, 12, correlation + b"\0body") == b"body"
    assert messages.answer_body(ApiKey.METADATA, 12, correlation + tagged + b"body") == b"body"
    assert messages.answer_body(ApiKey.METADATA, 4, correlation + b"body") == b"body"
    assert messages.answer_body(ApiKey.API_VERSIONS, 3, correlation + b"body") == b"body"
    with pytest.raises(MalformedRequest, match="within its header"):
        messages.answer_body(ApiKey.METADATA, 12, correlation)
