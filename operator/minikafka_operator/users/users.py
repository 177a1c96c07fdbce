"""From one look at the users of a cluster to what has to be done about each. Pure but for keys and passwords, made by chance.

A user is made in two looks: the first makes its Secret, the second, which that brings about, tells brokers what is in it.
The finalizer comes before everything, so that nothing is left of a user that goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from minikafka.security.principal import user as principal_of
from minikafka_kube.conditions import condition
from minikafka_kube.instants import time_text
from minikafka_kube.kinds import CLUSTER, SECRET, USER, Object
from minikafka_kube.names import USER_FINALIZER
from minikafka_kube.observed import ObservedCluster, annotations_of, deleting
from minikafka_kube.ownership import Standing, standing_to_user
from pydantic import ValidationError

from minikafka_operator.actions import Create, Finalizers, Patch
from minikafka_operator.api.cluster import ClusterSpec
from minikafka_operator.api.security import AuthenticationType
from minikafka_operator.api.user import USER_NAME_MAX, UserSpec, principal_name
from minikafka_operator.conditions import UserReason
from minikafka_operator.manifests.broker_certificates import Authorities
from minikafka_operator.security.broker_security import takes
from minikafka_operator.users.access import WantedAccess, acls_of
from minikafka_operator.users.credentials import password_in, user_secret, version_of

READY: Final = "Ready"

UserAction = Create | Patch | Finalizers


@dataclass(frozen=True)
class UserVerdict:
    """What is to be said in the condition Ready of a user."""

    holds: bool | None
    reason: UserReason
    message: str


@dataclass(frozen=True)
class UserPlan:
    """What to do about one user.

    ``actions`` come first, and where there are any the rest waits for the next look. ``access`` is what brokers should know,
    or for a user that is ``leaving`` should forget. ``verdict`` is set where it is known without them.
    """

    user: Object
    actions: Sequence[UserAction] = ()
    access: WantedAccess | None = None
    leaving: bool = False
    verdict: UserVerdict | None = None
    secret_version: str = ""
    waits: bool = False
    """Whether to look again soon."""
    user_name: str = ""

    @property
    def name(self) -> str:
        """The object's."""
        return str(self.user["metadata"]["name"])

    def decided(self, holds: bool | None, reason: UserReason, message: str) -> UserPlan:
        """The same with a verdict."""
        return replace(self, verdict=UserVerdict(holds, reason, message))


@dataclass(frozen=True)
class _Cluster:
    observed: ObservedCluster
    spec: ClusterSpec
    authorities: Authorities | None
    owners: Mapping[str, str] = field(default_factory=dict)
    """The uid of the user that a principal is, by principal."""


def plan_users(
    observed: ObservedCluster,
    spec: ClusterSpec,
    authorities: Authorities | None,
    users: Sequence[Object],
    secrets: Mapping[str, Object],
) -> list[UserPlan]:
    """What to do about each user. ``secrets``: those that there are under the names of users, whosever they are."""
    first_come = sorted(users, key=_precedence)
    owners: dict[str, str] = {}
    for user in first_come:
        owners.setdefault(_principal(user), user["metadata"]["uid"])
    cluster = _Cluster(observed, spec, authorities, owners)
    return [_plan(cluster, user, secrets.get(user["metadata"]["name"])) for user in first_come]


