"""The brokers' pods: a StatefulSet, and what its pods are made of.

The StatefulSet only gives pods their identity and makes missing ones again, also while the operator is away
(``Parallel``). Replacing pods is the operator's decision (``OnDelete``), for only it looks at the partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from minikafka.agent.command import CONFIG_VARIABLE, FOLDER_VARIABLE
from minikafka.agent.faults import GATE
from minikafka_kube.kinds import STATEFUL_SET, Object
from minikafka_kube.names import (
    ACCOUNT_ANNOTATION,
    AGENT_CONTAINER,
    CERTIFICATES_PATH,
    CERTIFICATES_VOLUME,
    CHAOS_PATH,
    CHAOS_VOLUME,
    CLIENT_PORT,
    CONFIG_ANNOTATION,
    CONFIG_PATH,
    CONTAINER,
    DATA_PATH,
    DATA_VOLUME,
    EVENTS_PATH,
    EVENTS_VOLUME,
    EXTERNAL_PORT,
    METRICS_PORT,
    POD_PATH,
    RACK_ANNOTATION,
    RACK_CONTAINER,
    REPLICATION_PORT,
    TEMPLATE_ANNOTATION,
    UNFLUSHED_PATH,
    USER_ID,
    Names,
    config_annotation,
)

from minikafka_operator.api.cluster import ClusterSpec, FlightRecorderType, StorageType
from minikafka_operator.manifests.difference import digest
from minikafka_operator.manifests.objects import ResourceBuilder

START_SECONDS_MAX: Final = 3600
"""A broker that recovers long logs is not ready for a while, and killing it meanwhile would start it all over."""

RACK_WAIT_SECONDS: Final = 20
"""How long a pod waits to be told its rack. Without an operator it starts without one, and is replaced later."""

_RACK_SCRIPT: Final = f"""\
tries=0
until [ -s {POD_PATH}/rack ] || [ $tries -ge {RACK_WAIT_SECONDS * 5} ]; do
  tries=$((tries + 1)); sleep 0.2
