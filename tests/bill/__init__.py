"""The bill of the tests: what each file costs, in which form it runs, and what nothing else would notice (docs/tests.md)."""
