"""What a cold handler may know of its request, also of one that another broker passes on for a client."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.wire import MalformedRequest, RequestHeader
from minikafka.server.quotas import ClientQuotas, MutationQuota

if TYPE_CHECKING:
    from minikafka.server.connection import ClientConnection

FORWARDED = "forwarded:"
"""Before the client whose request a broker passes on to the controller, which counts what the client changes (KIP-599)."""

STRICT_SINCE: dict[int, int] = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
"""What counts for controller_mutation_rate, and since which version a client knows the error of what is beyond it (KIP-599)."""

FORWARDED_ID_MAX = 2048
"""As much as is told of a client id, which has no quota of its own when it is so long."""


def forwarded_for(principal: str, client_id: str) -> str:
    """The client id under which a broker passes a client's request on."""
    return FORWARDED + json.dumps([principal, client_id[:FORWARDED_ID_MAX]], ensure_ascii=False)


def client_of(forwarded: str) -> tuple[str, str]:
    """Principal and client id. Raises MalformedRequest."""
    try:
        principal, client_id = json.loads(forwarded.removeprefix(FORWARDED))
    except (ValueError, TypeError, RecursionError) as error:
        raise MalformedRequest("a request is passed on for nobody") from error
    return str(principal), str(client_id)


class RequestContext:
    """What a cold handler may know of its request."""

    __slots__ = (
        "api_version",
        "client_host",
        "client_id",
        "connection",
        "forwarded",
        "header",
        "inter_broker",
        "listener",
        "mutation_quota",
        "principal",
    )

    def __init__(self, connection: ClientConnection, header: RequestHeader) -> None:
        self.connection = connection
        self.header = header
        self.api_version = header.api_version
        self.client_id = header.client_id or ""
        self.client_host = connection.client_host
        self.listener = connection.listener
        self.inter_broker = connection.is_broker
        self.principal = connection.principal
        self.forwarded = self.inter_broker and self.client_id.startswith(FORWARDED)
        """Whether a broker passes it on for a client, whose principal and id then stand here."""
        if self.forwarded:
            self.principal, self.client_id = client_of(self.client_id)
        self.mutation_quota: MutationQuota | None = None

    def mutations(self, quotas: ClientQuotas) -> MutationQuota:
        """What this request may change of the cluster."""
        self.mutation_quota = quotas.mutations(self, strict=self.api_version >= STRICT_SINCE[self.header.api_key])
        return self.mutation_quota
