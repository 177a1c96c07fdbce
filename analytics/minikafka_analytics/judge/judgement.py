"""What the figures of a run add up to: the verdict, whether the verifier agrees, and what nobody can know.

Spark judges every run from the raw evidence, by the rules of docs/reference/verdicts.md and by other code than the
verifier's. Where the two differ in the verdict, in a kind or in a count, the run is Inconclusive, and that is said first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minikafka.telemetry.anomalies import ORDER, AnomalyKind

from minikafka_analytics.behaviour.observed import unseen
from minikafka_analytics.formatting import count, seconds, these
from minikafka_analytics.judge import terms

Record = dict[str, Any]

PASSED, FAILED, INCONCLUSIVE, ABORTED, ERROR = "Passed", "Failed", "Inconclusive", "Aborted", "Error"
EXIT_CODES = {PASSED: 0, FAILED: 1}  # of `minikafka analyze`; any other verdict is 3, could not tell

HISTORY, JOURNAL, REPLICAS = "history.jsonl", "journal.jsonl", "replicas.jsonl"
NO_EVIDENCE: Record = {
    "claims": [], "problems": [], "missing_lines": 0, "misnumbered": False, "has_logs": False, "terms": None,
}  # fmt: skip

MOST_NOT_READ = 12
"""Files and reasons of lines that could not be read, and metrics without an answer, that the page tells; report.json has all."""

COMPARED = (
    "sent", "acknowledged", "failed", "unknown", "unknown_but_there", "read", "lost", "accepted_loss", "deleted", "undecided",
    "longest_ack_gap_s",
)  # fmt: skip
"""Counts that both judges give (docs/reference/verdicts.md, Counts); beside them every kind of anomaly."""


def judged(found: Mapping[str, Sequence[Record]], broken_lines: int, has: Callable[[str], bool] = bool) -> Record:
    """The verdict that follows from one run's evidence alone: verdict, reasons, counts and kinds.

    `found`: Spark's answers on this run: bases, counts, kinds, losses, torn, gaps. `broken_lines`: lines of the evidence that
    are not as the rules say. `has`: whether the run folder has a file of this name.
    """
    base: Record = next(iter(found["bases"]), NO_EVIDENCE)
    said = terms.read(base["terms"])
    whole: Record = next((row for row in found["counts"] if row["topic"] is None and row["partition"] is None), {})
    kinds: dict[str, int] = {}
    errors: dict[str, int] = {}
    for row in found["kinds"]:
        kinds[row["kind"]] = kinds.get(row["kind"], 0) + row["count"]
        if not row["note"]:
            errors[row["kind"]] = errors.get(row["kind"], 0) + row["count"]
    gap = max((row["seconds"] for row in found["gaps"]), default=None)
    counts = {name: whole.get(name, 0) for name in COMPARED} | {
        "longest_ack_gap_s": None if gap is None else round(gap, 3),
        "anomalies": dict(sorted(kinds.items())),
        "errors": dict(sorted(errors.items())),
        "duplicated": kinds.get(AnomalyKind.DUPLICATE.value, 0),
        "reordered": sum(kinds.get(kind.value, 0) for kind in ORDER),
        "phantoms": kinds.get(AnomalyKind.PHANTOM.value, 0),
    }
    contradictions = whole.get("contradictions", 0) + broken_lines + sum(row["twice"] for row in found["torn"])
    contradictions += base["misnumbered"] + (not said.understood)
    if not has(HISTORY):
        return {"verdict": ERROR, "reasons": [f"there is no {HISTORY}"], "counts": counts}
    if contradictions:
        reason = f"the evidence contradicts itself or cannot be read in {count(contradictions, 'place')}"
        return {"verdict": ERROR, "reasons": [reason], "counts": counts}
    failures = [f"{number:,} x {kind}" for kind, number in sorted(errors.items())]
    blind = [*base["problems"], *_of_files(base, said, has), *_blind(found, base, counts)]
    if early := whole.get("early", 0):
        blind.append(f"{count(early, 'outcome')} told before the send, by the clock: it was set back")
    for number, claim in enumerate(base["claims"]):
        broken, untold = _claim(number, claim, found["losses"], gap)
        if claim["type"] == "NoDivergence" and not has(REPLICAS):
            untold = [f"{claim['name']}: there is no {REPLICAS}"]
        failures += broken
        blind += untold
    if failures:
        return {"verdict": FAILED, "reasons": failures, "counts": counts}
    return {"verdict": INCONCLUSIVE if blind else PASSED, "reasons": blind, "counts": counts}


def _of_files(base: Record, said: terms.Terms, has: Callable[[str], bool]) -> list[str]:
    """Return what is not in the run folder, and should be (rule Problems)."""
    reasons = [f"{name} is missing" for name in said.files if not has(name)]
    if not said.present and (has(JOURNAL) or has(REPLICAS)):
        reasons.append("nothing tells what the run is to be judged by: it was cut short, or its journal is not whole")
    if has(REPLICAS) and not base["has_logs"]:
        reasons.append(f"{REPLICAS} is empty")
    return reasons


def _blind(found: Mapping[str, Sequence[Record]], base: Record, counts: Record) -> list[str]:
    """Return why the run cannot tell everything (rule Problems)."""
    reasons = []
    if not counts["acknowledged"]:
        reasons.append("nothing was acknowledged, so nothing could be lost")
    if base["missing_lines"]:
        reasons.append(f"{count(base['missing_lines'], 'line')} of the history are missing")
    for row in found["counts"]:
        if row["topic"] is not None and row["undecided"]:
            place = row["topic"] if row["partition"] is None else f"{row['topic']}-{row['partition']}"
            what = count(row["undecided"], "acknowledged record")
            reasons.append(f"{what} of {place} could not be judged: no reader tells of them to the end")
    for row in found["torn"]:
        place = f"{row['topic']}-{row['partition']}"
        if row["beyond"]:
            reasons.append(f"{count(row['beyond'], 'partition')} in the evidence that {row['topic']} does not have")
        if row["untold"]:
            reasons.append(f"nothing tells how many replicas {row['topic']} has")
        if row["astray"]:
            reasons.append(f"{count(row['astray'], 'replica')} of {place} not in sync when all was over")
        if row["replicas"] < (row["replication_factor"] or 0):
            reasons.append(f"only {row['replicas']} of {row['replication_factor']} replicas of {place} are in evidence")
        if row["torn"]:
            reasons.append(f"batches of {count(row['torn'], 'replica')} of {place} are missing")
    return reasons


def _claim(number: int, claim: Record, losses: Sequence[Record], gap: float | None) -> tuple[list[str], list[str]]:
    """Return what breaks a claim, and why it could not be told; claims about kinds are judged with these."""
    name = claim["name"]
    if claim["since"] == float("inf"):
        return [], [f"{name}: the step that it is made from was never begun"]
    if claim["type"] == "AckGapAtMost":
        if gap is None:
            return [], [f"{name}: no send whose partition is known"]
        limit = (claim["limit_millis"] or 0) / 1000
        return ([f"{name}: longest gap {gap:.3f} s, above {limit:g} s"] if round(gap, 3) > limit else []), []
    if claim["type"] == "NoAcknowledgedRecordLost":
        broken_by = sum(row["broken_by"] for row in losses if row["at"] == number)
        return ([f"{name}: {count(broken_by, 'acknowledged record')} lost"] if broken_by else []), []
    return [], []


def has_all_counts(verifier: Record) -> bool:
    """Return whether a verifier's word has all that agreement is about: an older one, or one that was cut, has not."""
    counts = verifier.get("counts") or {}
    return all(name in counts for name in (*COMPARED, "anomalies", "errors"))


