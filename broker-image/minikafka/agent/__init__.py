"""Faults from beside a broker: the container `chaos-agent` in a broker's pod, and the gate that the broker waits at.

The agent has the broker's user id, its volumes and its process namespace, and no privilege; it opens no port. Its verbs are
run by `kubectl exec` (`minikafka agent VERB`), its main process (`minikafka agent serve`) ends what has expired. Why so:
docs/decisions/011-chaos-on-kubernetes.md.

Imports nothing beyond the standard library: each verb is a new process in the pod of a broker that is under load.
"""
