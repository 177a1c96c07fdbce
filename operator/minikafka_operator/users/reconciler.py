"""Looks at the users of one cluster, does what the plan says, and tells brokers. Time, API server and brokers are handed in."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from minikafka.client.connection import NoAnswer
from minikafka.client.security import ClientSecurity
from minikafka.security.certificates import issued
from minikafka.security.tls import TlsSettings
from minikafka_kube.api_server import ApiError, ApiServer
from minikafka_kube.conditions import condition
from minikafka_kube.kinds import SECRET, USER, Object
from minikafka_kube.leadership import Alone, Leadership
from minikafka_kube.observed import ObservedCluster
from pydantic import ValidationError

from minikafka_operator.actions import Create, Finalizers, Patch
from minikafka_operator.api.cluster import ClusterSpec
from minikafka_operator.conditions import UserReason
from minikafka_operator.manifests.broker_certificates import Authorities, authorities_found
from minikafka_operator.security.broker_security import operator_subject
from minikafka_operator.users.access import change_to, removal
from minikafka_operator.users.cluster_admin import AdminError, ClusterAdmin, OpenAdmin, in_turn
from minikafka_operator.users.users import (
    READY,
    UserAction,
    UserPlan,
    UserVerdict,
    plan_users,
    released,
    user_status,
    without_users_cluster,
)

RETRY_SECONDS: Final = 2.0
"""While something is made in several looks, or a broker has to be asked again."""

CHECK_SECONDS: Final = 60.0
"""What brokers know of users that are as they should be is looked at this often, at the next look after it."""

CERTIFICATE_DAYS: Final = 1
"""Of the operator's own certificate, which is made for one connection."""

REFUSED_RETRY_SECONDS: Final = 30.0
"""What the API server refuses is tried again this often: a quota may have grown, a policy may have changed meanwhile."""

_STALE: Final = frozenset({404, 409})
_REFUSALS: Final = frozenset({400, 403, 422})
_UNSERVED: Final = frozenset({403, 404})
"""Answers to an operator whose Role, or whose CRDs, are of a version without users."""

logger = logging.getLogger(__name__)

Answers = Mapping[str, str]
"""By name of a user: why brokers did not do what was asked; empty where they did."""


