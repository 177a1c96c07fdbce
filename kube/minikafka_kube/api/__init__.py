"""The API group of MiniKafka on Kubernetes, and how its CRDs are made of typed models."""

GROUP = "minikafka.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
