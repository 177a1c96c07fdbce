"""A cluster of real broker processes on this machine: what `minikafka up`, the demo and the tests stand on."""