class UserReconciler:
    """Makes users what their specs say."""

    def __init__(
        self,
        server: ApiServer,
        now: Callable[[], datetime],
        leadership: Leadership | Alone,
        open_admin: OpenAdmin = ClusterAdmin,
    ) -> None:
        self._server = server
        self._now = now
        self._leadership = leadership
        self._open_admin = open_admin
        self._checked: dict[tuple[str, str], tuple[object, float]] = {}
        """By cluster: for which users brokers were asked last, and when. A cluster is looked at whenever anything happens."""

    async def reconcile(self, observed: ObservedCluster) -> float | None:
        """One look at all users of a cluster; when to look again. Raises ApiError and the errors of the connection."""
        names = observed.names
        users = await self._users(names.namespace, names.cluster)
        try:
            spec = ClusterSpec.model_validate(observed.cluster.get("spec") or {})
        except ValidationError:
            return None  # the cluster's own condition says so
        if not users or spec.paused:
            return None
        secrets = await asyncio.gather(
            *(self._server.get(SECRET, names.namespace, user["metadata"]["name"]) for user in users)
        )
        there = {secret["metadata"]["name"]: secret for secret in secrets if secret is not None}
        authorities = authorities_found(observed)
        plans = plan_users(observed, spec, authorities, users, there)
        acted, refused = await self._act(names.namespace, plans)
        plans = [replace(plan, verdict=refused.get(plan.name, plan.verdict)) for plan in plans]
        again = await self._tell(observed, spec, authorities, plans)
        if acted or again or any(plan.waits for plan in plans):
            return RETRY_SECONDS
        return REFUSED_RETRY_SECONDS if refused else None

    async def without_cluster(self, namespace: str, name: str) -> bool:
        """Tell users that name a cluster that is not there; whether there was anything to be done."""
        self._checked.pop((namespace, name), None)
        users = await self._users(namespace, name)
        plans = without_users_cluster(users, name)
        acted, _ = await self._act(namespace, plans)
        said = [await self._say(namespace, plan, plan.verdict) for plan in plans if plan.verdict is not None]
        return acted or any(said)

    # -- the API server ---------------------------------------------------------------------------------------------

    async def _users(self, namespace: str, cluster: str) -> list[Object]:
        """The users of a cluster. None where they may not be looked at: clusters without any go on."""
        try:
            return await self._server.find_all(USER, namespace, fields=f"spec.clusterRef.name={cluster}")
        except ApiError as error:
            if error.code not in _UNSERVED:
                raise
            logger.warning("MiniKafkaUsers of %s/%s cannot be looked at: %s", namespace, cluster, error)
            return []

    async def _act(self, namespace: str, plans: Sequence[UserPlan]) -> tuple[bool, dict[str, UserVerdict]]:
        """Do what is planned; whether there was anything, and what was refused, by name. One user's holds up no other's."""
        acted, refused = False, {}
        for plan in plans:
            for action in plan.actions:
                try:
                    await self._unless_stale(lambda action=action: self._do(namespace, action))  # type: ignore[misc]
                    acted = True
                except ApiError as error:
                    if error.code not in _REFUSALS:
                        raise
                    says = f"the API server refuses {_title(action)}: {error.message}"
                    refused[plan.name] = UserVerdict(False, UserReason.REFUSED, says)
        return acted, refused

    async def _do(self, namespace: str, action: UserAction) -> None:
        match action:
            case Create(thing):
                await self._server.create(SECRET, namespace, thing)
                logger.info("Created Secret %s of a MiniKafkaUser", thing["metadata"]["name"])
            case Patch(kind, name, body, why, _):
                await self._server.patch(kind, namespace, name, body)
                logger.info("Patched Secret %s of a MiniKafkaUser (%s)", name, why)
            case Finalizers(kind, name, version, finalizers, why):
                try:
                    await self._server.set_finalizers(kind, namespace, name, version, list(finalizers))
                except ApiError as error:
                    if error.code != 422:  # its resource version is another by now
                        raise
                    raise ApiError(409, "Conflict", error.message) from None
                logger.info("Set the finalizers of MiniKafkaUser %s (%s)", name, why)

    async def _unless_stale(self, write: Callable[[], Awaitable[None]]) -> bool:
        """Write; whether it was done, and not overtaken by another change, which brings about another look."""
        await self._leadership.confirm()
        try:
            await write()
        except ApiError as error:
            if error.code not in _STALE:
                raise
            logger.info("Skipped a change of a MiniKafkaUser that changed meanwhile: %s", error.reason)
            return False
        return True

    async def _say(self, namespace: str, plan: UserPlan, verdict: UserVerdict) -> bool:
        status = user_status(plan, verdict, self._now())
        if status is None:
            return False

        async def write() -> None:
            await self._server.apply_status(USER, namespace, plan.name, status)
            logger.info("MiniKafkaUser %s: %s", plan.name, verdict.reason)

        try:
            return await self._unless_stale(write)
        except ApiError as error:
            if error.code not in _REFUSALS:
                raise
            logger.warning("MiniKafkaUser %s cannot be told: %s", plan.name, error)
            return False

    # -- brokers ----------------------------------------------------------------------------------------------------

    async def _tell(
        self, observed: ObservedCluster, spec: ClusterSpec, authorities: Authorities | None, plans: Sequence[UserPlan]
    ) -> bool:
        """Have brokers know what they should, and say so of each user; whether to look again soon."""
        namespace = observed.names.namespace
        asked = [plan for plan in plans if plan.access is not None and not plan.actions]
        answers: Answers = {}
        silent = ""
        if asked and authorities is None:  # some of them leave
            silent = "the cluster's CAs are not there; see the cluster's condition Accepted"
        elif asked and authorities is not None and not self._is_settled(observed, plans):
            await self._leadership.confirm()
            try:
                answers = await asyncio.to_thread(self._change, observed, spec, authorities, asked)
            except (NoAnswer, AdminError) as error:
                silent = str(error)
        again = bool(silent) or any(answers.values())
        for plan in plans:
            verdict = plan.verdict
            if plan in asked and plan.name in answers:
                verdict = _verdict(plan, answers[plan.name])
                if plan.leaving and not answers[plan.name]:
                    gone = released(plan.user, "brokers have forgotten it")
                    again |= not await self._unless_stale(lambda gone=gone: self._do(namespace, gone))  # type: ignore[misc]
                    continue
            elif plan in asked and silent and not _is_in_force(plan):
                says = f"brokers cannot be asked: {silent}"
                verdict = UserVerdict(None, UserReason.WAITING_FOR_BROKERS, says)
            if verdict is not None:
                await self._say(namespace, plan, verdict)
        if asked and not again and not self._is_settled(observed, plans):
            self._checked[namespace, observed.names.cluster] = (_fingerprint(plans), time.monotonic())
        return again

    def _is_settled(self, observed: ObservedCluster, plans: Sequence[UserPlan]) -> bool:
        """Return whether brokers said just now that all is well with exactly these users."""
        found, when = self._checked.get((observed.names.namespace, observed.names.cluster), (None, 0.0))
        return found == _fingerprint(plans) and time.monotonic() - when < CHECK_SECONDS

    def _change(
        self, observed: ObservedCluster, spec: ClusterSpec, authorities: Authorities, plans: Sequence[UserPlan]
    ) -> Answers:
        """Ask a broker, and have it change what differs. Blocking. Raises NoAnswer, AdminError."""
        security = self._security(observed, authorities)
        hosts = [pod.ip for pod in observed.brokers.values() if pod.ready and pod.ip]
        answers: dict[str, str] = {}
        with in_turn(hosts, lambda host: self._open_admin(host, security)) as admin:
            found = admin.access(authorized=spec.authorization is not None)
            for plan in plans:
                assert plan.access is not None
                self._leadership.require()  # many users take long, and a password of yesterday must not follow today's
                change = removal(plan.access, found) if plan.leaving else change_to(plan.access, found)
                answers[plan.name] = ""
                if not change.needed:
                    continue
                try:
                    admin.change(change)
                except AdminError as error:
                    answers[plan.name] = str(error)
                else:
                    what = "forgot" if plan.leaving else "were told of"
                    logger.info("Brokers of %s %s MiniKafkaUser %s", observed.names.cluster, what, plan.name)
        return answers

    def _security(self, observed: ObservedCluster, authorities: Authorities) -> ClientSecurity:
        """As whom the operator comes: with a certificate that is made now, and is kept nowhere. Raises NoAnswer."""
        now = self._now()
        trusted = authorities.cluster.trusted(now)
        if not trusted:  # without any, those of the system would be
            raise NoAnswer("the cluster CA has expired, and the next one is being made")
        pair = issued(authorities.cluster.signing, operator_subject(observed.names), now, CERTIFICATE_DAYS)
        tls = TlsSettings(
            keystore_key=pair.key,
            keystore_certificate_chain=pair.certificate,
            truststore_certificates=trusted,
            endpoint_identification=False,  # a pod's address is in no certificate; only brokers' are of this CA
        )
        return ClientSecurity(tls)


def _title(action: UserAction) -> str:
    """Return what an action is about; never what is in it."""
    if isinstance(action, Create):
        return f"Secret {action.thing['metadata']['name']}"
    return f"{action.kind.name} {action.name}"


def _fingerprint(plans: Sequence[UserPlan]) -> object:
    """What is wanted of all users, without any secret."""
    return tuple(
        (plan.user["metadata"]["uid"], plan.user["metadata"].get("generation"), plan.secret_version, plan.leaving)
        for plan in plans
    )


def _verdict(plan: UserPlan, refusal: str) -> UserVerdict:
    if refusal:
        return UserVerdict(False, UserReason.REFUSED, f"brokers refuse: {refusal}")
    return UserVerdict(True, UserReason.IN_FORCE, f"brokers know {plan.user_name}, and all of its ACLs and quotas")


def _is_in_force(plan: UserPlan) -> bool:
    """Return whether brokers knew all of this already, when they last answered."""
    status = plan.user.get("status") or {}
    ready = condition(status, READY)
    same = ready.get("observedGeneration") == plan.user["metadata"].get("generation")
    return bool(ready.get("status") == "True" and same and status.get("secretVersion", "") == plan.secret_version)
