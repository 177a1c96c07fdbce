"""kopf's part: it watches, and wakes the loop of the cluster that something belongs to. It decides and writes nothing."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import kopf
from minikafka_kube.api import GROUP
from minikafka_kube.credentials import login
from minikafka_kube.kinds import (
    BUDGET,
    CLAIM,
    CLUSTER,
    CONFIG_MAP,
    NETWORK_POLICY,
    POD,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    TOPIC,
    USER,
    Kind,
)
from minikafka_kube.loops import Loops
from minikafka_kube.names import CLUSTER_LABEL, COMPONENT_LABEL, MANAGED_BY_LABEL, MANAGER

from minikafka_operator.manifests.objects import CONFIG_COMPONENT

_PARTS: Final = (STATEFUL_SET, POD, CLAIM, SERVICE, BUDGET, NETWORK_POLICY, SERVICE_ACCOUNT, ROLE, ROLE_BINDING, SECRET)

logger = logging.getLogger(__name__)


def registry(loops: Loops) -> kopf.OperatorRegistry:
    """The handlers. A registry of its own, so that nothing is global and an operator can be started twice in a test."""
    made = kopf.OperatorRegistry()  # handlers are coroutines, for kopf runs functions in threads

    async def cluster_event(namespace: str | None, name: str | None, **_: Any) -> None:
        loops.seen(str(namespace), str(name))

    async def member_event(namespace: str | None, spec: Mapping[str, Any], **_: Any) -> None:
        # Of a topic or a user, also of a cluster that is not there: it is to be told.
        loops.seen(str(namespace), str((spec.get("clusterRef") or {}).get("name")))

    async def part_event(namespace: str | None, labels: Mapping[str, str], **_: Any) -> None:
        loops.wake(str(namespace), labels.get(CLUSTER_LABEL, ""))

    _on_event(made, CLUSTER, cluster_event)
    _on_event(made, TOPIC, member_event)
    _on_event(made, USER, member_event)
    for kind in (*_PARTS, CONFIG_MAP):
        _on_event(made, kind, part_event)
    kopf.on.login(registry=made)(login)
    return made


def _on_event(made: kopf.OperatorRegistry, kind: Kind, handler: Any) -> None:
    group, _, version = kind.api_version.rpartition("/")
    kopf.on.event(group, version, kind.plural, registry=made, id=f"{kind.plural}-event")(handler)


def operator_settings(*, scan: bool) -> kopf.OperatorSettings:
    """kopf's settings. ``scan``: whether namespaces and CRDs may be listed, to notice new ones."""
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = not scan
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.queueing.exit_timeout = 0.5  # there is nothing to be finished: handlers only wake
    # Nothing is stored as long as there are no handlers of changes; were there any, these would be their names.
    settings.persistence.finalizer = f"{GROUP}/kopf"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
    # The API server filters, so that pods of other people are not even sent.
    ours = f"{MANAGED_BY_LABEL}={MANAGER}"
    for kind in _PARTS:
        _select(settings, kind, ours)
    # Not the ConfigMap in which brokers keep their metadata: it changes all the time.
    _select(settings, CONFIG_MAP, f"{ours},{COMPONENT_LABEL}={CONFIG_COMPONENT}")
    return settings


def _select(settings: kopf.OperatorSettings, kind: Kind, selector: str) -> None:
    group, _, version = kind.api_version.rpartition("/")
    settings.watching.label_selectors[group, version, kind.plural] = selector
