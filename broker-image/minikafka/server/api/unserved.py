"""Why an API of Kafka's, or a version of one, is not served; every one that is not has its line here."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.protocol.api_keys import ApiKey
from minikafka.server.api.spec import NO_TRANSACTIONS

_NO_TOKENS = "there are no delegation tokens (KIP-48)"
_NO_RAFT = "metadata is in a cluster store, not in a Raft log"
_NEW_GROUPS = "the new consumer group protocol (KIP-848) is not there; clients use the classic one"
_SHARE_GROUPS = "there are no share groups (KIP-932)"
_STREAMS_GROUPS = "there are no streams groups (KIP-1071); Kafka Streams uses the classic protocol"
_CLIENT_METRICS = "clients' metrics are not collected (KIP-714); clients that find the API missing send none"

APIS: Mapping[ApiKey, str] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: NO_TRANSACTIONS,
    ApiKey.ADD_OFFSETS_TO_TXN: NO_TRANSACTIONS,
    ApiKey.END_TXN: NO_TRANSACTIONS,
    ApiKey.WRITE_TXN_MARKERS: NO_TRANSACTIONS,
    ApiKey.TXN_OFFSET_COMMIT: NO_TRANSACTIONS,
    ApiKey.CREATE_DELEGATION_TOKEN: _NO_TOKENS,
    ApiKey.RENEW_DELEGATION_TOKEN: _NO_TOKENS,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _NO_TOKENS,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _NO_TOKENS,
    ApiKey.VOTE: _NO_RAFT,
    ApiKey.BEGIN_QUORUM_EPOCH: _NO_RAFT,
    ApiKey.END_QUORUM_EPOCH: _NO_RAFT,
    ApiKey.ENVELOPE: "requests for the controller are passed on as they are; the client id says whose, where quotas count",
    ApiKey.FETCH_SNAPSHOT: _NO_RAFT,
    ApiKey.DESCRIBE_TRANSACTIONS: NO_TRANSACTIONS,
    ApiKey.ALLOCATE_PRODUCER_IDS: "brokers take blocks of producer ids from the cluster store",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _NEW_GROUPS,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _NEW_GROUPS,
    ApiKey.CONTROLLER_REGISTRATION: "every controller is a registered broker",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _CLIENT_METRICS,
    ApiKey.PUSH_TELEMETRY: _CLIENT_METRICS,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "the controller does not know directories (KIP-858)",
    ApiKey.SHARE_GROUP_HEARTBEAT: _SHARE_GROUPS,
    ApiKey.SHARE_GROUP_DESCRIBE: _SHARE_GROUPS,
    ApiKey.SHARE_FETCH: _SHARE_GROUPS,
    ApiKey.SHARE_ACKNOWLEDGE: _SHARE_GROUPS,
    ApiKey.ADD_RAFT_VOTER: _NO_RAFT,
    ApiKey.REMOVE_RAFT_VOTER: _NO_RAFT,
    ApiKey.UPDATE_RAFT_VOTER: _NO_RAFT,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _SHARE_GROUPS,
    ApiKey.READ_SHARE_GROUP_STATE: _SHARE_GROUPS,
    ApiKey.WRITE_SHARE_GROUP_STATE: _SHARE_GROUPS,
    ApiKey.DELETE_SHARE_GROUP_STATE: _SHARE_GROUPS,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _SHARE_GROUPS,
    ApiKey.STREAMS_GROUP_HEARTBEAT: _STREAMS_GROUPS,
    ApiKey.STREAMS_GROUP_DESCRIBE: _STREAMS_GROUPS,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _SHARE_GROUPS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _SHARE_GROUPS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _SHARE_GROUPS,
}
"""APIs that are not served at all."""

VERSIONS: Mapping[ApiKey, str] = {
    ApiKey.PRODUCE: "records are written to a topic by its name; version 13 names it by its id (KIP-516)",
    ApiKey.FETCH: "version 18 adds the high watermark that a replica knows; followers here ask in version 16",
    ApiKey.BROKER_HEARTBEAT: "version 2 adds cordoned data directories (KIP-1066), which are not there",
}
"""APIs that are served in fewer versions than Kafka's."""
