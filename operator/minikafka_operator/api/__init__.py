"""MiniKafkaCluster and MiniKafkaTopic as typed models: one source of CRDs, of validation and of the operator's types."""