def compare(verifier: Record | None, own: Record) -> list[Record]:
    """What the verifier and the analysis gave differently: verdict, counts, kinds. What it does not tell is not compared."""
    if verifier is None or verifier["verdict"] in (ABORTED, ERROR):
        return []
    counts = dict(verifier.get("counts") or {})
    found = []
    if verifier["verdict"] != own["verdict"]:
        found.append({"figure": "verdict", "verifier": verifier["verdict"], "analysis": own["verdict"]})
    for name in COMPARED:
        if name in counts and counts[name] != own["counts"][name]:
            found.append({"figure": name, "verifier": counts[name], "analysis": own["counts"][name]})
    for name, what in (("anomalies", "{}"), ("errors", "{} that is no note")):
        theirs, ours = counts.get(name), own["counts"][name]
        if theirs is None:
            continue
        for kind in sorted(theirs.keys() | ours.keys()):
            if theirs.get(kind, 0) != ours.get(kind, 0):
                figure = what.format(kind)
                found.append({"figure": figure, "verifier": theirs.get(kind, 0), "analysis": ours.get(kind, 0)})
    return found


def verdict(verifier: Record | None, own: Record) -> Record:
    """The verdict with its sentence: what both judges say, or, without a verifier's word, what the evidence says by itself.

    `agree` only where verdict, kinds and counts are the same; where they are not the verdict is Inconclusive. A run that was
    stopped or whose tools failed has no verifier's judgement to compare with (`agree` null), and keeps that word; so has one
    whose verifier did not tell all counts, as long as what it told is the same.
    """
    differences = compare(verifier, own)
    theirs = verifier["verdict"] if verifier else None
    compared = verifier is not None and theirs not in (ABORTED, ERROR) and has_all_counts(verifier)
    final = INCONCLUSIVE if differences else theirs or own["verdict"]
    return {
        "verdict": final,
        "by": "both"
        if compared and not differences
        else "nobody"
        if differences
        else "verifier"
        if theirs
        else "analysis",
        "sentence": _differ(theirs, own) if differences else _sentence(final, own["counts"]),
        "detail": "" if differences else _detail(final, verifier, own["reasons"]),
        "verifier": theirs,
        "recomputed": own["verdict"],
        "reasons": own["reasons"],
        "agree": False if differences else True if compared else None,
        "differences": differences,
    }


