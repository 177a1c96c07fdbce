"""Crash states of a disk: what each may leave of the files of a broker, and whether the broker finds its records again."""
