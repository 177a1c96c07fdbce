"""The bill of the tests: what each file costs, where it runs, what nothing else would notice (docs/internals/tests.md)."""
