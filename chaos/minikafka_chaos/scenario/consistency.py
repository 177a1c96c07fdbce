"""Whether the parts of a scenario agree with each other: what no schema can say."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from minikafka.config import BROKER_KEYS, TOPIC_KEYS, ConfigError
from minikafka.config.broker_keys import ALIASES
from minikafka.config.keys import Key
from minikafka.config.listener_settings import is_of_a_listener, without_prefix
from minikafka.config.refusals import refusal
from minikafka.reliability.dead_letters import dead_letter_topic
from minikafka.telemetry.fault_verbs import Lost, verbs
from pydantic import ValidationError

from minikafka_chaos.scenario.document import ConfigEntry, Part, UnflushedVolume
from minikafka_chaos.scenario.document_lines import explain
from minikafka_chaos.scenario.steps import CrashMoment, Step

if TYPE_CHECKING:
    from minikafka_chaos.scenario.scenario import ScenarioSpec

CONFIG = "cluster.config"
WHEN, WORKLOAD = "expect.when", "workload."

NEEDS_UNFLUSHED_VOLUME = verbs(lambda rule: rule.lost is Lost.UNFLUSHED)

UNFLUSHED_VOLUME = "cluster.unflushedVolume: Separate (with clusterRef: spec.unflushedVolume of that MiniKafkaCluster)"


def problems(spec: ScenarioSpec) -> Iterator[str]:
    """Return what contradicts itself in a scenario, a line each."""
    yield from _repeated("topics", [topic.name for topic in spec.topics])
    yield from _repeated("steps", [step.name for step in spec.steps])
    yield from _repeated("claims", [claim.name for claim in spec.claims])
    partitions = {topic.name: topic.partitions for topic in spec.topics}
    for topic in spec.topics:
        replicas = [broker for assignment in topic.replica_assignments for broker in assignment.replicas]
        if any(broker >= spec.brokers_max for broker in replicas):
            yield f"topic {topic.name}: replicaAssignments names a broker beyond {spec.brokers_max - 1}"
        if not replicas and topic.replication_factor > spec.brokers_max:
            many = f"replicationFactor {topic.replication_factor} with {spec.brokers_max} brokers"
            yield f"topic {topic.name}: {many}"
    yield from _bad_settings(spec)
    if spec.workload.topic not in partitions:
        yield f"workload.topic {spec.workload.topic}: no such topic, there are {', '.join(partitions)}"
    yield from _bad_dead_letters(spec)
    yield from _idle_references(spec)
    if spec.steady_state is not None:
        yield from _repeated("steadyState.probes", [probe.name for probe in spec.steady_state.probes])
        for condition in spec.steady_state.conditions:
            where = f"steadyState: condition {condition.type}"
            yield from _bad_references(where, condition, set(), partitions, spec.cluster.brokers)
    if not spec.workload.group_members:
        yield from _without_group(spec)
    earlier: set[str] = set()
    sent: set[str] = set()
    for step in spec.steps:
        for where, part in _parts(step):
            # A wait may count from its own beginning.
            known = earlier | {step.name} if step.wait is not None else earlier
            yield from _bad_references(f"step {step.name}: {where}", part, known, partitions, spec.brokers_max)
        if step.send is not None:
            for value in step.send.values:
                if value in sent:
                    yield f"step {step.name}: value {value} is sent twice"
                sent.add(value)
        if (
            step.fault is not None
            and spec.cluster_ref is None
            and spec.cluster.unflushed_volume is not UnflushedVolume.SEPARATE
        ):
            for verb in sorted(NEEDS_UNFLUSHED_VOLUME.intersection(step.fault.verbs)):
                yield f"step {step.name}: {verb.value} needs {UNFLUSHED_VOLUME}"
        earlier.add(step.name)
    for claim in spec.claims:
        if claim.since is not None and claim.since not in earlier:
            yield f"claim {claim.name}: since names no step: {claim.since}"
    gaps = [claim.name for claim in spec.claims if claim.limit_millis is not None]
    for expected in spec.expect:
        for name in expected.claims:
            if name not in gaps:
                yield f"expect.claims: {name} is no claim AckGapAtMost"


def _bad_dead_letters(spec: ScenarioSpec) -> Iterator[str]:
    """Return what is asked of dead letters that cannot be."""
    workload, letters = spec.workload, dead_letter_topic(spec.workload.topic)
    if not workload.group_poison_every:
        for step in spec.steps:
            if step.member is not None and step.member.at is CrashMoment.BEFORE_DEAD_LETTER:
                yield f"step {step.name}: at {step.member.at}: needs workload.groupPoisonEvery of at least 1"
        if workload.group_dead_letters != "Once":
            yield f"workload.groupDeadLetters {workload.group_dead_letters}: needs workload.groupPoisonEvery of at least 1"
        return
    if not workload.group_members:
        yield "workload.groupPoisonEvery: needs workload.groupMembers of at least 1"
    if workload.group_commit != "AfterProcessing":
        yield f"workload.groupPoisonEvery: needs workload.groupCommit AfterProcessing, not {workload.group_commit}"
    if letters not in {topic.name for topic in spec.topics}:
        yield f"workload.groupPoisonEvery: topics has to have {letters}, for dead letters"


def _without_group(spec: ScenarioSpec) -> Iterator[str]:
    """Return what needs a consumer group."""
    for step in spec.steps:
        conditions = [] if step.wait is None else step.wait.conditions
        targets = [] if step.fault is None else [step.fault.target, step.fault.peer]
        if (
            step.member is not None
            or any(condition.type in ("GroupState", "GroupAtEnd") for condition in conditions)
            or any(target is not None and target.type == "Coordinator" for target in targets)
        ):
            yield f"step {step.name}: needs a consumer group: workload.groupMembers of at least 1"


def _idle_references(spec: ScenarioSpec) -> Iterator[str]:
    """Steps that name one which exists, and which did nothing that they could refer to."""
    faults = {step.name: step.fault for step in spec.steps}
    for step in spec.steps:
        if (fault := step.fault) is None:
            continue
        if fault.step in faults:
            named = faults[fault.step]
            if named is None or not any(verb.rule.lasts for verb in named.verbs):
                yield f"step {step.name}: step {fault.step} makes nothing that lasts"
        for target in (fault.target, fault.peer):
            if target is not None and target.step in faults:
                named = faults[target.step]
                if named is None or (named.target is None and named.step is None):
                    yield f"step {step.name}: step {target.step} chooses no broker"


def _bad_settings(spec: ScenarioSpec) -> Iterator[str]:
    """Settings that no broker would take: better known now than when the brokers do not start."""
    brokers = [(CONFIG, spec.cluster.config), *((WHEN, each.when) for each in spec.expect)]
    for where, entries in brokers:
        yield from _repeated(where, [entry.name for entry in entries])
        for entry in entries:
            if where == WHEN and entry.name.startswith(WORKLOAD):
                yield from _bad_workload(spec, entry)
                continue
            if where == CONFIG and is_of_a_listener(entry.name):
                entry = entry.model_copy(update={"name": without_prefix(entry.name)})
            yield from (f"{where}: {problem}" for problem in _refused(BROKER_KEYS, entry, topic=False))
    for topic in spec.topics:
        where = f"topics.{topic.name}.config"
        yield from _repeated(where, [entry.name for entry in topic.config])
        for entry in topic.config:
            yield from (f"{where}: {problem}" for problem in _refused(TOPIC_KEYS, entry, topic=True))


def _bad_workload(spec: ScenarioSpec, entry: ConfigEntry) -> Iterator[str]:
    """A field of the workload in `expect.when` that is none, or a value that it cannot have and that so never fits."""
    model = type(spec.workload)
    name = entry.name.removeprefix(WORKLOAD)
    fields = {field.alias or python: python for python, field in model.model_fields.items()}
    if name not in fields:
        near = difflib.get_close_matches(name, fields, n=1)
        yield f"{WHEN}: {entry.name}: no field; " + (
            f"did you mean {near[0]}?" if near else f"allowed: {', '.join(fields)}"
        )
        return
    given: str | int = int(entry.value) if entry.value.isdecimal() else entry.value
    try:
        model.model_validate_json(json.dumps({"topic": spec.workload.topic, name: given}))
    except ValidationError as error:
        yield f"{WHEN}: {explain(error, model)}"


def _refused(known: Mapping[str, Key[Any]], entry: ConfigEntry, *, topic: bool) -> Iterator[str]:
    key = known.get(entry.name)
    if key is None:
        if topic or entry.name not in ALIASES:
            yield refusal(entry.name, entry.value, known, topic=topic)
        return
    try:
        key.read(entry.value)
    except ConfigError as error:
        yield from error.problems


def _repeated(where: str, names: list[str]) -> Iterator[str]:
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{where}: the name {name} is used twice"


def _parts(step: Step) -> Iterator[tuple[str, Part]]:
    if step.fault is not None:
        yield "fault", step.fault
        if step.fault.target is not None:
            yield "target", step.fault.target
        if step.fault.peer is not None:
            yield "peer", step.fault.peer
    if step.send is not None:
        yield "send", step.send
    if step.wait is not None:
        for condition in step.wait.conditions:
            yield f"condition {condition.type}", condition


def _bad_references(
    where: str, part: Part, earlier: set[str], partitions: dict[str, int], brokers: int
) -> Iterator[str]:
    topic: str | None = getattr(part, "topic", None)
    if topic is not None:
        partition: int | None = getattr(part, "partition", None)
        if topic not in partitions:
            yield f"{where}: no topic {topic}, there are {', '.join(partitions)}"
        elif partition is not None and partition >= partitions[topic]:
            yield f"{where}: topic {topic} has partitions 0 to {partitions[topic] - 1}, not {partition}"
    named: list[str | None] = [getattr(part, "step", None), getattr(part, "since", None)]
    for name in [*named, *getattr(part, "other_than", [])]:
        if name is not None and name not in earlier:
            yield f"{where}: {name} is no earlier step"
    broker: int | None = getattr(part, "broker", None)
    for number in [broker, *getattr(part, "brokers", [])]:
        if number is not None and number >= brokers:
            yield f"{where}: broker {number} does not exist, there are 0 to {brokers - 1}"
