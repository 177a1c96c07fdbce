"""Judges runs from their raw evidence, by the rules of docs/reference/verdicts.md."""
