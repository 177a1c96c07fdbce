"""Clients that put a load on a cluster and write down what they were told; on any Kafka-compatible cluster."""
