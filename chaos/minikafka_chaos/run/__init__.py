"""Runs a scenario on a ground, from the document to the verdict, and writes all of it into a run folder."""
