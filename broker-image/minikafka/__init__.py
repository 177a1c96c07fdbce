"""MiniKafka: a Kafka-compatible replicated log in Python that is broken on purpose to prove what is lost."""

__version__ = "0.1.0"
