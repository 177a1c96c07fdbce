"""Brokers asked from outside, one request at a time."""
