"""A cluster that somebody breaks by hand, or by a test: the verbs, what is written down of them, and the verdict."""
