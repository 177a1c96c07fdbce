"""Reads the files of runs as typed rows, and lands them as Parquet."""
