"""Runs what is started as a process: `minikafka analyze`, an analysis whose Spark is warmed up, the class archive."""
