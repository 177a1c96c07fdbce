"""The terminal: every replica in a table, events as they come, keys for the verbs by hand. The only place with textual."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Static

from minikafka_chaos.errors import BadScenario, ToolTrouble
from minikafka_chaos.session.errors import VerbRefused
from minikafka_chaos.watch.evidence import Evidence
from minikafka_chaos.watch.lines import ORDINARY, Line
from minikafka_chaos.watch.live import ClusterWatcher, LiveCluster
from minikafka_chaos.watch.recording import Recording, WatchedStep
from minikafka_chaos.watch.state import ClusterState, WatchedBroker, WatchedPartition, WatchedReplica, is_internal
from minikafka_chaos.watch.verbs import HEAL, VERBS, CarryOut

DRAW_S = 0.1
LINES_SHOWN = 200
CELLS = 16
"""Records of a log that are drawn: the last."""
EPOCHS = 3
"""Of a log's leader epochs as many are told: the last."""
PLAY_S_MIN, PLAY_S_MAX = 0.15, 1.2
"""Of the time between two steps, as a replay has it."""
EPOCH_STYLES = ("blue", "yellow", "cyan", "magenta", "green", "red")
TONE_STYLES = {
    "good": "green",
    "bad": "bold red",
    "warning": "yellow",
    "fault": "magenta",
    "ordinary": "dim",
    "plain": "",
}
NOTABLE = ("good", "bad", "warning", "fault")
CONDITION_STYLES = {
    "up": "green",
    "dead": "bold red",
    "paused": "yellow",
    "starting": "blue",
    "not ready": "yellow",
    "unknown": "dim",
}
DONE = "green"
ANSWER_S = 5.0
"""How long it is shown that a verb was carried out."""


class Answer(NamedTuple):
    """What became of a verb."""

    line: str
    style: str


