"""The simulator, and what the simulation ground stands on: production replication, controller, log and recovery code
in one process, in virtual time.

A run is a function of its seed: one scheduler with one random generator decides every delay, loss, crash and restart, so a
failing seed can be replayed to the byte. What is simulated is only the rim: the network between brokers, the disk under the
log, the clock, and the shell that in production is asyncio. The :mod:`checker` looks at the world after every event.
"""
