"""Golden traces: a schedule, and line by line what each replica and the controller decided (as etcd's raft has them)."""
