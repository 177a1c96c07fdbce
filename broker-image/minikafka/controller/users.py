"""Users' SCRAM credentials: what may be altered (Kafka's ``ScramControlManager``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from minikafka.controller.workspace import Workspace
from minikafka.metadata.image import SCRAM, SCRAM_SECRET
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.security.principal import user
from minikafka.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, NUMBERS, UserCredential, credential

BYTES_MAX = {"user name": 1024, "salt": 256, "password": 256}
"""All are kept in every broker's memory, and strangers are answered with a salt like those that are there.

Kafka bounds none of them. Its clients make salts of 26 bytes, librdkafka's of 64; a salted password has 32 or 64.
"""


@dataclass(frozen=True, slots=True)
class Deletion:
    """Of one credential; the mechanism by its number."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class Upsertion:
    """Of one credential; the mechanism by its number. The password itself never reaches a broker."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


def _credential(change: Upsertion) -> UserCredential:
    mechanism = NUMBERS[change.mechanism]
    found = credential(mechanism, change.salted_password, change.salt, change.iterations)
    return UserCredential(change.user, mechanism, found)


class UserRegistry:
    """Alters credentials."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def alter(self, changes: Sequence[Deletion | Upsertion], secret: bytes) -> dict[str, KafkaError | None]:
        """By user: why nothing of what was asked for that user was done, or None.

        Args:
            changes: all that are asked for of these users.
            secret: a random one, which becomes the cluster's where it has none.
        """
        times = Counter((change.user, change.mechanism) for change in changes)
        results: dict[str, KafkaError | None] = {}
        for change in changes:
            if results.setdefault(change.user, None) is None:
                results[change.user] = self._problem(change)
            if times[change.user, change.mechanism] > 1:
                results[change.user] = results[change.user] or KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
                )
        done = [change for change in changes if results[change.user] is None]
        found: dict[Deletion | Upsertion, UserCredential] = {
            change: _credential(change) for change in done if isinstance(change, Upsertion)
        }
        try:
            self._workspace.check_room(*found.values())
        except KafkaError as no_room:
            results |= dict.fromkeys((change.user for change in found), no_room)
        for change in done:
            if results[change.user] is None:
                self._put(change, found.get(change), secret)
        return results

    def _problem(self, change: Deletion | Upsertion) -> KafkaError | None:
        if not change.user:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        mechanism = NUMBERS.get(change.mechanism)
        if mechanism is None:
            return KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if isinstance(change, Deletion):
            if (change.user, mechanism) not in self._workspace.image.scram:
                return KafkaError(
                    ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
                )
            return None
        if change.iterations < ITERATIONS_MIN:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Too few iterations; at least {ITERATIONS_MIN}")
        if change.iterations > ITERATIONS_MAX:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Too many iterations; at most {ITERATIONS_MAX}")
        if not change.salt or not change.salted_password:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salt or the salted password is empty")
        sizes = {
            "user name": len(change.user.encode()),
            "salt": len(change.salt),
            "password": len(change.salted_password),
        }
        for what, allowed in BYTES_MAX.items():
            if sizes[what] > allowed:
                return KafkaError(
                    ErrorCode.UNACCEPTABLE_CREDENTIAL,
                    f"The {what} is {sizes[what]} bytes long; allowed: at most {allowed}",
                )
        return None

    def _put(self, change: Deletion | Upsertion, found: UserCredential | None, secret: bytes) -> None:
        mechanism = NUMBERS[change.mechanism]
        if found is not None and self._workspace.image.scram_secret is None:
            self._workspace.put_record(SCRAM_SECRET, secret.hex())
        value = None if found is None else found.found.to_json()
        self._workspace.put_record(f"{SCRAM}{mechanism}/{change.user}", value)
        event = "credential_removed" if value is None else "credential_set"
        self._workspace.note(event, principal=user(change.user), mechanism=mechanism)
