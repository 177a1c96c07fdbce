"""Compares many runs by their reports."""
