"""What a consumer group's coordinator tells of it, asked by two requests of our own.

Not by librdkafka's admin client: in 2.16 a request to a coordinator whose connection breaks can end the whole process (librdkafka
#4605, #3663: "Assertion `eonce->refcnt > 0' failed"), and here coordinators are killed.
"""

from __future__ import annotations

from minikafka.client.connection import BrokerConnection, NoAnswer, endpoints
from minikafka.client.security import ClientSecurity
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.errors import ErrorCode

FIND_COORDINATOR_VERSION = 3
"""The last version that asks for one group."""
DESCRIBE_GROUPS_VERSION = 5


def group_state(bootstrap: str, security: ClientSecurity, group: str, timeout_s: float) -> str | None:
    """`Stable`, `PreparingRebalance`, `CompletingRebalance`, `Empty` or `Dead`; None while nobody tells."""
    for host, port in endpoints(bootstrap):
        try:
            with BrokerConnection(host, port, timeout_s, security) as connection:
                found = connection.request(
                    ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_VERSION, {"key": group, "key_type": 0}
                )
            if ErrorCode(found.error_code) is not ErrorCode.NONE:
                return None
            with BrokerConnection(found.host, found.port, timeout_s, security) as connection:
                (described,) = connection.request(
                    ApiKey.DESCRIBE_GROUPS, DESCRIBE_GROUPS_VERSION, {"groups": [group]}
                ).groups
        except (NoAnswer, ValueError):
            continue
        return str(described.group_state) if ErrorCode(described.error_code) is ErrorCode.NONE else None
    return None
