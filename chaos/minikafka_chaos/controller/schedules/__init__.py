"""Experiments that are made at times: `ChaosSchedule`, its times, its status, and what is due."""
