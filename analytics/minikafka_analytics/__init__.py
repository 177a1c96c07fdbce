"""Spark analysis of runs: lands their files as Parquet, recomputes what happened to the data, and writes the report."""