def _plan(cluster: _Cluster, user: Object, secret: Object | None) -> UserPlan:
    metadata = user["metadata"]
    finalizers = list(metadata.get("finalizers") or ())
    is_owner = cluster.owners.get(_principal(user)) == metadata["uid"]
    if deleting(user):
        if USER_FINALIZER not in finalizers:
            return UserPlan(user)
        if not is_owner or deleting(cluster.observed.cluster) or not cluster.spec.secured:
            return UserPlan(user, [released(user, "nothing of it is in the cluster, or the cluster goes")])
        return UserPlan(user, access=_forgotten(user), leaving=True)
    try:
        spec = UserSpec.model_validate(user.get("spec") or {})
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        return UserPlan(user).decided(False, UserReason.INVALID_SPEC, f"spec.{where}: {error.errors()[0]['msg']}")
    if spec.authentication is not None and len(spec.user_name or metadata["name"]) > USER_NAME_MAX:
        says = f"metadata.name: the name of a user has at most {USER_NAME_MAX} characters; spec.userName can be another"
        return UserPlan(user).decided(False, UserReason.INVALID_SPEC, says)
    if (refused := _refused(cluster, spec, user, is_owner)) is not None:
        return UserPlan(user, verdict=refused)
    if USER_FINALIZER not in finalizers:
        added = [*finalizers, USER_FINALIZER]
        version = metadata["resourceVersion"]
        return UserPlan(user, [Finalizers(USER, metadata["name"], version, added, "before anything is made")])
    return _made(cluster, spec, user, secret)


def _refused(cluster: _Cluster, spec: UserSpec, user: Object, is_owner: bool) -> UserVerdict | None:
    name, kind = cluster.observed.names.cluster, _kind(spec)
    if not is_owner:
        says = f"another {USER.name} is the user {_principal(user)} already: delete this one, or give it another name"
        return UserVerdict(False, UserReason.DUPLICATE, says)
    if not takes(cluster.spec, kind or AuthenticationType.OAUTHBEARER):
        says = f"no listener of {CLUSTER.name} {name} has authentication of type {kind}: set it in spec.listeners"
        if kind is None:
            says = (
                f"spec.authentication: a user without it logs in by a token, and no listener of {CLUSTER.name} {name} has "
                f"authentication of type {AuthenticationType.OAUTHBEARER}: set it in spec.listeners, or this"
            )
        return UserVerdict(False, UserReason.AUTHENTICATION_DISABLED, says)
    if spec.authorization is not None and cluster.spec.authorization is None:
        says = f"spec.authorization: {CLUSTER.name} {name} has none, so whoever is let in may do everything"
        return UserVerdict(False, UserReason.AUTHORIZATION_DISABLED, says)
    return None


def _kind(spec: UserSpec) -> AuthenticationType | None:
    """How a user logs in; None: by a token of somebody else's."""
    return None if spec.authentication is None else spec.authentication.type


def _made(cluster: _Cluster, spec: UserSpec, user: Object, secret: Object | None) -> UserPlan:
    metadata, observed = user["metadata"], cluster.observed
    name, kind = spec.user_name or metadata["name"], _kind(spec)
    if kind is None:
        return _known(spec, user, name, None, None)
    standing = Standing.OURS if secret is None else standing_to_user(secret, observed.names, user)
    if standing is Standing.FOREIGN:
        says = f"not this user's, and left alone: Secret {metadata['name']}; remove it, or give the user another name"
        return UserPlan(user).decided(False, UserReason.OBJECT_CONFLICT, says)
    if cluster.authorities is None or standing is Standing.EARLIER or (secret is not None and deleting(secret)):
        says = "waiting until the cluster's CAs are there, and a Secret that goes is gone"
        return replace(UserPlan(user).decided(None, UserReason.WAITING_FOR_CLUSTER, says), waits=True)
    clients, terms = cluster.authorities.clients, cluster.spec.clients_ca
    wanted = user_secret(observed.names, user, name, kind, secret, clients, terms, observed.now)
    if secret is None:
        return UserPlan(user, [Create(wanted)])
    if why := _difference(wanted, secret):
        return UserPlan(user, [_patch(wanted, secret, why)])
    return _known(spec, user, name, kind, secret)


def _known(spec: UserSpec, user: Object, name: str, kind: AuthenticationType | None, secret: Object | None) -> UserPlan:
    """What brokers should know of a user, whose Secret is as it has to be; None: it has none."""
    version = "" if secret is None else version_of(secret)
    known = (user.get("status") or {}).get("secretVersion", "")
    principal = principal_of(principal_name(name, kind))
    has_password = kind is AuthenticationType.SCRAM_SHA_512
    access = WantedAccess(
        principal,
        name if has_password else "",
        password_in(secret) if secret is not None and has_password else "",
        is_new=known != version,
        acls=acls_of(principal, spec.authorization.acls) if spec.authorization else frozenset(),
        quotas=spec.quotas.by_name if spec.quotas else {},
    )
    return UserPlan(user, access=access, secret_version=version, user_name=principal_name(name, kind))