done
cat {POD_PATH}/rack > /dev/termination-log
"""

_CONFIG_FILE: Final = f"{CONFIG_PATH}/$(POD_NAME).properties"

_DEFAULT_REQUESTS: Final = {"cpu": "100m", "memory": "128Mi"}

_UNFLUSHED_MOUNT: Final = {"name": "unflushed", "mountPath": UNFLUSHED_PATH}

_CONTAINER_SECURITY: Final = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


def stateful_set(
    builder: ResourceBuilder,
    image: str,
    replicas: int,
    config_digests: Mapping[int, str],
    account: str,
    found: Object | None,
) -> Object:
    """The StatefulSet. ``account``: the uid of the ServiceAccount that its pods are made with from now on. ``found`` is the one
    that is there: what cannot be changed in it stays as it is.
    """
    names, spec = builder.names, builder.spec
    template = _template(names, spec, image)
    template["metadata"]["annotations"] = {
        **template["metadata"].get("annotations", {}),
        TEMPLATE_ANNOTATION: digest(template),
        CONFIG_ANNOTATION: config_annotation(config_digests),
        ACCOUNT_ANNOTATION: account,
    }
    content: dict[str, Any] = {
        "replicas": replicas,
        "serviceName": names.brokers,
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "OnDelete"},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "selector": {"matchLabels": names.selector()},
        "template": template,
    }
    claims = _claim_templates(names, spec, found)
    if claims:
        content["volumeClaimTemplates"] = claims
    return builder.object(STATEFUL_SET, names.broker, CONTAINER, spec=content)


def account_of(stateful_set: Object | None) -> str | None:
    """The ServiceAccount that its pods are made with, as it says; None when there is no StatefulSet."""
    if stateful_set is None:
        return None
    return str((stateful_set["spec"]["template"]["metadata"].get("annotations") or {}).get(ACCOUNT_ANNOTATION, ""))


def _template(names: Names, spec: ClusterSpec, image: str) -> dict[str, Any]:
    brokers = spec.brokers
    given = brokers.metadata
    metadata: dict[str, Any] = {"labels": {**(given.labels or {} if given else {}), **names.labels(CONTAINER)}}
    if given and given.annotations:
        metadata["annotations"] = dict(given.annotations)
    pod: dict[str, Any] = {
        "serviceAccountName": names.broker,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": brokers.termination_grace_period_seconds,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_broker_container(spec, image)],
        "volumes": _volumes(names, spec),
        "topologySpreadConstraints": _spread(names, spec),
    }
    if spec.chaos.allowed:
        pod["containers"].append(_agent_container(spec, image))
        pod["shareProcessNamespace"] = True
    if spec.rack is not None:
        pod["initContainers"] = [_rack_container(spec, image)]
    affinity = brokers.affinity or _rack_affinity(spec)
    optional = {
        "imagePullSecrets": [{"name": secret.name} for secret in spec.image_pull_secrets or ()],
        "nodeSelector": brokers.node_selector,
        "tolerations": brokers.tolerations,
        "affinity": affinity,
        "priorityClassName": brokers.priority_class_name,
    }
    pod.update({field: value for field, value in optional.items() if value})
    return {"metadata": metadata, "spec": pod}


def _broker_container(spec: ClusterSpec, image: str) -> dict[str, Any]:
    ports = {"client": CLIENT_PORT, "replication": REPLICATION_PORT, "metrics": METRICS_PORT}
    if spec.listeners.external is not None:
        ports["external"] = EXTERNAL_PORT
    environment = [
        _field("POD_NAME", "metadata.name"),
        _field("POD_NAMESPACE", "metadata.namespace"),
        _field("POD_UID", "metadata.uid"),
        _field("POD_IP", "status.podIP"),
        _field("HOST_IP", "status.hostIP"),
        _field("NODE_NAME", "spec.nodeName"),
    ]
    if spec.rack is not None:
        environment.append(_field("BROKER_RACK", f"metadata.annotations['{RACK_ANNOTATION}']"))
    resources = spec.brokers.resources
    mounts = [
        {"name": "config", "mountPath": CONFIG_PATH, "readOnly": True},
        {"name": DATA_VOLUME, "mountPath": DATA_PATH},
        _events_mount(spec),
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    if spec.unflushed_volume is not None:
        mounts.append(_UNFLUSHED_MOUNT)
    if spec.secured:
        mounts.append({"name": CERTIFICATES_VOLUME, "mountPath": CERTIFICATES_PATH, "readOnly": True})
    scheme = "HTTPS" if spec.metrics.secured else "HTTP"  # of which the kubelet believes any certificate
    arguments = ["broker", "--config", _CONFIG_FILE]
    if spec.chaos.allowed:
        mounts.append({"name": CHAOS_VOLUME, "mountPath": CHAOS_PATH, "readOnly": True})
        arguments += ["--gate", f"{CHAOS_PATH}/{GATE}"]
    made: dict[str, Any] = {
        "name": CONTAINER,
        "image": image,
        "args": arguments,
        "env": environment,
        "ports": [{"name": name, "containerPort": number, "protocol": "TCP"} for name, number in ports.items()],
        "resources": resources.model_dump(exclude_none=True) if resources else {"requests": dict(_DEFAULT_REQUESTS)},
        "securityContext": _CONTAINER_SECURITY,
        # What a broker says last is the reason why it ended, and is told in the cluster's status.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "startupProbe": _probe("/readyz", scheme, period=1, timeout=5, failures=START_SECONDS_MAX),
        "readinessProbe": _probe("/readyz", scheme, period=1, timeout=5, failures=2),
        "livenessProbe": _probe("/healthz", scheme, period=10, timeout=10, failures=6),
        "volumeMounts": mounts,
    }
    if spec.image_pull_policy:
        made["imagePullPolicy"] = spec.image_pull_policy
    return made


def _agent_container(spec: ClusterSpec, image: str) -> dict[str, Any]:
    """The agent beside the broker (docs/decisions/011-chaos-on-kubernetes.md): its image, its user, its volumes, no port."""
    mounts = [
        {"name": "config", "mountPath": CONFIG_PATH, "readOnly": True},
        {"name": DATA_VOLUME, "mountPath": DATA_PATH},
        {**_events_mount(spec), "readOnly": True},
        {"name": CHAOS_VOLUME, "mountPath": CHAOS_PATH},
    ]
    if spec.unflushed_volume is not None:
        mounts.append(_UNFLUSHED_MOUNT)
    made: dict[str, Any] = {
        "name": AGENT_CONTAINER,
        "image": image,
        "args": ["agent", "serve"],
        "env": [
            _field("POD_NAME", "metadata.name"),
            {"name": CONFIG_VARIABLE, "value": _CONFIG_FILE},
            {"name": FOLDER_VARIABLE, "value": CHAOS_PATH},
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "securityContext": _CONTAINER_SECURITY,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    if spec.image_pull_policy:
        made["imagePullPolicy"] = spec.image_pull_policy
    return made


def _rack_container(spec: ClusterSpec, image: str) -> dict[str, Any]:
    """Waits until the operator has written the rack on the pod; only then is its environment made."""
    made: dict[str, Any] = {
        "name": RACK_CONTAINER,
        "image": image,
        "command": ["/bin/sh", "-c", _RACK_SCRIPT],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        "securityContext": _CONTAINER_SECURITY,
        "volumeMounts": [{"name": "pod", "mountPath": POD_PATH, "readOnly": True}],
    }
    if spec.image_pull_policy:
        made["imagePullPolicy"] = spec.image_pull_policy
    return made


def _probe(path: str, scheme: str, *, period: int, timeout: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "metrics", "scheme": scheme},
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    }


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def _volumes(names: Names, spec: ClusterSpec) -> list[dict[str, Any]]:
    recorder = spec.flight_recorder
    volumes: list[dict[str, Any]] = [
        {"name": "config", "configMap": {"name": names.config}},
        {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
    ]
    if spec.storage.type is StorageType.EPHEMERAL:
        volumes.append({"name": DATA_VOLUME, "emptyDir": {"sizeLimit": spec.storage.size}})
    if recorder.type is FlightRecorderType.EMPTY_DIR:
        volumes.append({"name": EVENTS_VOLUME, "emptyDir": {"sizeLimit": recorder.size}})
    elif recorder.type is FlightRecorderType.HOST_PATH:
        volumes.append({"name": EVENTS_VOLUME, "hostPath": {"path": recorder.host_path, "type": "DirectoryOrCreate"}})
    if spec.unflushed_volume is not None:
        limit = spec.unflushed_volume.size_limit
        volumes.append({"name": "unflushed", "emptyDir": {"medium": "Memory", "sizeLimit": limit}})
    if spec.chaos.allowed:
        # In memory, so that a fault can also be told, and ended, when a disk is full.
        volumes.append({"name": CHAOS_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}})
    if spec.secured:
        # The whole volume, never a subPath: only so the kubelet puts renewed certificates into a pod that runs.
        secret = {"secretName": names.broker_certificates, "defaultMode": 0o440}
        volumes.append({"name": CERTIFICATES_VOLUME, "secret": secret})
    if spec.rack is not None:
        item = {"path": "rack", "fieldRef": {"fieldPath": f"metadata.annotations['{RACK_ANNOTATION}']"}}
        volumes.append({"name": "pod", "downwardAPI": {"items": [item]}})
    return volumes


def _events_mount(spec: ClusterSpec) -> dict[str, Any]:
    mount: dict[str, Any] = {"name": EVENTS_VOLUME, "mountPath": EVENTS_PATH}
    if spec.flight_recorder.type is FlightRecorderType.HOST_PATH:
        mount["subPathExpr"] = "$(POD_NAME)"  # brokers of one node share the directory
    return mount


def _claim_templates(names: Names, spec: ClusterSpec, found: Object | None) -> list[dict[str, Any]]:
    wanted: dict[str, tuple[str, str | None]] = {}
    if spec.storage.type is StorageType.PERSISTENT_CLAIM:
        wanted[DATA_VOLUME] = (spec.storage.size, spec.storage.storage_class_name)
    if spec.flight_recorder.type is FlightRecorderType.PERSISTENT_CLAIM:
        wanted[EVENTS_VOLUME] = (spec.flight_recorder.size, spec.flight_recorder.storage_class_name)
    # A StatefulSet's claim templates cannot be changed, so those that are there stay. New claims begin at the old size,
    # and are made to grow.
    there = {
        template["metadata"]["name"]: template
        for template in ((found or {}).get("spec", {}).get("volumeClaimTemplates") or ())
    }
    return [_claim_template(names, name, *desired, there.get(name)) for name, desired in wanted.items()]


def _claim_template(
    names: Names, name: str, size: str, storage_class: str | None, found: Object | None
) -> dict[str, Any]:
    if found is not None:
        spec = {
            key: found["spec"][key] for key in ("accessModes", "resources", "storageClassName") if key in found["spec"]
        }
        return {"metadata": {"name": name, "labels": found["metadata"].get("labels") or {}}, "spec": spec}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {"metadata": {"name": name, "labels": names.labels(CONTAINER)}, "spec": spec}


def claim_sizes(spec: ClusterSpec) -> dict[str, str]:
    """The desired size of the claims, by volume."""
    made = {}
    if spec.storage.type is StorageType.PERSISTENT_CLAIM:
        made[DATA_VOLUME] = spec.storage.size
    if spec.flight_recorder.type is FlightRecorderType.PERSISTENT_CLAIM:
        made[EVENTS_VOLUME] = spec.flight_recorder.size
    return made


def _spread(names: Names, spec: ClusterSpec) -> list[dict[str, Any]]:
    keys = ["kubernetes.io/hostname"]
    if spec.rack is not None and spec.rack.topology_key not in keys:
        keys.insert(0, spec.rack.topology_key)
    # Preferred and no more: three brokers must also start on a laptop with one node.
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": names.selector()},
        }
        for key in keys
    ]


def _rack_affinity(spec: ClusterSpec) -> dict[str, Any]:
    """Only nodes that are in a rack, when racks are asked for."""
    if spec.rack is None:
        return {}
    term = {"matchExpressions": [{"key": spec.rack.topology_key, "operator": "Exists"}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
