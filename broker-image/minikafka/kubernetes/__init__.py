"""The cluster store on Kubernetes: one ConfigMap decides, MiniKafkaTopic objects show it, a Lease names the controller.

Read in this order: :mod:`document` (what is written in one step), :mod:`store` (the ClusterStore), :mod:`records` (what a
reader knows), :mod:`topics` (a topic as an object), :mod:`topic_reconciler` (what the controller does for the objects).
:mod:`reflector`, :mod:`api`, :mod:`connection` and :mod:`credentials` are the way to the API server.
"""

from minikafka.kubernetes.api import KubernetesApi
from minikafka.kubernetes.credentials import Access, find_access
from minikafka.kubernetes.store import KubernetesStore
from minikafka.kubernetes.topic_reconciler import TopicReconciler

__all__ = ["Access", "KubernetesApi", "KubernetesStore", "TopicReconciler", "find_access"]
