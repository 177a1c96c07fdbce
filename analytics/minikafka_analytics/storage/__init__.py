"""Reaches the folders that an analysis reads and writes, on this machine and in stores that Hadoop reads."""
