"""The Kubernetes API of MiniKafka as typed models: the one source of the CRDs, of validation and of the operator's types."""

GROUP = "minikafka.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
