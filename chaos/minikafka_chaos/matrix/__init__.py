"""Durability matrix: one seeded mix of faults against every combination of settings, many seeds each, counted.

A *cell* is one combination of settings, a *trial* is one cell under one seed: a run like any other, on a ground, judged by
the same judge (`minikafka_chaos.verdict.verdict`). Nothing here knows what a setting does. A seed draws the same faults in every
cell, so that cells differ by their settings and not by their luck.
"""
