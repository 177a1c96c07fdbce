"""A cluster as it is watched: what brokers and journals tell, folded into its state at every moment, and how that is shown."""
