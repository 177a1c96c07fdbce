"""How an API handler declares itself."""

from typing import NamedTuple


class ApiSpec(NamedTuple):
    """One Kafka API: its key, its name, and the versions that are advertised."""

    key: int
    name: str
    min_version: int
    max_version: int
