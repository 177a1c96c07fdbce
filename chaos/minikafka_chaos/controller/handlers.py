"""kopf's part: it watches, and wakes the loop of the experiment or schedule that something belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import kopf
from minikafka_kube.api import GROUP
from minikafka_kube.credentials import login
from minikafka_kube.kinds import POD, Kind
from minikafka_kube.loops import Loops

from minikafka_chaos.experiment.kinds import EXPERIMENT, EXPERIMENT_LABEL, JOB, MANAGED_BY_LABEL, MANAGER, SCHEDULE

SCHEDULE_PREFIX: Final = "schedule/"
"""Schedules and experiments share the loops; a schedule is told from an experiment by what no name can have."""


def registry(loops: Loops) -> kopf.OperatorRegistry:
    """The handlers, in a registry of their own."""
    made = kopf.OperatorRegistry()

    async def experiment_event(namespace: str | None, name: str | None, meta: Mapping[str, Any], **_: Any) -> None:
        loops.seen(str(namespace), str(name))
        for owner in meta.get("ownerReferences") or ():
            if owner.get("kind") == SCHEDULE.name:
                loops.wake(str(namespace), SCHEDULE_PREFIX + str(owner["name"]))

    async def schedule_event(namespace: str | None, name: str | None, **_: Any) -> None:
        loops.seen(str(namespace), SCHEDULE_PREFIX + str(name))

    async def part_event(namespace: str | None, labels: Mapping[str, str], **_: Any) -> None:
        loops.wake(str(namespace), labels.get(EXPERIMENT_LABEL, ""))

    for kind, handler in (
        (EXPERIMENT, experiment_event),
        (SCHEDULE, schedule_event),
        (JOB, part_event),
        (POD, part_event),
    ):
        group, version = _version(kind)
        kopf.on.event(group, version, kind.plural, registry=made, id=f"{kind.plural}-event")(handler)
    kopf.on.login(registry=made)(login)
    return made


def settings(everywhere: bool) -> kopf.OperatorSettings:
    """kopf's settings. ``everywhere``: whether namespaces and CRDs may be listed, to notice new ones."""
    made = kopf.OperatorSettings()
    made.scanning.disabled = not everywhere
    made.posting.enabled = False
    made.peering.standalone = True
    made.queueing.exit_timeout = 0.5
    made.persistence.finalizer = f"{GROUP}/kopf-chaos"
    made.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    made.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
    for kind in (JOB, POD):  # the API server filters
        group, version = _version(kind)
        made.watching.label_selectors[group, version, kind.plural] = f"{MANAGED_BY_LABEL}={MANAGER}"
    return made


def _version(kind: Kind) -> tuple[str, str]:
    group, _, version = kind.api_version.rpartition("/")
    return group, version
