"""What a run writes down while it goes: history, journal, metrics, the logs of the replicas."""
