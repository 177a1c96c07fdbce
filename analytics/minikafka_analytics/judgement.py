"""What the figures of a run add up to: the verdict, whether the verifier found the same, and what cannot be known.

Two judges look at a run. The verifier, in the run itself, had the replicas' logs as well as the history; its word is
the verdict. The analysis counts acknowledged records again from the history alone, by other code; where the two differ,
that is said first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minikafka_analytics.words import count, seconds, these

Record = dict[str, Any]

PASSED, FAILED, INCONCLUSIVE, ABORTED, ERROR = "Passed", "Failed", "Inconclusive", "Aborted", "Error"
EXIT_CODES = {PASSED: 0, FAILED: 1}  # of `minikafka analyze`; any other verdict is 3, could not tell

COMPARED = {
    # the verifier's count -> ours; of the same history both must count the same
    "sent": "sent",
    "acknowledged": "acked",
    "failed": "failed",
    "unknown": "unknown",
    "lost": "lost",
}


def recomputed(counts: Record, coverage: Sequence[Record], rewritten: Sequence[Record]) -> tuple[str, list[str]]:
    """The verdict that follows from the history alone, and the reasons when it is not plain."""
    lost = counts["lost"] - counts["accepted_loss"]
    reasons = []
    if lost:
        reasons.append(f"{count(lost, 'acknowledged record')} not in the final read")
    if rewritten:
        reasons.append(f"{count(len(rewritten), 'offset')} held different records for different clients")
    if reasons:
        return FAILED, reasons
    if not counts["acked"]:
        reasons.append("nothing was acknowledged, so nothing could be lost")
    if not any(each["records"] for each in coverage):
        reasons.append("nothing was read back after the last send")
    if counts["undecided"] and len(reasons) == 0:
        reasons.append(f"{count(counts['undecided'], 'acknowledged record')} lie beyond what was read back")
    for each in coverage:
        place = f"{each['topic']}-{each['partition']}"
        if each["read_error"] is not None:
            reasons.append(f"the final read of {place} did not reach the end ({each['read_error']})")
    return (INCONCLUSIVE if reasons else PASSED), reasons


def compare(verifier: Record | None, counts: Record) -> list[Record]:
    """What verifier and analysis counted differently; accepted losses are counted alike before."""
    if verifier is None:
        return []
    told = dict(verifier.get("counts") or {})
    accepted = told.get("accepted_loss") or 0
    if told.get("lost") is not None:
        told["lost"] += accepted
    found = []
    for theirs, ours in COMPARED.items():
        if told.get(theirs) is not None and told[theirs] != counts[ours]:
            found.append({"figure": theirs, "verifier": told[theirs], "analysis": counts[ours]})
    return found


def verdict(verifier: Record | None, counts: Record, coverage: list[Record], rewritten: list[Record]) -> Record:
    """The verdict with its sentence: the verifier's where there is one, else what the history says by itself.

    A run whose journal has no verdict was cut short, and records that the analysis alone finds lost make a run Failed.
    """
    word, reasons = recomputed(counts, coverage, rewritten)
    differences = compare(verifier, counts)
    told = verifier.get("verdict") if verifier else None
    final = told or word
    if told == PASSED and word == FAILED:
        final = FAILED
    return {
        "verdict": final,
        "by": "verifier" if told and final == told else "analysis",
        "sentence": _sentence(final, counts),
        "detail": _detail(final, verifier, reasons),
        "verifier": told,
        "recomputed": word,
        "reasons": reasons,
        # The verifier may fail a run for what no history shows (diverging logs); it may not pass what a history refutes.
        "agree": None if verifier is None else not differences and not (told == PASSED and word == FAILED),
        "differences": differences,
    }


def _sentence(word: str, counts: Record) -> str:
    lost = counts["lost"] - counts["accepted_loss"]
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
    """What a reader must not conclude from this report, in whole sentences."""
    found = []
    counts, clock = run["counts"], run["clock"]
    if run["files"]["missing"]:
        found.append(f"The run has no {these(run['files']['missing'])}: what they would have told is not here.")
    for each in run["files"]["lines"]:
        if each["malformed"]:
            found.append(
                f"{count(each['malformed'], 'line')} of {each['table']} could not be read (the first: “{each['example'][:80]}”)"
                " and counted as nothing; a writer that was killed leaves such a line at the end of its file."
            )
    if counts["unknown"]:
        present = counts["unknown_present"]
        found.append(
            f"{count(counts['unknown'], 'send')} ended without an answer; {present} of the records were there in the end. "
            "Neither outcome breaks a promise."
        )
    for problem in (run["verifier"] or {}).get("problems") or []:
        found.append(f"The run itself reports: {problem}.")
    for claim in (run["verifier"] or {}).get("claims") or []:
        if claim.get("held") is None and not (run["verifier"] or {}).get("problems"):
            found.append(f"Could not be told: {claim['claim']} ({claim['detail']}).")
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
    for each in run["silences"]:
        if not each["faults"]:
            until = "until the end" if each["open"] else f"for {seconds(each['ended'] - each['began'])}"
            found.append(
                f"Broker {each['broker']} was not scraped from {each['began']:.1f} s on {until}, though no fault had hit it."
            )
    if not run["elections"]:
        found.append("No event log tells of an election, so times to re-elect and ISR changes are not known.")
    found.append("Which fault “preceded” an event is an order in time on one machine's clock, not a proof of cause.")
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
