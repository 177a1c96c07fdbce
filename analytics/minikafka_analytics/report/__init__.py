"""Writes the report of an analysis, as a page and as data."""
