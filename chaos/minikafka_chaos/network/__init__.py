"""Faults of the network from outside a broker's pod: the agent of the chart `minikafka-chaos-network`, one on each node.

It enters the network namespace of one pod and has the kernel drop packets there. Its verbs are run by exec
(`minikafka-network VERB`), JSON out, and nothing listens. What it made ends by timeouts that the kernel keeps, whoever is
dead by then. Why so, and what it may do: docs/decisions/011-chaos-on-kubernetes.md.

Imports nothing of the other modules of chaos: what runs with privileges on every node is this folder, the reading of the API
server (`minikafka.kubernetes`), and `nft`.
"""
