"""Simulated brokers, which are production's, and how requests reach them: a cluster without any purpose yet."""
