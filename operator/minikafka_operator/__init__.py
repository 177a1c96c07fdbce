"""The operator: MiniKafka clusters as custom resources. Pure planner (``planner.py``), thin shell around it (``main.py``)."""
