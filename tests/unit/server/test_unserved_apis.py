"""Each API of Kafka's is served in all of its versions, or `docs/reference/apis.md` says why not (27 B17)."""

from __future__ import annotations

import kio.schema.index as kio
from kio.static.constants import EntityType
from minikafka.protocol.api_keys import KAFKA_VERSIONS, ApiKey
from minikafka.server.api import load_handlers, unserved

from tests.forms import for_each

SPECS = {key: spec for key, (spec, _) in load_handlers().items()}
UNSTABLE = {ApiKey.INIT_PRODUCER_ID: 6}
"""Versions that kio has, and a Kafka broker serves with ``unstable.api.versions.enable`` only."""


def test_every_api_that_the_protocol_library_knows_has_a_name() -> None:
    """A later kio brings the APIs of a later Kafka."""
    assert set(kio.api_key_map) == set(ApiKey)
    assert KAFKA_VERSIONS.keys() == set(ApiKey)


@for_each(ApiKey)
def test_versions_of_kafka_are_those_of_its_message_definitions(key: ApiKey) -> None:
    versions = [v for v, kinds in kio.schema_name_map[kio.api_key_map[key]].items() if EntityType.request in kinds]
    assert KAFKA_VERSIONS[key] == (min(versions), max(v for v in versions if v != UNSTABLE.get(key)))


@for_each(ApiKey)
def test_what_is_not_served_has_a_reason(key: ApiKey) -> None:
    spec = SPECS.get(key)
    if spec is None:
        assert key in unserved.APIS
        return
    assert key not in unserved.APIS
    oldest, newest = KAFKA_VERSIONS[key]
    assert oldest <= spec.min_version <= spec.max_version <= newest
    assert ((spec.min_version, spec.max_version) != (oldest, newest)) == (key in unserved.VERSIONS)
