"""From one look at a cluster to what is to be done, and what its status says. No I/O."""
