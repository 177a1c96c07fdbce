"""Coverage-guided fuzzing of everything that reads bytes of others (docs/internals/fuzzing.md)."""
