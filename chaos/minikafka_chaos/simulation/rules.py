"""The rules a run plays by: production classes, or one of them with a bug (see :mod:`mutants`)."""

from __future__ import annotations

from minikafka.kubernetes.store import KubernetesStore
from minikafka.kubernetes.topic_reconciler import TopicReconciler
from minikafka.metadata.database import Database
from minikafka.server.parts import Parts

from minikafka_chaos.simulation.processes.watched import WatchedBroker


class Rules(Parts):
    """Production as it is."""

    process: type[WatchedBroker] = WatchedBroker
    database: type[Database] = Database
    kubernetes_store: type[KubernetesStore] = KubernetesStore
    topic_reconciler: type[TopicReconciler] = TopicReconciler
