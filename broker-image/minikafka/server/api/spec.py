"""How an API handler declares itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from minikafka.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from minikafka.server.request_context import RequestContext
    from minikafka.server.services import Services

NOTHING: Mapping[str, str] = MappingProxyType({})

NO_TRANSACTIONS = "there are no transactions"
NO_NEW_GROUPS = "only members of the new group protocol (KIP-848) have it, which is not served"
NO_REASONS = "Kafka only writes it into its log"
NO_DIRECTORY_IDS = "the controller does not know directories (KIP-858)"
NO_ZOOKEEPER = "there is no ZooKeeper to come from"
ANSWERED_WHEN_DONE = "the answer comes when the controller has committed it, or has given up its term"

UNSET_EVERYWHERE: Mapping[str, str] = MappingProxyType(
    {"throttle_time": "the connection sets it, where a quota is exceeded"}
)
"""Fields of responses that no handler sets."""


class ApiSpec(NamedTuple):
    """One Kafka API: its key, and the versions that are advertised.

    ``inter_broker``: brokers ask it of each other. It is served and advertised on the inter-broker listener only, as Kafka
    serves it on controller listeners only (``"listeners": ["controller"]`` in its message definitions).

    ``controller_only``: only the controller can carry it out. Any broker takes it and passes it on, as in KRaft (KIP-590).

    ``unread`` and ``unset``: fields of its requests that the handler does not look at, and of its responses that it leaves at
    the schema's default, each with the reason; what lies below such a field is included. A field that is neither used nor
    listed here fails a test, so that no version is advertised whose new field is ignored by mistake.
    """

    key: ApiKey
    min_version: int
    max_version: int
    inter_broker: bool = False
    controller_only: bool = False
    unread: Mapping[str, str] = NOTHING
    unset: Mapping[str, str] = NOTHING

    @property
    def name(self) -> str:
        """The name in Kafka's message definitions."""
        return self.key.api_name


Handler: TypeAlias = "Callable[[Services, RequestContext, Any], Awaitable[dict[str, Any]]]"
Handlers: TypeAlias = "Mapping[int, tuple[ApiSpec, Handler]]"
"""Every supported API by its key."""
