"""Events of brokers from the logs of their containers, as the kubelet has them and as the chart minikafka-logs keeps them.

Both have ``NAMESPACE_POD_UID/CONTAINER/RESTART.log``, and the kubelet what it rotated beside it (``RESTART.log.TIME``, gzip but
for the latest). A line is ``TIME STREAM TAGS TEXT`` (the CRI's logging format,
https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md): TIME in RFC 3339 with
nanoseconds, STREAM stdout or stderr, TAGS begin with F for the end of a line and P for a part of one.

What is no event is counted, by why: see `PodLogFolder`.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

FOLDER: Final = re.compile(r"(?P<namespace>[a-z0-9][-a-z0-9]*)_(?P<pod>[a-z0-9][-.a-z0-9]*)_(?P<uid>[-A-Za-z0-9]+)")
FILE: Final = re.compile(r"(?P<restart>\d+)\.log(?P<rotated>\..+)?")
PREFIX: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d) (?P<stream>stdout|stderr) (?P<tag>[FP])(:\S*)? "
)
LINE_MAX: Final = 1 << 20
"""Characters of one line that are kept. An event is far below; a line that never ends is another program's."""

LATEST: Final = 1e11  # Unix seconds
BROKER_MAX: Final = (1 << 31) - 1


class BrokerEvent(NamedTuple):
    """One event: when it was, of which broker, and its line."""

    time: float
    broker: int
    line: str


class Life(NamedTuple):
    """One life of a container: a restart is another one."""

    folder: str
    container: str
    restart: int


@dataclass(slots=True)
class PodLogFolder:
    """What is in a folder of pod logs. Lines that are no event are counted, each once, by the first of these that fits."""

    events: dict[str, BrokerEvent] = field(default_factory=dict)
    """Each event once, by its identity."""
    logs: int = 0
    """Lives of containers that have a log."""
    repeated: int = 0
    """Lines that came twice: a collector that was killed repeats what it is not sure of."""
    damaged: int = 0
    """Lines without the prefix, and whatever looks like an event and is cut short."""
    unfinished: int = 0
    """Parts of lines whose end never came."""
    other: int = 0
    """Whole lines that a broker, or another program, wrote and that are no events."""
    unreadable: list[str] = field(default_factory=list)
    """Files that could not be read to their end, and why."""

    def summary(self) -> str:
        """Return what was left out, in words; empty when nothing was."""
        counts = {
            "damaged": self.damaged,
            "without an end": self.unfinished,
            "repeated": self.repeated,
            "no events": self.other,
        }
        left = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        files = "; ".join(self.unreadable)
        return ". ".join(
            part
            for part in (f"Lines left out: {left}" if left else "", f"Not read to the end: {files}" if files else "")
            if part
        )


def identity(event: Mapping[str, Any]) -> str:
    """Return what makes two events one: all that they say.

    A broker cannot emit two events with the same time (microseconds): to emit one takes longer. So equal lines, from its
    volume and from its pod's log, are one event that was written twice.
    """
    return json.dumps(event, separators=(",", ":"), sort_keys=True)


def event_of(text: str) -> dict[str, Any] | None:
    """The event that a line is, or None. Which events there are is not asked: a newer broker may have more."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("event"), str):
        return None
    time: Any = found.get("time")
    broker: Any = found.get("broker")
    if type(time) not in (int, float) or not 0 <= time <= LATEST:
        return None
    return found if type(broker) is int and 0 <= broker <= BROKER_MAX else None


def read(folders: Iterable[Path], pods: str = "*/*") -> PodLogFolder:
    """The events in the logs of some pods. `pods` is NAMESPACE/POD with the wildcards of fnmatch.

    A log that two folders have (a collector's copy, and what the kubelet still has) is read twice, its events are there once.
    Raises OSError when a folder cannot be listed.
    """
    found = PodLogFolder()
    for folder in folders:
        for files in _lives(folder, pods).values():
            found.logs += 1
            _read_life(files, found)
    return found


def _lives(folder: Path, pods: str) -> dict[Life, list[Path]]:
    """The files of each life, in the order in which they were written."""
    found: dict[Life, list[tuple[bool, str, Path]]] = defaultdict(list)
    for pod in sorted(folder.iterdir()):
        name = FOLDER.fullmatch(pod.name)
        if name is None or not fnmatchcase(f"{name['namespace']}/{name['pod']}", pods):
            continue
        for path in pod.glob("*/*"):
            file = FILE.fullmatch(path.name)
            # What the kubelet compresses is in a .tmp meanwhile, and still where it was.
            if file is not None and path.suffix != ".tmp" and path.is_file():
                life = Life(pod.name, path.parent.name, int(file["restart"]))
                found[life].append((file["rotated"] is None, path.name, path))  # what was rotated comes first
    return {life: [path for *_, path in sorted(found[life])] for life in sorted(found)}


def _read_life(files: list[Path], found: PodLogFolder) -> None:
    """One life: its files are one log, so a line's parts may be in two of them."""
    seen: set[str] = set()
    parts: dict[str, str] = {}  # by stream, of a line that has not ended yet
    for path in files:
        for line in _lines(path, found):
            *_, prefix = (None, *PREFIX.finditer(line))
            if prefix is None or prefix.start():
                found.damaged += 1  # a line that was cut short, and maybe a whole one behind it
            if prefix is None:
                continue
            line = line[prefix.start() :]
            if line in seen:
                found.repeated += 1
                continue
            seen.add(line)
            stream, text = prefix["stream"], line[prefix.end() - prefix.start() :]
            begun = parts.pop(stream, "")
            if prefix["tag"] == "P":
                parts[stream] = (begun + text)[:LINE_MAX]
            elif begun and event_of(begun + text) is None and event_of(text) is not None:
                found.unfinished += 1  # the end of what was begun is lost, and this is a line of its own
                _take(text, found)
            else:
                _take(begun + text, found)
    found.unfinished += len(parts)


def _take(text: str, found: PodLogFolder) -> None:
    event = event_of(text)
    if event is not None:
        found.events.setdefault(identity(event), BrokerEvent(float(event["time"]), event["broker"], text))
    elif text.startswith('{"time":'):
        found.damaged += 1
    elif text.strip():
        found.other += 1


def _lines(path: Path, found: PodLogFolder) -> Iterator[str]:
    """The lines of a file, be it compressed. What cannot be read is told, and what comes before it is kept."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            while raw := file.readline(LINE_MAX):
                yield raw.decode(errors="surrogateescape").removesuffix("\n")
    except (OSError, EOFError, zlib.error) as error:
        found.unreadable.append(f"{path.parent.parent.name}/{path.parent.name}/{path.name} ({error})")
