"""Which broker is replaced next, and what stands in the way of it."""
