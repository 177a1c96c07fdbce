"""Fetches the metrics and events of a run from where a cluster has them."""
