"""What is seen of an experiment in one look, and what can be done about it then. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from minikafka_kube.disruption_lease import LeaseHold, hold_of, identity
from minikafka_kube.events import Emit
from minikafka_kube.instants import instant
from minikafka_kube.observed import Pod, deleting

from minikafka_chaos.controller.admission import Admission
from minikafka_chaos.controller.job_state import belongs, may_run
from minikafka_chaos.controller.jobs import JobSettings
from minikafka_chaos.experiment import topics
from minikafka_chaos.experiment.kinds import FINALIZER, FORCE_ANNOTATION, Object, asks
from minikafka_chaos.experiment.status import ExperimentStatus, Phase
from minikafka_chaos.scenario.scenario import ClusterSpec

# --- what is seen -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ObservedExperiment:
    """One look at an experiment and all that it is about. ``cluster`` is the one it names, or its own."""

    experiment: Object
    now: datetime
    settings: JobSettings
    status: ExperimentStatus
    """What its status says: read once in each look."""
    cluster: Object | None = None
    lease: Object | None = None
    job: Object | None = None
    runner_pods: Sequence[Object] = ()
    brokers: Mapping[int, Pod] = field(default_factory=dict)
    former_cluster: Object | None = None
    former_lease: Object | None = None
    """Both of the cluster that its status names, where the spec names another by now: it was edited before it had begun."""
    admission: Admission | None = None
    """Whether it may begin; judged as long as it has not, also of a refused one."""
    user: Object | None = None
    """What has the name of the MiniKafkaUser as which its clients log in."""
    topics: topics.Seen | None = None
    """Looked at where the experiment has topics in the cluster that are still to be removed."""
    report_job: Object | None = None
    report_pods: Sequence[Object] = ()
    """Both looked at where a report is still to come."""

    @property
    def name(self) -> str:
        return str(self.experiment["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.experiment["metadata"]["namespace"])

    @property
    def generation(self) -> int:
        """The generation of its spec."""
        return int(self.experiment["metadata"].get("generation") or 0)

    @property
    def created(self) -> datetime:
        return instant(self.experiment["metadata"].get("creationTimestamp")) or self.now

    @property
    def time_allowed(self) -> timedelta:
        """``spec.activeDeadlineSeconds``."""
        return timedelta(seconds=int(self.experiment["spec"].get("activeDeadlineSeconds") or 3600))

    @property
    def phase(self) -> Phase | None:
        return self.status.phase

    @cached_property
    def deleting(self) -> bool:
        return deleting(self.experiment)

    @property
    def finalized(self) -> bool:
        """Return whether our finalizer is on it."""
        return FINALIZER in (self.experiment["metadata"].get("finalizers") or ())

    @property
    def forced(self) -> bool:
        return self.deleting and asks(self.experiment, FORCE_ANNOTATION)

    @cached_property
    def identity(self) -> str:
        return identity(self.experiment)

    @cached_property
    def hold(self) -> LeaseHold:
        """Who has the disruption Lease of its cluster."""
        return hold_of(self.lease)

    @property
    def holds_lease(self) -> bool:
        return self.hold.holder == self.identity

    @property
    def runs(self) -> bool:
        """Return whether a runner may still be at work."""
        return any(may_run(pod, self.now) for pod in self.runner_pods)

    def owns(self, thing: Object | None) -> bool:
        """Return whether something was made for this very experiment, and not for one of its name, or by somebody else."""
        return thing is not None and belongs(thing, self.experiment)

    @property
    def own_job(self) -> Object | None:
        """The experiment's Job, as long as it is there. What only has its name is never touched."""
        return self.job if self.owns(self.job) else None

    @property
    def own_user(self) -> Object | None:
        """The experiment's MiniKafkaUser, as long as it is there."""
        return self.user if self.owns(self.user) else None

    @property
    def cluster_is_another(self) -> bool:
        """Return whether the cluster is not the one on which it began, but was made after that, under the same name."""
        made = instant((self.cluster or {}).get("metadata", {}).get("creationTimestamp"))
        started = self.status.started_at
        return made is not None and started is not None and made > started

    @property
    def own_cluster(self) -> Object | None:
        """The experiment's own cluster, as long as it is there."""
        return self.cluster if self.owns(self.cluster) else None


# --- what can be done -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SetFinalizer:
    """Put our finalizer on, or take it off."""

    on: bool
    events: Sequence[Emit] = ()


@dataclass(frozen=True)
class WriteStatus:
    """Replace the status, if the experiment is still as it was looked at."""

    status: ExperimentStatus
    events: Sequence[Emit] = ()


@dataclass(frozen=True)
class WriteLease:
    """Create or replace the disruption Lease, if it is still as it was looked at."""

    lease: Object
    new: bool
    events: Sequence[Emit] = ()


@dataclass(frozen=True)
class CreateCluster:
    """Make the experiment's own cluster."""

    name: str
    template: ClusterSpec


@dataclass(frozen=True)
class CreateUser:
    """Make the MiniKafkaUser as which its clients log in."""

    user: Object


@dataclass(frozen=True)
class CreateJob:
    """Make the Job that runs it, on this cluster."""

    name: str
    cluster: str
    deadline_seconds: int


@dataclass(frozen=True)
class CreateReportJob:
    """Make the Job that makes its report."""

    name: str


@dataclass(frozen=True)
class Remove:
    """Delete something of the experiment, or the experiment itself."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True)
class RemoveTopics:
    """Delete topics that the experiment has made, each as it was looked at."""

    removals: Sequence[topics.Removal]


@dataclass(frozen=True)
class Recover:
    """Have the agents of these pods undo every fault. ``settle``: then the faults in pods that answered are over."""

    pods: Sequence[Pod]
    settle: bool


@dataclass(frozen=True)
class Wait:
    """Nothing to be done now; look again after so many seconds at the latest (None: when something happens)."""

    seconds: float | None = None


Step = (
    SetFinalizer
    | WriteStatus
    | WriteLease
    | CreateCluster
    | CreateUser
    | CreateJob
    | CreateReportJob
    | Remove
    | RemoveTopics
    | Recover
    | Wait
)
