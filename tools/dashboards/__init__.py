"""The Grafana dashboards of charts/minikafka-monitoring, as code; see ``pages``."""
