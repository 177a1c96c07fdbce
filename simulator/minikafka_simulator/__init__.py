"""Production's brokers in one process, in virtual time: random schedules under invariants, and a ground for scenarios.

A run is a function of its seed: one scheduler with one random generator decides every delay, loss, crash and restart, so a
failing seed can be replayed to the byte. What is simulated is only the rim: the network, the disk under the log, the cluster
store's delays and outages, and the clock of the event loop. :mod:`minikafka_simulator.checks.checker` looks at the world after
every event.
"""
