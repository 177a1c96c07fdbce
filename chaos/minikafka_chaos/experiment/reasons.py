"""Every condition, reason and event of experiments and schedules, declared once, told in docs/guide/chaos-on-kubernetes.md."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class ChaosCondition(StrEnum):
    """The conditions, in the order in which they are written."""

    ACCEPTED = "Accepted"
    HEALED = "Healed"
    COMPLETE = "Complete"
    REPORTED = "Reported"


MEANINGS: Final[Mapping[ChaosCondition, str]] = {
    ChaosCondition.ACCEPTED: "the experiment may happen, or has been let begin",
    ChaosCondition.HEALED: "no fault of it is left; from Healing on, too: every broker that it took is ready again",
    ChaosCondition.COMPLETE: "it has ended, with a verdict or without",
    ChaosCondition.REPORTED: "Spark has made the report of the run, and says the same as the verifier",
}


class ChaosReason(StrEnum):
    """Why a condition is as it is, and what an Event is about."""

    # Accepted
    ACCEPTED = "Accepted"
    WAITING_FOR_CLUSTER = "WaitingForCluster"
    WAITING_FOR_USER = "WaitingForUser"
    WAITING_FOR_METADATA = "WaitingForMetadata"
    WAITING_FOR_LEASE = "WaitingForLease"
    INVALID_SPEC = "InvalidSpec"
    NOT_SUPPORTED = "NotSupported"
    PROMETHEUS_NOT_ALLOWED = "PrometheusNotAllowed"
    CLUSTER_NOT_FOUND = "ClusterNotFound"
    CLUSTER_NOT_OURS = "ClusterNotOurs"
    CHAOS_NOT_ALLOWED = "ChaosNotAllowed"
    CLUSTER_BUSY = "ClusterBusy"
    JOB_NOT_OURS = "JobNotOurs"
    USER_NOT_OURS = "UserNotOurs"
    BUDGET_EXCEEDED = "BudgetExceeded"
    TOPIC_EXISTS = "TopicExists"
    CLAIM_NOT_FOUND = "ClaimNotFound"
    CLAIM_NOT_WRITABLE = "ClaimNotWritable"
    CREATION_REFUSED = "CreationRefused"
    # Healed
    NO_FAULTS = "NoFaults"
    FAULTS_ON = "FaultsOn"
    HEALING = "Healing"
    RECOVERY_FAILING = "RecoveryFailing"
    BROKERS_NOT_READY = "BrokersNotReady"
    # Complete
    LEASE_LOST = "LeaseLost"
    GOING_ON = "GoingOn"
    VERDICT = "Verdict"
    ABORTED = "Aborted"
    DELETED = "Deleted"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    RUNNER_FAILED = "RunnerFailed"
    REFUSED = "Refused"
    # Reported
    REPORT_GOING_ON = "ReportGoingOn"
    REPORT_MADE = "ReportMade"
    REPORT_FAILED = "ReportFailed"
    REPORT_DISAGREES = "ReportDisagrees"
    NO_CLAIM = "NoClaim"


class Happening(StrEnum):
    """Events beyond these reasons."""

    STARTED = "Started"
    FAULT_INJECTED = "FaultInjected"
    FAULT_RECOVERED = "FaultRecovered"
    TOLD = "Told"
    TOPICS_REMOVED = "TopicsRemoved"
    TOPIC_LEFT = "TopicLeft"
    FORCED = "ForceDeleted"
    JOB_WAITS = "JobWaits"
    LEASE_TAKEN_AGAIN = "LeaseTakenAgain"
    ANNOTATION_UNREAD = "AnnotationUnread"
    MADE = "ExperimentMade"
    MISSED = "TimeMissed"
    INVALID = "InvalidSchedule"
