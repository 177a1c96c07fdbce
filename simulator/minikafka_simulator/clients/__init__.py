"""Clients of random schedules, and what all simulated clients have in common."""
