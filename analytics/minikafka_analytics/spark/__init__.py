"""Starts Spark where it is to run, asks it, and says in one line what went wrong there."""
