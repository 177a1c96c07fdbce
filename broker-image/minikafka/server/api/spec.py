"""How an API handler declares itself."""

from typing import NamedTuple


class ApiSpec(NamedTuple):
    """One Kafka API: its key, its name, and the versions that are advertised.

    ``inter_broker``: brokers ask it of each other. It is served and advertised on the inter-broker listener only, as Kafka
    serves it on controller listeners only (``"listeners": ["controller"]`` in its message definitions).
    """

    key: int
    name: str
    min_version: int
    max_version: int
    inter_broker: bool = False
