"""Quotas: how much clients may use (KIP-13, 124, 546, 599, 612). No I/O: the time is a parameter."""
