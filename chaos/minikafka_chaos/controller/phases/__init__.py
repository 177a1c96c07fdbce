"""The phases of an experiment: one module for each, and the ways from one to another."""
