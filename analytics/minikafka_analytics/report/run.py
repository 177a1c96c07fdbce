"""Puts together what the report's data says of one run, section by section."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import inf
from typing import Any, NamedTuple

from minikafka_analytics.behaviour import fault_impact
from minikafka_analytics.behaviour.fault_impact import LEFT_WITHIN_SECONDS
from minikafka_analytics.behaviour.observed import observed
from minikafka_analytics.behaviour.operations import NOTABLE_GAP_SECONDS
from minikafka_analytics.formatting import brokers, fault_name
from minikafka_analytics.judge import judgement
from minikafka_analytics.landing.run_folder import RunFolder, unanswered
from minikafka_analytics.report.columns import since
from minikafka_analytics.report.figures import figures, most
from minikafka_analytics.report.journal import words
from minikafka_analytics.report.schema import RUN
from minikafka_analytics.report.settings import settings_of

Record = dict[str, Any]

ALIASES = {"acked": "acknowledged", "unknown_present": "unknown_but_there", "expired": "deleted"}
"""Names of counts in reports from before the rules named them."""
COUNTED = (
    "sent", "acknowledged", "failed", "unknown", "unknown_but_there", "read", "lost", "accepted_loss", "deleted", "undecided",
)  # fmt: skip

NOBODY = -1  # the leader of a partition that is offline
OF_A_RUN = ("longest_ack_gap_s", "duplicated", "reordered", "phantoms")


def of_run(folder: RunFolder, found: Mapping[str, list[Record]]) -> Record:
    """Put together what the document says of one run, from Spark's answers on it."""
    clock = found["clocks"][0] if found["clocks"] else _no_clock()
    began = clock["began"]
    lines = words(found["journal"])
    scenario: Record = next((line for line in lines if line.get("kind") == "scenario"), {})
    own = judgement.judged(found, broken_lines(folder, found["lines"]), folder.has)
    found, left_out = _left_out(found)
    found = {**found, **_with_faults(found)}
    observations, capped = observed(found, left_out.until)
    run: Record = {
        **_about(folder, scenario, clock),
        **_verdict(lines, own),
        **_data(found, began),
        **_fault_rows(found, began, left_out.until),
        **_changes(found, began),
        **_replication(found, clock),
        **{name: _since(began, name, value) for name, value in observations.items()},
        "settings": settings_of(scenario, found["workloads"]),
        "left_out": left_out.rows | capped,
        "files": _files(folder, found, began),
    }
    run["figures"] = figures(run, left_out.figures)
    run["unknowns"] = judgement.unknowns(run)
    return run


class Section(NamedTuple):
    """A list of the report that is an answer of Spark, and the columns that it is sorted by."""

    answer: str
    order: tuple[str, ...] = ()


SECTIONS = {
    "errors": Section("errors"),
    "anomalies": Section("examples"),
    "coverage": Section("coverage", ("topic", "partition")),
    "elections": Section("terms", ("began",)),
    "isr_changes": Section("isr", ("time", "id")),
    "truncations": Section("truncations", ("time",)),
    "returns": Section("returns", ("time", "partition")),
    "events": Section("events"),
    "at_risk": Section("at_risk", ("broker", "topic", "partition")),
    "silences": Section("silences"),
    "watermarks_that_went_back": Section("went_back"),
}
"""Sections that are rows of an answer, as they are; their columns are declared in `report.schema`."""


def _rows(found: Mapping[str, list[Record]], began: float, *names: str) -> Record:
    """The sections of these names."""
    return {name: _sorted(_since(began, name, found[SECTIONS[name].answer]), *SECTIONS[name].order) for name in names}


def _since(began: float, name: str, value: Any) -> Any:
    """Make the moments in a section of the report seconds since the run began."""
    return since(RUN["properties"][name], value, began)


def _about(folder: RunFolder, scenario: Record, clock: Record) -> Record:
    """Say which run it is, and when it was."""
    return {
        "id": folder.id,
        "path": str(folder.path),
        "description": ((scenario.get("scenario") or {}).get("spec") or {}).get("description"),
        "scenario": _scenario(scenario),
        "began_unix": clock["began"],
        "began_at": datetime.fromtimestamp(clock["began"], UTC).isoformat(timespec="seconds"),
        "seconds": clock["ended"] - clock["began"],
        "clock": {"interval": clock["interval"], "scraped": clock["scraped"], "scrapes": clock["scrapes"]},
    }


