"""Simulator bugs as changes of the source, and how one is put into the running process."""
