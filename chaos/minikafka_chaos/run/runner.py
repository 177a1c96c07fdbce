"""Runs a scenario on a ground: from the document to the verdict, in a run directory that tells all of it.

Whatever happens, three things hold: every fault is in the journal before it is done; every broker is taken down at the
end, also after an interrupt; and trouble of the tool never looks like a fault of the cluster.
"""

from __future__ import annotations

import contextlib
import random
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from minikafka import __version__
from minikafka.protocol.types import TopicPartition
from minikafka.reliability.dead_letters import dead_letter_topic
from rich.markup import escape

from minikafka_chaos.errors import NotSupported, ToolTrouble
from minikafka_chaos.grounds import Ground
from minikafka_chaos.load.clients import GroupSettings, Load, PartitionView, Stoppable, TopicPlan, WorkloadGroup
from minikafka_chaos.load.dead_letters import record_dead_letters
from minikafka_chaos.load.load import LoadSettings, ProducerSettings, Tally
from minikafka_chaos.record import history as history_file
from minikafka_chaos.record import journal as journal_file
from minikafka_chaos.record.history import FAIL, INFO, OK, HistoryError, HistoryWriter
from minikafka_chaos.record.journal import Journal
from minikafka_chaos.run.abort import recorded_runner
from minikafka_chaos.run.conditions import RunState
from minikafka_chaos.run.interrupts import Interrupts
from minikafka_chaos.run.open_faults import OpenFaults
from minikafka_chaos.run.place import Place
from minikafka_chaos.run.replica_evidence import TopicEvidence, write_replicas
from minikafka_chaos.run.reporter import JUDGING, ProgressReporter, Silent
from minikafka_chaos.run.steady_state import SteadyState
from minikafka_chaos.run.story import Story, outcome_counts
from minikafka_chaos.scenario.document import as_config
from minikafka_chaos.scenario.faults import Ledger, Ledgers
from minikafka_chaos.scenario.scenario import ClaimSpec, Delivery, GroupCommit, Mode, Scenario, TailReaders, TopicSpec
from minikafka_chaos.verdict.claims import LINE_KIND, NEVER, Claim, Terms
from minikafka_chaos.verdict.evidence import REPLICAS_FILE
from minikafka_chaos.verdict.expectation import AS_EXPECTED, difference
from minikafka_chaos.verdict.verdict import Outcome, Verdict, judge_run

POLL_S = 0.05
TOPIC_TIMEOUT_S = 30.0
DRAIN_TIMEOUT_S = 20.0
"""How long the load may take to learn its last outcomes once everything is healed."""

METRICS_FOLDER = "metrics"
EVENTS_FOLDER = "events"


@dataclass(slots=True)
class RunResult:
    """What a run leaves behind."""

    directory: Path
    verdict: Verdict
    fault_times: list[tuple[str, float]] = field(default_factory=list)
    """(step, unix time) of every fault, when it had been done."""