def _verdict(lines: Sequence[Record], own: Record) -> Record:
    """Say what both judges found, and what Spark counted."""
    verifier = next((line for line in reversed(lines) if line.get("kind") == "verdict"), None)
    return {
        "verdict": judgement.verdict(verifier, own),
        "verifier": verifier and {key: value for key, value in verifier.items() if key not in {"kind", "time"}},
        "counts": _counts(own["counts"]),
        "kinds": own["counts"]["anomalies"],
    }


def _data(found: Mapping[str, list[Record]], began: float) -> Record:
    """Say what became of the records: by partition, and each anomaly."""
    return {
        "partitions": _partitions(found),
        "brokers": _brokers(found),
        **_rows(found, began, "errors", "anomalies", "coverage"),
    }


def _fault_rows(found: Mapping[str, list[Record]], began: float, until: float) -> Record:
    """Say what faults did, each and by kind, and when nothing was acknowledged."""
    faults = _faults(_since(began, "faults", found["faults"]), found, until)
    return {
        "faults": faults,
        "fault_kinds": fault_impact.by_kind(faults),
        "gaps": _gaps(_since(began, "gaps", found["gaps"])),
    }


def _changes(found: Mapping[str, list[Record]], began: float) -> Record:
    """Say what brokers' events tell: who led, who was in sync, who cut its log or came back."""
    return _rows(found, began, "elections", "isr_changes", "truncations", "returns", "events")


def _replication(found: Mapping[str, list[Record]], clock: Record) -> Record:
    """Say how fast records were acknowledged, and what scrapes tell of replicas."""
    began = clock["began"]
    return {
        "throughput": {"step": clock["rate_step"], **_rates(found["rates"])},
        **_rows(found, began, "at_risk"),
        "exposure": _since(began, "exposure", _exposure(found["exposure"])),
        **_rows(found, began, "silences", "watermarks_that_went_back"),
    }


def _files(folder: RunFolder, found: Mapping[str, list[Record]], began: float) -> Record:
    """Say which files the run has, and what could not be read."""
    files = {
        "missing": folder.missing,
        "lines": _sorted([row for row in found["lines"] if row["rows"]], "table"),
        "landed": _sorted(found["landed"], "file"),
        "quarantined": _sorted(found["quarantined"], "file", "first"),
        "unanswered": unanswered(folder.path),
    }
    shifted: Record = _since(began, "files", files)
    return shifted


def _counts(counts: Mapping[str, Any]) -> Record:
    """The counts of a run or a partition, also under the names of older reports."""
    found = {name: counts.get(name, 0) for name in COUNTED}
    found |= {old: found[new] for old, new in ALIASES.items()}
    return found | {name: counts[name] for name in OF_A_RUN if name in counts}


def broken_lines(folder: RunFolder, lines: Iterable[Record]) -> int:
    """Lines of the evidence that are no such lines; a last line that was cut off by its writer's death is none of them."""
    malformed = {row["table"]: row["malformed"] for row in lines}
    return sum(
        max(malformed.get(table, 0) - folder.torn_ends(table), 0) for table in ("history", "replicas", "journal")
    )


def _no_clock() -> Record:
    return {"began": 0.0, "ended": 0.0, "interval": 1.0, "scraped": False, "scrapes": 0, "rate_step": 1}


def _sorted(rows: list[Record], *keys: str) -> list[Record]:
    """By these keys, what is unknown last."""
    return sorted(rows, key=lambda row: tuple((row[key] is None, 0 if row[key] is None else row[key]) for key in keys))


class LeftOut(NamedTuple):
    """What is not told one by one. `rows`: of each list how many there are (`among`) and how many are told; `until`: faults that
    lasted longer (unix seconds) have no figures of their partitions; `figures`: over all rows."""

    rows: Record
    until: float
    figures: Record


