"""An outside judge: the steps of one partition, recorded in simulated clusters, against `spec/partition.qnt`."""