def new_run_directory(root: Path, name: str) -> Path:
    """Make a directory for a run: `root/<UTC time>-<name>`. Raises ToolTrouble where it cannot be made."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    for attempt in range(1, 100):
        directory = root / (f"{stamp}-{name}" if attempt == 1 else f"{stamp}-{name}-{attempt}")
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise ToolTrouble(f"{directory}: {error.strerror}") from error
        return directory
    raise ToolTrouble(f"{root}: found no free name for the run {stamp}-{name}")


def run_scenario(
    scenario: Scenario,
    ground: Ground,
    directory: Path,
    *,
    seed: int | None = None,
    reporter: ProgressReporter | None = None,
    ledger: Ledger | None = None,
    place: Place | None = None,
    after_story: Callable[[], object] | None = None,
) -> RunResult:
    """Run a scenario and judge it. `seed` overrides the scenario's; `ledger` is told of every fault, after the journal;
    `place` is what people call the place that the directory is in. `after_story` is called when all steps are done, while
    the load goes on for what is left of its time.

    Raises NotSupported, before anything is started, when the ground cannot do what is asked for. Everything else that
    goes wrong ends in the verdict: Error for trouble of the tool, Aborted for an interrupt (SIGINT or SIGTERM).
    """
    for line in [*_lacking(scenario, ground), *ground.refusals(scenario.spec)]:
        raise NotSupported(f"scenario {scenario.name}: {line}")
    path = directory / journal_file.FILE_NAME
    on_record = contextlib.nullcontext() if ground.replayable else recorded_runner(directory)
    with on_record, contextlib.closing(Journal(path, ground.clock.time, durable=not ground.replayable)) as journal:
        ledgers = Ledgers([journal] if ledger is None else [journal, ledger])
        run = _Run(
            scenario,
            ground,
            place or Place(directory, f"the file system of {directory}"),
            directory,
            journal,
            ledgers,
            scenario.spec.seed if seed is None else seed,
            reporter,
            after_story,
        )
        with run.interrupts.watched():
            verdict = run.run()
        journal.write("verdict", verdict.as_json())
    return RunResult(directory, verdict, run.fault_times)


def _lacking(scenario: Scenario, ground: Ground) -> Iterator[str]:
    """Return what the steps ask for that the ground cannot do, a line each."""
    for step in scenario.spec.steps:
        for verb in step.fault.verbs if step.fault is not None else ():
            if (reason := ground.lacks.get(verb)) is not None:
                yield f"step {step.name}: the {ground.name} ground cannot {verb.value}: {reason}"


class _Run:
    """One run of one scenario."""

    def __init__(
        self,
        scenario: Scenario,
        ground: Ground,
        place: Place,
        directory: Path,
        journal: Journal,
        ledger: Ledger,
        seed: int,
        reporter: ProgressReporter | None,
        after_story: Callable[[], object] | None,
    ) -> None:
        self.scenario = scenario
        self.spec = scenario.spec
        self.ground = ground
        self.clock = ground.clock
        self.clients = ground.clients
        self.place = place
        self.directory = directory
        self.journal = journal
        self.ledger = ledger
        self.seed = seed
        self.reporter: ProgressReporter = reporter or Silent()
        self.after_story = after_story
        self.faults = OpenFaults(ground, ledger, self.reporter.say)
        self.interrupts = Interrupts()
        self.tally = Tally()
        self.rng = random.Random(seed)
        topics = [topic.name for topic in self.spec.topics]
        self.world = RunState(ground, self.clients.view(), self.tally, self.rng, topics)
        self.problems: list[str] = []
        self.fault_times: list[tuple[str, float]] = []
        self.step_times: dict[str, float] = {}
        self.placement: dict[str, dict[TopicPartition, PartitionView]] = {}
        """Where the replicas were when the final read was over, by topic."""
        self._load: Load | None = None
        self._group: WorkloadGroup | None = None
        steady = self.spec.steady_state
        self.steady = None if steady is None else SteadyState(steady, self.world, journal, self._until)

    def run(self) -> Verdict:
        document = self.scenario.as_json()
        about = {"ground": self.ground.name, "seed": self.seed, "version": __version__}
        self.journal.write("scenario", {"scenario": document, **about})
        try:
            return self._run_and_judge()
        except KeyboardInterrupt:
            return Verdict.without_judgement(Outcome.ABORTED, "interrupted")
        except Exception as error:
            if self.interrupts.raised:
                return Verdict.without_judgement(Outcome.ABORTED, "interrupted")
            if (why := self.place.problem(error)) is not None:
                return Verdict.without_judgement(Outcome.ERROR, why)
            if isinstance(error, (ToolTrouble, OSError)):
                return Verdict.without_judgement(Outcome.ERROR, " ".join(str(error).split()))
            self.journal.note("internal error", traceback=traceback.format_exc())
            return Verdict.without_judgement(
                Outcome.ERROR, f"internal error: {type(error).__name__}: {error} (see the journal)"
            )

    def _run_and_judge(self) -> Verdict:
        observer: Stoppable | None = None
        try:
            self._bring_up()
            observer = self.ground.observer(self.directory / METRICS_FOLDER)
            if observer is not None:
                observer.start()
            self._make_topics()
            with HistoryWriter(self.directory / history_file.FILE_NAME, self.clock.time) as history:
                self._under_load(history)
                self._read_back(history)
            self._note_placement()
        finally:
            with self.interrupts.held():
                self._take_down(observer)
        self._write_replicas()
        return self._judge()

    # -- up and down -------------------------------------------------------------------------------------------------

    def _bring_up(self) -> None:
        count = self.spec.cluster.brokers
        self.reporter.status(f"starting {count} brokers")
        began = self.clock.monotonic()
        self.ground.up(self.spec, self.seed)
        took = self.clock.monotonic() - began
        self.journal.note("cluster is up", brokers=count, bootstrap=self.ground.address, seconds=round(took, 3))
        self.reporter.say(f"{count} brokers are up at {self.ground.address} (after {took:.1f} s)")

    def _make_topics(self) -> None:
        for topic in self.spec.topics:
            assignments = sorted(topic.replica_assignments, key=lambda assignment: assignment.partition)
            plan = TopicPlan(
                topic.name,
                topic.partitions,
                topic.replication_factor,
                [assignment.replicas for assignment in assignments] or None,
                as_config(topic.config),
            )
            self.clients.create_topic(plan, TOPIC_TIMEOUT_S)

    def _take_down(self, observer: Stoppable | None) -> None:
        self.reporter.status("stopping the brokers")
        self.faults.close()
        if observer is not None:
            observer.stop()
            if observer.failure is not None:
                self.journal.note(f"metrics are incomplete: {observer.failure!r}")
        began = self.clock.monotonic()
        killed: list[int] = []
        is_down = self._torn_down(lambda: killed.extend(self.ground.down()))
        # What was fetched of the other brokers is evidence, whatever went wrong with one.
        if not self._torn_down(lambda: self.ground.collect_events(self.directory / EVENTS_FOLDER)) or not is_down:
            return
        took = self.clock.monotonic() - began
        self.journal.note("cluster is down", killed=killed, seconds=round(took, 3))
        hard = f", brokers {killed} did not stop by themselves and were killed" if killed else ""
        self.reporter.say(f"brokers are down (took {took:.1f} s{hard})")

    def _torn_down(self, part: Callable[[], object]) -> bool:
        """Do one part of taking the brokers down; whether it succeeded."""
        try:
            part()
        except (ToolTrouble, OSError) as error:
            if (why := self.place.problem(error)) is not None:
                self.problems.append(why)
            self.reporter.say(f"[yellow]teardown: {escape(why or str(error))}[/]")
            self.journal.note(f"teardown: {why or error}")
            return False
        return True

    # -- the story ---------------------------------------------------------------------------------------------------

    def _under_load(self, history: HistoryWriter) -> None:
        began = self.clock.monotonic()
        with self._load_and_tail(history):
            story = Story(
                self.spec,
                self.world,
                self.clients.script(self._client(), history, self.tally),
                self.journal,
                self.faults,
                self.reporter,
                self._until,
                self.rng,
            )
            self.step_times, self.fault_times = story.step_times, story.fault_times
            problem = self._run_story(story)
            if self.after_story is not None:
                self.after_story()
            if problem is not None:
                self.problems.append(problem)
            elif self._load is not None:
                left = self.spec.workload.duration_seconds - (self.clock.monotonic() - began)
                self._until(lambda: False, max(0.0, left))
            self._heal()
            if self.steady is not None and not self.problems and (problem := self.steady.wait("after the story")):
                self.problems.append(problem)

    def _run_story(self, story: Story) -> str | None:
        """The story, if the cluster is in its steady state; watched meanwhile. Why it was not told to its end, or None."""
        if self.steady is None:
            return story.run()
        if (problem := self.steady.wait("before any fault")) is not None:
            self.reporter.say(f"[yellow]{escape(problem)}[/]: the story is left out")
            return problem
        watcher = self.steady.watcher()
        if watcher is None:
            return story.run()
        watcher.start()
        try:
            return story.run()
        finally:
            self.problems += watcher.stop()

    @contextlib.contextmanager
    def _load_and_tail(self, history: HistoryWriter) -> Iterator[None]:
        """Producers and the following reader around the body; drained when it ends well, dropped when it does not."""
        tail: Stoppable | None = None
        if self.spec.workload.tail_readers is TailReaders.ONE:
            tail = self.clients.tail(self._partitions(self.spec.workload.topic), history)
        if self.spec.workload.mode is Mode.STEADY:
            self._load = self.clients.load(self._load_settings(), history, self.tally)
        if self.spec.workload.group_members:
            partitions = self._partitions(self.spec.workload.topic)
            self._group = self.world.group = self.clients.group(self._group_settings(), partitions, history)
        patience_s = 0.0
        try:
            if tail is not None:
                tail.start()
            if self._load is not None:
                self._load.start()
            if self._group is not None:
                self._group.start()
            yield
            patience_s = DRAIN_TIMEOUT_S
        finally:
            with self.interrupts.held():
                if self._load is not None:
                    self._load.stop(patience_s)
                if self._group is not None:
                    if patience_s:
                        self._wait_for_group()
                    self._group.stop()
                if tail is not None:
                    tail.stop()
        for part in (self._load, tail, self._group):
            if part is not None and part.failure is not None:
                raise ToolTrouble(f"{type(part).__name__} ended: {part.failure!r}") from part.failure

    def _client(self) -> ProducerSettings:
        workload = self.spec.workload
        return ProducerSettings(
            acks=workload.acks.kafka,
            idempotence=workload.delivery is Delivery.IDEMPOTENT,
            max_in_flight=workload.max_in_flight,
            linger_ms=workload.linger_millis,
            delivery_timeout_ms=workload.delivery_timeout_millis,
        )

    def _wait_for_group(self) -> None:
        """What a group has not come to cannot be judged."""
        deadline = self.spec.recovery.read_deadline_seconds
        if not self._until(lambda: self.world.group_at_end().holds, deadline):
            seen = self.world.group_at_end().seen
            self.problems.append(f"group {self.ground.group} was not at the end {deadline} s after the load: {seen}")

    def _group_settings(self) -> GroupSettings:
        workload = self.spec.workload
        return GroupSettings(
            self.ground.group,
            workload.topic,
            workload.group_members,
            workload.group_commit is GroupCommit.BEFORE_PROCESSING,
            workload.group_reset.value.lower(),
            workload.group_session_timeout_millis,
            workload.group_poison_every,
            workload.group_dead_letters.value,
        )

    def _load_settings(self) -> LoadSettings:
        workload = self.spec.workload
        return LoadSettings(
            topic=workload.topic,
            partitions=self.spec.topic(workload.topic).partitions,
            producers=workload.producers,
            rate_per_s=workload.rate_per_second,
            keys=workload.keys,
            record_bytes=workload.record_bytes,
            client=self._client(),
        )

    def _partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, partition) for partition in range(self.spec.topic(topic).partitions)]

    def _until(self, holds: Callable[[], bool], deadline_s: float) -> bool:
        """Poll until it holds or the time is over, with progress; raises ToolTrouble when the load has died."""
        deadline = self.clock.monotonic() + deadline_s
        while not holds():
            self.interrupts.check()
            if self.clock.monotonic() >= deadline:
                return False
            if self._load is not None and self._load.failure is not None:
                raise ToolTrouble(f"the load ended: {self._load.failure!r}") from self._load.failure
            if self._group is not None and self._group.failure is not None:
                raise ToolTrouble(f"the consumer group ended: {self._group.failure!r}") from self._group.failure
            if self.faults.failure is not None:
                raise ToolTrouble(f"a fault could not be undone: {self.faults.failure}") from self.faults.failure
            outcomes = {outcome: self.tally.total(outcome) for outcome in (OK, FAIL, INFO)}
            self.reporter.status(f"{self.tally.total_sent:,} sent: {outcome_counts(outcomes)}")
            self.clock.sleep(POLL_S)
        return True

    # -- the end -----------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        left = self.faults.close()
        with self.journal.action("final-heal", "Heal", "all") as action:
            done = [line for handle in left for line in self.ground.recover(handle)] + self.ground.heal_all()
            action.detail = ", ".join(done) or "nothing to heal"
        for handle in left:
            self.ledger.recovered(handle, "final heal")
        if done:
            self.reporter.say(f"final heal: {', '.join(done)}")
        for topic in self.spec.topics:
            self._wait_for_full_isr(topic.name)

    def _wait_for_full_isr(self, topic: str) -> None:
        began = self.clock.monotonic()
        deadline = self.spec.recovery.full_isr_deadline_seconds
        held = self._until(lambda: self.world.full_isr(topic).holds, deadline)
        seen = self.world.full_isr(topic).seen
        took = self.clock.monotonic() - began
        self.journal.write("check", {"step": "full-isr", "ok": held, "seen": seen, "seconds": round(took, 3)})
        if held:
            self.reporter.say(f"{topic} is in full ISR (after {took:.1f} s)")
        else:
            self.problems.append(f"{topic} was not in full ISR {deadline} s after the final heal: {seen}")

    def _read_back(self, history: HistoryWriter) -> None:
        def progress(read: int, there: int) -> None:
            self.reporter.status(f"reading back: {read:,} of {there:,}")

        began = self.clock.monotonic()
        letters = dead_letter_topic(self.spec.workload.topic) if self.spec.workload.group_poison_every else None
        everywhere = [tp for topic in self.spec.topics if topic.name != letters for tp in self._partitions(topic.name)]
        deadline_s = self.spec.recovery.read_deadline_seconds
        found = self.clients.read_back(everywhere, history, deadline_s, progress)
        took = self.clock.monotonic() - began
        self.journal.note("read back", records=found.records, complete=found.complete, seconds=round(took, 3))
        self.reporter.say(f"read back {found.records:,} records (took {took:.1f} s)")
        if not found.complete:
            places = ", ".join(map(str, found.missing))
            self.problems.append(f"the final reader did not come to the end of {places} in {deadline_s} s")
        if letters is not None:
            self._read_dead_letters(letters, history)

    def _read_dead_letters(self, topic: str, history: HistoryWriter) -> None:
        """They are no records of the load: each tells of one that is in another topic."""
        deadline_s = self.spec.recovery.read_deadline_seconds
        try:
            found = self.clients.committed_records(self._partitions(topic), deadline_s)
        except ToolTrouble as error:
            self.problems.append(f"dead letters: {error}")
            return
        self.problems += record_dead_letters(found, self.ground.group, history)
        self.journal.note("dead letters", topic=topic, records=len(found))
        self.reporter.say(f"read {len(found):,} dead letters")

    def _note_placement(self) -> None:
        for topic in self.spec.topics:
            self._note_placement_of(topic)

    def _note_placement_of(self, topic: TopicSpec) -> None:
        """Who is in sync now is who must have everything; while one is out, nobody could say that all have it."""
        view = self.clients.view()
        found: list[dict[TopicPartition, PartitionView]] = []

        def full() -> bool:
            layout = view.partitions(topic.name)
            if layout is not None and len(layout) == topic.partitions:
                found[:] = [layout]
            return bool(found) and all(partition.full for partition in found[0].values())

        patience_s = 0 if self.problems else self.spec.recovery.full_isr_deadline_seconds
        held = self._until(full, patience_s)
        if not found:
            self.problems.append(f"nobody told where the replicas of {topic.name} are")
            return
        self.placement[topic.name] = found[0]
        if not held and not self.problems:
            self.problems.append(f"{topic.name} was not in full ISR after the final read")

    def _write_replicas(self) -> None:
        self.reporter.status("reading the replicas' logs")
        topics = [
            TopicEvidence(
                topic.name, self._replication_factor(topic), self.placement[topic.name], as_config(topic.config)
            )
            for topic in self.spec.topics
            if topic.name in self.placement
        ]
        events = self.directory / EVENTS_FOLDER
        self.problems += write_replicas(self.directory, topics, self.ground.replica_log, events)

    @staticmethod
    def _replication_factor(topic: TopicSpec) -> int:
        assigned = [len(assignment.replicas) for assignment in topic.replica_assignments]
        return min(assigned, default=topic.replication_factor)

    def _judge(self) -> Verdict:
        self.reporter.status(JUDGING)
        claims = [self._claim(spec) for spec in self.spec.claims]
        files = [history_file.FILE_NAME, REPLICAS_FILE]
        self.journal.write(LINE_KIND, Terms(claims, self.problems, files).as_json())
        try:
            verdict = judge_run(self.directory)
        except HistoryError as error:
            return Verdict.without_judgement(Outcome.ERROR, str(error))
        for finding in verdict.findings:
            self.journal.write("check", finding.as_json())
        if (expected := self.spec.expected) is not None:
            unlike = difference(expected, verdict)
            fields = {"expectation": expected.model_dump(mode="json", by_alias=True, exclude_none=True)}
            self.journal.write("check", {**fields, "held": unlike is None, "detail": unlike or AS_EXPECTED})
        return verdict

    def _claim(self, spec: ClaimSpec) -> Claim:
        since = None if spec.since is None else self.step_times.get(spec.since, NEVER)
        return Claim(spec.name, spec.type.value, since, spec.limit_millis)
