"""The controller's metrics, declared once; docs/reference/metrics.md has those that tell of experiments.

All that is told of an experiment is its status, told again: so nothing is lost when the controller starts anew.
"""

from __future__ import annotations

from typing import Final

from minikafka_kube.telemetry import Looking
from prometheus_client import Counter, Gauge

from minikafka_chaos.experiment.reasons import ChaosCondition
from minikafka_chaos.experiment.status import ExperimentStatus, FaultStatus, Phase

VERDICTS: Final = ("Passed", "Failed", "Inconclusive", "Aborted", "Error")


class ControllerTelemetry(Looking):
    """Counts what the controller does, and tells of experiments. One for each process."""

    def __init__(self) -> None:
        super().__init__("minikafka_chaos", "object")
        self.fault_active = Gauge(
            "minikafka_chaos_fault_active",
            "1 from when a fault was written down until nothing of it is left; there only while it is.",
            ["namespace", "experiment", "fault", "target"],
            registry=self.registry,
        )
        self.faults = Gauge(
            "minikafka_chaos_experiment_faults",
            "Faults that an experiment has made, one for each broker that it hit.",
            ["namespace", "experiment"],
            registry=self.registry,
        )
        self.phase = Gauge(
            "minikafka_chaos_experiment_phase",
            "1 for the phase that an experiment is in, 0 for the others.",
            ["namespace", "experiment", "phase"],
            registry=self.registry,
        )
        self.lost = Gauge(
            "minikafka_chaos_experiment_lost_records",
            "Acknowledged records that an experiment found gone; there once there is a verdict.",
            ["namespace", "experiment"],
            registry=self.registry,
        )
        self.verdicts = Counter(
            "minikafka_chaos_verdicts_total",
            "Experiments that ended while this process looked on, by verdict.",
            ["verdict"],
            registry=self.registry,
        )
        self.refusals = Counter(
            "minikafka_chaos_refusals_total",
            "Experiments that were refused while this process looked on, by reason.",
            ["reason"],
            registry=self.registry,
        )
        self.recoveries = Counter(
            "minikafka_chaos_recoveries_total",
            "Times that an agent was asked to undo everything, by outcome: done, failed.",
            ["outcome"],
            registry=self.registry,
        )
        self.missed = Counter(
            "minikafka_chaos_schedule_missed_total",
            "Times at which a schedule made no experiment although it should have.",
            ["namespace", "schedule"],
            registry=self.registry,
        )
        self._shown: dict[tuple[str, str], set[tuple[str, str]]] = {}
        self._phases: dict[tuple[str, str], Phase | None] = {}

    def export_experiment(self, namespace: str, name: str, status: ExperimentStatus) -> None:
        """Export what the status of an experiment says."""
        key = (namespace, name)
        on = {(fault.verb, _target(fault)) for fault in status.open_faults}
        for gone in self._shown.get(key, set()) - on:
            self._drop(self.fault_active, *key, *gone)
        for fault, target in on:
            self.fault_active.labels(*key, fault, target).set(1)
        self._shown[key] = on
        self.faults.labels(*key).set(status.faults_made or 0)
        if key not in self._phases or self._phases[key] is not status.phase:
            for phase in Phase:
                self.phase.labels(*key, phase.value).set(1 if status.phase is phase else 0)
        if status.lost is not None:
            self.lost.labels(*key).set(status.lost)
        self._count_ends(key, status)

    def _count_ends(self, key: tuple[str, str], status: ExperimentStatus) -> None:
        known, phase, before = key in self._phases, status.phase, self._phases.get(key)
        self._phases[key] = phase
        if not known or before is phase or phase is None or not phase.ended:
            return  # seen for the first time: it may have ended long ago
        if phase is Phase.REFUSED:
            self.refusals.labels(status.condition(ChaosCondition.ACCEPTED).get("reason", "Unknown")).inc()
        else:
            self.verdicts.labels(status.verdict or "Error").inc()

    def forget_experiment(self, namespace: str, name: str) -> None:
        """Drop what was told of an experiment that is gone."""
        key = (namespace, name)
        for fault, target in self._shown.pop(key, set()):
            self._drop(self.fault_active, *key, fault, target)
        self._phases.pop(key, None)
        self._drop(self.faults, *key)
        self._drop(self.lost, *key)
        for phase in Phase:
            self._drop(self.phase, *key, phase.value)


def _target(fault: FaultStatus) -> str:
    return "cluster" if fault.broker is None else f"broker-{fault.broker}"
