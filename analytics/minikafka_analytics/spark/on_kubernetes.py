"""Spark on Kubernetes from within a pod (client mode): the driver is this pod, and the executors are made in its image.

What the driver's pod has is what an executor gets: image, pull secrets, security contexts, volumes and where they are mounted.
So nothing has to be said twice, and an executor passes wherever the driver passed (Pod Security Standards, quotas, taints).
Executors that are to be spread over nodes get no claim that one node has; the driver serves its files to them (`file_server`).
The pod is read by the right that Spark itself needs, to be the owner of its executors
(https://spark.apache.org/docs/latest/running-on-kubernetes.html#client-mode).
"""

from __future__ import annotations

import json
import os
import ssl
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path, PurePosixPath
from typing import Any, Final

from minikafka_analytics.spark.file_server import serving
from minikafka_analytics.storage.stores import Place

Object = dict[str, Any]

MASTER: Final = "k8s://"
IN_CLUSTER: Final = "k8s://https://kubernetes.default.svc"
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts a service account's token, its namespace and the API server's certificate."""
REQUEST_SECONDS_MAX: Final = 30.0
ADDRESS_SECONDS_MAX: Final = 60.0
"""The kubelet writes a pod's address down a moment after its containers have begun, later on a busy node."""
PREFIX_MAX: Final = 47
"""Spark's limit for spark.kubernetes.executor.podNamePrefix."""
IMAGE: Final = "spark.kubernetes.container.image"
FROM_OUTSIDE: Final = (
    "executors cannot read a folder of this machine; put the run on a claim and start the analysis as a Job "
    "(charts/minikafka-analytics, docs/guide/spark-on-kubernetes.md)"
)
SHARED_BY_NODES: Final = "ReadWriteMany"
SPREAD: Final = "spark.minikafka.executors.spread"
"""Whether executors are to be on different nodes: one of these."""
NONE, PREFERRED, REQUIRED = "none", "preferred", "required"
HOST: Final = "kubernetes.io/hostname"
ANALYSIS_LABEL: Final = "minikafka.dev/analysis"
"""On executors: which driver's they are."""

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.executor.instances": "1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "768m",
    "spark.kubernetes.executor.request.cores": "0.2",  # a run is small; what is not used is lent to the brokers
    "spark.ui.enabled": "false",
    # In client mode Spark makes neither; to remove all of its own at the end it would need the right to remove everybody's.
    "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    "spark.kubernetes.driver.service.deleteOnTermination": "false",
}


class BadMaster(ValueError):
    """Spark cannot run there from here; the message is one line that says what is needed."""


def is_kubernetes(master: str) -> bool:
    """Return whether executors are pods."""
    return master.startswith(MASTER)


