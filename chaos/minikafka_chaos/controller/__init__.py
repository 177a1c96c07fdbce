"""Chaos on Kubernetes: ChaosExperiment (``mkx``) and ChaosSchedule (``mkxs``), and the controller that carries them out.

The controller decides, a Job tells: `admission` says whether an experiment may begin, `experiments` what is to be done about
it now (values in, actions out), `reconciler` does it, and the Job of the experiment runs the scenario (`runner`) with a
ledger in the experiment's status (`ledger`), which is written before each fault. What it shares with the operator (models of
CRDs, loops, the connection to the API server) it takes from there. docs/guide/chaos-on-kubernetes.md is for who uses it.
"""
