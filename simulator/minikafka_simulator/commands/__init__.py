"""The commands of `minikafka` that belong to this package."""