CAPPED = {
    "terms": ("elections", "began"),
    "isr": ("isr_changes", "time"),
    "truncations": ("truncations", None),
    "returns": ("returns", "time"),
    "events": ("events", "time"),
    "pauses": ("pauses", "number"),
    "stalls": ("stalls", None),
    "sightings": ("states_seen_by_scrapes", "time"),
}
"""Answers of which the first rows are told (`queries.first`): what the report calls them, and what tells how far they go."""


def _left_out(found: Mapping[str, list[Record]]) -> tuple[dict[str, list[Record]], LeftOut]:
    whole, rows, until = dict(found), {}, inf
    began = {row["number"]: row["began"] for row in found["faults"]}
    over_all = {
        "truncated_records": next((row["cut"] or 0 for row in found["truncations"]), 0),
        "unclean_elections": next((row["unclean"] for row in found["terms"]), 0),
    }
    for name, (shown, order) in CAPPED.items():
        kept = found[name]
        own = {"among", "cut", "unclean", *(("seq",) if name == "events" else ())}
        whole[name] = [{key: value for key, value in row.items() if key not in own} for row in kept]
        if kept and kept[0]["among"] > len(kept):
            rows[shown] = {"among": kept[0]["among"], "told": len(kept)}
            if order is not None:
                last = max(row[order] for row in kept)
                until = min(until, began[last] if order == "number" else last)
    return whole, LeftOut(rows, until, over_all)


def _with_faults(found: Mapping[str, list[Record]]) -> dict[str, list[Record]]:
    """The events, gaps and silences of a run, each with the faults that go with it; times are unix seconds."""
    faults = sorted(found["faults"], key=lambda row: row["number"])
    blame = fault_impact.Blame(faults)
    terms = [
        {**row, "id": number, "time": row["began"], "concerned": [_concerned(row)]}
        for number, row in enumerate(_sorted(found["terms"], "began", "topic", "partition"), 1)
    ]
    of_broker = {
        broker: [fault for fault in faults if broker in fault["brokers"]]
        for broker in {row["broker"] for row in found["silences"]}
    }
    return {
        "terms": blame.attribute(terms),
        **{name: blame.attribute(found[name]) for name in ("isr", "truncations", "returns")},
        "gaps": [
            {**row, "faults": fault_impact.overlapping(faults, row["began"], row["ended"])} for row in found["gaps"]
        ],
        "silences": [
            {**row, "faults": fault_impact.overlapping(of_broker[row["broker"]], row["began"], row["ended"])}
            for row in found["silences"]
        ],
    }


def _concerned(term: Record) -> int:
    """The broker that a change of leadership is about: the one that led before, if any did."""
    before = term["previous_leader"]
    leader: int = term["leader"] if before is None or before == NOBODY else before
    return leader


def _faults(faults: list[Record], found: Mapping[str, list[Record]], until: float) -> list[Record]:
    """Each fault with its name, how every partition came through it, and the worst of those figures.

    Of faults that lasted longer than `until` too little was kept: nothing is said of their partitions (`told` false).
    """
    known = {
        row["number"]
        for row in found["faults"]
        if (inf if row["ended"] is None else row["ended"]) + LEFT_WITHIN_SECONDS <= until
    }
    noticed = fault_impact.noticed(found["faults"], found["events"])
    recoveries = fault_impact.recoveries(found["faults"], found["terms"], found["isr"], found["pauses"])
    watched = {(row["topic"], row["partition"]) for row in found["partitions"] if row["watched"]}
    of_fault: dict[int, list[Record]] = defaultdict(list)
    for row in recoveries:
        if row["number"] in known and (row["topic"], row["partition"]) in watched:
            of_fault[row.pop("number")].append(row)
    returned: dict[tuple[int, int], int] = defaultdict(int)
    for row in found["returns"]:
        returned[row["fault"], row["broker"]] += row["missing"]
    whole = []
    for fault in sorted(faults, key=lambda row: row["number"]):
        rows = of_fault[fault["number"]]
        name = fault_name(fault["kinds"])
        whole.append(
            {
                **fault,
                "name": name,
                "title": f"{name} of {brokers(fault['brokers'])}" if fault["brokers"] else name,
                "seconds": None if fault["ended"] is None else fault["ended"] - fault["began"],
                "noticed": noticed.get(fault["number"]),
                "told": fault["number"] in known,
                "gone_from_its_own_logs": sum(returned[fault["number"], broker] for broker in set(fault["brokers"])),
                "partitions": rows,
                "worst": {
                    "re_elected": most(row["re_elected"] for row in rows),
                    "re_acknowledged": most(row["re_acknowledged"] for row in rows if _noticeable(row)),
                    "gap": most(row["gap"] for row in rows),
                    "full_isr": most(row["full_isr"] for row in rows),
                    "led": sum(row["led"] for row in rows),
                    "never_elected": sum(row["led"] and row["re_elected"] is None for row in rows),
                    "never_acknowledged": sum(row["never_again"] for row in rows),
                    "shrunk": sum(row["shrunk"] is not None for row in rows),
                    "never_full": sum(row["shrunk"] is not None and row["full_isr"] is None for row in rows),
                },
            }
        )
    return whole