@contextmanager
def executors_like_this_pod(
    master: str, settings: Mapping[str, str] | None, paths: Sequence[Place]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Master and settings for Spark. Of another master than Kubernetes they are what was given.

    `paths`: the folders that driver and executors both have to reach; the first is written, the others are read. Those in
    stores are reached from anywhere. What is in `settings` or in Spark's own spark-defaults.conf is left alone; who names an
    image there has said everything. :data:`SPREAD` among them asks for different nodes. Raises BadMaster where that cannot work.
    """
    given = dict(settings or {})
    if not is_kubernetes(master):
        yield master, given
        return
    configured = {**_spark_defaults(), **given}
    spread = _spread(configured)
    if IMAGE in configured:
        if spread != NONE:
            raise BadMaster(f"{SPREAD}={spread}: not beside {IMAGE}, for then executors are as you say")
        yield master, given
        return
    pod, claims = _this_pod()
    one_node = is_of_one_node(pod, claims)
    written, read = ([path for path in some if isinstance(path, Path)] for some in (paths[:1], paths[1:]))
    served = one_node and spread != NONE and bool(written or read)
    if not served:
        for path in (*written, *read):
            must_be_on_a_volume(pod, path)
    with tempfile.TemporaryDirectory(prefix="minikafka-executor-") as folder:
        template = Path(folder) / "executor.json"  # JSON is YAML
        template.write_text(json.dumps(executor_pod(pod, one_node=one_node, spread=spread)), encoding="utf-8")
        made = {**DEFAULTS, **settings_for(pod, template)}
        nothing: AbstractContextManager[dict[str, str]] = nullcontext({})
        with serving(made["spark.driver.host"], read, written) if served else nothing as how:
            if served:
                # Else whoever reaches the driver is told all settings, and so how to ask for its files.
                made |= {**how, "spark.authenticate": "true"}
            chosen = {name: value for name, value in made.items() if name not in configured}
            yield IN_CLUSTER if master == MASTER else master, {**chosen, **given}


def _spread(configured: Mapping[str, str]) -> str:
    found = configured.get(SPREAD, NONE)
    if found not in (NONE, PREFERRED, REQUIRED):
        raise BadMaster(f"{SPREAD}={found}: allowed: {NONE}, {PREFERRED}, {REQUIRED}")
    return found


def is_of_one_node(pod: Object, claims: Mapping[str, Sequence[str]]) -> bool:
    """Return whether the driver mounts what pods on other nodes cannot. `claims`: the access modes of each claim it mounts."""
    names = {mount["name"] for mount in driver_container(pod).get("volumeMounts") or ()}
    own = any(volume["name"] in names and "hostPath" in volume for volume in pod["spec"].get("volumes") or ())
    return own or any(SHARED_BY_NODES not in modes for modes in claims.values())


def settings_for(pod: Object, template: Path) -> dict[str, str]:
    """Return what Spark has to be told of the driver's pod. Raises BadMaster for a pod without an address."""
    metadata, container = pod["metadata"], driver_container(pod)
    address = (pod.get("status") or {}).get("podIP")
    if not address:
        raise BadMaster(f"pod {metadata['name']} has no address yet: executors could not reach the driver")
    return {
        "spark.kubernetes.namespace": metadata["namespace"],
        IMAGE: container["image"],
        "spark.kubernetes.container.image.pullPolicy": container.get("imagePullPolicy") or "IfNotPresent",
        "spark.kubernetes.executor.podTemplateFile": str(template),
        "spark.kubernetes.executor.podTemplateContainerName": "executor",
        "spark.kubernetes.executor.podNamePrefix": executor_prefix(metadata["name"]),
        "spark.kubernetes.driver.pod.name": metadata["name"],
        "spark.driver.host": address,
        "spark.driver.bindAddress": address,
    }


def executor_prefix(name: str) -> str:
    """Return what the names of executors begin with: the driver pod's name; of a long one, its own last part stays.

    Without dots, which a pod's name may have: Spark makes the pod's host name of it, which must have none.
    """
    name = name.replace(".", "-")
    if len(name) <= PREFIX_MAX:
        return name
    own = name[-6:]  # "-abcde", by which two pods of one Job differ
    return name[: PREFIX_MAX - len(own)].rstrip("-") + own


def driver_container(pod: Object) -> Object:
    """The container that the analysis runs in: the first, as in the Jobs of the charts."""
    found: Object = pod["spec"]["containers"][0]
    return found


def executor_pod(pod: Object, *, one_node: bool, spread: str = NONE) -> Object:
    """A template for executors, from the driver's pod. ``one_node``: a volume can be mounted on the driver's node only.

    Such a volume ties executors to that node, or, where they are to be spread, is not theirs.
    """
    spec, container = pod["spec"], driver_container(pod)
    mounts = [mount for mount in container.get("volumeMounts") or () if not mount["mountPath"].startswith("/var/run/")]
    names = {mount["name"] for mount in mounts}
    volumes = [volume for volume in spec.get("volumes") or () if volume["name"] in names]
    if one_node and spread != NONE:
        volumes = [each for each in volumes if not {"persistentVolumeClaim", "hostPath"}.intersection(each)]
        left = {volume["name"] for volume in volumes}
        mounts = [mount for mount in mounts if mount["name"] in left]
    executor: Object = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [
            {"name": "executor", "securityContext": container.get("securityContext") or {}, "volumeMounts": mounts}
        ],
        "volumes": volumes,
    }
    for name in ("securityContext", "imagePullSecrets", "nodeSelector", "tolerations"):
        if spec.get(name):
            executor[name] = spec[name]
    labels = {"app.kubernetes.io/part-of": "minikafka", "app.kubernetes.io/component": "executor"}
    if spread != NONE:
        labels[ANALYSIS_LABEL] = executor_prefix(pod["metadata"]["name"])
        executor |= _apart({"matchLabels": {ANALYSIS_LABEL: labels[ANALYSIS_LABEL]}}, spread)
    elif one_node and spec.get("nodeName"):
        # By the node's own name: what a Service mesh or a cloud makes of host names does not matter.
        field = {"key": "metadata.name", "operator": "In", "values": [spec["nodeName"]]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        executor["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": labels}, "spec": executor}


