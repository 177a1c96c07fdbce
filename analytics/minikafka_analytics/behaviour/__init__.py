"""Finds out how clusters behaved: who led, what clients saw, what brokers used, and what each fault did to that.

What Spark is asked is a function from DataFrames to a DataFrame, with its schema and its rules in its docs. What that gives is
small, and is held against the run's faults and events by the driver (`fault_impact`, `scrape_gaps`, `usage`, `observed`).
"""
