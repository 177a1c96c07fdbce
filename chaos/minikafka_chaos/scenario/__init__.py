"""Scenarios as documents: what may be written, what it means, and the scenarios that come along."""