def _apart(others: Object, spread: str) -> Object:
    """Return what keeps executors on different nodes: fields of a pod.

    Required, by anti-affinity: a spread that is required would still allow two on a cluster's only node.
    """
    if spread == REQUIRED:
        term = {"labelSelector": others, "topologyKey": HOST}
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    rule = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": others}
    return {"topologySpreadConstraints": [rule]}


def must_be_on_a_volume(pod: Object, path: Path) -> None:
    """Raises BadMaster for a folder that only this pod can read."""
    kinds = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    own = ("emptyDir", "projected", "configMap", "secret", "downwardAPI", "ephemeral")
    mounts = {
        PurePosixPath(mount["mountPath"]): kinds.get(mount["name"], {})
        for mount in driver_container(pod).get("volumeMounts") or ()
    }
    for parent in (PurePosixPath(path), *PurePosixPath(path).parents):
        if parent in mounts:
            if any(kind in mounts[parent] for kind in own):
                break
            return
    raise BadMaster(f"{path}: not on a volume that executors mount too: mount a claim in this pod, and keep it there")


def _this_pod() -> tuple[Object, dict[str, list[str]]]:
    """The pod that this runs in, and the access modes of the claims that its driver mounts."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    token = ACCOUNT / "token"
    if not host or not token.is_file():
        raise BadMaster(f"--master k8s://... from a machine that is no pod of the cluster: {FROM_OUTSIDE}")
    namespace = (ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
    name = os.environ.get("POD_NAME") or os.environ.get("HOSTNAME", "")
    root = f"https://{f'[{host}]' if ':' in host else host}:{port}/api/v1/namespaces/{namespace}"
    pod = _with_address(f"{root}/pods/{name}", token)
    mounted = {mount["name"] for mount in driver_container(pod).get("volumeMounts") or ()}
    claims = [
        str(volume["persistentVolumeClaim"]["claimName"])
        for volume in pod["spec"].get("volumes") or ()
        if "persistentVolumeClaim" in volume and volume["name"] in mounted
    ]
    modes = {claim: _get(f"{root}/persistentvolumeclaims/{claim}", token) for claim in claims}
    return pod, {claim: list((found.get("spec") or {}).get("accessModes") or ()) for claim, found in modes.items()}


def _with_address(url: str, token: Path) -> Object:
    """The pod once it has an address, or as it is after :data:`ADDRESS_SECONDS_MAX`."""
    deadline = time.monotonic() + ADDRESS_SECONDS_MAX
    while True:
        pod = _get(url, token)
        if (pod.get("status") or {}).get("podIP") or time.monotonic() > deadline:
            return pod
        time.sleep(0.5)


def _get(url: str, token: Path) -> Object:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token.read_text().strip()}"})
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS_MAX, context=context) as answer:
            found: Object = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        what = "/".join(url.split("/")[-2:])
        hint = "" if error.code != 403 else ": the service account needs the Role of charts/minikafka-analytics"
        raise BadMaster(f"{what}: the API server answers {error.code} {error.reason}{hint}") from error
    except OSError as error:
        raise BadMaster(f"the API server is not reached: {getattr(error, 'reason', error)}") from error


def _spark_defaults() -> dict[str, str]:
    """Return what spark-defaults.conf says, where Spark looks for it."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else "")
    path = Path(folder) / "spark-defaults.conf"
    if not folder or not path.is_file():
        return {}
    lines = (line.split(None, 1) for line in path.read_text(encoding="utf-8").split("\n"))
    return {words[0]: words[1].strip() for words in lines if len(words) == 2 and not words[0].startswith("#")}
