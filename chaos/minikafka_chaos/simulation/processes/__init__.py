"""Brokers that are production's whole process, server and all: asyncio in virtual time, TCP and disk in memory.

The other brokers of the simulation (:mod:`minikafka_chaos.simulation.broker`) have a shell of events around the same decisions,
which is several times faster.
"""
