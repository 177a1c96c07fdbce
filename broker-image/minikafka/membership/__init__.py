"""A broker's place in the cluster, sans I/O."""
