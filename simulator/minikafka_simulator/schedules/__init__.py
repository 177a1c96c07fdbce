"""Random schedules: one from a seed to its verdict, many over worker processes, and a failing one made small."""
