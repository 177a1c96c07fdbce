"""Reads the folder of a run as evidence: the journal, the brokers' events, the scraped metrics, and what clients were told."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from minikafka.protocol.types import TopicPartition

from minikafka_chaos.errors import BadScenario
from minikafka_chaos.record import history, journal
from minikafka_chaos.record.observe import SAMPLES_FILE, Sample
from minikafka_chaos.watch.acknowledgement_rules import put_together
from minikafka_chaos.watch.evidence import Acknowledgements, EventLine, Evidence, JournalLine, Note, Scrape
from minikafka_chaos.watch.sample_rules import WATCHED

ACKNOWLEDGEMENTS_MAX = 2_000
"""Of more than these each is not shown by itself: a load's are put together, so that about as many steps are made of them."""


def read_run(folder: Path) -> list[Evidence]:
    """Return all that the folder of a run tells. A last line that was cut off is left out, and the last step says so.

    Raises BadScenario where it is no run, or a file is damaged.
    """
    path = folder / journal.FILE_NAME
    try:
        lines = journal.read_journal(path)
    except FileNotFoundError:
        raise BadScenario(f"{folder}: is no run: it has no {journal.FILE_NAME}") from None
    except NotADirectoryError:
        raise BadScenario(f"{folder}: is neither a run's folder nor a trace") from None
    except (OSError, ValueError) as error:
        raise BadScenario(f"{path}: {error}") from error
    found: list[Evidence] = [JournalLine(float(line["time"]), line) for line in lines]
    for events in sorted((folder / "events").glob("*.jsonl")):
        found += read_events(events)
    found += _scrapes(folder / "metrics" / SAMPLES_FILE)
    found += _acknowledgements(folder / history.FILE_NAME)
    if (torn := _what_is_torn(folder)) is not None:
        found.append(Note(max((each.time for each in found), default=0.0), torn))
    return found


def _what_is_torn(folder: Path) -> str | None:
    """Return which files of a run end in the middle of a line, as those of a run that was killed; None where none does."""
    events = sorted((folder / "events").glob("*.jsonl"))
    paths = [folder / journal.FILE_NAME, *events, folder / "metrics" / SAMPLES_FILE, folder / history.FILE_NAME]
    names = [path.relative_to(folder).as_posix() for path in paths if path.is_file() and _is_torn(path)]
    return f"{', '.join(names)}: torn, the last line was cut off; what came then is not known" if names else None


def _is_torn(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 1, 0))
        return file.read(1) not in (b"\n", b"")


def read_events(path: Path) -> Iterator[EventLine]:
    """Yield the events of a broker's log."""
    return (event for line in _objects(path) if (event := event_of(line)) is not None)


def event_of(line: Mapping[str, Any]) -> EventLine | None:
    """Return the event of a line of a broker's log; None where it is none."""
    topic, partition = line.get("topic"), line.get("partition")
    if not isinstance(topic, str | None) or not isinstance(partition, int | None):
        return None
    match line:
        case {
            "time": float() | int() as time,
            "broker": int() as broker,
            "event": str() as event,
            "fields": dict() as fields,
        }:
            return EventLine(time, broker, event, topic, partition, fields)
    return None


def _scrapes(path: Path) -> Iterator[Scrape]:
    for line in _objects(path):
        try:
            time, broker = float(line["time"]), int(line["broker"])
            samples = line.get("samples")
            kept = None if samples is None else [Sample(*each) for each in samples if each[0] in WATCHED]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise BadScenario(f"{path}: a line is no scrape of a broker: {error!r}") from error
        yield Scrape(time, broker, kept)


def _acknowledgements(path: Path) -> list[Acknowledgements]:
    by_all, found = False, []
    for line in _objects(path):
        if line.get("op") == history.WORKLOAD:
            by_all = (line.get("settings") or {}).get("acks") in ("all", "-1")
        elif (line.get("op"), line.get("type")) == (history.SEND, history.OK) and line.get("offset") is not None:
            try:
                where = TopicPartition(str(line["topic"]), int(line["partition"]))
                offset, value = int(line["offset"]), str(line["value"])
                found.append(Acknowledgements(float(line["time"]), where, offset + 1, by_all, {offset: value}))
            except (KeyError, TypeError, ValueError) as error:
                raise BadScenario(f"{path}: a line is no outcome of a send: {error!r}") from error
    return found if len(found) <= ACKNOWLEDGEMENTS_MAX else list(by_stretches(found))


def by_stretches(found: Iterable[Acknowledgements]) -> Iterator[Acknowledgements]:
    """Make one of all acknowledgements of a partition that came in the same stretch of time."""
    found = list(found)
    first, last = found[0].time, max(each.time for each in found)
    partitions = len({each.topic_partition for each in found})
    stretch = max((last - first) * partitions / ACKNOWLEDGEMENTS_MAX, 0.001)
    stretches: dict[tuple[int, TopicPartition], list[Acknowledgements]] = defaultdict(list)
    for each in found:
        stretches[int((each.time - first) / stretch), each.topic_partition].append(each)
    return map(put_together, stretches.values())


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a file, if it is there. Raises BadScenario for a line that is none, except for the last."""
    try:
        with path.open("rb") as lines:
            for number, raw in enumerate(lines, 1):
                try:
                    line = json.loads(raw)
                except (ValueError, RecursionError) as error:
                    if not raw.endswith(b"\n"):
                        return
                    raise BadScenario(f"{path}: line {number} is no JSON") from error
                if not isinstance(line, dict):
                    raise BadScenario(f"{path}: line {number} is no JSON object")
                yield line
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadScenario(f"{path}: {error.strerror or error}") from error