def _differ(theirs: str | None, own: Record) -> str:
    if theirs != own["verdict"]:
        return f"The two judges differ: the verifier says {theirs}, the analysis {own['verdict']}."
    return f"The two judges differ in what they counted, though both say {theirs}."


def _sentence(word: str, counts: Record) -> str:
    lost = counts["lost"]
    if word == PASSED:
        return "No acknowledged record was lost."
    if word == FAILED and lost:
        return f"{count(lost, 'acknowledged record')} {'was' if lost == 1 else 'were'} lost."
    if word == FAILED:
        return "A guarantee was broken, though no acknowledged record was lost."
    if word == ABORTED:
        return "The run was stopped before it could show anything."
    if word == ERROR:
        return "The tools failed, so the run says nothing about the cluster."
    return "The run could not tell whether a record was lost."


def _detail(word: str, verifier: Record | None, reasons: list[str]) -> str:
    """Why, in a phrase: nothing to add to a pass; the verifier's own words for what it refused; else our reasons."""
    if word == PASSED:
        return ""
    broken = [claim for claim in (verifier or {}).get("claims") or [] if claim.get("held") is False]
    if broken:
        return " ".join(
            f"The claim “{claim['claim']}” does not hold{': ' if claim['detail'] else ''}{claim['detail'].rstrip('.')}."
            for claim in broken
        )
    if word != FAILED and verifier and verifier.get("summary"):
        return str(verifier["summary"])
    return "; ".join(reasons)