def _noticeable(row: Record) -> bool:
    return row["gap"] is not None and row["gap"] >= NOTABLE_GAP_SECONDS


def _gaps(gaps: list[Record]) -> list[Record]:
    """The longest gap of each partition and all that a client would notice, longest first."""
    kept = [gap for gap in gaps if gap["rank"] == 1 or gap["seconds"] >= NOTABLE_GAP_SECONDS]
    return sorted(kept, key=lambda gap: -gap["seconds"])


def _rates(rates: list[Record]) -> Record:
    def plain(row: Record) -> Record:
        p50, p95, p99, p999 = row["latency"] or (None, None, None, None)
        figures = {name: row[name] for name in ("second", "acked", "failed", "unknown")}
        return {**figures, "p50": p50, "p95": p95, "p99": p99, "p999": p999, "max": row["latency_max"]}

    overall = [row for row in rates if row["second"] is None]
    by_second = [row for row in rates if row["second"] is not None]
    whole = next((plain(row) for row in overall if row["topic"] is None), None)
    return {
        "whole_run": whole and {key: value for key, value in whole.items() if key != "second"},
        "over_time": sorted((plain(row) for row in by_second if row["topic"] is None), key=lambda row: row["second"]),
        "per_partition": sorted(
            (
                {"topic": row["topic"], "partition": row["partition"], **plain(row)}
                for row in rates
                if row["topic"] is not None
            ),
            key=lambda row: (row["topic"], row["partition"] or 0, -1 if row["second"] is None else row["second"]),
        ),
    }


def _partitions(found: Mapping[str, list[Record]]) -> list[Record]:
    """The partitions the workload wrote to, with what became of its records."""
    counts = {(row["topic"], row["partition"]): row for row in found["counts"] if row["topic"] is not None}
    rows = sorted(
        (row for row in found["partitions"] if row["watched"]), key=lambda row: (row["topic"], row["partition"])
    )
    return [
        {
            "topic": row["topic"],
            "partition": row["partition"],
            "replicas": row["replicas"],
            **_counts(counts.get((row["topic"], row["partition"]), {})),
        }
        for row in rows
    ]


def _brokers(found: Mapping[str, list[Record]]) -> list[int]:
    seen = {row["broker"] for name in ("at_risk", "events", "truncations", "returns") for row in found[name]}
    seen |= {broker for row in found["faults"] for broker in row["brokers"]}
    seen |= {broker for row in found["isr"] for broker in row["isr"]}
    return sorted(broker for broker in seen if broker is not None and broker >= 0)


def _exposure(points: list[Record]) -> Record:
    """The most records at risk at one moment: on one broker, and committed but flushed nowhere."""

    def largest(rows: list[Record]) -> Record | None:
        rows = [row for row in rows if row["records"] is not None]
        found = max(rows, key=lambda row: row["records"], default=None)
        return found and {"records": found["records"], "at": found["time"], "broker": found["broker"]}

    return {
        "one_broker": largest([row for row in points if row["broker"] is not None]),
        "committed_on_no_disk": largest([row for row in points if row["broker"] is None]),
    }


def _scenario(line: Record) -> Record:
    """What a run is one of: the scenario's name, the version of MiniKafka that ran it, and where. None where nothing tells it."""
    document = line.get("scenario")
    metadata = document.get("metadata") if isinstance(document, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return {"name": name, "version": line.get("version"), "ground": line.get("ground")}
