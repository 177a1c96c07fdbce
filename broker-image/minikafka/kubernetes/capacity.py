"""How many topics and partitions the ConfigMap of the metadata has room for, so that a failover never finds it full.

In quiet times the ConfigMap names topics and little more: their states are in their own objects. When a broker dies, the
states of all partitions that it had go through the journal at once (:mod:`document`), and must fit into one object of
Kubernetes. So creating is refused while there is room: at half of the limit, by an estimate of the worst, which is every
partition in the journal with a state that shares nothing with its neighbours'.

Measured on documents as they are written (JSON, gzip level 1), bytes per partition:

======================================  =======================  ================================================
topics x partitions, replicas, brokers  as created, all written  worst: shuffled replicas, ISR, ELR, random epochs
======================================  =======================  ================================================
1000 x 10, 1, 3                         5                        17
1000 x 10, 3, 3                         5                        25
1000 x 10, 3, 100                       9                        30
1000 x 10, 5, 9                         6                        32
1 x 10000, 3, 9                         1                        22
10000 x 1, 3, 9                         43                       59
======================================  =======================  ================================================

With three replicas that is room for some 19,000 partitions in large topics, and for 6,500 topics of one partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minikafka.kubernetes.document import CONFIG_MAP_BYTES_MAX
from minikafka.metadata.image import ClusterImage, TopicState
from minikafka.metadata.store import Room, Wish
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.quotas.entities import Entity, EntityQuotas, record_name
from minikafka.security.acls import Acl
from minikafka.security.scram import ScramCredential, UserCredential

WORST_CASE_BYTES_MAX = CONFIG_MAP_BYTES_MAX // 2

TOPIC_BYTES = 24
"""Of a topic beside its name, settings and partitions: mostly its id, which is random."""

PARTITION_BYTES, REPLICA_BYTES = 12, 5
"""Of a partition's epochs and leader, and of each replica, which is also in its ISR or ELR."""

BROKER_BYTES = 150

CREDENTIAL_BYTES = 90
"""Of a user's SCRAM credential beside its name, salt and keys, of which the last are random and in base64."""

ACL_BYTES = 10
"""Of an ACL beside its names, which are taken to be like no other's. (With random names of twelve letters it is 25 in all.)"""

QUOTA_BYTES = 30
"""Of each quota of an entity, with its value; and of the entity beside its names, which are there twice."""


def room(image: ClusterImage) -> Room:
    """What there may be beside what is in an image, for as long as that does not change.

    What takes no more room than before is always allowed.
    """
    there = worst_case_bytes(image)

    def check(wishes: Sequence[Wish]) -> None:
        more = sum(_more_bytes(image, wish) for wish in wishes)
        if more <= 0 or there + more <= WORST_CASE_BYTES_MAX:
            return
        partitions = sum(len(one.partitions) for one in image.topics.values())
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"{_described(wishes)}: the cluster's metadata ({len(image.topics)} topics, {partitions} partitions, "
            f"{len(image.acls)} ACLs, {len(image.scram)} credentials) may take {there} bytes in a failover, and this would "
            f"make it {there + more}; at most {WORST_CASE_BYTES_MAX} are allowed, half of what Kubernetes stores in a "
            "ConfigMap",
        )

    return check


def _more_bytes(image: ClusterImage, wish: Wish) -> int:
    """What a wish takes beside what is there in its place."""
    if isinstance(wish, TopicState):
        before = image.topics.get(wish.name)
        return topic_bytes(wish) - (0 if before is None else topic_bytes(before))
    if isinstance(wish, EntityQuotas):
        return quota_bytes(wish.entity, wish.values) - quota_bytes(wish.entity, image.quotas.of(wish.entity))
    if isinstance(wish, UserCredential):
        found = image.scram.get(wish[:2])
        return credential_bytes(wish.user, wish.found) - (0 if found is None else credential_bytes(wish.user, found))
    return acl_bytes(wish)


def _described(wishes: Sequence[Wish]) -> str:
    first = wishes[0]
    if isinstance(first, TopicState):
        return f"topic {first.name!r} with {len(first.partitions)} partitions"
    if isinstance(first, EntityQuotas):
        return f"quotas of {len(wishes)} entities"
    return f"{len(wishes)} {'credentials' if isinstance(first, UserCredential) else 'ACLs'}"


def worst_case_bytes(image: ClusterImage) -> int:
    """What the ConfigMap may grow to, in bytes."""
    settings = sum(len(k) + len(v) for configs in image.broker_configs.values() for k, v in configs.items())
    users = sum(credential_bytes(user, found) for (user, _), found in image.scram.items())
    acls = sum(map(acl_bytes, image.acls))
    quotas = sum(quota_bytes(entity, values) for entity, values in image.quotas.all().items())
    topics = sum(map(topic_bytes, image.topics.values()))
    return len(image.brokers) * BROKER_BYTES + users + settings + acls + quotas + topics


def credential_bytes(user: str, found: ScramCredential) -> int:
    """The part of it that is a user's credential."""
    random = len(found.salt) + len(found.stored_key) + len(found.server_key)
    return CREDENTIAL_BYTES + len(user.encode()) + random * 4 // 3


def acl_bytes(acl: Acl) -> int:
    """The part of it that is an ACL's."""
    return ACL_BYTES + len(acl.pattern.name) + len(acl.entry.principal) + len(acl.entry.host)


def quota_bytes(entity: Entity, values: Mapping[str, float]) -> int:
    """The part of it that is an entity's, if it has quotas."""
    return 2 * len(record_name(entity)) + (len(values) + 1) * QUOTA_BYTES if values else 0


def topic_bytes(topic: TopicState) -> int:
    """The part of it that is a topic's. All partitions are taken to have as many replicas as the one with the most."""
    replicas = max((len(partition.replicas) for partition in topic.partitions), default=0)
    settings = sum(len(key) + len(value) for key, value in topic.configs.items())
    return (
        TOPIC_BYTES + len(topic.name) + settings + len(topic.partitions) * (PARTITION_BYTES + replicas * REPLICA_BYTES)
    )