def without_users_cluster(users: Sequence[Object], cluster: str) -> list[UserPlan]:
    """What to do about users that name a cluster that is not there."""
    says = f"spec.clusterRef.name={cluster}: there is no {CLUSTER.name} of that name in its namespace"
    made = []
    for user in users:
        if not deleting(user):
            made.append(UserPlan(user).decided(False, UserReason.CLUSTER_NOT_FOUND, says))
        elif USER_FINALIZER in (user["metadata"].get("finalizers") or ()):
            made.append(UserPlan(user, [released(user, "its cluster is not there, so no broker could forget it")]))
    return made


def released(user: Object, why: str) -> Finalizers:
    """Let a user go."""
    metadata = user["metadata"]
    left = [name for name in metadata["finalizers"] if name != USER_FINALIZER]
    return Finalizers(USER, metadata["name"], metadata["resourceVersion"], left, why)


def user_status(plan: UserPlan, verdict: UserVerdict, now: datetime) -> dict[str, Any] | None:
    """The status to be written; None when it is so already."""
    before = plan.user.get("status") or {}
    holds = "Unknown" if verdict.holds is None else str(verdict.holds)
    old = condition(before, READY)
    generation = plan.user["metadata"].get("generation", 0)
    said = {
        "type": READY,
        "status": holds,
        "reason": verdict.reason.value,
        "message": verdict.message,
        "lastTransitionTime": old["lastTransitionTime"] if old.get("status") == holds else time_text(now),
        "observedGeneration": generation,
    }
    made: dict[str, Any] = {"observedGeneration": generation, "conditions": [said]}
    kept = {name: before[name] for name in ("userName", "secret", "secretVersion") if name in before}
    if verdict.holds:
        kept = {"userName": plan.user_name}
        if plan.secret_version:
            kept |= {"secret": plan.name, "secretVersion": plan.secret_version}
    made |= kept
    return None if made == before else made


def _principal(user: Object) -> str:
    """As whom brokers know a user, also one whose spec is not understood."""
    name, kind = _name_and_type(user)
    return principal_of(principal_name(name, AuthenticationType.TLS if kind == AuthenticationType.TLS else None))


def _name_and_type(user: Object) -> tuple[str, str]:
    spec = user.get("spec") or {}
    return spec.get("userName") or user["metadata"]["name"], (spec.get("authentication") or {}).get("type") or ""


def _forgotten(user: Object) -> WantedAccess:
    name, kind = _name_and_type(user)
    return WantedAccess(_principal(user), name if kind == AuthenticationType.SCRAM_SHA_512 else "")


def _precedence(user: Object) -> tuple[str, bool, str]:
    """Who came first is the user. Times are seconds: of two of one second, whoever is in force already."""
    metadata = user["metadata"]
    in_force = USER_FINALIZER in (metadata.get("finalizers") or ())
    return str(metadata.get("creationTimestamp") or ""), not in_force, metadata["name"]


def _difference(wanted: Object, found: Object) -> str:
    """Name the first field that is not as it should be; never what is in it."""
    for name, value in wanted["data"].items():
        if (found.get("data") or {}).get(name) != value:
            return f"data.{name}"
    there = annotations_of(found)
    return next(
        (f"annotation {name}" for name, value in wanted["metadata"]["annotations"].items() if there.get(name) != value),
        "",
    )


def _patch(wanted: Object, found: Object, why: str) -> Patch:
    metadata = found["metadata"]
    expected = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    body = {"metadata": {**expected, "annotations": wanted["metadata"]["annotations"]}, "data": wanted["data"]}
    return Patch(SECRET, metadata["name"], body, why)