def unknowns(run: Record) -> list[str]:
    """Return what a reader must not conclude from this report, in whole sentences."""
    found = []
    counts, clock = run["counts"], run["clock"]
    if "replicas.jsonl" in run["files"]["missing"]:
        found.append("The replicas' logs are not in evidence: whether they are whole and alike was not judged.")
    if run["files"]["missing"]:
        found.append(f"The run has no {these(run['files']['missing'])}: what they would have told is not here.")
    found += _quarantined(run["files"]["quarantined"]) + _unanswered(run["files"]["unanswered"])
    if counts["unknown"]:
        present = counts["unknown_present"]
        found.append(
            f"{count(counts['unknown'], 'send')} ended without an answer; {present} of the records were read. "
            "Neither outcome breaks a promise."
        )
    for name, rows in run["left_out"].items():
        found.append(
            f"Of {rows['among']:,} {name.replace('_', ' ')} the first {rows['told']:,} are told; counts and figures are of all."
        )
    if untold := sum(not fault["told"] for fault in run["faults"]):
        found.append(
            f"How partitions came through {count(untold, 'fault')} is not told, for too much had happened until then: "
            "figures of the worst are of the faults before."
        )
    for problem in (run["verifier"] or {}).get("problems") or []:
        found.append(f"The run itself reports: {problem}.")
    for claim in (run["verifier"] or {}).get("claims") or []:
        if claim.get("held") is None and not (run["verifier"] or {}).get("problems"):
            found.append(f"Not judged: {claim['claim']} ({claim['detail']}).")
    if run["verifier"] is None:
        found.append("The journal has no verdict: the run was cut short, or its verifier never came to judge it.")
    found += _final_read(run)
    if clock["scraped"]:
        found.append(
            f"Offsets of replicas are known at scrapes only, every {seconds(clock['interval'])}: what a broker did between "
            "its last scrape and its death was seen by nobody. Times of elections and ISR changes are from event logs, "
            "and do not depend on scrapes."
        )
    else:
        found.append("No broker was scraped: nothing is known of replicas' offsets and of unflushed records.")
    found += unseen(run["blindness"])
    found += _unscraped(run["silences"], run["seconds"] - clock["interval"])
    if not run["elections"]:
        found.append("No event log tells of an election, so times to re-elect and ISR changes are not known.")
    found.append("Which fault “preceded” an event is an order in time on one machine's clock, not a proof of cause.")
    return found


def _unscraped(silences: Sequence[Record], until_scrape: float) -> list[str]:
    """Brokers that nobody had hit. A Prometheus goes on after the run, when brokers are stopped for their logs to be read: who
    was scraped after `until_scrape`, the last interval of the run, missed no scrape in it."""
    found = []
    for each in silences:
        if not each["faults"] and each["began"] < until_scrape:
            until = "until the end" if each["open"] else f"for {seconds(each['ended'] - each['began'])}"
            found.append(
                f"Broker {each['broker']} was not scraped from {each['began']:.1f} s on {until}, though no fault had hit it."
            )
    return found


def _quarantined(rows: Sequence[Record]) -> list[str]:
    """List the files with lines that could not be read, why, and where those are now."""
    found = [
        f"{count(row['lines'], 'line')} of {row['file']} could not be read and counted as nothing: {row['reason']} "
        f"({'line' if row['lines'] == 1 else 'the first is line'} {row['first']:,}, “{row['example'][:80]}”)."
        for row in rows[:MOST_NOT_READ]
    ]
    if left := rows[MOST_NOT_READ:]:
        lines, files = sum(row["lines"] for row in left), len({row["file"] for row in left})
        found.append(
            f"So could {count(lines, 'more line')} of {count(files, 'file')} not; files.quarantined of report.json has them."
        )
    if found:
        found.append(
            "These lines are in the Parquet table quarantine. A writer that was killed leaves a truncated one at its file's end."
        )
    return found


def _unanswered(rows: Sequence[Record]) -> list[str]:
    """List the metrics that a Prometheus did not answer in whole, and when."""
    found = [
        f"The Prometheus did not answer for {row['metric'] or 'all names of metrics'} from {row['began']:.1f} s to "
        f"{row['ended']:.1f} s: {row['reason']}."
        for row in rows[:MOST_NOT_READ]
    ]
    if len(rows) > MOST_NOT_READ:
        found.append(
            f"Nor for {count(len(rows) - MOST_NOT_READ, 'more part')}: files.unanswered of report.json has them."
        )
    return found


def _final_read(run: Record) -> list[str]:
    found = []
    for each in run["coverage"]:
        place, read, mark = f"{each['topic']}-{each['partition']}", each["read_to"], each["high_watermark"]
        if read is not None and read >= 0 and mark is not None and read < mark:
            found.append(
                f"The final read of {place} ended at offset {read:,}, but its leader had exported a high watermark of {mark:,}."
            )
    return found