class WatchScreen(App[None]):
    """Shows a recording at one of its moments; with a live cluster the newest one, unless somebody looks back."""

    CSS = """
    #title { height: 1; text-style: bold; }
    #brokers { height: auto; max-height: 4; }
    #now { height: 2; }
    #tables { height: 3fr; }
    #events { height: 2fr; border-top: solid $primary; }
    #verbs { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "Back"),
        Binding("right", "step(1)", "On"),
        Binding("shift+left", "notable(-1)", show=False),
        Binding("shift+right", "notable(1)", show=False),
        Binding("space", "play", "Play"),
        Binding("home", "first", "First", show=False),
        Binding("end", "last", "Last"),
        Binding("up", "scroll(-3)", show=False),
        Binding("down", "scroll(3)", show=False),
        Binding("i", "internal", "Internal"),
        Binding("a", "ordinary", "Acknowledgements"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        title: str,
        recording: Recording,
        cluster: LiveCluster | None = None,
        carry_out: CarryOut | None = None,
    ) -> None:
        super().__init__()
        self.title = title
        self.recording = recording
        self.at = 0 if cluster is None else len(recording.steps)
        self.answer = Answer("", "")
        self.target: int | None = None
        """The broker that verbs are for."""
        self._cluster = cluster
        self._carry_out = carry_out
        self._evidence: queue.SimpleQueue[list[Evidence] | Answer] = queue.SimpleQueue()
        self._watcher = None if cluster is None else ClusterWatcher(cluster, self._evidence.put, self._fail)
        self._playing = False
        self._busy = False
        self._dirty = True
        self._shows_internal = False
        self._shows_ordinary = False

    def compose(self) -> ComposeResult:
        """Lay out the screen, from top to bottom."""
        yield Static(Text(self.title or ""), id="title")
        yield Static(id="brokers")
        yield Static(id="now")
        with VerticalScroll(id="tables", can_focus=False):
            yield Static(id="replicas")
        with VerticalScroll(id="events", can_focus=False):
            yield Static(id="lines")
        if self._carry_out is not None:  # on a line of their own: with the other keys they are too long for 80 columns
            keys = {"b": "Broker", **{verb.key: verb.words for verb in VERBS.values()}}
            yield Static(
                Text("  ").join([Text.assemble((key, "bold"), f" {words}") for key, words in keys.items()]), id="verbs"
            )
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Begin to look, and to draw."""
        if self._carry_out is not None:
            for name, verb in VERBS.items():
                self.bind(verb.key, f"verb('{name}')", show=False)
            self.bind("b", "target", show=False)
            for digit in range(10):
                self.bind(f"{digit}", f"target({digit})", show=False)
        if self._watcher is not None:
            self._watcher.start()
        self.set_interval(DRAW_S, self.draw)

    def on_unmount(self) -> None:
        """Look no more."""
        if self._watcher is not None:
            self._watcher.stop()

    def _fail(self, line: str) -> None:
        self._evidence.put(Answer(line, "bold red"))

    def _forget(self, answer: Answer) -> None:
        if self.answer is answer:
            self.answer = Answer("", "")
            self._dirty = True

    # -- what is new -----------------------------------------------------------------------------------------------------

    def take_new(self) -> None:
        """Take what the watcher and the verbs have brought since the last time."""
        while not self._evidence.empty():
            found = self._evidence.get()
            self._dirty = True
            if isinstance(found, Answer):
                self.answer = found
                self._busy = False
                if found.style == DONE:  # what went wrong stays until the next verb
                    self.set_timer(ANSWER_S, partial(self._forget, found))
                continue
            following, forgotten = self.at == len(self.recording.steps), self.recording.forgotten
            for each in found:
                self.recording.take(each)
            gone = self.recording.forgotten - forgotten
            self.at = len(self.recording.steps) if following else max(self.at - gone, 0)

    def draw(self) -> None:
        """Draw what has changed."""
        self.take_new()
        if not self._dirty:
            return
        self._dirty = False
        state = self.recording.state(self.at)
        if self.target not in state.brokers:
            self.target = state.brokers[0] if state.brokers else None
        self.query_one("#brokers", Static).update(self._brokers(state))
        self.query_one("#now", Static).update(self._now())
        self.query_one("#replicas", Static).update(Group(_replicas(state, self._shows_internal), _groups(state)))
        self.query_one("#lines", Static).update(self._lines())
        self.query_one("#events", VerticalScroll).scroll_end(animate=False)

    def _brokers(self, state: ClusterState) -> Text:
        parts = []
        for broker in state.brokers:
            found = state.broker(broker)
            chosen = self._carry_out is not None and broker == self.target
            name = Text(f"{'▸' if chosen else ' '}broker {broker} ", "bold underline" if chosen else "bold")
            condition = Text(found.condition.value, CONDITION_STYLES[found.condition])
            parts.append(Text.assemble(name, condition, _facts(found)))
        return Text("   ").join(parts)

    def _now(self) -> Text:
        step = self.recording.steps[self.at - 1] if self.at else None
        of = f"step {self.at + self.recording.forgotten} of {len(self.recording.steps) + self.recording.forgotten}"
        when = "" if step is None else f", +{step.time - self.recording.steps[0].time:.3f} s"
        moved = step is not None and step.line is None
        return Text.assemble(
            (f"{'▶ ' if self._playing else ''}{of}{when}", "dim"),
            (f"   {self.answer.line}\n", self.answer.style),
            Text("offsets have moved", "dim") if moved else _line(step),
        )

    def _lines(self) -> Text:
        found: list[Text] = []
        for step in reversed(self.recording.steps[: self.at]):
            if step.line is None or not self._shows(step.line):
                continue
            time = step.time - self.recording.steps[0].time
            found.append(Text.assemble((f"{time:9.3f} ", "dim"), _line(step)))
            if len(found) == LINES_SHOWN:
                break
        return Text("\n").join(reversed(found))

    def _shows(self, line: Line) -> bool:
        ordinary = line.tone == ORDINARY and not self._shows_ordinary
        return not ordinary and (self._shows_internal or not line.internal)

    # -- keys ------------------------------------------------------------------------------------------------------------

    def go(self, at: int) -> None:
        """Show the state after so many steps."""
        self.at = min(max(at, 0), len(self.recording.steps))
        self._dirty = True

    def action_step(self, way: int) -> None:
        """Go a step back or on."""
        self._playing = False
        self.go(self.at + way)

    def action_notable(self, way: int) -> None:
        """Go to the next step, or the last one, that a person should look at."""
        self._playing = False
        steps, at = self.recording.steps, self.at + way
        while 0 < at < len(steps) and not self._is_notable(steps[at - 1]):
            at += way
        self.go(at)

    def _is_notable(self, step: WatchedStep) -> bool:
        return step.line is not None and step.line.tone in NOTABLE and self._shows(step.line)

    def action_first(self) -> None:
        """Go to the beginning."""
        self._playing = False
        self.go(0)

    def action_last(self) -> None:
        """Go to the end; of a live cluster, and stay there."""
        self._playing = False
        self.go(len(self.recording.steps))

    def action_scroll(self, lines: int) -> None:
        """Move the table of replicas."""
        self.query_one("#tables", VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_internal(self) -> None:
        """Show topics of the brokers' own, or leave them out."""
        self._shows_internal = not self._shows_internal
        self._dirty = True

    def action_ordinary(self) -> None:
        """Show acknowledgements among the events, or leave them out."""
        self._shows_ordinary = not self._shows_ordinary
        self._dirty = True

    def action_play(self) -> None:
        """Play on from here, or stop; from the beginning where this is the end."""
        self._playing = not self._playing
        if self._playing and self.at >= len(self.recording.steps):
            self.go(0)
        self._dirty = True
        self._play_on()

    def _play_on(self) -> None:
        if not self._playing:
            return
        if self.at >= len(self.recording.steps):
            self._playing = False
            self._dirty = True
            return
        self.go(self.at + 1)
        steps = self.recording.steps
        gap = steps[self.at].time - steps[self.at - 1].time if self.at < len(steps) else 0.0
        self.set_timer(min(max(gap, PLAY_S_MIN), PLAY_S_MAX), self._play_on)

    def action_target(self, broker: int | None = None) -> None:
        """Choose the broker that verbs are for: the one of this number, or the next."""
        brokers = self.recording.newest.brokers
        if broker is None and brokers:
            place = brokers.index(self.target) + 1 if self.target in brokers else 0
            self.target = brokers[place % len(brokers)]
        elif broker in brokers:
            self.target = broker
        self._dirty = True

    def action_verb(self, verb: str) -> None:
        """Have a verb carried out, beside what is shown meanwhile; one at a time."""
        carry_out = self._carry_out
        if carry_out is None or (self.target is None and verb != HEAL):
            return
        if self._busy:
            self.answer = Answer("the verb before it is not done yet", "yellow")
            self._dirty = True
            return
        given = {} if verb == HEAL else {"broker": self.target}
        words = verb.replace("_", " ") + ("" if verb == HEAL else f" of broker {self.target}")
        self._busy, self._dirty = True, True
        self.answer = Answer(f"{words} …", "dim")
        self.run_worker(lambda: self._evidence.put(_carried_out(carry_out, verb, given, words)), thread=True)


def _carried_out(carry_out: CarryOut, verb: str, given: Mapping[str, Any], words: str) -> Answer:
    try:
        carry_out(verb, given)
    except (VerbRefused, BadScenario) as error:
        return Answer(str(error), "yellow")
    except ToolTrouble as error:
        return Answer(f"{words}: {error}", "bold red")
    except Exception as error:  # whoever pressed the key must hear of it
        return Answer(f"{words}: {type(error).__name__}: {' '.join(str(error).split())}", "bold red")
    return Answer(f"{words}: done", DONE)


def _facts(broker: WatchedBroker) -> str:
    facts = [
        *(["controller"] if broker.controller else []),
        *(["fenced"] if broker.fenced else []),
        *broker.faults,
    ]
    return f" ({', '.join(facts)})" if facts else ""


def _line(step: WatchedStep | None) -> Text:
    if step is None or step.line is None:
        return Text("")
    return Text.assemble((f"{step.line.source}: ", "bold"), (step.line.text, TONE_STYLES[step.line.tone]))


def _replicas(state: ClusterState, internal: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold dim")
    for name in ("partition", "epoch", "ISR", "replica", "LEO", "HW", "flushed", "epochs", "log"):
        table.add_column(name, justify="right" if name in ("epoch", "LEO", "HW", "flushed") else "left", no_wrap=True)
    for where in state.partitions:
        if is_internal(where.topic) and not internal:
            continue
        partition = state.partition(where)
        isr = "unknown" if partition.isr is None else ",".join(map(str, partition.isr)) or "empty"
        first = [str(where), _shown(partition.leader_epoch if partition.leader_epoch >= 0 else None), isr]
        end = max((max(each.log_end or 0, each.cut_end or 0) for _, each in state.replicas(where)), default=0)
        for broker, replica in state.replicas(where):
            table.add_row(*first, *_replica(state, partition, broker, replica, end))
            first = ["", "", ""]
    return table


def _replica(
    state: ClusterState, partition: WatchedPartition, broker: int, replica: WatchedReplica, end: int
) -> list[str | Text]:
    condition = state.broker(broker).condition.value
    if condition in ("dead", "paused"):
        words, style = condition, CONDITION_STYLES[condition]
    elif broker == partition.leader:
        words, style = "leader", "bold green"
    elif partition.isr is not None and broker not in partition.isr:
        words, style = "out of sync", "yellow"
    else:
        words, style = replica.role or "no role yet", ""
    crown = "♛ " if broker == partition.leader else "  "
    chain = ", ".join(f"{'?' if epoch < 0 else epoch} from {offset}" for epoch, offset in replica.epochs[-EPOCHS:])
    chain = f"…, {chain}" if len(replica.epochs) > EPOCHS else chain
    numbers = [_shown(each) for each in (replica.log_end, replica.high_watermark, replica.flushed)]
    return [Text(f"{crown}{broker} {words}", style), *numbers, chain, _cells(replica, end)]


def _cells(replica: WatchedReplica, end: int) -> Text:
    """Draw the last records: full where committed, shaded where not, crossed where they were cut off; the rest is empty."""
    text = Text()
    for offset in range(max(end - CELLS, 0), end):
        if offset < replica.log_start or offset >= max(replica.log_end or 0, replica.cut_end or 0):
            text.append(" ")
        elif offset >= (replica.log_end or 0):
            text.append("✗", "red")
        else:
            epoch = replica.epoch_at(offset)
            style = "white" if epoch < 0 else EPOCH_STYLES[epoch % len(EPOCH_STYLES)]
            text.append("█" if offset < (replica.high_watermark or 0) else "▒", style)
    return text


def _groups(state: ClusterState) -> Table | Text:
    if not state.groups:
        return Text("")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold dim")
    for name in ("consumer group", "members", "partition", "committed"):
        table.add_column(name, justify="right" if name in ("members", "committed") else "left")
    for name in state.groups:
        group = state.group(name)
        shown = Text(name.encode("unicode_escape").decode() if not name.isprintable() else name)
        for where, offset in group.committed or ((None, None),):
            table.add_row(shown, _shown(group.members), "" if where is None else str(where), _shown(offset))
    return table


def _shown(number: int | None) -> str:
    return "–" if number is None else str(number)
