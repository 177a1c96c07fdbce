"""The invariants, and who looks after each event whether they hold."""
